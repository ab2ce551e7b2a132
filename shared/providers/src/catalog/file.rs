//! A catalog file as it is written. Reading it checks names and types; [`validate`](super::validate) checks what they mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::answers::Answers;
use crate::facts::Facts;
use crate::provider::SettingFact;
use crate::scheme::encoding::{Encoding, SecretForm};
use crate::scheme::jwt::JwtKey;
use crate::scheme::signed::Hash;
use crate::scheme::timestamp::TimestampUnit;

/// The whole file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderFile {
    pub(crate) name: String,
    /// Alternatives of the delivery key, best first; the parts of one alternative are joined by ` + `.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) key: Vec<String>,
    /// Alternatives of the event type, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) event: Vec<String>,
    /// Further headers worth keeping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keep: Vec<String>,
    /// A body of one JSON object per line, or a single object, is read as an array of them.
    #[serde(default)]
    pub(crate) lines: bool,
    /// The ways to prove a request, strongest first.
    pub(crate) scheme: Vec<SchemeFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) setting: Vec<SettingFact>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<ItemFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) handshake: Vec<HandshakeFile>,
    #[serde(default)]
    pub(crate) answers: Answers,
    pub(crate) facts: Facts,
}

/// One way to prove a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

/// A scheme that signs a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedFile {
    /// For `hmac` and `digest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<Hash>,
    /// `header:NAME`, `header:START-*` or `json:PATH`.
    pub(crate) signature: String,
    #[serde(default)]
    pub(crate) format: FormatFile,
    pub(crate) encoding: Encoding,
    /// For `hmac` and `digest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<SecretForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_prefix: Option<String>,
    pub(crate) signs: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<TimestampFile>,
    /// Headers that must have a certain value for this scheme to be meant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) when: BTreeMap<String, String>,
    /// Where this scheme's deliveries have their key and event type elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) key: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) event: Vec<String>,
}

/// The layout of a signature's text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FormatFile {
    #[default]
    Plain,
    Prefix(String),
    Pairs(PairsFile),
}

/// A list of named values.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairsFile {
    pub(crate) between: String,
    pub(crate) assign: String,
    pub(crate) signature: String,
    #[serde(default)]
    pub(crate) trim: bool,
}

/// Where the timestamp is and how old it may be.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimestampFile {
    /// `header:NAME`, `pair:NAME` or `json:PATH`.
    pub(crate) from: String,
    pub(crate) unit: TimestampUnit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tolerance_seconds: Option<u32>,
}

/// A credential in a header.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenFile {
    pub(crate) header: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) key: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) event: Vec<String>,
}

/// A JSON Web Token over the body.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwtFile {
    pub(crate) header: String,
    pub(crate) key_of: JwtKey,
    pub(crate) body_hash_claim: String,
    pub(crate) body_hash_encoding: Encoding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issuer_setting: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issued_tolerance_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expiry_leeway_seconds: Option<u32>,
}

/// A scheme that is described in code alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// Contentful's scheme.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentfulFile {
    pub(crate) tolerance_seconds: u32,
}

/// Where the events of a batch are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemFile {
    pub(crate) path: String,
    pub(crate) key: Vec<String>,
    pub(crate) event: Vec<String>,
}

/// A question that is answered at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandshakeFile {
    /// `GET`, `HEAD`, or `POST`.
    pub(crate) method: String,
    /// A `POST` that carries no signature at all; every other one must pass a scheme first.
    #[serde(default)]
    pub(crate) unsigned: bool,
    /// Sources and the value each must have; `*` for any, `[]` for an empty array.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) when: BTreeMap<String, String>,
    /// Sources that must not be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) absent: Vec<String>,
    /// A source that must equal the setting `verify_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// The answer as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The answer as a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) json: Option<BTreeMap<String, JsonValueFile>>,
    /// Further headers of the answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// A source with a secret that the provider hands out in this request, for a person to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hands_out: Option<String>,
    /// A subscription of AWS SNS, which is confirmed by visiting an address.
    #[serde(default)]
    pub(crate) sns_subscription: bool,
}

/// A value in the JSON answer of a handshake.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum JsonValueFile {
    Number(i64),
    Text(String),
}

const fn ok() -> u16 {
    200
}
