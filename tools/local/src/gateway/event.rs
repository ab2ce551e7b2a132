//! Turns an HTTP request into the event of payload format 2.0.
//!
//! The rules come from captured events and measurements of real HTTP APIs, not from emulators, which differ in exactly
//! the points that break a signature. Each rule below says what was observed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;
use uuid::Uuid;

use crate::ambient::unix_millis;
use crate::clients::ACCOUNT;

/// The only route.
const ROUTE_KEY: &str = "ANY /{proxy+}";
/// The API in the request context.
const API: &str = "local";

/// What the gateway knows about a request besides its bytes.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Identifies the request in the event, in the answer and in the trace.
    pub request_id: Uuid,
    /// When it arrived.
    pub at: SystemTime,
    /// The address it came from.
    pub source_ip: IpAddr,
    /// The port it came to.
    pub port: u16,
}

impl Arrival {
    /// The request id in the form of HTTP APIs: short, base64, with padding.
    pub fn request_id(&self) -> String {
        let (id, _) = self.request_id.as_u64_pair();
        let bytes = id.to_be_bytes();
        format!("{}=", STANDARD.encode(bytes).trim_end_matches('='))
    }

    fn trace_id(&self) -> String {
        let seconds = unix_millis(self.at) / 1_000;
        let mut unique = self.request_id.simple().to_string();
        unique.truncate(24);
        format!("Root=1-{seconds:08x}-{unique}")
    }

    fn time(&self) -> Option<String> {
        let format = format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
        OffsetDateTime::from(self.at).format(format).ok()
    }
}

/// The path has a percent sign that does not begin an escape. AWS itself refuses such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path is not percent-encoded")]
pub struct MalformedPath;

/// Builds the event of a request.
///
/// # Errors
/// [`MalformedPath`].
pub fn http_event(request: &Parts, body: &[u8], arrival: &Arrival) -> Result<Value, MalformedPath> {
    let path = decoded_path(request.uri.path())?;
    let (headers, cookies) = headers_and_cookies(&request.headers, body.len(), arrival);
    let body = encoded_body(headers.get(header::CONTENT_TYPE.as_str()).map(String::as_str), body);
    let mut event = json!({
        "version": "2.0",
        "routeKey": ROUTE_KEY,
        "rawPath": path,
        "rawQueryString": request.uri.query().unwrap_or_default(),
        "pathParameters": { "proxy": path.trim_start_matches('/') },
        "requestContext": request_context(request, &path, &headers, arrival),
        "headers": headers,
        "isBase64Encoded": body.as_ref().is_some_and(|body| body.base64),
    });
    let mut optional = |key: &str, value: Option<Value>| {
        if let (Some(fields), Some(value)) = (event.as_object_mut(), value) {
            fields.insert(key.to_owned(), value);
        }
    };
    optional("cookies", (!cookies.is_empty()).then(|| json!(cookies)));
    optional("queryStringParameters", request.uri.query().and_then(query_parameters));
    optional("body", body.map(|body| Value::String(body.text)));
    Ok(event)
}

fn request_context(request: &Parts, path: &str, headers: &BTreeMap<String, String>, arrival: &Arrival) -> Value {
    let header = |name: HeaderName| headers.get(name.as_str()).map(String::as_str).unwrap_or_default();
    let host = header(header::HOST);
    let domain = host.rsplit_once(':').map_or(host, |(domain, _port)| domain);
    json!({
        "accountId": ACCOUNT,
        "apiId": API,
        "domainName": domain,
        "domainPrefix": domain.split('.').next().unwrap_or_default(),
        "http": {
            "method": request.method.as_str(),
            "path": path,
            "protocol": format!("{:?}", request.version),
            "sourceIp": arrival.source_ip.to_string(),
            "userAgent": header(header::USER_AGENT),
        },
        "requestId": arrival.request_id(),
        "routeKey": ROUTE_KEY,
        "stage": "$default",
        "time": arrival.time(),
        "timeEpoch": unix_millis(arrival.at),
    })
}

/// Headers of one connection, which never reach a function.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Names in lower case, duplicates joined by a comma without a space, cookies apart, the gateway's own headers added.
fn headers_and_cookies(
    headers: &HeaderMap,
    body_bytes: usize,
    arrival: &Arrival,
) -> (BTreeMap<String, String>, Vec<String>) {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    let mut cookies = Vec::new();
    for (name, value) in headers {
        let value = header_text(value);
        if *name == header::COOKIE {
            cookies.extend(value.split(';').map(|cookie| cookie.trim().to_owned()));
        } else if !HOP_BY_HOP.contains(name) {
            joined
                .entry(name.as_str().to_owned())
                .and_modify(|all| {
                    all.push(',');
                    all.push_str(&value);
                })
                .or_insert(value);
        }
    }
    joined.insert("content-length".to_owned(), body_bytes.to_string());
    joined.insert("x-amzn-trace-id".to_owned(), arrival.trace_id());
    joined.insert("x-forwarded-port".to_owned(), arrival.port.to_string());
    joined.insert("x-forwarded-proto".to_owned(), "http".to_owned());
    let forwarded = joined.remove("x-forwarded-for").map(|before| format!("{before}, ")).unwrap_or_default();
    joined.insert("x-forwarded-for".to_owned(), format!("{forwarded}{}", arrival.source_ip));
    (joined, cookies)
}

/// A header value as text. Bytes that are not UTF-8 are read as Latin-1, as HTTP says.
fn header_text(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned)
}

/// Decoded, duplicates joined by a comma; a plus sign is a space. `None` for an empty query.
fn query_parameters(query: &str) -> Option<Value> {
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        parameters
            .entry(name.into_owned())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    (!parameters.is_empty()).then(|| json!(parameters))
}

/// A body as the event carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EncodedBody {
    text: String,
    base64: bool,
}

/// A body is plain text only under the four kinds of content type below, and base64 under every other type, even for a
/// form or without a type (measured). What AWS does under those four with bytes that are not UTF-8 is not known; base64
/// keeps the bytes.
fn encoded_body(content_type: Option<&str>, body: &[u8]) -> Option<EncodedBody> {
    if body.is_empty() {
        return None;
    }
    let text = content_type.filter(|kind| is_text(kind)).and_then(|_| std::str::from_utf8(body).ok());
    Some(match text {
        Some(text) => EncodedBody { text: text.to_owned(), base64: false },
        None => EncodedBody { text: STANDARD.encode(body), base64: true },
    })
}

fn is_text(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type.starts_with("text/")
        || ["application/json", "application/xml", "application/javascript"].contains(&media_type.as_str())
}

/// The path as HTTP APIs deliver it, despite the name `rawPath`: decoded, cut at a question mark, decoded once more
/// (seen: `/a%20b` as `/a b`, `/a%3Fb` as `/a`, `/a%252Fb` as `/a/b`, and `/a%25b` refused).
fn decoded_path(raw: &str) -> Result<String, MalformedPath> {
    let once = percent_decoded(raw.as_bytes())?;
    let end = once.iter().position(|byte| *byte == b'?').unwrap_or(once.len());
    let twice = percent_decoded(once.get(..end).unwrap_or_default())?;
    Ok(String::from_utf8_lossy(&twice).into_owned())
}

fn percent_decoded(encoded: &[u8]) -> Result<Vec<u8>, MalformedPath> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = bytes.next().and_then(hex_digit).ok_or(MalformedPath)?;
            let low = bytes.next().and_then(hex_digit).ok_or(MalformedPath)?;
            decoded.push(high * 16 + low);
        } else {
            decoded.push(byte);
        }
    }
    Ok(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::{Duration, UNIX_EPOCH};

    use axum::http::Request;

    use super::*;

    fn arrival() -> Arrival {
        Arrival {
            request_id: Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            at: UNIX_EPOCH + Duration::from_millis(1_783_711_145_766),
            source_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
        }
    }

    fn event(request: Request<&[u8]>) -> Value {
        let (parts, body) = request.into_parts();
        http_event(&parts, body, &arrival()).unwrap()
    }

    #[test]
    fn the_event_is_the_one_that_aws_delivers() {
        let request = Request::post(
            "/capture/space%20value?repeat=one&repeat=two&redirect=https%3A%2F%2Fexample.com%2Fa%2Fb\
             &literalPlus=a+b&encodedPlus=a%2Bb&empty=",
        )
        .header("Accept", "*/*")
        .header("Host", "abc.example.com:8080")
        .header("User-Agent", "curl/8.7.1")
        .header("X-Probe", "first")
        .header("X-Probe", "second")
        .header("Cookie", "session=abc123; theme=dark")
        .header("Content-Type", "application/json")
        .header("Connection", "close")
        .body("{\"unicode\":\"λ\"}".as_bytes())
        .unwrap();
        let expected: Value = serde_json::from_str(include_str!("event.json")).unwrap();
        assert_eq!(event(request), expected);
    }

    #[test]
    fn a_request_without_query_cookies_or_body_has_no_such_fields() {
        let event = event(Request::get("/").body(&b""[..]).unwrap());
        for absent in ["queryStringParameters", "cookies", "body"] {
            assert_eq!(event.get(absent), None, "{absent}");
        }
        assert_eq!(event["isBase64Encoded"], json!(false));
        assert_eq!(event["rawQueryString"], json!(""));
    }

    #[test]
    fn text_of_a_text_type_arrives_as_text_and_all_else_as_base64() {
        let text_types = [
            "text/plain",
            "text/xml; charset=utf-8",
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/xml",
            "application/javascript",
        ];
        let other_types = [
            "",
            "application/x-www-form-urlencoded",
            "application/vnd.api+json",
            "application/cloudevents+json",
            "application/octet-stream",
            "multipart/form-data; boundary=x",
        ];
        let text = text_types.map(|name| (Some(name), &b"a=1"[..], "a=1", false));
        let other = other_types.map(|name| (Some(name), &b"a=1"[..], "YT0x", true));
        let untyped = (None, &b"a=1"[..], "YT0x", true);
        let not_utf8 = (Some("application/json"), &b"{\"a\":\"\xff\"}"[..], "eyJhIjoi/yJ9", true);
        for (content_type, sent, body, is_base64) in text.into_iter().chain(other).chain([untyped, not_utf8]) {
            let mut request = Request::post("/webhooks/stripe");
            if let Some(content_type) = content_type {
                request = request.header("Content-Type", content_type);
            }
            let event = event(request.body(sent).unwrap());
            assert_eq!(json!([event["body"], event["isBase64Encoded"]]), json!([body, is_base64]), "{content_type:?}");
        }
    }

    #[test]
    fn paths_arrive_as_they_were_captured() {
        let captured = [
            ("/capture/plain", Ok("/capture/plain")),
            ("/capture/space%20value", Ok("/capture/space value")),
            ("/capture/question%3Fvalue", Ok("/capture/question")),
            ("/capture/percent%25done", Err(MalformedPath)),
            ("/capture/hash%23value", Ok("/capture/hash#value")),
            ("/capture/slash%2Fvalue", Ok("/capture/slash/value")),
            ("/capture/unicode-%CE%BB-%E4%B8%96%E7%95%8C", Ok("/capture/unicode-λ-世界")),
            ("/capture/literal%252Fvalue", Ok("/capture/literal/value")),
            ("/capture/literal%253Fvalue", Ok("/capture/literal?value")),
            ("/capture/literal%2525value", Ok("/capture/literal%value")),
        ];
        for (sent, delivered) in captured {
            assert_eq!(decoded_path(sent).as_deref(), delivered.as_deref(), "{sent}");
        }
    }

    #[test]
    fn a_client_cannot_claim_another_address_or_protocol() {
        let request = Request::post("/")
            .header("X-Forwarded-For", "203.0.113.9")
            .header("X-Forwarded-Proto", "gopher")
            .body(&b""[..])
            .unwrap();
        let event = event(request);
        assert_eq!(event["headers"]["x-forwarded-for"], json!("203.0.113.9, 127.0.0.1"));
        assert_eq!(event["headers"]["x-forwarded-proto"], json!("http"));
        assert_eq!(event["requestContext"]["http"]["sourceIp"], json!("127.0.0.1"));
    }

    #[test]
    fn a_header_that_is_not_utf8_is_read_as_latin1() {
        let value = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        assert_eq!(header_text(&value), "café");
    }
}
