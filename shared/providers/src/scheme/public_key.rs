//! Public keys of providers that sign with a private key, in all their forms.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, DecodePem};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::work::hashed;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ED25519_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// The algorithm and form of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// ECDSA over P-256 with SHA-256, as ASN.1 DER.
    EcdsaP256Der,
    /// The same as two numbers of fixed length, as in a JWT.
    EcdsaP256Fixed,
    Ed25519,
    RsaSha256,
    /// Only for version 1 signatures of AWS SNS.
    RsaSha1,
}

/// A public key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PublicKey {
    /// An uncompressed point.
    P256(Vec<u8>),
    /// 32 bytes.
    Ed25519(Vec<u8>),
    /// A PKCS#1 `RSAPublicKey`.
    Rsa(Vec<u8>),
}

/// The members of a JSON Web Key that are used.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

impl PublicKey {
    /// Reads a PEM certificate or public key, a JSON Web Key, base64 of a DER public key, or hex of an Ed25519 key.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // Only at the start: a document with a certificate somewhere inside may come from anyone.
        if text.starts_with("-----BEGIN CERTIFICATE-----") {
            let certificate = Certificate::from_pem(first_pem(text)?).ok()?;
            return Self::from_spki(&certificate.tbs_certificate.subject_public_key_info);
        }
        if text.starts_with("-----BEGIN") {
            return Self::from_spki(&SubjectPublicKeyInfoOwned::from_pem(text).ok()?);
        }
        if text.starts_with('{') {
            return Self::from_jwk(&serde_json::from_str(text).ok()?);
        }
        if let Ok(bytes) = hex::decode(text) {
            return (bytes.len() == 32).then_some(Self::Ed25519(bytes));
        }
        Self::from_spki(&SubjectPublicKeyInfoOwned::from_der(&STANDARD.decode(text).ok()?).ok()?)
    }

    fn from_spki(spki: &SubjectPublicKeyInfoOwned) -> Option<Self> {
        let key = spki.subject_public_key.as_bytes()?.to_vec();
        let curve = || spki.algorithm.parameters.as_ref()?.decode_as::<ObjectIdentifier>().ok();
        match spki.algorithm.oid {
            RSA => Some(Self::Rsa(key)),
            EC if curve() == Some(P256) => Some(Self::P256(key)),
            ED25519_KEY => Some(Self::Ed25519(key)),
            _ => None,
        }
    }

    fn from_jwk(jwk: &Jwk) -> Option<Self> {
        let number = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == 32);
        match (jwk.kty.as_str(), jwk.crv.as_str()) {
            ("EC", "P-256") => Some(Self::P256([vec![4], number(&jwk.x)?, number(&jwk.y)?].concat())),
            ("OKP", "Ed25519") => number(&jwk.x).map(Self::Ed25519),
            _ => None,
        }
    }

    /// True when the key can make signatures of this kind.
    pub(crate) const fn makes(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::P256(_), Algorithm::EcdsaP256Der | Algorithm::EcdsaP256Fixed)
                | (Self::Ed25519(_), Algorithm::Ed25519)
                | (Self::Rsa(_), Algorithm::RsaSha256 | Algorithm::RsaSha1)
        )
    }

    /// True when the signature matches.
    pub(crate) fn fits(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let (Self::P256(bytes) | Self::Ed25519(bytes) | Self::Rsa(bytes)) = self;
        let method: &'static dyn VerificationAlgorithm = match algorithm {
            Algorithm::EcdsaP256Der => &ECDSA_P256_SHA256_ASN1,
            Algorithm::EcdsaP256Fixed => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Ed25519 => &ED25519,
            Algorithm::RsaSha256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RsaSha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        };
        hashed(message.len());
        self.makes(algorithm) && UnparsedPublicKey::new(method, bytes).verify(message, signature).is_ok()
    }
}

/// The first block of a chain of certificates: the one that signs.
fn first_pem(text: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let start = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text.find(END)? + END.len();
    text.get(start..end)
}
