//! Signs as a provider would whose scheme signs a message made from the request.

use hookonce_protocol::time::{EpochSec, Millis};

use crate::scheme::draft::{Draft, SignError};
use crate::scheme::envelope::{Chunk, SignatureSource};
use crate::scheme::format::Format;
use crate::scheme::hash::Hash;
use crate::scheme::proof::Context;
use crate::scheme::public_key::Algorithm;
use crate::scheme::signed::{Primitive, SignedScheme};
use crate::scheme::timestamp::{Timestamp, TimestampSource};
use crate::scheme::tools::{Lookup, SchemeTools, SignatureLocation};
use crate::template::{SignedPart, punctuation_decoded};

impl SignedScheme {
    /// The text with the signature, in the provider's layout.
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

impl SchemeTools for SignedScheme {
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
                SignedPart::DecodedUrl => punctuation_decoded(draft.request.url).into_bytes(),
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

    fn covers_time(&self) -> bool {
        let signs = |part| self.envelope.signs.contains(&part);
        let in_body = |it: &Timestamp| matches!(it.source, TimestampSource::Json(_)) && signs(SignedPart::Body);
        signs(SignedPart::Timestamp) || self.envelope.timestamp.as_ref().is_some_and(in_body)
    }

    fn covers_url(&self) -> bool {
        self.envelope.signs.iter().any(|part| matches!(part, SignedPart::Url | SignedPart::DecodedUrl))
    }

    fn lookups(&self) -> Vec<Lookup> {
        let signature = match &self.envelope.signature {
            SignatureSource::Header(name) => SignatureLocation::Header(name.clone()),
            SignatureSource::Headers(prefix) => SignatureLocation::Headers(prefix.clone()),
            SignatureSource::Json(path) => SignatureLocation::Body(path.to_string()),
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
        let only = match self.primitive {
            Primitive::Digest(_) => "; only a body of UTF-8 text, because other bytes can be added without the secret",
            Primitive::Hmac(_) | Primitive::Public(_) => "",
        };
        format!("{how} over `{signs}`, {} in `{place}`{only}", self.envelope.encoding.name())
    }

    fn is_shared_secret(&self) -> bool {
        !matches!(self.primitive, Primitive::Public(_))
    }

    fn claimed_time(&self, context: &Context<'_>) -> Option<i64> {
        self.envelope.open(context).ok()?.claimed_time()
    }

    fn tolerance(&self) -> Option<Millis> {
        self.envelope.timestamp.as_ref().map(|timestamp| timestamp.tolerance)
    }
}

/// The timestamp to sign: the given header if any, else now. It is written to the provider's place for it.
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
