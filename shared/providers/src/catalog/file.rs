//! A catalog file as it is written. Reading it checks names and types; `validate` checks what they mean.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::answers::Answers;
use crate::scheme::encoding::{Encoding, SecretForm};
use crate::scheme::hash::Hash;
use crate::scheme::jwt::{JwtKey, PLAID_SETTINGS};
use crate::scheme::timestamp::TimestampUnit;
use crate::settings::{ENVIRONMENT, PUBLIC_KEY, SettingRule, TOPIC_ARNS, WEBHOOK_ID};

/// What requests are judged by: the file without what only people read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderFile {
    pub(crate) name: String,
    /// Alternatives of the delivery key, best first; the parts of one alternative are joined by ` + `.
    #[serde(default)]
    pub(crate) key: Vec<String>,
    /// Alternatives of the event type, best first.
    #[serde(default)]
    pub(crate) event: Vec<String>,
    /// Alternatives of a word that stands before key and type of an event of a batch, if it applies to its delivery.
    #[serde(default)]
    pub(crate) prefix: Vec<String>,
    /// Where the provider always sends a document, each as `json:$` or `form:NAME`.
    #[serde(default)]
    pub(crate) document: Vec<String>,
    /// Further headers worth keeping.
    #[serde(default)]
    pub(crate) keep: Vec<String>,
    /// A body of one JSON object per line, or a single object, is read as an array of them.
    #[serde(default)]
    pub(crate) lines: bool,
    /// What the provider changes in the body of an event when it sends it again, each as `json:PATH`. It is left out
    /// where two bodies are compared.
    #[serde(default)]
    pub(crate) retry_changes: Vec<String>,
    /// By its own documentation, the provider may give one id to several events. So another body under a known key is
    /// kept by default.
    #[serde(default)]
    pub(crate) ids_repeat: bool,
    /// The ways to prove a request, strongest first.
    pub(crate) scheme: Vec<NamedSchemeFile>,
    /// What an endpoint configures besides secrets.
    #[serde(default)]
    pub(crate) setting: Vec<SettingRule>,
    /// The shortest shared secret in bytes, for a provider that issues shorter ones than every other.
    #[serde(default)]
    pub(crate) secret_bytes_min: Option<usize>,
    #[serde(default)]
    pub(crate) items: Vec<ItemFile>,
    #[serde(default)]
    pub(crate) handshake: Vec<HandshakeFile>,
    #[serde(default)]
    pub(crate) answers: Answers,
}

/// One way to prove a request, under a name if there are several.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NamedSchemeFile {
    /// The name by which an endpoint lists the scheme.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Proves less than another scheme with the same secret, or signs something else with it. So only an endpoint that
    /// lists it takes it.
    #[serde(default)]
    pub(crate) only_if_listed: bool,
    #[serde(flatten)]
    pub(crate) scheme: SchemeFile,
}

/// One way to prove a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum SchemeFile {
    Hmac(SignedFile),
    Digest(SignedFile),
    EcdsaP256(SignedFile),
    Ed25519(SignedFile),
    Token(TokenFile),
    Basic(TokenFile),
    Jwt(JwtFile),
    Twilio(NoParameters),
    Paypal(NoParameters),
    AdyenItems(NoParameters),
    Braintree(NoParameters),
    AwsSns(NoParameters),
    Contentful(ContentfulFile),
}

impl SchemeFile {
    /// The settings that the scheme reads.
    pub(crate) fn settings(&self) -> Vec<&str> {
        match self {
            Self::Jwt(jwt) => match jwt.key_of {
                JwtKey::Secret => jwt.issuer_setting.iter().map(String::as_str).collect(),
                JwtKey::Plaid => PLAID_SETTINGS.to_vec(),
            },
            Self::Paypal(_) => vec![WEBHOOK_ID, ENVIRONMENT],
            Self::Braintree(_) => vec![PUBLIC_KEY],
            Self::AwsSns(_) => vec![TOPIC_ARNS],
            Self::Token(token) | Self::Basic(token) => token.header.strip_prefix("setting:").into_iter().collect(),
            Self::Hmac(_)
            | Self::Digest(_)
            | Self::EcdsaP256(_)
            | Self::Ed25519(_)
            | Self::Twilio(_)
            | Self::AdyenItems(_)
            | Self::Contentful(_) => Vec::new(),
        }
    }
}

/// A scheme that signs a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedFile {
    /// For `hmac` and `digest`.
    #[serde(default)]
    pub(crate) hash: Option<Hash>,
    /// `header:NAME`, `header:START-*` or `json:PATH`.
    pub(crate) signature: String,
    #[serde(default)]
    pub(crate) format: FormatFile,
    pub(crate) encoding: Encoding,
    /// For `hmac` and `digest`.
    #[serde(default)]
    pub(crate) secret: Option<SecretForm>,
    #[serde(default)]
    pub(crate) secret_prefix: Option<String>,
    /// A secret without the prefix belongs to another scheme of the provider.
    #[serde(default)]
    pub(crate) secret_prefix_required: bool,
    pub(crate) signs: String,
    #[serde(default)]
    pub(crate) timestamp: Option<TimestampFile>,
    /// Headers that must have a certain value for this scheme to apply.
    #[serde(default)]
    pub(crate) when: BTreeMap<String, String>,
    /// The rules for key and event type of this scheme's deliveries, if they differ from the provider's.
    #[serde(default)]
    pub(crate) key: Vec<String>,
    #[serde(default)]
    pub(crate) event: Vec<String>,
}

/// The layout of a signature's text.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FormatFile {
    #[default]
    Plain,
    Prefix(String),
    Pairs(PairsFile),
}

/// A list of named values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairsFile {
    pub(crate) between: String,
    pub(crate) assign: String,
    pub(crate) signature: String,
    #[serde(default)]
    pub(crate) trim: bool,
}

/// Where the timestamp is and how old it may be. A signed time without a limit would let a delivery be sent again for
/// ever.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimestampFile {
    /// `header:NAME`, `pair:NAME` or `json:PATH`.
    pub(crate) from: String,
    pub(crate) unit: TimestampUnit,
    pub(crate) tolerance_seconds: u32,
}

/// A credential in a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenFile {
    /// A name, or `setting:header` for the header that the endpoint names.
    pub(crate) header: String,
    #[serde(default)]
    pub(crate) key: Vec<String>,
    #[serde(default)]
    pub(crate) event: Vec<String>,
}

/// A JSON Web Token over the body.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwtFile {
    pub(crate) header: String,
    /// What stands before the token, such as `Bearer `.
    #[serde(default)]
    pub(crate) prefix: String,
    pub(crate) key_of: JwtKey,
    pub(crate) body_hash_claim: String,
    pub(crate) body_hash_encoding: Encoding,
    #[serde(default)]
    pub(crate) issuer: Option<String>,
    #[serde(default)]
    pub(crate) issuer_setting: Option<String>,
    #[serde(default)]
    pub(crate) issued_tolerance_seconds: Option<u32>,
    #[serde(default)]
    pub(crate) expiry_leeway_seconds: Option<u32>,
}

/// A scheme that only code describes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// Contentful's scheme.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentfulFile {
    pub(crate) tolerance_seconds: u32,
}

/// Where the events of a batch are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemFile {
    pub(crate) path: String,
    /// Further places of the same kind of events, each under the word that stands before their keys and types.
    #[serde(default)]
    pub(crate) also: BTreeMap<String, String>,
    pub(crate) key: Vec<String>,
    pub(crate) event: Vec<String>,
}

/// A request that is answered at once.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandshakeFile {
    /// `GET`, `HEAD`, or `POST`.
    pub(crate) method: String,
    /// A `POST` without any signature; every other one must pass a scheme first.
    #[serde(default)]
    pub(crate) unsigned: bool,
    /// Sources and the value each must have; `*` for any, `[]` for an empty array.
    #[serde(default)]
    pub(crate) when: BTreeMap<String, String>,
    /// Sources that must not be there.
    #[serde(default)]
    pub(crate) absent: Vec<String>,
    /// A source that must equal the setting `verify_token`.
    #[serde(default)]
    pub(crate) token: Option<String>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// The answer as plain text.
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// The answer as a JSON object.
    #[serde(default)]
    pub(crate) json: Option<BTreeMap<String, JsonValueFile>>,
    /// Further headers of the answer.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// A source with a secret that the provider hands out in this request, for a person to take over.
    #[serde(default)]
    pub(crate) hands_out: Option<String>,
    /// A subscription of AWS SNS, which is confirmed by visiting an address.
    #[serde(default)]
    pub(crate) sns_subscription: bool,
}

/// A value in the JSON answer of a handshake.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum JsonValueFile {
    Number(i64),
    Text(String),
}

const fn ok() -> u16 {
    200
}
