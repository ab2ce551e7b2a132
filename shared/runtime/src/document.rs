//! An endpoint's document: its configuration as it is stored.

use std::collections::BTreeMap;
use std::fmt;

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The longest raw body that an endpoint accepts unless its document says otherwise, in bytes.
pub const BODY_BYTES_DEFAULT: usize = 1024 * 1024;

/// The longest raw body that a document may allow, in bytes: a Lambda request holds 6 MB, base64 and all.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An endpoint's configuration as it is stored: one JSON document.
///
/// ```json
/// {"provider": "stripe", "secrets": ["whsec_..."], "on_store_outage": "enqueue"}
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointDocument {
    /// The provider's id in the catalog.
    pub provider: String,
    /// The secrets, newest first.
    pub secrets: Vec<String>,
    /// What else the provider's scheme needs, such as `verify_token` or `public_url`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// While the store is down: `reject` (please retry) or `enqueue` (accept on the strength of the queue).
    #[serde(default)]
    pub on_store_outage: OnStoreOutage,
    /// When a known id comes with another body: `duplicate` or `quarantine`.
    #[serde(default)]
    pub on_body_mismatch: OnBodyMismatch,
    /// How far the signed timestamp may be off; the provider's own value if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_seconds: Option<i64>,
    /// The longest raw body, in bytes.
    #[serde(default = "body_bytes_default")]
    pub body_bytes_max: usize,
    /// Networks that may deliver; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<IpNet>,
}

fn body_bytes_default() -> usize {
    BODY_BYTES_DEFAULT
}

impl fmt::Debug for EndpointDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.secrets.len();
        write!(formatter, "EndpointDocument {{ provider: {:?}, secrets: <{count}> }}", self.provider)
    }
}

impl EndpointDocument {
    /// From JSON text.
    ///
    /// # Errors
    /// [`FetchError::Malformed`] with the place of the fault, never with its text.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        serde_json::from_str(text).map_err(|error| FetchError::Malformed { line: error.line(), column: error.column() })
    }
}

/// Why an endpoint's document could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The source did not answer.
    #[error("the source of endpoint documents did not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The document is not valid. Its text is not repeated here: it holds secrets.
    #[error("the endpoint document is not valid JSON of the expected form (line {line}, column {column})")]
    Malformed {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
}
