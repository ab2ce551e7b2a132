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

/// The numbers y of the points of Ed25519 whose order is small, each in both texts if it has two: 0, 1, -1, and the two
/// of order 8. With such a key, a signature that anybody can compute fits every message. The highest bit of a key is
/// the sign of x and not part of y (RFC 8032, section 5.1.2).
const SMALL_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    near(0, 1, 0),
    near(0xff, 0xec, 0x7f),
    near(0xff, 0xed, 0x7f),
    near(0xff, 0xee, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

/// A number of 32 bytes, the lowest first, all equal but the first and the last.
const fn near(all: u8, first: u8, last: u8) -> [u8; 32] {
    let mut bytes = [all; 32];
    let [lowest, .., highest] = &mut bytes;
    *lowest = first;
    *highest = last;
    bytes
}

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
    /// Reads a PEM certificate or public key, a JSON Web Key, base64 of a DER public key, or an Ed25519 key as hex or
    /// base64 of its 32 bytes.
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
        let bytes = STANDARD.decode(text).ok()?;
        if bytes.len() == 32 {
            return Some(Self::Ed25519(bytes));
        }
        Self::from_spki(&SubjectPublicKeyInfoOwned::from_der(&bytes).ok()?)
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

    /// True for a key with which one signature fits every message.
    pub(crate) fn is_of_small_order(&self) -> bool {
        let Self::Ed25519(bytes) = self else { return false };
        let mut y = bytes.clone();
        if let Some(highest) = y.last_mut() {
            *highest &= 0x7f;
        }
        SMALL_ORDER.iter().any(|small| y == small)
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
        let can_judge = self.makes(algorithm) && !self.is_of_small_order();
        can_judge && UnparsedPublicKey::new(method, bytes).verify(message, signature).is_ok()
    }
}

/// The first block of a chain of certificates: the one that signs.
fn first_pem(text: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----";
    let start = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text.find(END)? + END.len();
    text.get(start..end)
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;
    use crate::scheme::kind::SecretReading;

    const MESSAGES: [&[u8]; 2] = [b"one body", b"another body"];

    /// Fourteen keys: seven numbers with either sign. For some, a signature of zeros fits a message by itself; all are
    /// refused.
    #[test]
    fn no_key_of_small_order_is_taken_in_any_of_its_texts() {
        let constant = [near(0, 1, 0), [0; 32]].concat();
        let mut forged = 0;
        for key in SMALL_ORDER {
            for sign in [0, 0x80] {
                let mut key = key;
                key[31] |= sign;
                let text = hex::encode(key);
                assert_eq!(SecretReading::public(&text, Algorithm::Ed25519), Some(SecretReading::SmallOrder), "{text}");
                let parsed = PublicKey::parse(&text).unwrap();
                for message in MESSAGES {
                    forged += usize::from(UnparsedPublicKey::new(&ED25519, key).verify(message, &constant).is_ok());
                    assert!(!parsed.fits(Algorithm::Ed25519, message, &constant), "{text}");
                }
            }
        }
        assert!(forged > 1, "the attack is real: ring itself takes these signatures");
    }

    #[test]
    fn a_genuine_key_is_taken() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let text = hex::encode(pair.public_key());
        assert_eq!(SecretReading::public(&text, Algorithm::Ed25519), Some(SecretReading::Public));
        let key = PublicKey::parse(&text).unwrap();
        assert!(key.fits(Algorithm::Ed25519, MESSAGES[0], pair.sign(MESSAGES[0]).as_ref()));
    }
}
