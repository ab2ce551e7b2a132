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
    /// Whether a retry has another signed time than the first try.
    pub time_on_retry: TimeOnRetry,
    /// Where the limit of the signed time's age comes from, if it is not the one that follows from `time_on_retry`.
    #[serde(default)]
    pub time_limit_from: Option<String>,
    /// How long the provider waits for an answer.
    pub deadline: String,
    /// The same in seconds, if known.
    #[serde(default)]
    pub deadline_seconds: Option<u32>,
    /// What the provider reads of an answer.
    pub reads_answer: ReadsAnswer,
    /// The page or code that says so, or "unconfirmed": no source says that it reads more than the status.
    pub reads_answer_source: String,
    /// Whether one delivery can hold several events.
    pub batching: String,
    /// Whether a retry may group events differently.
    pub regrouping: String,
    /// The largest delivery.
    pub size: String,
    /// The form in which the secret is handed out.
    pub secret: String,
    /// Who makes the secret.
    pub secret_from: SecretFrom,
    /// The prefix of the provider's secrets, whether or not it is part of the key. One that the provider issues always
    /// has it.
    #[serde(default)]
    pub secret_prefix: Option<String>,
    /// The fewest characters of a secret that the provider takes or issues, if it says so.
    #[serde(default)]
    pub secret_chars_min: Option<usize>,
    /// The most characters, likewise.
    #[serde(default)]
    pub secret_chars_max: Option<usize>,
    /// For what the secret counts.
    pub secret_scope: SecretScope,
    /// Whether an app at this provider has a secret of another scope, which is the same for all its customers.
    #[serde(default)]
    pub apps_share: bool,
    /// What else the secret is.
    pub secret_is: SecretKind,
    /// Where these two come from, or "unconfirmed".
    pub secret_source: String,
    /// Where a person registers an endpoint's address, or "unconfirmed".
    pub register_at: String,
    /// The page that says so, or "unconfirmed".
    pub register_source: String,
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

/// What the signed time of a retry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeOnRetry {
    /// That of this try, so only clocks that differ make it old.
    New,
    /// That of the first try, so it is as old as the last retry is late.
    Same,
    /// No source says.
    Unknown,
    /// No time is signed.
    None,
}

/// Who makes the secret that signs a provider's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFrom {
    /// The provider alone: it signs with no other one, so nobody else can make it.
    Provider,
    /// The person who sets up the endpoint: the provider signs with whatever it is given.
    You,
    /// Either of them: the provider makes one unless it is given one.
    Either,
    /// Nobody: the provider's keys are fetched.
    Nobody,
}

/// What a provider reads of an answer to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadsAnswer {
    /// The status alone, as far as its sources say.
    Status,
    /// Headers, too, such as `Retry-After`.
    Headers,
    /// The body, too: as a command, as a text for its user, or in a format that it demands.
    Body,
}

/// For what a provider's secret counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretScope {
    /// One endpoint at the provider.
    Endpoint,
    /// An account, with all its endpoints.
    Account,
    /// An app, with all its customers: whoever holds it can sign for each of them.
    App,
    /// There is none.
    None,
}

/// What a provider's secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretKind {
    /// It only signs webhooks.
    WebhookOnly,
    /// It also opens the provider's API, or gets tokens for it.
    ApiCredential,
    /// There is none.
    None,
}

/// In place of a fact and of its source.
pub(crate) const UNCONFIRMED: &str = "unconfirmed";

/// Whether a source can be looked up.
fn is_address(source: &str) -> bool {
    ["https://", "github:"].iter().any(|start| source.contains(start))
}

/// `endpoint add` prints it in a line.
const REGISTER_AT_BYTES_MAX: usize = 100;

/// What an operator should know who stores an app's secret.
const OF_APP: &str = "this secret is the app's: whoever holds it can sign for every customer; a delivery for one customer \
                      passes at every endpoint with it, so let routes compare the account in the body (docs/use/routes.md)";

/// The same of a public key.
const KEY_OF_APP: &str = "this key is the app's: a delivery for one customer passes at every endpoint with it, so let routes \
                          compare the account in the body (docs/use/routes.md)";

/// The same of a secret that may be an app's.
const IF_OF_APP: &str = "if it is the secret of an app, it is the same for all customers of that app: a delivery for one of \
                         them passes at every endpoint with it, so let routes compare the account in the body \
                         (docs/use/routes.md)";

/// What an operator should know who stores a token that stands in every request.
const UNSIGNED: &str = "nothing is signed: who has the token can send anything";

/// What an operator should know who stores a credential.
const OF_API: &str = "this secret is a credential of the provider's API, too: whoever reads the endpoint's document can act \
                      in your name there";

/// Why a text cannot be a secret of a provider. It never holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretFormError {
    /// The provider's secrets begin otherwise, so it is something else, such as an API key.
    #[error("a secret of this provider begins with `{prefix}`, and this one does not: it may be an API key")]
    Prefix {
        /// How they begin.
        prefix: String,
    },
    /// It is shorter or longer than the provider's secrets.
    #[error("a secret of this provider has {expected} characters, and this one has {chars}")]
    Length {
        /// How many characters it has.
        chars: usize,
        /// How many it must have, in words.
        expected: String,
    },
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
    /// Checks that a secret has the form of those that this provider issues or takes. Whether a scheme can use it is a
    /// question for [`Provider::keyring`](crate::Provider::keyring).
    ///
    /// # Errors
    /// [`SecretFormError`] when it begins otherwise, or is too short or too long.
    pub fn check_secret(&self, secret: &str) -> Result<(), SecretFormError> {
        let prefix = self.secret_prefix.as_ref().filter(|_| self.secret_from == SecretFrom::Provider);
        if let Some(prefix) = prefix.filter(|prefix| !secret.starts_with(prefix.as_str())) {
            return Err(SecretFormError::Prefix { prefix: prefix.clone() });
        }
        let chars = secret.chars().count();
        let (fewest, most) = (self.secret_chars_min, self.secret_chars_max);
        if fewest.is_none_or(|fewest| fewest <= chars) && most.is_none_or(|most| chars <= most) {
            return Ok(());
        }
        let expected = match (fewest, most) {
            (Some(fewest), Some(most)) if fewest == most => most.to_string(),
            (Some(fewest), Some(most)) => format!("{fewest} to {most}"),
            (None, Some(most)) => format!("at most {most}"),
            (fewest, None) => format!("at least {}", fewest.unwrap_or_default()),
        };
        Err(SecretFormError::Length { chars, expected })
    }

    /// Where a person registers an endpoint's address, if it is known.
    pub fn registered_at(&self) -> Option<&str> {
        (self.register_at != UNCONFIRMED).then_some(&self.register_at)
    }

    /// What a person should know who stores the secret, each as a sentence without its end.
    pub(crate) fn secret_warnings(&self, is_public_key: bool, is_token: bool) -> Vec<&'static str> {
        let token = is_token.then_some(UNSIGNED);
        let app = (self.secret_scope == SecretScope::App).then_some(if is_public_key { KEY_OF_APP } else { OF_APP });
        let perhaps_app = self.apps_share.then_some(IF_OF_APP);
        let api = (self.secret_is == SecretKind::ApiCredential).then_some(OF_API);
        token.into_iter().chain(app).chain(perhaps_app).chain(api).collect()
    }

    /// Checks that the provider says itself what it reads of an answer: where it reads more than the status, or gets
    /// another answer than most.
    pub(crate) fn check_answer_source(&self) -> Result<(), String> {
        if is_address(&self.reads_answer_source) && !self.reads_answer_source.starts_with(UNCONFIRMED) {
            return Ok(());
        }
        Err("name the provider's page that says so: only the usual answers may be unconfirmed".to_owned())
    }

    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.sources.is_empty() {
            return Err(("facts.sources", "facts need a source; name at least one".to_owned()));
        }
        if self.sources.iter().all(|source| source.kind == SourceKind::Secondary) {
            return Err(("facts.sources", "name a page or an SDK of the provider, too".to_owned()));
        }
        if self.retries.contains("Retry-After") && self.reads_answer == ReadsAnswer::Status {
            return Err(("facts.reads_answer", "`Retry-After` is a header: write `headers` or `body`".to_owned()));
        }
        if self.reads_answer != ReadsAnswer::Status {
            self.check_answer_source().map_err(|problem| ("facts.reads_answer_source", problem))?;
        }
        if self.apps_share && self.secret_scope == SecretScope::App {
            return Err(("facts.apps_share", "leave it out where every secret is an app's".to_owned()));
        }
        let fewest = self.secret_chars_min.unwrap_or(0);
        if self.secret_chars_max.is_some_and(|most| most < fewest) {
            return Err(("facts.secret_chars_max", "it is less than `secret_chars_min`".to_owned()));
        }
        if self.secret_prefix.as_ref().is_some_and(String::is_empty) {
            return Err(("facts.secret_prefix", "leave it out where secrets have none".to_owned()));
        }
        let is_missing = |none: bool| none != (self.secret_from == SecretFrom::Nobody);
        if is_missing(self.secret_scope == SecretScope::None) {
            return Err(("facts.secret_scope", "`none` and `secret_from = \"nobody\"` go together".to_owned()));
        }
        if is_missing(self.secret_is == SecretKind::None) {
            return Err(("facts.secret_is", "`none` and `secret_from = \"nobody\"` go together".to_owned()));
        }
        for (fact, source) in [
            ("facts.secret_source", &self.secret_source),
            ("facts.register_source", &self.register_source),
            ("facts.reads_answer_source", &self.reads_answer_source),
        ] {
            if !is_address(source) && !source.contains(UNCONFIRMED) {
                return Err((fact, "name a source, or write \"unconfirmed\"".to_owned()));
            }
        }
        if self.register_at.is_empty() || self.register_at.len() > REGISTER_AT_BYTES_MAX {
            return Err(("facts.register_at", format!("say it in 1 to {REGISTER_AT_BYTES_MAX} bytes")));
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
