//! A JSON Web Token with a hash of the body: Netlify, `LiveKit` and Vonage use a shared secret, Plaid its own private key.
//!
//! The catalog fixes the algorithm. It is compared with the token's header, never taken from it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use hookonce_protocol::time::Millis;
use serde::Deserialize;
#[cfg(feature = "tools")]
use serde_json::Map;
use serde_json::Value;
use subtle::ConstantTimeEq;

use crate::json::Node;
use crate::material::MaterialNeeded;
use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::hash::Hash;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
use crate::scheme::timestamp::check_skew;
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::settings::{ENVIRONMENT, PRODUCTION, SANDBOX};
use crate::source::Source;

/// Whose key signs the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JwtKey {
    /// HS256 with the endpoint's secret.
    Secret,
    /// ES256 with a key of Plaid, fetched with the endpoint's API credentials.
    Plaid,
}

/// A token over a body.
#[derive(Debug, Clone)]
pub(crate) struct JwtScheme {
    pub(crate) header: String,
    /// What stands before the token, such as `Bearer `.
    pub(crate) prefix: String,
    pub(crate) key: JwtKey,
    /// The claim that holds the SHA-256 of the body, and its encoding.
    pub(crate) claim: String,
    pub(crate) claim_encoding: Encoding,
    /// What `iss` must be.
    pub(crate) issuer: Option<String>,
    /// The setting that says what `iss` must be, if the endpoint has it.
    pub(crate) issuer_setting: Option<String>,
    /// How far `iat` may be from now.
    pub(crate) tolerance: Option<Millis>,
    /// Allowance for the clocks when `exp` (then required) and `nbf` are checked.
    pub(crate) expiry_leeway: Option<Millis>,
}

/// The parts of a token. Nothing in them is verified yet.
struct Token<'a> {
    signed: &'a str,
    algorithm: String,
    key_id: Option<String>,
    claims: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header = decode(header)?;
        Some(Self {
            signed,
            algorithm: member(&header, "alg")?,
            key_id: member(&header, "kid"),
            claims: decode(claims)?,
            signature: decode(signature)?,
        })
    }
}

/// A scalar member of a JSON object, which must have it once.
fn member(json: &[u8], name: &str) -> Option<String> {
    let members = Node::parse_unproven(json).ok()?.members().ok()?;
    members.into_iter().find(|(key, _)| key == name).and_then(|(_, node)| node.scalar())
}

fn hs256(secret: &str, message: &str) -> Option<Vec<u8>> {
    Hash::Sha256.hmac(secret.as_bytes(), &[message.as_bytes()])
}

impl JwtScheme {
    /// The token in the header's text.
    fn token<'a>(&self, text: &'a str) -> Option<Token<'a>> {
        Token::read(text.strip_prefix(&self.prefix)?)
    }

    const fn algorithm(&self) -> &'static str {
        match self.key {
            JwtKey::Secret => "HS256",
            JwtKey::Plaid => "ES256",
        }
    }

    fn check_signature(&self, context: &Context<'_>, token: &Token<'_>) -> Result<Verification, Refusal> {
        match self.key {
            JwtKey::Secret => context
                .first_fitting(|secret| {
                    hs256(secret, token.signed).is_some_and(|code| code.ct_eq(&token.signature).into())
                })
                .map(Verification::Authentic),
            JwtKey::Plaid => plaid(context, token),
        }
    }

    fn check_claims(&self, context: &Context<'_>, claims: &[u8]) -> Result<Option<i64>, Refusal> {
        let hash = member(claims, &self.claim).and_then(|text| self.claim_encoding.decode(&text));
        let hash = hash.ok_or(Refusal::SignatureMalformed)?;
        if !bool::from(Hash::Sha256.of(&[context.request.body]).ct_eq(&hash)) {
            return Err(Refusal::SignatureMismatch);
        }
        let setting = self.issuer_setting.as_deref().and_then(|name| context.settings.get(name));
        if let Some(issuer) = setting.or(self.issuer.as_deref())
            && member(claims, "iss").as_deref() != Some(issuer)
        {
            return Err(Refusal::SignatureMismatch);
        }
        let issued_at = seconds(claims, "iat")?;
        if let Some(tolerance) = context.tolerance.filter(|_| issued_at.is_some()).or(self.tolerance) {
            let at = issued_at.ok_or(Refusal::TimestampMissing)?;
            check_skew(at.saturating_mul(1_000), context.now, tolerance)?;
        }
        if let Some(leeway) = self.expiry_leeway {
            let leeway = leeway.as_seconds();
            let expires = seconds(claims, "exp")?.ok_or(Refusal::TimestampMissing)?;
            let starts = seconds(claims, "nbf")?.unwrap_or(i64::MIN);
            if context.now.0 >= expires.saturating_add(leeway) || context.now.0 < starts.saturating_sub(leeway) {
                return Err(Refusal::TimestampOutOfRange);
            }
        }
        Ok(issued_at)
    }
}

/// A claim in whole seconds since the Unix epoch.
fn seconds(claims: &[u8], name: &str) -> Result<Option<i64>, Refusal> {
    member(claims, name).map(|text| text.parse().map_err(|_| Refusal::TimestampMalformed)).transpose()
}

/// The settings with the API credentials for fetching a key.
const PLAID_CLIENT: &str = "client_id";
const PLAID_SECRET: &str = "api_secret";
/// All of them.
pub(crate) const PLAID_SETTINGS: [&str; 3] = [ENVIRONMENT, PLAID_CLIENT, PLAID_SECRET];

/// Checks a token of Plaid with a given key, or asks for the key that it names.
fn plaid(context: &Context<'_>, token: &Token<'_>) -> Result<Verification, Refusal> {
    let key_id = token.key_id.as_deref().ok_or(Refusal::SignatureMalformed)?;
    let fits = |jwk: &str| {
        let other = member(jwk.as_bytes(), "kid").is_some_and(|kid| kid != key_id);
        let expired = member(jwk.as_bytes(), "expired_at").is_some();
        let key = PublicKey::parse(jwk).filter(|_| !other && !expired);
        key.is_some_and(|key| key.fits(Algorithm::EcdsaP256Fixed, token.signed.as_bytes(), &token.signature))
    };
    if !context.keyring.is_empty() {
        return context.first_fitting(fits).map(Verification::Authentic);
    }
    let host = match context.settings.get(ENVIRONMENT) {
        None | Some(PRODUCTION) => "production.plaid.com",
        Some(SANDBOX) => "sandbox.plaid.com",
        Some(_) => return Err(Refusal::NotConfigured),
    };
    let cache_key = format!("plaid:{host}:{key_id}");
    let answer_fits = |answer: &[u8]| {
        let answer: Option<Value> = serde_json::from_slice(answer).ok();
        answer.and_then(|answer| Some(fits(&answer.get("key")?.to_string()))).unwrap_or(false)
    };
    if let Some(fitted) = context.fetched_fitting(&cache_key, answer_fits) {
        return fitted.map(Verification::Authentic);
    }
    let setting = |name| context.settings.get(name).ok_or(Refusal::NotConfigured);
    let post = serde_json::json!({
        "client_id": setting(PLAID_CLIENT)?, "secret": setting(PLAID_SECRET)?, "key_id": key_id,
    });
    let url = format!("https://{host}/webhook_verification_key/get");
    Ok(Verification::NeedsMaterial(MaterialNeeded::post(url, cache_key, post.to_string())))
}

impl SchemeKind for JwtScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        request.has_header(&self.header)
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let text = context.request.plain_header(&self.header)?.ok_or(Refusal::SignatureMissing)?;
        let token = self.token(text).ok_or(Refusal::SignatureMalformed)?;
        if token.algorithm != self.algorithm() {
            return Err(Refusal::SignatureMalformed);
        }
        match self.check_signature(context, &token)? {
            Verification::Authentic(proof) => {
                let issued_at = self.check_claims(context, &token.claims)?;
                Ok(Verification::Authentic(proof.issued(issued_at)))
            }
            needed @ Verification::NeedsMaterial(_) => {
                // Asking for the key sends the owner's credentials. Do not, for a token that the key could not save.
                self.check_claims(context, &token.claims)?;
                Ok(needed)
            }
        }
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        match self.key {
            JwtKey::Secret => SecretReading::shared(secret.as_bytes()),
            JwtKey::Plaid => SecretReading::public(secret, Algorithm::EcdsaP256Fixed),
        }
    }

    fn covers(&self, source: &Source) -> bool {
        source.is_of_body() || *source == Source::SignedAt
    }

    fn fetches_keys(&self) -> bool {
        self.key == JwtKey::Plaid
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for JwtScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, now: EpochSec) -> Result<(), SignError> {
        if self.key != JwtKey::Secret {
            return Err(SignError::NotSharedSecret);
        }
        let mut claims = Map::new();
        let hash = self.claim_encoding.encode(&Hash::Sha256.of(&[&draft.body]));
        claims.insert(self.claim.clone(), Value::from(hash));
        let setting = self.issuer_setting.as_deref().and_then(|name| draft.settings.get(name));
        if let Some(issuer) = setting.or(self.issuer.as_deref()) {
            claims.insert("iss".to_owned(), Value::from(issuer));
        }
        if self.tolerance.is_some() {
            claims.insert("iat".to_owned(), Value::from(now.0));
        }
        if self.expiry_leeway.is_some() {
            claims.insert("nbf".to_owned(), Value::from(now.0));
            claims.insert("exp".to_owned(), Value::from(now.0.saturating_add(Millis::minutes(5).as_seconds())));
        }
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(Value::Object(claims).to_string()));
        let mac = hs256(secret, &signed).ok_or(SignError::Secret)?;
        draft.add(&self.header, format!("{}{signed}.{}", self.prefix, URL_SAFE_NO_PAD.encode(mac)));
        Ok(())
    }

    fn covers_time(&self) -> bool {
        self.tolerance.is_some() || self.expiry_leeway.is_some()
    }

    fn sender_limits_age(&self) -> bool {
        self.expiry_leeway.is_some()
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup::header("token", &self.header)]
    }

    fn summary(&self) -> String {
        format!(
            "a JSON Web Token ({}) in `{}` whose claim `{}` is the SHA-256 of the body",
            self.algorithm(),
            self.header,
            self.claim
        )
    }

    fn is_shared_secret(&self) -> bool {
        self.key == JwtKey::Secret
    }

    fn claimed_time(&self, context: &Context<'_>) -> Option<i64> {
        let token = self.token(context.request.single_header(&self.header).ok()??)?;
        seconds(&token.claims, "iat").ok()?.map(|at| at.saturating_mul(1_000))
    }

    fn tolerance(&self) -> Option<Millis> {
        self.tolerance
    }
}
