//! The files of `events/vectors`; their format is described in the README there.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use hookonce_providers::{CapturedRequest, Catalog, Provider, Received, Request, Settings};
use serde::Deserialize;
use serde_json::Value;

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
batching = "no"
regrouping = "no"
size = "unconfirmed"
secret = "text"
rotation = "no"
sdk = "none"
checked = "2026-11-20"
sources = [{ kind = "official", at = "https://acme.example/webhooks" }]
"#;

/// A provider's file, whose name is the provider's id.
#[derive(Debug)]
pub(crate) struct VectorFile {
    pub(crate) provider: String,
    pub(crate) vectors: Vec<Vector>,
}

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
    pub(crate) body: String,
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

/// Every vector file, read once.
pub(crate) fn all() -> &'static [VectorFile] {
    static FILES: OnceLock<Vec<VectorFile>> = OnceLock::new();
    FILES.get_or_init(read_all)
}

/// One vector of a provider.
pub(crate) fn vector(provider: &str, id: &str) -> &'static Vector {
    let file =
        all().iter().find(|file| file.provider == provider).unwrap_or_else(|| panic!("{provider} has no vectors"));
    file.vectors.iter().find(|vector| vector.id == id).unwrap_or_else(|| panic!("{id} is no vector"))
}

/// A provider's valid delivery.
pub(crate) fn valid(provider: &str) -> &'static Vector {
    vector(provider, &format!("{provider}/valid"))
}

fn read_all() -> Vec<VectorFile> {
    read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/vectors"))
}

/// Every vector file of a folder, by name.
pub(crate) fn read_folder(folder: &Path) -> Vec<VectorFile> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

/// The file's name is the provider that its vectors do not repeat.
fn read_file(path: &Path) -> VectorFile {
    let text = fs::read_to_string(path).unwrap();
    let provider = path.file_stem().unwrap().to_str().unwrap();
    let read = |line: &str| {
        let mut vector: Value = serde_json::from_str(line)?;
        vector["provider"] = provider.into();
        serde_json::from_value(vector)
    };
    let vectors = (1..)
        .zip(text.lines())
        .map(|(number, line)| read(line).unwrap_or_else(|error| panic!("{}, line {number}: {error}", path.display())));
    VectorFile { provider: provider.to_owned(), vectors: vectors.collect() }
}

/// This implementation's verdict on a vector.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) code: Option<&'static str>,
    pub(crate) matched_secret: Option<usize>,
    pub(crate) bound_to: Option<String>,
    pub(crate) events: Vec<Event>,
    /// The delivery reduced to each of the events.
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) response: Option<(u16, Vec<u8>)>,
}

pub(crate) fn provider(id: &str) -> &'static Provider {
    Catalog::built_in().provider(id).unwrap_or_else(|| panic!("{id} is no provider"))
}

pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn judge(provider_id: &str, vector: &Vector) -> Outcome {
    judge_as(provider(provider_id), vector, &vector.captured.headers, &vector.captured.body)
}

/// Judges a vector with other headers and another body.
pub(crate) fn judge_as(provider: &Provider, vector: &Vector, headers: &[(String, Vec<u8>)], body: &[u8]) -> Outcome {
    let captured = &vector.captured;
    let keyring = provider.keyring(&captured.secrets).unwrap_or_else(|error| panic!("{}: {error}", vector.id));
    let request = Request { headers, body, ..captured.request() };
    let rejected = |code| Outcome {
        verdict: Verdict::Rejected,
        code: Some(code),
        matched_secret: None,
        bound_to: None,
        events: Vec::new(),
        bodies: Vec::new(),
        response: None,
    };
    match provider.receive(&request, &keyring, &captured.settings, None, captured.now) {
        Err(refusal) => rejected(refusal.code()),
        Ok(Received::NeedsMaterial(_)) => rejected("needs_material"),
        Ok(Received::Handshake(answer)) => Outcome {
            verdict: Verdict::Handshake,
            code: None,
            matched_secret: None,
            bound_to: None,
            events: Vec::new(),
            bodies: Vec::new(),
            response: Some((answer.status, answer.body)),
        },
        Ok(Received::Delivery(delivery)) => Outcome {
            verdict: Verdict::Accepted,
            code: None,
            matched_secret: Some(delivery.secret_index()),
            bound_to: delivery.bound_to().map(str::to_owned),
            events: delivery
                .contents()
                .events()
                .iter()
                .map(|part| Event { key: part.key.as_str().to_owned(), event_type: part.event_type.clone() })
                .collect(),
            bodies: delivery.contents().events().iter().map(|part| part.body.clone()).collect(),
            response: None,
        },
    }
}

impl Outcome {
    /// What differs from the expectation; only what the vector states is compared.
    pub(crate) fn difference(&self, vector: &Vector) -> Option<String> {
        let expected = &vector.expected;
        let bodies_equal = |body: &[u8], expected: &str| {
            let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
            body == expected.as_bytes() || (json(body).is_some() && json(body) == json(expected.as_bytes()))
        };
        let same = self.verdict == expected.verdict
            && expected.code.as_deref().is_none_or(|code| self.code == Some(code))
            && expected.matched_secret.is_none_or(|index| self.matched_secret == Some(index))
            && expected.bound_to.as_ref().is_none_or(|value| self.bound_to.as_ref() == Some(value))
            && expected.events.as_ref().is_none_or(|events| *events == self.events)
            && expected.response.as_ref().is_none_or(|response| {
                self.response
                    .as_ref()
                    .is_some_and(|(status, body)| *status == response.status && bodies_equal(body, &response.body))
            });
        (!same).then(|| format!("expected {expected:?}, but it is {self:?}"))
    }
}
