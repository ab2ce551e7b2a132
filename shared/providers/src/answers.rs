//! The answers that each provider expects.

use serde::{Deserialize, Serialize};

use crate::limits::RETRY_AFTER_SECONDS_MAX;
use crate::source::Source;

/// The answers of an endpoint to its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answers {
    /// A delivery was stored.
    pub accepted: ProviderAnswer,
    /// A delivery had been stored before; for the provider this is success, too.
    pub duplicate: ProviderAnswer,
    /// Asks the provider to retry.
    pub retry_please: RetryPlease,
    /// Other answers for deliveries that hold a value. The first that fits counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<Instead>,
}

/// The answer to deliveries of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instead {
    /// What they hold, such as `json:$.token`.
    pub present: String,
    /// The answer, whether or not the delivery had been stored before.
    pub answer: ProviderAnswer,
}

/// The answer that asks a provider to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPlease {
    /// The status: 503 nearly everywhere, 409 at Zendesk.
    pub status: u16,
    /// The value of `Retry-After`, in seconds.
    pub after_seconds: u32,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderAnswer {
    /// A 2xx status.
    pub status: u16,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerBody {
    /// The small JSON document that the webhook function writes, with the status of the delivery and its id.
    Report,
    /// No body: the provider would read one as a command, or expects none.
    Empty,
    /// A fixed text, as `text/plain`.
    Text(String),
    /// A fixed document, as `text/xml`.
    Xml(String),
}

/// Short, because failures on this side are usually over soon.
impl Default for RetryPlease {
    fn default() -> Self {
        Self { status: 503, after_seconds: 5 }
    }
}

impl Default for ProviderAnswer {
    fn default() -> Self {
        Self { status: 200, body: AnswerBody::Report }
    }
}

impl Answers {
    /// Checks that every answer's status means what the answer's name says.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let instead = self.instead.iter().map(|instead| ("answers.instead", &instead.answer));
        let usual = [("answers.accepted", &self.accepted), ("answers.duplicate", &self.duplicate)];
        for (field, answer) in usual.into_iter().chain(instead) {
            if !(200..300).contains(&answer.status) {
                return Err((field, format!("the status {} is not a success", answer.status)));
            }
            if answer.status == 204 && answer.body != AnswerBody::Empty {
                return Err((field, "the status 204 has no body; write `body = \"empty\"`".to_owned()));
            }
        }
        for instead in &self.instead {
            let place = Source::parse(&instead.present).map_err(|problem| ("answers.instead", problem))?;
            if !place.is_of_body() {
                return Err(("answers.instead", format!("`{place}` is not of the body")));
            }
        }
        let RetryPlease { status, after_seconds } = self.retry_please;
        // 410 makes some providers unsubscribe the endpoint permanently.
        if !(400..600).contains(&status) || status == 410 {
            return Err(("answers.retry_please", format!("the status {status} does not ask for a retry")));
        }
        if !(1..=RETRY_AFTER_SECONDS_MAX).contains(&after_seconds) {
            let problem = format!("`after_seconds` must be 1 to {RETRY_AFTER_SECONDS_MAX}, not {after_seconds}");
            return Err(("answers.retry_please", problem));
        }
        Ok(())
    }
}
