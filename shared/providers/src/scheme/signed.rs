//! Schemes that sign a message made from the request: HMAC, the plain digests of older schemes, and public keys.

use crate::key::joined;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::encoding::SecretForm;
use crate::scheme::envelope::{Chunk, Envelope};
use crate::scheme::hash::{Hash, is_among};
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
use crate::source::Source;
use crate::template::SignedPart;

/// How a signature is made from a message and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Primitive {
    Hmac(Hash),
    /// A hash over a text that contains the secret.
    Digest(Hash),
    /// The provider's private key; the endpoint holds the public key.
    Public(Algorithm),
}

/// How the text of a secret becomes a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretRule {
    pub(crate) form: SecretForm,
    /// An optional label before the secret that is not part of it: `whsec_`.
    pub(crate) prefix: Option<String>,
    /// The label tells this scheme's secrets from those of another one, so a text without it is no secret of this
    /// scheme.
    pub(crate) prefix_required: bool,
}

impl SecretRule {
    pub(crate) fn decode(&self, secret: &str) -> Option<Vec<u8>> {
        match self.prefix.as_deref().and_then(|prefix| secret.strip_prefix(prefix)) {
            Some(bare) => self.form.decode(bare),
            None if self.prefix_required => None,
            None => self.form.decode(secret),
        }
    }
}

/// A scheme that signs a message made from the request.
#[derive(Debug, Clone)]
pub(crate) struct SignedScheme {
    pub(crate) envelope: Envelope,
    pub(crate) primitive: Primitive,
    pub(crate) secret: SecretRule,
    /// Headers that must have a certain value for this scheme to apply.
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

    /// What stands for the delivery if the body is not signed: every signed value but the time, which a retry may
    /// change.
    fn bond(&self, message: &[Chunk<'_>]) -> Option<String> {
        let parts = self.envelope.signs.iter().zip(message);
        let values = parts.filter(|(part, _)| part.names_delivery());
        let text = |chunk: &Chunk<'_>| String::from_utf8_lossy(chunk.bytes(&[])).into_owned();
        self.binds_bodies().then(|| joined(&values.map(|(_, chunk)| text(chunk)).collect::<Vec<_>>()))
    }

    /// One pass over the message for each secret, however many signatures the request has.
    fn fits(&self, secret: &str, message: &[Chunk<'_>], signatures: &[Vec<u8>]) -> bool {
        match (self.key(secret), self.primitive) {
            (Some(Key::Shared(key)), primitive) => {
                primitive.sign(&key, message).is_some_and(|code| is_among(&code, signatures))
                    && primitive.vouches_for(message)
            }
            (Some(Key::Public(key)), Primitive::Public(algorithm)) => {
                let message: Vec<u8> = message.iter().flat_map(|chunk| chunk.bytes(&[])).copied().collect();
                // The catalog allows one signature only where a comparison costs a pass.
                signatures.first().is_some_and(|signature| key.fits(algorithm, &message, signature))
            }
            _ => false,
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
        Ok(Verification::Authentic(match self.bond(&opened.message) {
            Some(value) => proof.bound_to(value),
            None => proof,
        }))
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        match self.primitive {
            Primitive::Hmac(_) | Primitive::Digest(_) => SecretReading::shared(&self.secret.decode(secret)?),
            Primitive::Public(algorithm) => SecretReading::public(secret, algorithm),
        }
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

    fn binds_bodies(&self) -> bool {
        !self.envelope.signs.contains(&SignedPart::Body)
    }

    fn sign_challenge(&self, challenge: &str, secret: &str) -> Option<String> {
        let message = [Chunk::Bytes(challenge.as_bytes().into())];
        let signature = self.primitive.sign(&self.secret.decode(secret)?, &message)?;
        Some(self.envelope.encoding.encode(&signature))
    }
}

impl Primitive {
    /// The signature of a message; `None` if only the provider can sign.
    pub(crate) fn sign(self, key: &[u8], message: &[Chunk<'_>]) -> Option<Vec<u8>> {
        let pieces: Vec<&[u8]> = message.iter().map(|chunk| chunk.bytes(key)).collect();
        match self {
            Self::Hmac(hash) => hash.hmac(key, &pieces),
            Self::Digest(hash) => Some(hash.of(&pieces)),
            Self::Public(_) => None,
        }
    }

    /// True when only a holder of the key can have made the signature of this message.
    ///
    /// Whoever has one digest of a text behind the key can make that of a longer one without the key. It goes on with
    /// the hash's padding, which begins with the byte 0x80: after a text in UTF-8, that is no text.
    fn vouches_for(self, message: &[Chunk<'_>]) -> bool {
        let is_text = |chunk: &Chunk<'_>| std::str::from_utf8(chunk.bytes(&[])).is_ok();
        match self {
            Self::Digest(_) => message.iter().all(is_text),
            Self::Hmac(_) | Self::Public(_) => true,
        }
    }
}

impl Chunk<'_> {
    fn bytes<'b>(&'b self, key: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Key => key,
        }
    }
}
