//! A captured request as JSON: what `hookonce verify` reads, and what a conformance vector adds its verdict to.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::time::{EpochSec, Millis};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::request::Request;
use crate::scheme::sns;
use crate::settings::{Settings, TOPIC_ARNS, VERIFY_TOKEN};

/// A captured request, what its endpoint holds, and the time at which to judge it.
///
/// As JSON: `{provider, method, url, headers, body_base64, secrets, now_unix, settings?, schemes?,
/// tolerance_seconds?}`. The value of a header is a string, or a list of strings for a header that comes more than
/// once.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct CapturedRequest {
    /// The provider's id.
    pub provider: String,
    /// The HTTP method, in upper case.
    pub method: String,
    /// The public URL that the provider called, with its query.
    pub url: String,
    /// The headers, as a gateway would hand them over.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The endpoint's secrets, newest first.
    pub secrets: Vec<String>,
    /// What the provider's scheme needs besides secrets.
    pub settings: Settings,
    /// The schemes that the endpoint takes; empty for those that it takes without a list.
    pub schemes: Vec<String>,
    /// How far the signed timestamp may be off. The provider's own tolerance if absent.
    pub tolerance: Option<Millis>,
    /// When the request came.
    pub now: EpochSec,
}

/// Why a text is no captured request. It names the field, never its value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapturedRequestError {
    /// The text is no JSON object.
    #[error("it is not a JSON object (line {line}, column {column})")]
    NotAnObject {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// Required fields are not there.
    #[error("{}", missing(.0))]
    Missing(Vec<&'static str>),
    /// A field holds something else.
    #[error("the field `{field}` must be {form}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// What it must be.
        form: &'static str,
    },
    /// There is no such field.
    #[error("there is no field `{0}`")]
    Unknown(String),
}

/// The fields that every captured request has.
const REQUIRED: [&str; 7] = ["provider", "method", "url", "headers", "body_base64", "secrets", "now_unix"];

fn missing(fields: &[&str]) -> String {
    match fields {
        [field] => format!("the field `{field}` is missing"),
        fields => format!("the fields `{}` are missing", fields.join("`, `")),
    }
}

/// One header may come several times.
#[derive(Deserialize)]
#[serde(untagged)]
enum HeaderValues {
    One(String),
    Several(Vec<String>),
}

impl CapturedRequest {
    /// Reads a captured request.
    ///
    /// # Errors
    /// [`CapturedRequestError`], which names every field that is missing, or the first one that is wrong.
    pub fn parse(json: &[u8]) -> Result<Self, CapturedRequestError> {
        let fields = serde_json::from_slice::<Map<String, Value>>(json)
            .map_err(|error| CapturedRequestError::NotAnObject { line: error.line(), column: error.column() })?;
        Self::try_from(fields)
    }

    /// Reads the request of an endpoint from the fields of a capture. What the endpoint holds is known, so nothing is
    /// assumed of it.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_endpoint(mut fields: Map<String, Value>) -> Result<Self, CapturedRequestError> {
        const BODY: (&str, &str) = ("body_base64", "the body in standard base64, as `base64 -w0` writes it");
        let missing: Vec<_> = REQUIRED.into_iter().filter(|name| !fields.contains_key(*name)).collect();
        if !missing.is_empty() {
            return Err(CapturedRequestError::Missing(missing));
        }
        let fields = &mut fields;
        let captured = Self {
            provider: take(fields, ("provider", "a string"))?,
            method: take(fields, ("method", "a string"))?,
            url: take(fields, ("url", "a string"))?,
            headers: pairs(take(fields, ("headers", "an object whose values are strings or lists of strings"))?),
            body: STANDARD.decode(take::<String>(fields, BODY)?).map_err(|_| malformed(BODY))?,
            secrets: take(fields, ("secrets", "a list of strings"))?,
            now: EpochSec(take(fields, ("now_unix", "a whole number of seconds since 1970"))?),
            settings: if fields.contains_key("settings") {
                take::<BTreeMap<_, _>>(fields, ("settings", "an object whose values are strings"))?.into()
            } else {
                Settings::none()
            },
            schemes: if fields.contains_key("schemes") {
                take(fields, ("schemes", "a list of strings"))?
            } else {
                Vec::new()
            },
            tolerance: if fields.contains_key("tolerance_seconds") {
                Some(Millis::seconds(take(fields, ("tolerance_seconds", "a whole number of seconds"))?))
            } else {
                None
            },
        };
        match fields.keys().next() {
            None => Ok(captured),
            Some(name) => Err(CapturedRequestError::Unknown(name.clone())),
        }
    }

    /// A capture with secrets of its own is often without settings that do not change whether the signature matches.
    /// Then the message's own topic is taken for the endpoint's, and the first secret for the verify token.
    fn completed(self) -> Self {
        let assumed = [(TOPIC_ARNS, sns::topic(&self.body)), (VERIFY_TOKEN, self.secrets.first().cloned())];
        let provider = Catalog::built_in().provider(&self.provider);
        let is_read = |name: &str| provider.is_some_and(|provider| provider.reads_setting(name));
        let assumed = assumed.into_iter().filter(|(name, _)| is_read(name));
        let assumed = assumed.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Self { settings: Settings::merged(&assumed, &self.settings), ..self }
    }

    /// The request, without what its endpoint holds.
    pub fn request(&self) -> Request<'_> {
        Request { method: &self.method, url: &self.url, headers: &self.headers, body: &self.body }
    }
}

impl TryFrom<Map<String, Value>> for CapturedRequest {
    type Error = CapturedRequestError;

    fn try_from(fields: Map<String, Value>) -> Result<Self, CapturedRequestError> {
        Self::of_endpoint(fields).map(Self::completed)
    }
}

/// Takes a field out, by its name and the form that it must have.
fn take<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    field: (&'static str, &'static str),
) -> Result<T, CapturedRequestError> {
    let value = fields.remove(field.0).unwrap_or_default();
    serde_json::from_value(value).map_err(|_| malformed(field))
}

fn malformed((field, form): (&'static str, &'static str)) -> CapturedRequestError {
    CapturedRequestError::Malformed { field, form }
}

fn pairs(headers: BTreeMap<String, HeaderValues>) -> Vec<(String, Vec<u8>)> {
    let pairs = headers.into_iter().flat_map(|(name, values)| {
        let values = match values {
            HeaderValues::One(value) => vec![value],
            HeaderValues::Several(values) => values,
        };
        values.into_iter().map(move |value| (name.clone(), value.into_bytes()))
    });
    pairs.collect()
}

/// Secrets do not print.
impl std::fmt::Debug for CapturedRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("CapturedRequest");
        debug.field("provider", &self.provider).field("request", &self.request()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Value {
        json!({
            "provider": "stripe", "method": "POST", "url": "https://example.com/", "body_base64": "e30=",
            "headers": { "a": "1", "b": ["2", "3"] }, "secrets": ["hunter2"], "now_unix": 7,
            "settings": { "topic_arns": "t" }, "schemes": ["a"], "tolerance_seconds": 9,
        })
    }

    fn parse(form: &Value) -> Result<CapturedRequest, CapturedRequestError> {
        CapturedRequest::parse(form.to_string().as_bytes())
    }

    #[test]
    fn a_whole_form_is_read() {
        let captured = parse(&form()).unwrap();
        let headers: Vec<_> = captured.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        assert_eq!(headers, [("a", &b"1"[..]), ("b", b"2"), ("b", b"3")]);
        assert_eq!((captured.request().body, captured.now), (&b"{}"[..], EpochSec(7)));
        assert_eq!((captured.settings.get("topic_arns"), captured.tolerance), (Some("t"), Some(Millis::seconds(9))));
    }

    #[test]
    fn every_missing_or_malformed_field_is_named() {
        for field in form().as_object().unwrap().keys() {
            let mut without = form();
            without.as_object_mut().unwrap().remove(field);
            let missing = parse(&without).err().map(|error| error.to_string());
            let is_required = !["settings", "schemes", "tolerance_seconds"].contains(&field.as_str());
            assert_eq!(missing, is_required.then(|| format!("the field `{field}` is missing")));

            let mut other = form();
            other[field] = json!([["hunter2"]]);
            let malformed = parse(&other).unwrap_err().to_string();
            assert!(malformed.starts_with(&format!("the field `{field}` must be ")), "{malformed}");
            assert!(!malformed.contains("hunter2"), "{malformed}");
        }
        let none = parse(&json!({ "url": "", "secrets": [] })).unwrap_err().to_string();
        assert_eq!(none, "the fields `provider`, `method`, `headers`, `body_base64`, `now_unix` are missing");
        let mut other = form();
        other["body_base64"] = json!("{}");
        assert!(parse(&other).unwrap_err().to_string().contains("base64 -w0"));
    }

    #[test]
    fn a_field_that_nobody_reads_and_a_text_that_is_no_object_are_refused() {
        let mut unknown = form();
        unknown["note"] = json!({});
        assert_eq!(parse(&unknown).unwrap_err().to_string(), "there is no field `note`");
        let cut = CapturedRequest::parse(b"{\"provider\":").unwrap_err();
        assert_eq!(cut.to_string(), "it is not a JSON object (line 1, column 12)");
    }

    #[test]
    fn debug_prints_no_secret() {
        let printed = format!("{:?}", parse(&form()).unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
