//! The files of `events/vectors`, whose format is described in the README there, and requests to make and to judge.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{
    AnswerBody, CapturedRequest, Catalog, EventPart, Explanation, Provider, Received, Refusal, Settings, SignError,
    UnsignedRequest, VerifiedDelivery,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// When requests are signed and judged, unless a test says otherwise.
pub(crate) const NOW: EpochSec = EpochSec(1_767_225_600);

/// The URL that providers call.
pub(crate) const URL: &str = "https://example.com/hook";

/// Parts of the names of headers that a signature makes.
pub(crate) const SIGNATURES: [&str; 8] =
    ["signature", "signed-headers", "timestamp", "authorization", "token", "mac", "verification", "hmac"];

/// The smallest catalog file, of an invented provider.
pub(crate) const SMALL: &str = r#"
name = "Acme"
key = ["json:$.id"]
event = ["{json:$.type}"]

[[scheme]]
kind = "hmac"
hash = "sha256"
signature = "header:acme-signature"
format.pairs = { between = ",", assign = "=", signature = "v1" }
encoding = "hex"
secret = "text"
signs = "{ts}.{body}"
timestamp = { from = "pair:t", unit = "seconds", tolerance_seconds = 300 }

[facts]
key_on_retry = "yes"
key_on_redelivery = "yes"
retries = "3 days"
deadline = "10 s"
reads_answer = "status"
reads_answer_source = "unconfirmed"
batching = "no"
regrouping = "no"
size = "unconfirmed"
secret = "text"
secret_from = "provider"
rotation = "no"
sdk = "none"
time_on_retry = "new"
secret_scope = "endpoint"
secret_is = "webhook_only"
secret_source = "unconfirmed"
register_at = "Settings > Webhooks"
register_source = "unconfirmed"
checked = "2026-11-20"
sources = [{ kind = "official", at = "https://acme.example/webhooks" }]
"#;

/// A captured request and its verdict. Every field that is not the verdict's is the request's, which refuses unknown
/// ones.
#[derive(Debug, Deserialize)]
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) case: String,
    pub(crate) reason: String,
    #[serde(default, rename = "notes")]
    _notes: String,
    #[serde(flatten)]
    pub(crate) captured: CapturedRequest,
    pub(crate) expected: Expected,
    pub(crate) sdk: Option<Sdk>,
    pub(crate) signature_origin: Origin,
    #[serde(default, rename = "signature_origin_detail")]
    _signature_origin_detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Accepted,
    Rejected,
    Handshake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Sdk,
    Published,
    Computed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) verdict: Verdict,
    pub(crate) code: Option<String>,
    pub(crate) matched_secret: Option<usize>,
    pub(crate) bound_to: Option<String>,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) facts: Option<Vec<String>>,
    pub(crate) response: Option<Response>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) key: String,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Response {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    /// The methods by which the provider calls, if it was called by another one.
    #[serde(default, rename = "allow")]
    _allow: Option<String>,
    /// The report names the record.
    #[serde(default)]
    pub(crate) body: Option<String>,
}

impl Response {
    /// Whether a vector states this answer. JSON is compared as JSON. What the function writes itself, a report or a
    /// refusal, `tests/edge/vectors.rs` compares.
    fn fits(&self, stated: &Self) -> bool {
        let body = |text: &String| serde_json::from_str::<Value>(text).map_err(|_| text.clone());
        self.status == stated.status
            && self.content_type == stated.content_type
            && self.body.as_ref().is_none_or(|text| stated.body.as_ref().map(body) == Some(body(text)))
    }

    /// The answer to a delivery that is stored for the first time.
    fn to(delivery: &VerifiedDelivery, provider: &Provider) -> Self {
        let [accepted, _] = provider.answers_to(delivery);
        let (content_type, body) = match &accepted.body {
            AnswerBody::Report => (Some("application/json"), None),
            AnswerBody::Empty => (None, Some("")),
            AnswerBody::Text(text) => (Some("text/plain"), Some(text.as_str())),
            AnswerBody::Xml(text) => (Some("text/xml"), Some(text.as_str())),
        };
        let status = accepted.status;
        Self { status, content_type: content_type.map(str::to_owned), _allow: None, body: body.map(str::to_owned) }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sdk {
    pub(crate) ecosystem: String,
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) function: String,
    pub(crate) verdict: String,
    #[serde(default, rename = "detail")]
    _detail: String,
    pub(crate) differs: Option<String>,
}

/// The vectors of every provider, read once.
pub(crate) fn all() -> &'static BTreeMap<String, Vec<Vector>> {
    static FILES: OnceLock<BTreeMap<String, Vec<Vector>>> = OnceLock::new();
    FILES.get_or_init(|| read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/vectors")))
}

/// The vectors of a provider.
pub(crate) fn vectors(provider: &str) -> &'static [Vector] {
    all().get(provider).unwrap_or_else(|| panic!("{provider} has no vectors"))
}

/// One vector of a provider.
pub(crate) fn vector(provider: &str, id: &str) -> &'static Vector {
    vectors(provider).iter().find(|vector| vector.id == id).unwrap_or_else(|| panic!("{id} is no vector"))
}

/// A provider's valid delivery.
pub(crate) fn valid(provider: &str) -> &'static CapturedRequest {
    &vector(provider, &format!("{provider}/valid")).captured
}

/// The vectors of a folder. A file's name is the provider that its vectors do not repeat.
pub(crate) fn read_folder(folder: &Path) -> BTreeMap<String, Vec<Vector>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read_file(&path))).collect()
}

fn read_file(path: &Path) -> Vec<Vector> {
    let text = fs::read_to_string(path).unwrap();
    let read = |line: &str| {
        let mut vector: Value = serde_json::from_str(line)?;
        vector["provider"] = path.file_stem().unwrap().to_str().unwrap().into();
        serde_json::from_value(vector)
    };
    let vectors = (1..).zip(text.lines()).map(|(number, line)| {
        read(line).unwrap_or_else(|error: serde_json::Error| panic!("{}, line {number}: {error}", path.display()))
    });
    vectors.collect()
}

impl Vector {
    /// What differs from the expectation if this provider judges the request. Only what the vector states is compared.
    pub(crate) fn difference(&self, provider: &Provider) -> Option<String> {
        let (expected, found) = (&self.expected, Expected::of(receive(provider, &self.captured), provider));
        let same = expected.verdict == found.verdict
            && (expected.code.is_none() || expected.code == found.code)
            && (expected.matched_secret.is_none() || expected.matched_secret == found.matched_secret)
            && (expected.bound_to.is_none() || expected.bound_to == found.bound_to)
            && (expected.events.is_none() || expected.events == found.events)
            && found.response.as_ref().is_none_or(|found| expected.response.as_ref().is_some_and(|it| found.fits(it)));
        (!same).then(|| format!("{}: expected {expected:?}, but it is {found:?}", self.id))
    }
}

impl Expected {
    /// What became of a request, as a vector would state it.
    pub(crate) fn of(received: Result<Received, Refusal>, provider: &Provider) -> Self {
        let rejected = |code: &str| Self {
            verdict: Verdict::Rejected,
            code: Some(code.to_owned()),
            matched_secret: None,
            bound_to: None,
            events: None,
            facts: None,
            response: None,
        };
        match received {
            Err(refusal) => rejected(refusal.code()),
            Ok(Received::NeedsMaterial(_)) => rejected("needs_material"),
            Ok(Received::Handshake(answer)) => {
                let content_type = Some(answer.content_type).filter(|kind| !kind.is_empty());
                let body = Some(String::from_utf8(answer.body).unwrap());
                let response = Response { status: answer.status, content_type, _allow: None, body };
                Self { verdict: Verdict::Handshake, code: None, response: Some(response), ..rejected("") }
            }
            Ok(Received::Delivery(delivery)) => {
                let event =
                    |part: &EventPart| Event { key: part.key.as_str().to_owned(), event_type: part.event_type.clone() };
                Self {
                    verdict: Verdict::Accepted,
                    code: None,
                    matched_secret: Some(delivery.secret_index()),
                    bound_to: delivery.bound_to().map(str::to_owned),
                    events: Some(delivery.contents().events().iter().map(event).collect()),
                    response: Some(Response::to(&delivery, provider)),
                    ..rejected("")
                }
            }
        }
    }
}

/// A provider of the catalog.
pub(crate) fn provider(id: &str) -> &'static Provider {
    Catalog::built_in().provider(id).unwrap_or_else(|| panic!("{id} is no provider"))
}

/// Settings of an endpoint.
pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Secrets of an endpoint, or names of schemes.
pub(crate) fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Headers as a gateway hands them over.
pub(crate) fn headers<N: Into<String>, V: Into<Vec<u8>>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Vec<u8>)> {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The key of an event without an id: the hash of this text.
pub(crate) fn hash_key(text: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text)))
}

/// A request without headers to an endpoint that holds this secret.
pub(crate) fn request(provider: &str, secret: &str, body: &str) -> CapturedRequest {
    CapturedRequest {
        provider: provider.to_owned(),
        method: "POST".to_owned(),
        url: URL.to_owned(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
        secrets: owned(&[secret]),
        settings: Settings::none(),
        schemes: Vec::new(),
        tolerance: None,
        now: NOW,
    }
}

/// A request with these headers, as the provider signs it with the secret of the endpoint.
pub(crate) fn sent(provider: &str, secret: &str, given: &[(&str, &str)], body: &str) -> CapturedRequest {
    let unsigned = CapturedRequest { headers: headers(given.iter().copied()), ..request(provider, secret, body) };
    sign(&unsigned).unwrap()
}

/// The request as its provider signs it, with the newest secret of the endpoint.
pub(crate) fn sign(unsigned: &CapturedRequest) -> Result<CapturedRequest, SignError> {
    let CapturedRequest { method, url, body, secrets, settings, schemes, now, .. } = unsigned;
    let text = |value: &[u8]| std::str::from_utf8(value).unwrap().to_owned();
    let given: Vec<_> = unsigned.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let request = UnsignedRequest { method, url, headers: &given, body };
    let signed = provider(&unsigned.provider).sign_request_with(&request, &secrets[0], settings, schemes, *now)?;
    let headers = headers(given.into_iter().chain(signed.headers));
    Ok(CapturedRequest { headers, body: signed.body, ..unsigned.clone() })
}

/// The body of a delivery, made longer by about so many bytes where its signature covers it.
pub(crate) fn longer(id: &str, body: &[u8], bytes: usize) -> Vec<u8> {
    let filler = "7".repeat(bytes);
    let json = |change: fn(&mut Value, String)| {
        let mut value: Value = serde_json::from_slice(body).unwrap();
        change(&mut value, filler.clone());
        value.to_string().into_bytes()
    };
    match id {
        "adyen" => json(|value, filler| {
            value["notificationItems"][0]["NotificationRequestItem"]["merchantReference"] = json!(filler);
        }),
        "mailgun" => json(|value, filler| value["signature"]["token"] = json!(filler)),
        "aws_sns" => json(|value, filler| value["Message"] = json!(filler)),
        "twilio" => [body, b"&Body=", filler.as_bytes()].concat(),
        "braintree" => format!("<notification><kind>check</kind><timestamp>{filler}</timestamp></notification>").into(),
        _ => [body, " ".repeat(bytes).as_bytes()].concat(),
    }
}

/// The request without the headers whose names have one of these parts.
pub(crate) fn without_headers(captured: &CapturedRequest, parts: &[&str]) -> CapturedRequest {
    let mut captured = captured.clone();
    captured.headers.retain(|(name, _)| !parts.iter().any(|part| name.contains(part)));
    captured
}

/// What a provider makes of a request.
pub(crate) fn receive(provider: &Provider, captured: &CapturedRequest) -> Result<Received, Refusal> {
    assert!(captured.schemes.is_empty(), "the schemes of an endpoint are not looked at here: {captured:?}");
    let keyring = provider.keyring(&captured.secrets).unwrap_or_else(|error| panic!("{captured:?}: {error}"));
    provider.receive(&captured.request(), &keyring, &captured.settings, captured.tolerance, captured.now)
}

/// What the provider of a request makes of it.
pub(crate) fn received(captured: &CapturedRequest) -> Result<Received, Refusal> {
    receive(provider(&captured.provider), captured)
}

/// Receives a request that must be a delivery. Panics unless what is kept of it splits into the same events again.
pub(crate) fn delivery(captured: &CapturedRequest) -> VerifiedDelivery {
    match received(captured) {
        Ok(Received::Delivery(delivery)) => {
            let again = provider(&captured.provider).split(delivery.body(), delivery.headers());
            assert_eq!(again, delivery.contents().events(), "{captured:?}");
            delivery
        }
        other => panic!("{captured:?} is no delivery: {other:?}"),
    }
}

/// The first event of a delivery.
pub(crate) fn event(captured: &CapturedRequest) -> EventPart {
    delivery(captured).contents().events()[0].clone()
}

/// Whether a request is an authentic delivery.
pub(crate) fn is_accepted(captured: &CapturedRequest) -> bool {
    matches!(received(captured), Ok(Received::Delivery(_)))
}

/// What people are told about a request.
pub(crate) fn explain(captured: &CapturedRequest) -> Explanation {
    let CapturedRequest { secrets, settings, tolerance, now, .. } = captured;
    provider(&captured.provider).explain(&captured.request(), secrets, settings, *tolerance, *now)
}
