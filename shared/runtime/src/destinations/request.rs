//! The request that one call makes. Every repeat of a call has the same method, path and payload, and the same key.

use hookonce_protocol::destination::OutboundCall;
use hookonce_protocol::effect::check_path;
use hookonce_protocol::time::EpochMs;
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::HOPS_MAX;
use super::checked::{HttpTarget, KeyPlace};
use crate::inbox::body;

/// Why there is nothing to send, as a fixed word for logs. No later try changes it.
pub type Unsendable = &'static str;

/// The request of a delivery.
pub(super) fn request(
    target: &HttpTarget,
    delivery: &OutboundCall,
    now: EpochMs,
) -> Result<Request<Full<Bytes>>, Unsendable> {
    let payload = payload(target, delivery)?;
    let mut request = Request::builder().method(delivery.method.as_str()).uri(uri(target, &delivery.path)?);
    let headers = request.headers_mut().ok_or("request")?;
    headers.extend(target.headers.iter().cloned());
    let mut set = |name: HeaderName, text: &str, unsendable: Unsendable| {
        headers.insert(name, HeaderValue::from_str(text).map_err(|_| unsendable)?);
        Ok::<_, Unsendable>(())
    };
    let key = &delivery.idempotency_key;
    set(HOST, target.authority.as_str(), "host")?;
    if target.content_type.is_none() && !delivery.content_type.is_empty() {
        set(CONTENT_TYPE, &delivery.content_type, "content_type")?;
    }
    set(HeaderName::from_static("hookonce-key"), key, "key")?;
    set(HeaderName::from_static("hookonce-event"), &visible(delivery.event.as_str()), "event")?;
    set(HeaderName::from_static("hookonce-hops"), &hops(delivery)?.to_string(), "hops")?;
    if let Some(KeyPlace::Header(name)) = &target.key {
        set(name.clone(), key, "key")?;
    }
    if let Some(secret) = &target.secret {
        let timestamp = now.as_seconds();
        set(HeaderName::from_static("webhook-id"), key, "key")?;
        set(HeaderName::from_static("webhook-timestamp"), &timestamp.0.to_string(), "timestamp")?;
        set(HeaderName::from_static("webhook-signature"), &secret.sign(key, timestamp, &payload), "signature")?;
    }
    if let Some(content_type) = &target.content_type {
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static("hookonce"));
    }
    request.body(Full::new(Bytes::from(payload))).map_err(|_| "request")
}

/// The hops of an event that this effect causes.
pub(super) fn hops(delivery: &OutboundCall) -> Result<u8, Unsendable> {
    let hops = delivery.hops.saturating_add(1);
    if hops > HOPS_MAX { Err("too_many_hops") } else { Ok(hops) }
}

/// The address: the document's, and the effect's path below it.
fn uri(target: &HttpTarget, path: &str) -> Result<Uri, Unsendable> {
    check_path(path).map_err(|_| "path")?;
    let address = target.path.as_str();
    let folder = if path.is_empty() { address } else { address.trim_end_matches('/') };
    let text = match &target.query {
        Some(_) if path.contains('?') => return Err("path"),
        Some(query) => format!("{folder}{path}?{query}"),
        None => format!("{folder}{path}"),
    };
    text.parse::<PathAndQuery>().map(Uri::from).map_err(|_| "path")
}

fn payload(target: &HttpTarget, delivery: &OutboundCall) -> Result<Vec<u8>, Unsendable> {
    let payload = body::decompress(&delivery.body).map_err(|_| "payload")?;
    match &target.key {
        Some(KeyPlace::Json(steps)) => {
            let text = std::str::from_utf8(&payload).map_err(|_| "payload_is_no_json_object")?;
            let key = serde_json::to_string(&delivery.idempotency_key).map_err(|_| "key")?;
            with_key(text, steps, &key).map(String::into_bytes).ok_or("payload_is_no_json_object")
        }
        Some(KeyPlace::Header(_)) | None => Ok(payload),
    }
}

/// The text of a header: what is not visible ASCII is percent-encoded.
pub(super) fn visible(text: &str) -> String {
    let letter = |byte: u8| if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(letter).collect()
}

/// A JSON object with the key at this place, where anything else that was there is replaced. All other values keep
/// their bytes: a number with many digits stays what it is. `None` if an object on the way is something else.
fn with_key(object: &str, steps: &[String], key: &str) -> Option<String> {
    let (step, rest) = steps.split_first()?;
    let fields = serde_json::Deserializer::from_str(object).deserialize_map(Fields).ok()?;
    // Nothing may follow the object.
    serde_json::from_str::<&RawValue>(object).ok()?;
    let value = if rest.is_empty() {
        key.to_owned()
    } else {
        let inner = fields.iter().rev().find(|(name, _)| name == step).map_or("{}", |(_, value)| value.get());
        with_key(inner, rest, key)?
    };
    let mut text = String::from("{");
    for (name, other) in fields.iter().filter(|(name, _)| name != step) {
        text.push_str(&serde_json::to_string(name).ok()?);
        text.push(':');
        text.push_str(other.get());
        text.push(',');
    }
    text.push_str(&serde_json::to_string(step).ok()?);
    text.push(':');
    text.push_str(&value);
    text.push('}');
    Some(text)
}

/// Reads the fields of an object in their order, their values as text.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_nothing_else_of_a_payload() {
        let set = |object: &str, steps: &[&str]| {
            with_key(object, &steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>(), "\"k\"")
        };
        for (object, steps, expected) in [
            ("{}", &["a"][..], Some(r#"{"a":"k"}"#)),
            (r#"{"b": 12345678901234567890.10, "a": 1}"#, &["a"], Some(r#"{"b":12345678901234567890.10,"a":"k"}"#)),
            (r#"{"a": {"c": "\u00e9"}}"#, &["a", "b"], Some(r#"{"a":{"c":"\u00e9","b":"k"}}"#)),
            (r#"{"z": [1, 2]}"#, &["a", "b"], Some(r#"{"z":[1, 2],"a":{"b":"k"}}"#)),
            (r#"{"a": 1, "a": 2}"#, &["a"], Some(r#"{"a":"k"}"#)),
            (r#"{"a": 1}"#, &["a", "b"], None),
            ("[1]", &["a"], None),
            ("\"a\"", &["a"], None),
            ("{} x", &["a"], None),
            ("a=b", &["a"], None),
            ("", &["a"], None),
        ] {
            assert_eq!(set(object, steps).as_deref(), expected, "{object}");
        }
    }

    #[test]
    fn a_header_holds_visible_ascii() {
        assert_eq!(visible("a#b\r\né "), "a#b%0D%0A%C3%A9%20");
    }
}
