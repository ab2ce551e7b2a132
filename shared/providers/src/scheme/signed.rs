//! Schemes that sign a message made from the request: HMAC, the plain digests of older schemes, and public keys.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use hookonce_protocol::time::{EpochSec, Millis};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::SecretForm;
use crate::scheme::envelope::{Chunk, Envelope, SignatureSource};
use crate::scheme::format::Format;
use crate::scheme::kind::{Lookup, Place, SchemeKind};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
use crate::scheme::timestamp::{Timestamp, TimestampSource};
use crate::source::Source;
use crate::template::SignedPart;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

/// How a message and a key become a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Primitive {
    Hmac(Hash),
    /// A hash over a text that contains the secret.
    Digest(Hash),
    /// A private key of the provider's; the endpoint holds the public one.
    Public(Algorithm),
}

/// How the text of a secret becomes a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretRule {
    pub(crate) form: SecretForm,
    /// A label in front of the secret that is no part of it, where it is there: `whsec_`.
    pub(crate) prefix: Option<String>,
}

impl SecretRule {
    pub(crate) fn decode(&self, secret: &str) -> Option<Vec<u8>> {
        let bare = self.prefix.as_deref().and_then(|prefix| secret.strip_prefix(prefix)).unwrap_or(secret);
        self.form.decode(bare)
    }
}

/// A scheme that signs a message made from the request.
#[derive(Debug, Clone)]
pub(crate) struct SignedScheme {
    pub(crate) envelope: Envelope,
    pub(crate) primitive: Primitive,
    pub(crate) secret: SecretRule,
    /// Headers that must have a certain value for this scheme to be meant.
    pub(crate) when: Vec<(String, String)>,
}

/// A key, ready to check signatures.
enum Key {
    Shared(Vec<u8>),
    Public(PublicKey),
}

impl SignedScheme {
    fn key(&self, secret: &str) -> Option<Key> {
        match self.primitive {
            Primitive::Hmac(_) | Primitive::Digest(_) => self.secret.decode(secret).map(Key::Shared),
            Primitive::Public(algorithm) => {
                PublicKey::parse(secret).filter(|key| key.makes(algorithm)).map(Key::Public)
            }
        }
    }

    fn fits(&self, secret: &str, message: &[Chunk<'_>], signatures: &[Vec<u8>]) -> bool {
        match (self.key(secret), self.primitive) {
            (Some(Key::Shared(key)), primitive) => {
                signatures.iter().any(|signature| primitive.fits(&key, message, signature))
            }
            (Some(Key::Public(key)), Primitive::Public(algorithm)) => {
                let message: Vec<u8> = message.iter().flat_map(|chunk| chunk.bytes(&[])).copied().collect();
                signatures.iter().any(|signature| key.fits(algorithm, &message, signature))
            }
            _ => false,
        }
    }

    /// The text that carries the signature, as the provider lays it out.
    fn written(&self, signature: &[u8], stamp: Option<&str>) -> String {
        let encoded = self.envelope.encoding.encode(signature);
        match &self.envelope.format {
            Format::Plain => encoded,
            Format::Prefix(prefix) => format!("{prefix}{encoded}"),
            Format::Pairs(pairs) => {
                let signature = format!("{}{}{encoded}", pairs.signature, pairs.assign);
                match self.envelope.timestamp.as_ref().map(|timestamp| &timestamp.source) {
                    Some(TimestampSource::Pair(name)) => {
                        let space = if pairs.trim { " " } else { "" };
                        let stamp = stamp.unwrap_or_default();
                        format!("{name}{}{stamp}{}{space}{signature}", pairs.assign, pairs.between)
                    }
                    _ => signature,
                }
            }
        }
    }
}

impl SchemeKind for SignedScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        let value = |name: &str| request.header_values(name).next();
        self.envelope.signature.is_addressed_by(request)
            && self.when.iter().all(|(name, expected)| value(name) == Some(expected.as_bytes()))
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        for (name, _) in &self.when {
            context.request.plain_header(name)?;
        }
        let opened = self.envelope.open(context)?;
        let proof = context.first_fitting(|secret| self.fits(secret, &opened.message, &opened.signatures))?;
        opened.check_skew(context)?;
        Ok(Verification::Authentic(proof))
    }

    fn accepts_secret(&self, secret: &str) -> bool {
        self.key(secret).is_some()
    }

    fn sign(&self, draft: &mut Draft<'_>, secret: &str, now: EpochSec) -> Result<(), SignError> {
        if !self.is_shared_secret() {
            return Err(SignError::NotSharedSecret);
        }
        let key = self.secret.decode(secret).ok_or(SignError::Secret)?;
        let stamp = self.envelope.timestamp.as_ref().map(|timestamp| stamp(timestamp, draft, now)).transpose()?;
        let mut message = Vec::with_capacity(self.envelope.signs.len());
        for part in &self.envelope.signs {
            let bytes = match part {
                SignedPart::Literal(text) => text.clone().into_bytes(),
                SignedPart::Body => draft.body.clone(),
                SignedPart::Timestamp => stamp.clone().ok_or(SignError::Time)?.into_bytes(),
                SignedPart::Url => draft.request.url.as_bytes().to_vec(),
                SignedPart::Method => draft.request.method.as_bytes().to_vec(),
                SignedPart::Header(name) => draft.header_or_derived(name).into_bytes(),
                SignedPart::Json(path) => draft.json(path)?.into_bytes(),
                SignedPart::Key => key.clone(),
            };
            message.push(Chunk::Bytes(bytes.into()));
        }
        let signature = self.primitive.sign(&key, &message).ok_or(SignError::Secret)?;
        let text = self.written(&signature, stamp.as_deref());
        for (name, value) in &self.when {
            draft.add(name, value.clone());
        }
        match &self.envelope.signature {
            SignatureSource::Header(name) => draft.add(name, text),
            SignatureSource::Headers(prefix) => draft.add(&format!("{prefix}1"), text),
            SignatureSource::Json(path) => draft.set_json(path, &text)?,
        }
        Ok(())
    }

    fn lookups(&self) -> Vec<Lookup> {
        let signature = match &self.envelope.signature {
            SignatureSource::Header(name) => Place::Header(name.clone()),
            SignatureSource::Headers(prefix) => Place::Headers(prefix.clone()),
            SignatureSource::Json(path) => Place::Body(path.to_string()),
        };
        let mut lookups = vec![Lookup { what: "signature", place: signature }];
        match self.envelope.timestamp.as_ref().map(|timestamp| &timestamp.source) {
            Some(TimestampSource::Header(name)) => lookups.push(Lookup::header("timestamp", name)),
            Some(TimestampSource::Json(path)) => lookups.push(Lookup::body("timestamp", path)),
            Some(TimestampSource::Pair(_)) | None => {}
        }
        for part in &self.envelope.signs {
            match part {
                SignedPart::Header(name) => lookups.push(Lookup::header("signed value", name)),
                SignedPart::Json(path) => lookups.push(Lookup::body("signed value", path)),
                _ => {}
            }
        }
        lookups
    }

    fn covers(&self, source: &Source) -> bool {
        let signs = &self.envelope.signs;
        signs.iter().any(|part| match part {
            SignedPart::Body => source.is_of_body(),
            SignedPart::Header(name) => *source == Source::Header(name.clone()),
            SignedPart::Json(path) => *source == Source::Json(path.clone()),
            _ => false,
        })
    }

    fn summary(&self) -> String {
        let how = match self.primitive {
            Primitive::Hmac(hash) => format!("HMAC-{}", hash.name()),
            Primitive::Digest(hash) => format!("plain {}", hash.name()),
            Primitive::Public(Algorithm::Ed25519) => "Ed25519".to_owned(),
            Primitive::Public(_) => "ECDSA P-256 with SHA-256".to_owned(),
        };
        let place = match &self.envelope.signature {
            SignatureSource::Header(name) => name.clone(),
            SignatureSource::Headers(prefix) => format!("{prefix}*"),
            SignatureSource::Json(path) => path.to_string(),
        };
        let signs: String = self.envelope.signs.iter().map(ToString::to_string).collect();
        format!("{how} over `{signs}`, {} in `{place}`", self.envelope.encoding.name())
    }

    fn sign_challenge(&self, challenge: &str, secret: &str) -> Option<String> {
        let message = [Chunk::Bytes(challenge.as_bytes().into())];
        let signature = self.primitive.sign(&self.secret.decode(secret)?, &message)?;
        Some(self.envelope.encoding.encode(&signature))
    }

    fn is_shared_secret(&self) -> bool {
        !matches!(self.primitive, Primitive::Public(_))
    }

    fn claimed_time(&self, context: &Context<'_>) -> Option<i64> {
        self.envelope.open(context).ok()?.claimed_time()
    }

    fn tolerance(&self) -> Option<Millis> {
        self.envelope.timestamp.as_ref().and_then(|timestamp| timestamp.tolerance)
    }
}

/// The timestamp to sign: the given header if there is one, else now; written to where the provider keeps it.
fn stamp(timestamp: &Timestamp, draft: &mut Draft<'_>, now: EpochSec) -> Result<String, SignError> {
    let text = timestamp.unit.print(now).ok_or(SignError::Time)?;
    match &timestamp.source {
        TimestampSource::Header(name) => match draft.header(name) {
            Some(given) => return Ok(given),
            None => draft.add(name, text.clone()),
        },
        TimestampSource::Pair(_) => {}
        TimestampSource::Json(path) => draft.set_json(path, &text)?,
    }
    Ok(text)
}

impl Hash {
    const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
        }
    }
}

impl Primitive {
    /// Compares in constant time.
    fn fits(self, key: &[u8], message: &[Chunk<'_>], signature: &[u8]) -> bool {
        match self {
            Self::Hmac(Hash::Sha1) => mac_fits::<Hmac<Sha1>>(key, message, signature),
            Self::Hmac(Hash::Sha256) => mac_fits::<Hmac<Sha256>>(key, message, signature),
            Self::Hmac(Hash::Sha512) => mac_fits::<Hmac<Sha512>>(key, message, signature),
            Self::Digest(_) => self.sign(key, message).is_some_and(|expected| expected.ct_eq(signature).into()),
            Self::Public(_) => false,
        }
    }

    /// As [`Self::fits`], for a message in one piece.
    pub(crate) fn fits_bytes(self, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        self.fits(key, &[Chunk::Bytes(message.into())], signature)
    }

    /// The signature of a message; nothing where only the provider can sign.
    pub(crate) fn sign(self, key: &[u8], message: &[Chunk<'_>]) -> Option<Vec<u8>> {
        match self {
            Self::Hmac(Hash::Sha1) => mac::<Hmac<Sha1>>(key, message).map(|mac| mac.finalize().into_bytes().to_vec()),
            Self::Hmac(Hash::Sha256) => {
                mac::<Hmac<Sha256>>(key, message).map(|mac| mac.finalize().into_bytes().to_vec())
            }
            Self::Hmac(Hash::Sha512) => {
                mac::<Hmac<Sha512>>(key, message).map(|mac| mac.finalize().into_bytes().to_vec())
            }
            Self::Digest(Hash::Sha1) => Some(digest::<Sha1>(key, message)),
            Self::Digest(Hash::Sha256) => Some(digest::<Sha256>(key, message)),
            Self::Digest(Hash::Sha512) => Some(digest::<Sha512>(key, message)),
            Self::Public(_) => None,
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[Chunk<'_>]) -> Option<M> {
    let mut mac = <M as Mac>::new_from_slice(key).ok()?;
    for chunk in message {
        mac.update(chunk.bytes(key));
    }
    Some(mac)
}

fn mac_fits<M: Mac + KeyInit>(key: &[u8], message: &[Chunk<'_>], signature: &[u8]) -> bool {
    mac::<M>(key, message).is_some_and(|mac| mac.verify_slice(signature).is_ok())
}

fn digest<D: Digest>(key: &[u8], message: &[Chunk<'_>]) -> Vec<u8> {
    let mut hash = D::new();
    for chunk in message {
        hash.update(chunk.bytes(key));
    }
    hash.finalize().to_vec()
}

impl Chunk<'_> {
    fn bytes<'b>(&'b self, key: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Key => key,
        }
    }
}
