//! The schemes of a catalog file: which fields belong together.

use hookonce_protocol::time::Millis;

use super::file::{FormatFile, JwtFile, NamedSchemeFile, SchemeFile, SignedFile};
use super::problem::{Problem, at};
use super::rules::{events, keys};
use crate::limits::TOLERANCE_SECONDS_MAX;
use crate::path::Root;
use crate::provider::SchemeEntry;
use crate::scheme::Scheme;
use crate::scheme::adyen::AdyenScheme;
use crate::scheme::braintree::BraintreeScheme;
use crate::scheme::contentful::ContentfulScheme;
use crate::scheme::encoding::SecretForm;
use crate::scheme::envelope::{Envelope, SignatureSource};
use crate::scheme::format::{Format, Pairs};
use crate::scheme::hash::Hash;
use crate::scheme::jwt::{JwtKey, JwtScheme};
use crate::scheme::paypal::PaypalScheme;
use crate::scheme::public_key::Algorithm;
use crate::scheme::signed::{Primitive, SecretRule, SignedScheme};
use crate::scheme::sns::SnsScheme;
use crate::scheme::timestamp::{Timestamp, TimestampSource};
use crate::scheme::token::TokenScheme;
use crate::scheme::twilio::TwilioScheme;
use crate::settings::HEADER;
use crate::source::{Source, header_name};
use crate::template::{SignedPart, signed_parts};

/// Checks one scheme.
pub(super) fn scheme_entry(file: &NamedSchemeFile) -> Result<SchemeEntry, Problem> {
    let none: &[String] = &[];
    let (scheme, key, event) = match &file.scheme {
        SchemeFile::Hmac(signed) => (signed_scheme(signed, Kind::Hmac)?, &*signed.key, &*signed.event),
        SchemeFile::Digest(signed) => (signed_scheme(signed, Kind::Digest)?, &*signed.key, &*signed.event),
        SchemeFile::EcdsaP256(signed) => (signed_scheme(signed, Kind::EcdsaP256)?, &*signed.key, &*signed.event),
        SchemeFile::Ed25519(signed) => (signed_scheme(signed, Kind::Ed25519)?, &*signed.key, &*signed.event),
        SchemeFile::Token(token) => (token_scheme(&token.header, false)?, &*token.key, &*token.event),
        SchemeFile::Basic(token) => (token_scheme(&token.header, true)?, &*token.key, &*token.event),
        SchemeFile::Jwt(jwt) => (jwt_scheme(jwt)?, none, none),
        SchemeFile::Twilio(_) => (Scheme::Twilio(TwilioScheme), none, none),
        SchemeFile::Paypal(_) => (Scheme::Paypal(PaypalScheme), none, none),
        SchemeFile::AdyenItems(_) => (Scheme::Adyen(AdyenScheme), none, none),
        SchemeFile::Braintree(_) => (Scheme::Braintree(BraintreeScheme), none, none),
        SchemeFile::AwsSns(_) => (Scheme::Sns(SnsScheme), none, none),
        SchemeFile::Contentful(file) => {
            let tolerance = tolerance("tolerance_seconds", file.tolerance_seconds)?;
            (Scheme::Contentful(ContentfulScheme { tolerance }), none, none)
        }
    };
    Ok(SchemeEntry {
        name: file.name.clone().unwrap_or_default(),
        only_if_listed: file.only_if_listed,
        scheme,
        key: keys("key", key, Root::Body)?,
        event: events("event", event, Root::Body)?,
    })
}

/// The kinds that sign a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hmac,
    Digest,
    EcdsaP256,
    Ed25519,
}

fn signed_scheme(file: &SignedFile, kind: Kind) -> Result<Scheme, Problem> {
    let signs = signed_parts(&file.signs).map_err(at("signs"))?;
    let (primitive, secret) = primitive(file, kind)?;
    match (kind, signs.contains(&SignedPart::Key)) {
        (Kind::Digest, false) => {
            return Err(("signs".to_owned(), "a digest without `{key}` proves nothing".to_owned()));
        }
        (Kind::Hmac | Kind::EcdsaP256 | Kind::Ed25519, true) => {
            return Err(("signs".to_owned(), "`{key}` belongs to `kind = \"digest\"` only".to_owned()));
        }
        (Kind::Digest, true) | (Kind::Hmac | Kind::EcdsaP256 | Kind::Ed25519, false) => {}
    }
    if !signs.contains(&SignedPart::Body) && !signs.iter().any(SignedPart::names_delivery) {
        let problem =
            "without `{body}` it needs `{header:NAME}` or `{json:PATH}`, a value under which a delivery is known";
        return Err(("signs".to_owned(), problem.to_owned()));
    }
    let format = format(&file.format)?;
    let timestamp = timestamp(file, &format, touches_neighbour(&signs))?;
    let many = matches!(format, Format::Pairs(_)) || file.signature.ends_with('*');
    if many && matches!(primitive, Primitive::Public(_)) {
        let problem = "each comparison with a public key hashes the whole message, so a request may have one signature";
        return Err(("format".to_owned(), problem.to_owned()));
    }
    if signs.contains(&SignedPart::Timestamp) && timestamp.is_none() {
        return Err(("timestamp".to_owned(), "`signs` has `{ts}`, so a timestamp must be described".to_owned()));
    }
    let signature = signature_source(&file.signature).map_err(at("signature"))?;
    let mut when = Vec::with_capacity(file.when.len());
    for (source, value) in &file.when {
        match Source::parse(source).map_err(at("when"))? {
            Source::Header(name) => when.push((name, value.clone())),
            _ => return Err(("when".to_owned(), format!("`{source}` is not `header:NAME`"))),
        }
    }
    let envelope = Envelope { signature, format, encoding: file.encoding, signs, timestamp };
    Ok(Scheme::Signed(SignedScheme { envelope, primitive, secret, when }))
}

/// What signs, and in which form the endpoint holds its part of the key.
fn primitive(file: &SignedFile, kind: Kind) -> Result<(Primitive, SecretRule), Problem> {
    let missing = |field: &str| (field.to_owned(), "missing; a shared secret needs it".to_owned());
    let needless = |field: &str| (field.to_owned(), "belongs to shared secrets only; leave it out".to_owned());
    let public = |algorithm| match (file.hash, file.secret, &file.secret_prefix) {
        (None, None, None) => Ok((
            Primitive::Public(algorithm),
            SecretRule { form: SecretForm::Text, prefix: None, prefix_required: false },
        )),
        (Some(_), _, _) => Err(needless("hash")),
        (None, Some(_), _) => Err(needless("secret")),
        (None, None, Some(_)) => Err(needless("secret_prefix")),
    };
    let shared = |make: fn(Hash) -> Primitive| {
        let hash = file.hash.ok_or_else(|| missing("hash"))?;
        let form = file.secret.ok_or_else(|| missing("secret"))?;
        let prefix = file.secret_prefix.clone().filter(|prefix| !prefix.is_empty());
        if file.secret_prefix_required && prefix.is_none() {
            return Err(missing("secret_prefix"));
        }
        Ok((make(hash), SecretRule { form, prefix, prefix_required: file.secret_prefix_required }))
    };
    match kind {
        Kind::Hmac => shared(Primitive::Hmac),
        Kind::Digest => shared(Primitive::Digest),
        Kind::EcdsaP256 => public(Algorithm::EcdsaP256Der),
        Kind::Ed25519 => public(Algorithm::Ed25519),
    }
}

fn signature_source(text: &str) -> Result<SignatureSource, String> {
    if let Some(prefix) = text.strip_prefix("header:").and_then(|name| name.strip_suffix('*')) {
        return header_name(prefix).map(SignatureSource::Headers);
    }
    match Source::parse(text)? {
        Source::Header(name) => Ok(SignatureSource::Header(name)),
        Source::Json(path) if path.root == Root::Body => Ok(SignatureSource::Json(path)),
        _ => Err(format!(
            "a signature cannot come from `{text}`; expected `header:NAME`, `header:START-*` or `json:$.PATH`"
        )),
    }
}

fn format(file: &FormatFile) -> Result<Format, Problem> {
    match file {
        FormatFile::Plain => Ok(Format::Plain),
        FormatFile::Prefix(prefix) if prefix.is_empty() => {
            Err(("format.prefix".to_owned(), "an empty prefix is the format `plain`".to_owned()))
        }
        FormatFile::Prefix(prefix) => Ok(Format::Prefix(prefix.clone())),
        FormatFile::Pairs(pairs) => {
            if pairs.between.is_empty() || pairs.assign.is_empty() || pairs.signature.is_empty() {
                return Err((
                    "format.pairs".to_owned(),
                    "`between`, `assign` and `signature` must not be empty".to_owned(),
                ));
            }
            if pairs.between == pairs.assign {
                return Err(("format.pairs".to_owned(), "`between` and `assign` must differ".to_owned()));
            }
            Ok(Format::Pairs(Pairs {
                between: pairs.between.clone(),
                assign: pairs.assign.clone(),
                signature: pairs.signature.clone(),
                trim: pairs.trim,
            }))
        }
    }
}

/// True when the timestamp and another value are signed without a text between them.
fn touches_neighbour(signs: &[SignedPart]) -> bool {
    let is_time = |part: &SignedPart| *part == SignedPart::Timestamp;
    let is_value = |part: &SignedPart| !matches!(part, SignedPart::Literal(_));
    signs.windows(2).any(|pair| pair.iter().any(is_time) && pair.iter().all(is_value))
}

fn timestamp(file: &SignedFile, format: &Format, fixed_width: bool) -> Result<Option<Timestamp>, Problem> {
    let Some(timestamp) = &file.timestamp else { return Ok(None) };
    let source = if let Some(name) = timestamp.from.strip_prefix("pair:") {
        match format {
            Format::Pairs(pairs) if pairs.signature != name => TimestampSource::Pair(name.to_owned()),
            Format::Pairs(_) => {
                return Err(("timestamp.from".to_owned(), format!("`{name}` is the name of the signature")));
            }
            Format::Plain | Format::Prefix(_) => {
                return Err(("timestamp.from".to_owned(), "`pair:` needs the format `pairs`".to_owned()));
            }
        }
    } else {
        match Source::parse(&timestamp.from).map_err(at("timestamp.from"))? {
            Source::Header(name) => TimestampSource::Header(name),
            Source::Json(path) if path.root == Root::Body => TimestampSource::Json(path),
            _ => {
                let problem = "expected `header:NAME`, `pair:NAME` or `json:$.PATH`".to_owned();
                return Err(("timestamp.from".to_owned(), problem));
            }
        }
    };
    let tolerance = tolerance("timestamp.tolerance_seconds", timestamp.tolerance_seconds)?;
    Ok(Some(Timestamp { source, unit: timestamp.unit, tolerance, fixed_width }))
}

fn tolerance(field: &str, seconds: u32) -> Result<Millis, Problem> {
    if !(1..=TOLERANCE_SECONDS_MAX).contains(&seconds) {
        let problem = format!("{seconds} is not 1 to {TOLERANCE_SECONDS_MAX} seconds");
        return Err((field.to_owned(), problem));
    }
    Ok(Millis::seconds(i64::from(seconds)))
}

fn token_scheme(header: &str, basic: bool) -> Result<Scheme, Problem> {
    let header = match header.strip_prefix("setting:") {
        Some(HEADER) => None,
        _ => Some(header_name(header).map_err(at("header"))?),
    };
    Ok(Scheme::Token(TokenScheme { header, basic }))
}

fn jwt_scheme(file: &JwtFile) -> Result<Scheme, Problem> {
    if file.body_hash_claim.is_empty() {
        return Err((
            "body_hash_claim".to_owned(),
            "a token without a hash of the body does not sign the body".to_owned(),
        ));
    }
    if file.key_of == JwtKey::Plaid && file.issuer_setting.is_some() {
        return Err(("issuer_setting".to_owned(), "Plaid's tokens name no issuer".to_owned()));
    }
    Ok(Scheme::Jwt(JwtScheme {
        header: header_name(&file.header).map_err(at("header"))?,
        prefix: file.prefix.clone(),
        key: file.key_of,
        claim: file.body_hash_claim.clone(),
        claim_encoding: file.body_hash_encoding,
        issuer: file.issuer.clone(),
        issuer_setting: file.issuer_setting.clone(),
        tolerance: file.issued_tolerance_seconds.map(|it| tolerance("issued_tolerance_seconds", it)).transpose()?,
        expiry_leeway: file.expiry_leeway_seconds.map(|seconds| Millis::seconds(i64::from(seconds))),
    }))
}
