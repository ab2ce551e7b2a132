//! Turns a function's response into the HTTP answer, by the rules of payload format 2.0.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};

/// The content type when the function gives none.
const DEFAULT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The content type of a response that is not in the gateway's form and is passed on unchanged.
const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// What is wrong with a response. The caller gets the gateway's 500 in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// `statusCode` is not a number from 200 to 599.
    #[error("statusCode is not an HTTP status")]
    Status,
    /// A header's name or value cannot be sent.
    #[error("a header cannot be sent")]
    Header,
    /// A field has the wrong JSON type.
    #[error("{field} has the wrong type")]
    Type {
        /// The field.
        field: &'static str,
    },
    /// The body is declared as base64 but is not.
    #[error("body is not base64")]
    Base64,
}

/// Builds the answer. A response without `statusCode` is itself the body, with status 200.
///
/// # Errors
/// See [`AnswerError`].
pub fn http_answer(response: &Value) -> Result<Response<Bytes>, AnswerError> {
    match response.as_object() {
        Some(fields) if fields.contains_key("statusCode") => formed_answer(fields),
        Some(_) | None => Ok(answer(
            StatusCode::OK,
            HeaderMap::from_iter([(header::CONTENT_TYPE, JSON_TYPE)]),
            Bytes::from(response.to_string()),
        )),
    }
}

fn formed_answer(fields: &Map<String, Value>) -> Result<Response<Bytes>, AnswerError> {
    let status = status(field(fields, "statusCode"))?;
    let mut headers = HeaderMap::new();
    if let Some(single) = object(fields, "headers")? {
        for (name, value) in single {
            append(&mut headers, name, value)?;
        }
    }
    if let Some(multiple) = object(fields, "multiValueHeaders")? {
        append_multiple(&mut headers, multiple)?;
    }
    for cookie in list(fields, "cookies")? {
        append(&mut headers, header::SET_COOKIE.as_str(), cookie)?;
    }
    // The server sets these itself, for the bytes that it sends.
    for own in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        headers.remove(own);
    }
    headers.entry(header::CONTENT_TYPE).or_insert(DEFAULT_TYPE);
    Ok(answer(status, headers, body(fields)?))
}

fn answer(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// A field that is present and not null.
fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// A number, or a number as text. A 1xx status cannot be the final answer.
fn status(value: Option<&Value>) -> Result<StatusCode, AnswerError> {
    let number = match value {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| (200..600).contains(number))
        .and_then(|number| StatusCode::from_u16(number).ok())
        .ok_or(AnswerError::Status)
}

fn object<'a>(
    fields: &'a Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'a Map<String, Value>>, AnswerError> {
    let Some(value) = field(fields, name) else { return Ok(None) };
    value.as_object().map(Some).ok_or(AnswerError::Type { field: name })
}

fn list<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a [Value], AnswerError> {
    let Some(value) = field(fields, name) else { return Ok(&[]) };
    value.as_array().map(Vec::as_slice).ok_or(AnswerError::Type { field: name })
}

/// When `headers` has the same header, the list replaces its single value.
fn append_multiple(headers: &mut HeaderMap, multiple: &Map<String, Value>) -> Result<(), AnswerError> {
    for (name, values) in multiple {
        let values = values.as_array().ok_or(AnswerError::Type { field: "multiValueHeaders" })?;
        headers.remove(name.as_str());
        for value in values {
            append(headers, name, value)?;
        }
    }
    Ok(())
}

fn append(headers: &mut HeaderMap, name: &str, value: &Value) -> Result<(), AnswerError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(AnswerError::Header),
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| AnswerError::Header)?;
    headers.append(name, HeaderValue::from_str(&text).map_err(|_| AnswerError::Header)?);
    Ok(())
}

fn body(fields: &Map<String, Value>) -> Result<Bytes, AnswerError> {
    let text = match field(fields, "body") {
        None => return Ok(Bytes::new()),
        Some(Value::String(text)) => text,
        Some(_) => return Err(AnswerError::Type { field: "body" }),
    };
    let base64 = match field(fields, "isBase64Encoded") {
        None => false,
        Some(value) => value.as_bool().ok_or(AnswerError::Type { field: "isBase64Encoded" })?,
    };
    if base64 {
        STANDARD.decode(text).map(Bytes::from).map_err(|_| AnswerError::Base64)
    } else {
        Ok(Bytes::from(text.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_formed_response_becomes_status_headers_cookies_and_body() {
        let answer = http_answer(&json!({
            "statusCode": 202,
            "headers": { "Content-Type": "application/json", "retry-after": 5, "x-single": "replaced" },
            "multiValueHeaders": { "x-many": ["one", "two"], "X-Single": ["kept"] },
            "cookies": ["a=1; Path=/", "b=2"],
            "body": "{\"status\":\"accepted\"}",
            "isBase64Encoded": false
        }))
        .unwrap();
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        let all = |name: &str| answer.headers().get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("content-type"), ["application/json"]);
        assert_eq!(all("retry-after"), ["5"]);
        assert_eq!(all("x-single"), ["kept"]);
        assert_eq!(all("x-many"), ["one", "two"]);
        assert_eq!(all("set-cookie"), ["a=1; Path=/", "b=2"]);
        assert_eq!(answer.body().as_ref(), b"{\"status\":\"accepted\"}");
    }

    #[test]
    fn a_base64_body_is_decoded() {
        let answer = http_answer(&json!({ "statusCode": 200, "body": "AAH+/w==", "isBase64Encoded": true })).unwrap();
        assert_eq!(answer.body().as_ref(), b"\x00\x01\xfe\xff");
    }

    #[test]
    fn the_type_defaults_to_text() {
        let answer = http_answer(&json!({ "statusCode": 204, "body": null, "headers": null })).unwrap();
        assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
        assert!(answer.body().is_empty());
    }

    #[test]
    fn a_response_without_status_is_the_body() {
        for response in [json!({ "status": "fine" }), json!("text"), json!([1]), json!(null)] {
            let answer = http_answer(&response).unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(answer.headers()["content-type"], "application/json");
            assert_eq!(answer.body().as_ref(), response.to_string().as_bytes());
        }
    }

    #[test]
    fn the_server_states_the_length_itself() {
        let headers = json!({ "content-length": "999", "transfer-encoding": "chunked", "connection": "close" });
        let answer = http_answer(&json!({ "statusCode": 200, "headers": headers, "body": "x" })).unwrap();
        assert_eq!(answer.headers().len(), 1);
    }

    #[test]
    fn a_response_that_makes_no_sense_is_refused() {
        let cases = [
            (json!({ "statusCode": "many" }), AnswerError::Status),
            (json!({ "statusCode": null }), AnswerError::Status),
            (json!({ "statusCode": 100 }), AnswerError::Status),
            (json!({ "statusCode": 600 }), AnswerError::Status),
            (json!({ "statusCode": -1 }), AnswerError::Status),
            (json!({ "statusCode": 200, "headers": [] }), AnswerError::Type { field: "headers" }),
            (json!({ "statusCode": 200, "headers": { "a b": "x" } }), AnswerError::Header),
            (json!({ "statusCode": 200, "headers": { "a": "x\ny" } }), AnswerError::Header),
            (json!({ "statusCode": 200, "headers": { "a": {} } }), AnswerError::Header),
            (
                json!({ "statusCode": 200, "multiValueHeaders": { "a": "x" } }),
                AnswerError::Type { field: "multiValueHeaders" },
            ),
            (json!({ "statusCode": 200, "cookies": "a=1" }), AnswerError::Type { field: "cookies" }),
            (json!({ "statusCode": 200, "body": {} }), AnswerError::Type { field: "body" }),
            (
                json!({ "statusCode": 200, "body": "x", "isBase64Encoded": "no" }),
                AnswerError::Type { field: "isBase64Encoded" },
            ),
            (json!({ "statusCode": 200, "body": "?", "isBase64Encoded": true }), AnswerError::Base64),
        ];
        for (response, expected) in cases {
            assert_eq!(http_answer(&response).unwrap_err(), expected, "{response}");
        }
    }
}
