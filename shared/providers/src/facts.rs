//! Facts about a provider for operators, with sources.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a catalog file says to people. It does not affect how a request is checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) facts: Facts,
    /// What each setting is and where to find it, by its name.
    #[serde(skip)]
    pub(crate) settings: BTreeMap<String, String>,
    /// The whole file as it is written, except for `answers`, which have defaults.
    #[serde(skip)]
    pub(crate) written: toml::Table,
}

/// Facts about a provider's behaviour. Where a text says "unconfirmed", no source confirmed it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Whether the dedup key stays the same when the provider retries by itself.
    pub key_on_retry: String,
    /// Whether it stays the same when a person sends the delivery again.
    pub key_on_redelivery: String,
    /// How often and how long the provider retries.
    pub retries: String,
    /// The longest time after the event until the provider's last retry, in hours, if known.
    #[serde(default)]
    pub retry_hours_max: Option<u32>,
    /// How long the provider waits for an answer.
    pub deadline: String,
    /// The same in seconds, if known.
    #[serde(default)]
    pub deadline_seconds: Option<u32>,
    /// Whether one delivery can hold several events.
    pub batching: String,
    /// Whether a retry may group events differently.
    pub regrouping: String,
    /// The largest delivery.
    pub size: String,
    /// The form in which the secret is handed out.
    pub secret: String,
    /// The prefix of the provider's secrets, whether or not it is part of the key.
    #[serde(default)]
    pub secret_prefix: Option<String>,
    /// What changes in the requests while the secret is rotated.
    pub rotation: String,
    /// The official code that verifies or signs.
    pub sdk: String,
    /// Other surprises.
    #[serde(default)]
    pub notes: String,
    /// The day on which the sources were read, as YYYY-MM-DD.
    pub checked: String,
    /// Where the facts come from.
    pub sources: Vec<FactSource>,
}

/// Where a fact comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactSource {
    /// How close to the provider the source is.
    pub kind: SourceKind,
    /// A URL, or a package with its version.
    pub at: String,
}

/// How close to the provider a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The provider's own text or code.
    Official,
    /// A stored excerpt of an official page.
    OfficialExcerpt,
    /// The source code of an SDK, read and run.
    SdkSource,
    /// Someone else quoting the provider.
    Secondary,
}

impl Facts {
    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.sources.is_empty() {
            return Err(("facts.sources", "facts need a source; name at least one".to_owned()));
        }
        let date = self.checked.as_bytes();
        let dated = date.len() == 10
            && date
                .iter()
                .enumerate()
                .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() });
        if dated { Ok(()) } else { Err(("facts.checked", format!("`{}` is not a date as YYYY-MM-DD", self.checked))) }
    }
}
