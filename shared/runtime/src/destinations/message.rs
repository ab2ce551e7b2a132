//! What a hand-over sends: a message of a queue, or the event of a function.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::destination::OutboundCall;
use hookonce_protocol::effect::Method;
use hookonce_protocol::key::hex;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::hand_over::QueueTarget;
use super::request::{Unsendable, hops, visible};
use crate::config::MESSAGE_BYTES_MAX;
use crate::inbox::body;

/// A message of a queue. SQS would replace or refuse characters that XML does not allow, so such a payload is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedMessage {
    /// The payload, as it is.
    pub body: String,
    /// Names and texts.
    pub attributes: Vec<(&'static str, String)>,
    /// The group and the deduplication id, for a FIFO queue.
    pub fifo: Option<(String, String)>,
}

/// The message of a delivery.
///
/// # Errors
/// A word for what makes it impossible to send.
pub fn queue_message(queue: &QueueTarget, delivery: &OutboundCall) -> Result<HandedMessage, Unsendable> {
    let payload = payload(delivery)?;
    let body = String::from_utf8(payload).ok().filter(|text| !text.is_empty() && text.chars().all(is_legal));
    let body = body.ok_or("payload_is_no_text_of_a_queue")?;
    let content_type =
        Some(delivery.content_type.clone()).filter(|text| text.chars().all(is_legal)).ok_or("content_type")?;
    let key = delivery.idempotency_key.clone();
    let attributes = [
        ("hookonce-key", key.clone()),
        ("hookonce-event", visible(delivery.event.as_str())),
        ("hookonce-hops", hops(delivery)?.to_string()),
        ("content-type", content_type),
    ];
    let attributes: Vec<_> = attributes.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let of_attributes = attributes.iter().map(|(name, text)| name.len() + "String".len() + text.len());
    if body.len() + of_attributes.sum::<usize>() > MESSAGE_BYTES_MAX {
        return Err("payload_is_too_large_for_a_queue");
    }
    let of_event = || hex(&Sha256::digest(delivery.event.as_str()).into());
    let fifo = queue.fifo.then(|| (queue.group.clone().unwrap_or_else(of_event), key));
    Ok(HandedMessage { body, attributes, fifo })
}

/// The event of a function.
#[derive(Debug, Serialize)]
struct FunctionEvent<'a> {
    key: &'a str,
    event: &'a str,
    hops: u8,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// The event of a delivery, as JSON: with its payload if that is JSON, else with the payload's bytes.
///
/// # Errors
/// A word for what makes it impossible to send.
pub fn function_event(delivery: &OutboundCall) -> Result<Vec<u8>, Unsendable> {
    let payload = payload(delivery)?;
    let json = serde_json::from_slice::<&RawValue>(&payload).ok();
    let event = FunctionEvent {
        key: &delivery.idempotency_key,
        event: delivery.event.as_str(),
        hops: hops(delivery)?,
        content_type: &delivery.content_type,
        payload: json,
        payload_base64: json.is_none().then(|| STANDARD.encode(&payload)),
    };
    serde_json::to_vec(&event).map_err(|_| "payload")
}

/// The payload. An effect with a method or a path of its own is meant for a URL.
fn payload(delivery: &OutboundCall) -> Result<Vec<u8>, Unsendable> {
    if delivery.method != Method::Post || !delivery.path.is_empty() {
        return Err("only_a_url_has_a_method_and_a_path");
    }
    body::decompress(&delivery.body).map_err(|_| "payload")
}

/// Whether SQS takes this character.
fn is_legal(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}
