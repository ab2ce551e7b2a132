//! Gateway events: HTTP requests as API Gateway and Function URLs hand them to a function, and the answers they take.
//!
//! Three forms arrive: payload 2.0 (HTTP API and Function URL) and payload 1.0 (REST API). They are read here, field by
//! field, because the conversion that `lambda_http` brings panics on malformed base64 and on an unusual path, and a
//! caller chooses both.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An HTTP request as the function sees it. Nothing about it is believed yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The method, in upper case.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query without its question mark, empty if there is none.
    pub query: String,
    /// The domain name that the gateway was called by, as the gateway says.
    pub domain: Option<String>,
    /// Header names and values; a name may come several times.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The caller's address, as the gateway says.
    pub source: Option<IpAddr>,
    /// The gateway's id of the request.
    pub request_id: String,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Inbound {{ method: {:?}, body: <{} bytes> }}", self.method, self.body.len())
    }
}

/// A gateway event that is not an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Not one of the known forms.
    #[error("the event is not an HTTP API, REST API or Function URL request")]
    NotARequest,
    /// The body is said to be base64 and is not.
    #[error("the event's body is not valid base64")]
    BodyEncoding,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PayloadV2 {
    // What is absent is left out by AWS and null under an emulator.
    raw_path: String,
    raw_query_string: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    cookies: Option<Vec<String>>,
    request_context: ContextV2,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextV2 {
    http: HttpV2,
    domain_name: Option<String>,
    request_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpV2 {
    method: String,
    source_ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PayloadV1 {
    http_method: String,
    path: String,
    headers: Option<BTreeMap<String, String>>,
    multi_value_headers: Option<BTreeMap<String, Vec<String>>>,
    query_string_parameters: Option<BTreeMap<String, String>>,
    multi_value_query_string_parameters: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    request_context: ContextV1,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContextV1 {
    domain_name: Option<String>,
    request_id: String,
    identity: IdentityV1,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IdentityV1 {
    source_ip: Option<String>,
}

impl Inbound {
    /// Reads a gateway event of any known form.
    ///
    /// # Errors
    /// [`GatewayError`] when it is not an HTTP request, or its body cannot be decoded.
    pub fn read(event: Value) -> Result<Self, GatewayError> {
        if is_payload_v2(&event) {
            serde_json::from_value::<PayloadV2>(event).map_err(|_| GatewayError::NotARequest)?.into_inbound()
        } else {
            serde_json::from_value::<PayloadV1>(event).map_err(|_| GatewayError::NotARequest)?.into_inbound()
        }
    }
}

impl PayloadV2 {
    fn into_inbound(self) -> Result<Inbound, GatewayError> {
        let headers = self.headers.unwrap_or_default().into_iter();
        let mut headers: Vec<_> = headers.map(|(name, value)| (name, value.into_bytes())).collect();
        let cookies = self.cookies.unwrap_or_default();
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ").into_bytes()));
        }
        Ok(Inbound {
            method: self.request_context.http.method.to_ascii_uppercase(),
            path: self.raw_path,
            query: self.raw_query_string.unwrap_or_default(),
            domain: self.request_context.domain_name,
            headers,
            body: decode_body(self.body, self.is_base64_encoded)?,
            source: self.request_context.http.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: self.request_context.request_id.unwrap_or_default(),
        })
    }
}

impl PayloadV1 {
    fn into_inbound(self) -> Result<Inbound, GatewayError> {
        let headers = match (self.multi_value_headers, self.headers) {
            (Some(headers), _) if !headers.is_empty() => pairs(headers),
            (_, headers) => headers.unwrap_or_default().into_iter().collect(),
        };
        // The gateway hands the query over decoded, so it is encoded again.
        let parameters = match (self.multi_value_query_string_parameters, self.query_string_parameters) {
            (Some(parameters), _) if !parameters.is_empty() => pairs(parameters),
            (_, parameters) => parameters.unwrap_or_default().into_iter().collect(),
        };
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        Ok(Inbound {
            method: self.http_method.to_ascii_uppercase(),
            path: self.path,
            query,
            domain: self.request_context.domain_name,
            headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
            body: decode_body(self.body, self.is_base64_encoded)?,
            source: self.request_context.identity.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: self.request_context.request_id,
        })
    }
}

fn pairs(map: BTreeMap<String, Vec<String>>) -> Vec<(String, String)> {
    map.into_iter().flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value))).collect()
}

fn decode_body(body: Option<String>, is_base64: bool) -> Result<Vec<u8>, GatewayError> {
    match (body, is_base64) {
        (None, _) => Ok(Vec::new()),
        (Some(body), false) => Ok(body.into_bytes()),
        (Some(body), true) => STANDARD.decode(body).map_err(|_| GatewayError::BodyEncoding),
    }
}

/// An answer in the form that all three kinds of gateway take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outbound {
    /// The status.
    pub status_code: u16,
    /// Headers, each once.
    pub headers: BTreeMap<String, String>,
    /// The body, as text or base64.
    pub body: String,
    /// Which of the two it is.
    pub is_base64_encoded: bool,
    /// Never any. Payload 2.0 has a place for them, and an emulator wants to see it; a REST API refuses a field that it
    /// does not know.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cookies: Option<[String; 0]>,
}

/// Whether an event is of payload 2.0, which HTTP APIs and Function URLs use.
pub fn is_payload_v2(event: &Value) -> bool {
    event.get("version").and_then(Value::as_str) == Some("2.0")
}

impl Outbound {
    /// An answer with a body of this type; bytes that are not text go as base64.
    pub fn new(status_code: u16, content_type: &str, body: Vec<u8>) -> Self {
        let (body, is_base64_encoded) = match String::from_utf8(body) {
            Ok(text) => (text, false),
            Err(bytes) => (STANDARD.encode(bytes.as_bytes()), true),
        };
        let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
        Self { status_code, headers, body, is_base64_encoded, cookies: None }
    }

    /// An answer with a JSON body.
    pub fn json(status_code: u16, body: &Value) -> Self {
        Self::new(status_code, "application/json", body.to_string().into_bytes())
    }

    /// An answer without a body.
    pub fn empty(status_code: u16) -> Self {
        Self { status_code, headers: BTreeMap::new(), body: String::new(), is_base64_encoded: false, cookies: None }
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }
}
