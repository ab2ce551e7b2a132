//! Endpoint documents: the stored configuration of endpoints.

use std::collections::BTreeMap;
use std::fmt;

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::key::Tenant;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::documents::fault::DocumentFault;
use crate::documents::strict::{self, ShowNames};

/// The longest event that Lambda passes to a function, in bytes, and the longest answer that it passes back. The gateway
/// itself takes 10 MB.
pub const EVENT_BYTES_MAX: usize = 6 * 1024 * 1024;

/// What the event of a request needs beside the body, in bytes, at most: 10,240 bytes of request line and headers, each
/// of which may be escaped and stand in the event twice, and what the gateway adds.
pub const EVENT_BYTES_RESERVED: usize = 64 * 1024;

/// The longest raw body, in bytes: the largest whose base64 fits into an event. A document may set less.
///
/// A gateway passes text on as JSON text. Text with many quotation marks or line breaks may therefore exceed the event
/// earlier, from half the event on; the gateway then answers before this function runs.
pub const BODY_BYTES_MAX: usize = (EVENT_BYTES_MAX - EVENT_BYTES_RESERVED) / 4 * 3;

/// The longest body that passes a gateway as text if every character of it needs a backslash, in bytes. A longer text
/// passes if fewer do, up to [`BODY_BYTES_MAX`].
pub const TEXT_BODY_BYTES_MAX: usize = (EVENT_BYTES_MAX - EVENT_BYTES_RESERVED) / 2;

/// An endpoint's configuration, stored as one JSON document.
///
/// ```json
/// {"provider": "stripe", "secrets": ["whsec_..."], "on_store_outage": "enqueue"}
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointDocument {
    /// The provider's id in the catalog.
    pub provider: String,
    /// Whose events it receives, in the form of an endpoint id. The endpoint's own id if absent. Endpoints of one
    /// tenant share facts and items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The secrets, newest first.
    pub secrets: Vec<String>,
    /// Other settings that the provider's scheme needs, such as `verify_token` or `public_url`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The names of the provider's schemes that the endpoint takes. If empty, all that the catalog does not
    /// reserve for such a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<String>,
    /// What to do while the store is down: `reject` (ask for a retry) or `enqueue` (accept once the queue has the
    /// payload).
    #[serde(default)]
    pub on_store_outage: OnStoreOutage,
    /// What to do with another body under a known id: `duplicate` or `quarantine`. If absent, `quarantine` for a
    /// provider whose signature covers the key, or a value that stands for the delivery, but not the whole body, and
    /// for one that may give one id to several events; `duplicate` for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_body_mismatch: Option<OnBodyMismatch>,
    /// How old the signed timestamp may be, in seconds, and up to 300 how far in the future. The provider's own tolerance if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_seconds: Option<i64>,
    /// The longest raw body, in bytes.
    #[serde(default = "body_bytes_default")]
    pub body_bytes_max: usize,
    /// Networks that may deliver. Any network if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<IpNet>,
    /// A length of time, such as `26h`, within which a delivery is expected. `hookonce status` names an endpoint that is
    /// silent for longer. No function reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_every: Option<String>,
}

fn body_bytes_default() -> usize {
    BODY_BYTES_MAX
}

impl fmt::Debug for EndpointDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.secrets.len();
        write!(formatter, "EndpointDocument {{ provider: {:?}, secrets: <{count}> }}", self.provider)
    }
}

impl EndpointDocument {
    /// Parses JSON text.
    ///
    /// # Errors
    /// [`DocumentFault`] says what does not fit. Of the text, it holds at most how a name begins, because a secret may
    /// stand anywhere in it.
    pub fn parse(text: &str) -> Result<Self, DocumentFault> {
        let read = strict::read(text.as_bytes(), ShowNames::Shortened);
        read.map_err(|unread| DocumentFault::unread(unread, "the document"))
    }
}
