//! Responses to the caller: fixed codes, with no detail that would help a forger.

use hookonce_protocol::ingress::IngressAnswer;
use hookonce_protocol::key::RecordKey;
use hookonce_providers::{AnswerBody, HandshakeAnswer, Provider, Refusal, RetryPlease, VerifiedDelivery};
use serde_json::json;

use crate::gateway::Outbound;

/// Why a request was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The event is not an HTTP request, or its body cannot be decoded.
    Malformed,
    /// The path or the endpoint does not exist.
    UnknownEndpoint,
    /// The request did not come through the CDN in front.
    NotThroughEdge,
    /// The caller's address is outside the endpoint's networks.
    SourceNotAllowed,
    /// The body exceeds the endpoint's limit or the size of one stored item.
    BodyTooLarge,
    /// The provider's scheme refused the request.
    Refused(Refusal),
    /// The provider calls by these other methods only.
    MethodNotAllowed(&'static str),
    /// The endpoint lacks a setting that the provider's scheme needs.
    NotConfigured(RetryPlease),
    /// The store could not confirm the delivery.
    StoreUnavailable(RetryPlease),
    /// The endpoint's document could not be loaded.
    EndpointUnavailable,
    /// A certificate or public key that has verified deliveries could not be loaded again.
    MaterialUnavailable(RetryPlease),
    /// A certificate or public key that the sender names, and that never verified anything, could not be loaded.
    MaterialUnknown(RetryPlease),
}

impl Denial {
    /// The status and the fixed error code.
    pub const fn parts(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "malformed"),
            Self::UnknownEndpoint => (404, "unknown_endpoint"),
            Self::NotThroughEdge => (403, "not_through_edge"),
            Self::SourceNotAllowed => (403, "source_not_allowed"),
            Self::BodyTooLarge => (413, "body_too_large"),
            Self::Refused(refusal) => (refusal.status(), refusal.code()),
            Self::MethodNotAllowed(_) => (Refusal::MethodNotAllowed.status(), Refusal::MethodNotAllowed.code()),
            Self::NotConfigured(retry) => (retry.status, Refusal::NotConfigured.code()),
            Self::StoreUnavailable(retry) => (retry.status, "store_unavailable"),
            Self::EndpointUnavailable => (503, "endpoint_unavailable"),
            Self::MaterialUnavailable(retry) | Self::MaterialUnknown(retry) => (retry.status, "material_unavailable"),
        }
    }

    /// Turns a refusal into a denial. A missing setting asks for a retry in the form that this provider understands.
    pub fn refused(refusal: Refusal, provider: &Provider) -> Self {
        match refusal {
            Refusal::NotConfigured => Self::NotConfigured(provider.answers().retry_please),
            Refusal::MethodNotAllowed => Self::MethodNotAllowed(provider.methods()),
            refusal => Self::Refused(refusal),
        }
    }

    /// How to ask the provider to retry, if the same request may succeed later.
    pub fn retry(self) -> Option<RetryPlease> {
        match self {
            Self::NotConfigured(retry)
            | Self::StoreUnavailable(retry)
            | Self::MaterialUnavailable(retry)
            | Self::MaterialUnknown(retry) => Some(retry),
            // The provider is unknown until the endpoint's document is loaded.
            Self::EndpointUnavailable => Some(RetryPlease::default()),
            Self::Malformed
            | Self::UnknownEndpoint
            | Self::NotThroughEdge
            | Self::SourceNotAllowed
            | Self::BodyTooLarge
            | Self::MethodNotAllowed(_)
            | Self::Refused(_) => None,
        }
    }

    /// The metric that counts it. Unauthenticated callers can raise the last two, so neither pages anybody.
    pub fn metric(self) -> &'static str {
        match self {
            Self::StoreUnavailable(_) | Self::EndpointUnavailable | Self::MaterialUnavailable(_) => {
                "delivery_retry_please"
            }
            Self::NotConfigured(_) | Self::MaterialUnknown(_) => "unproven_retry_please",
            Self::Malformed
            | Self::UnknownEndpoint
            | Self::NotThroughEdge
            | Self::SourceNotAllowed
            | Self::BodyTooLarge
            | Self::MethodNotAllowed(_)
            | Self::Refused(_) => "delivery_refused",
        }
    }

    /// The HTTP response.
    pub fn outbound(self) -> Outbound {
        let (status, code) = self.parts();
        let outbound = Outbound::json(status, &json!({ "error": code }));
        match (self, self.retry()) {
            (_, Some(retry)) => outbound.header("retry-after", retry.after_seconds.to_string()),
            (Self::MethodNotAllowed(methods), None) => outbound.header("allow", methods.to_owned()),
            (_, None) => outbound,
        }
    }
}

/// The response to a delivery, in the format that its provider expects.
pub fn delivered(answer: IngressAnswer, key: &RecordKey, provider: &Provider, delivery: &VerifiedDelivery) -> Outbound {
    let [accepted, duplicate] = provider.answers_to(delivery);
    let (wanted, status) = match answer {
        IngressAnswer::Accepted(_) => (accepted, "accepted"),
        IngressAnswer::Duplicate(_) => (duplicate, "duplicate"),
        IngressAnswer::RetryPlease => return Denial::StoreUnavailable(provider.answers().retry_please).outbound(),
    };
    report(wanted, status, key.parts().1)
}

/// A success in the format that its provider expects. Where the body is the provider's, headers say what the small
/// report says, as long as the id is one that a header may hold.
pub fn report(wanted: &hookonce_providers::ProviderAnswer, status: &str, id: &str) -> Outbound {
    if wanted.body == AnswerBody::Report {
        return Outbound::json(wanted.status, &json!({ "status": status, "id": id }));
    }
    let outbound = prescribed(wanted).header(ANSWER_STATUS, status);
    if id.bytes().all(|byte| byte.is_ascii_graphic()) { outbound.header(ANSWER_ID, id) } else { outbound }
}

/// The header that says whether a delivery was stored, or had been stored before.
pub const ANSWER_STATUS: &str = "hookonce-status";

/// The header that names the record.
pub const ANSWER_ID: &str = "hookonce-id";

fn prescribed(wanted: &hookonce_providers::ProviderAnswer) -> Outbound {
    match &wanted.body {
        AnswerBody::Report | AnswerBody::Empty => Outbound::empty(wanted.status),
        AnswerBody::Text(text) => Outbound::new(wanted.status, "text/plain", text.clone().into_bytes()),
        AnswerBody::Xml(text) => Outbound::new(wanted.status, "text/xml", text.clone().into_bytes()),
    }
}

/// The response to a handshake.
pub fn handshake(answer: HandshakeAnswer) -> Outbound {
    let outbound = match answer.content_type.as_str() {
        "" => Outbound::empty(answer.status),
        content_type => Outbound::new(answer.status, content_type, answer.body),
    };
    answer.headers.into_iter().fold(outbound, |outbound, (name, value)| outbound.header(&name, value))
}
