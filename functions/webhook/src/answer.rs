//! What the caller hears: fixed codes, and never a detail that helps a forger.

use hookonce_protocol::ingress::Answer;
use hookonce_protocol::key::RecordKey;
use hookonce_providers::{AnswerBody, Answers, HandshakeAnswer, Refusal, RetryPlease};
use serde_json::json;

use crate::gateway::Outbound;

/// A request that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// Not an HTTP request of ours, or a body that cannot be decoded.
    Malformed,
    /// No such endpoint, or no such path.
    UnknownEndpoint,
    /// Called from outside the endpoint's networks.
    SourceNotAllowed,
    /// Larger than the endpoint, or one stored item, takes.
    BodyTooLarge,
    /// The provider's scheme refuses it, with the status that this provider wants to see.
    Refused(Refusal, u16),
    /// The endpoint lacks a setting that the provider's scheme needs.
    NotConfigured(RetryPlease),
    /// The store cannot confirm the delivery.
    StoreUnavailable(RetryPlease),
    /// The endpoint's document cannot be had.
    EndpointUnavailable,
    /// A certificate or public key of the provider cannot be had.
    MaterialUnavailable(RetryPlease),
}

impl Denial {
    /// The status and the fixed code.
    pub const fn parts(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "malformed"),
            Self::UnknownEndpoint => (404, "unknown_endpoint"),
            Self::SourceNotAllowed => (403, "source_not_allowed"),
            Self::BodyTooLarge => (413, "body_too_large"),
            Self::Refused(refusal, status) => (status, refusal.code()),
            Self::NotConfigured(retry) => (retry.status, Refusal::NotConfigured.code()),
            Self::StoreUnavailable(retry) => (retry.status, "store_unavailable"),
            Self::EndpointUnavailable => (503, "endpoint_unavailable"),
            Self::MaterialUnavailable(retry) => (retry.status, "material_unavailable"),
        }
    }

    /// Refused by the provider's scheme. A refused signature takes the status that the provider's file names for it, and
    /// an endpoint that lacks a setting asks for a retry as this provider understands it.
    pub fn refused(refusal: Refusal, answers: &Answers) -> Self {
        match (refusal, refusal.status()) {
            (Refusal::NotConfigured, _) => Self::NotConfigured(answers.retry_please),
            (_, 401) => Self::Refused(refusal, answers.refused),
            (_, status) => Self::Refused(refusal, status),
        }
    }

    /// How the provider is asked to come again, where the same request may succeed later.
    pub fn retry(self) -> Option<RetryPlease> {
        match self {
            Self::NotConfigured(retry) | Self::StoreUnavailable(retry) | Self::MaterialUnavailable(retry) => {
                Some(retry)
            }
            // Which provider calls is not known without the endpoint's document.
            Self::EndpointUnavailable => Some(RetryPlease::default()),
            Self::Malformed
            | Self::UnknownEndpoint
            | Self::SourceNotAllowed
            | Self::BodyTooLarge
            | Self::Refused(..) => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        self.retry().is_some()
    }

    /// As an answer.
    pub fn outbound(self) -> Outbound {
        let (status, code) = self.parts();
        let outbound = Outbound::json(status, &json!({ "error": code }));
        match self.retry() {
            Some(retry) => outbound.header("retry-after", retry.after_seconds.to_string()),
            None => outbound,
        }
    }
}

/// The answer to a delivery, in the form that its provider wants.
pub fn delivered(answer: Answer, key: &RecordKey, answers: &Answers) -> Outbound {
    let (wanted, status) = match answer {
        Answer::Accepted(_) => (&answers.accepted, "accepted"),
        Answer::Duplicate(_) => (&answers.duplicate, "duplicate"),
        Answer::RetryPlease => return Denial::StoreUnavailable(answers.retry_please).outbound(),
    };
    report(wanted, status, key.parts().1)
}

/// A success in the form that its provider wants.
pub fn report(wanted: &hookonce_providers::Answer, status: &str, id: &str) -> Outbound {
    match &wanted.body {
        AnswerBody::Report => Outbound::json(wanted.status, &json!({ "status": status, "id": id })),
        AnswerBody::Empty => Outbound::empty(wanted.status),
        AnswerBody::Text(text) => Outbound::new(wanted.status, "text/plain", text.clone().into_bytes()),
    }
}

/// The answer to a handshake.
pub fn handshake(answer: HandshakeAnswer) -> Outbound {
    let outbound = Outbound::new(answer.status, &answer.content_type, answer.body);
    answer.headers.into_iter().fold(outbound, |outbound, (name, value)| outbound.header(&name, value))
}
