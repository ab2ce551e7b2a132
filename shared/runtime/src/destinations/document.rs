//! The form of a destination, as its author writes it. `schemas/destination.json` describes it to editors.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::documents::fault::{DocumentFault, joined};
use crate::documents::strict::{self, ShowNames};

/// A destination: one address outside, its promise, its secrets and its timeouts.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationDocument {
    /// Where an editor finds the form. Nothing else reads it.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What it is.
    pub kind: DestinationKind,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name or ARN of the function. For `lambda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The one group of all messages. For `sqs`, and a FIFO queue; without it, each event is a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_group: Option<String>,
    /// Whose account the secrets are of, if one address serves several. A key means nothing to another account. Another
    /// secret of the same account must not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassName>,
    /// How long the callee remembers a key. For `keyed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_window_hours: Option<u32>,
    /// Where the callee promises it. For `keyed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_source_url: Option<String>,
    /// The header that carries the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// The place in a JSON payload that carries the key, as a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_json_pointer: Option<String>,
    /// Headers of every call, credentials among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The type of the content, in place of what the effect says: for a callee that takes forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The secret of a signature by the Standard Webhooks specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_webhooks_secret: Option<String>,
    /// How long one call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// How many calls one process may have under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<u16>,
    /// How long after its commit an effect is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up_after_hours: Option<u16>,
    /// Statuses that say that a call with this key was done before. For `keyed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_statuses: Option<Vec<u16>>,
    /// Statuses that say that another try may help, and leave open whether it was done. Every 5xx that
    /// `not_done_statuses` does not list is such a status anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_statuses: Option<Vec<u16>>,
    /// Statuses that say that it was not done, and that another try may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_done_statuses: Option<Vec<u16>>,
    /// What a 2xx answer must say to count as done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_json: Option<SuccessDocument>,
    /// Whether the address may be a private one, and the URL plain `http`.
    #[serde(default)]
    pub allow_private: bool,
}

/// What a destination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationKind {
    /// A URL that is called.
    Http,
    /// A queue of SQS that gets a message.
    Sqs,
    /// A Lambda function that is invoked asynchronously.
    Lambda,
}

impl DestinationKind {
    /// All kinds.
    pub const ALL: &[Self] = &[Self::Http, Self::Sqs, Self::Lambda];

    /// The word of a document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sqs => "sqs",
            Self::Lambda => "lambda",
        }
    }
}

/// The name of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassName {
    /// Once, because the callee honours a key.
    Keyed,
    /// Never twice.
    AtMostOnce,
    /// At least once.
    AtLeastOnce,
}

impl ClassName {
    /// All promises, the strongest first.
    pub const ALL: &[Self] = &[Self::Keyed, Self::AtMostOnce, Self::AtLeastOnce];

    /// The word of a document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::AtMostOnce => "at_most_once",
            Self::AtLeastOnce => "at_least_once",
        }
    }
}

/// What the JSON of a 2xx answer must say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuccessDocument {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What is there.
    pub equals: Value,
}

/// Shows nothing that may be a secret. The address of some services is one.
impl fmt::Debug for DestinationDocument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DestinationDocument {{ kind: {:?}, class: {:?} }}", self.kind, self.class)
    }
}

/// A destination document that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.faults))]
pub struct DestinationError {
    /// The faults.
    pub faults: Vec<DocumentFault>,
}

impl DestinationDocument {
    /// Parses JSON text.
    ///
    /// # Errors
    /// [`DestinationError`] says what does not fit. Of the text, it holds at most how a name begins, because a secret
    /// may stand anywhere in it.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let read = strict::read(text.as_bytes(), ShowNames::Shortened);
        read.map_err(|unread| DestinationError { faults: vec![DocumentFault::unread(unread, "the document")] })
    }
}
