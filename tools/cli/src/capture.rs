//! Requests kept in a folder, in the form that `verify` reads. A file holds no secret of its endpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use hookonce_providers::settings::VERIFY_TOKEN;
use hookonce_runtime::document::EndpointDocument;
use hookonce_webhook::gateway::Inbound;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::target::{DataFolder, write};

/// The most captures in a folder.
const CAPTURES_MAX: usize = 1_000;

/// The most bytes of captures in a folder: 100 MiB.
const FOLDER_BYTES_MAX: usize = 100 * 1024 * 1024;

/// The largest body that is kept, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How a capture's name ends.
const ENDING: &str = ".request.json";

/// What a capture holds instead of texts with a secret of the endpoint in them. Only who has the secret can fill it in.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Withheld {
    /// The URL.
    url: Option<String>,
    /// Headers, by name.
    headers: BTreeMap<String, String>,
}

impl Withheld {
    /// The texts as they came, with the secrets of this endpoint.
    pub(crate) fn restored(self, document: &EndpointDocument) -> (Option<String>, BTreeMap<String, String>) {
        let secrets = secrets(document);
        let restore =
            |text: String| secrets.iter().fold(text, |text, (label, value)| text.replace(label.as_str(), value));
        let headers = self.headers.into_iter().map(|(name, value)| (name, restore(value)));
        (self.url.map(restore), headers.collect())
    }
}

/// Every form in which a request may hold a secret of this endpoint, with the label that stands for it.
fn secrets(document: &EndpointDocument) -> Vec<(String, String)> {
    let secret = |(index, secret): (usize, &String)| {
        [
            (format!("{{secret:{index}}}"), secret.clone()),
            (format!("{{secret:{index}:base64}}"), STANDARD.encode(secret)),
        ]
    };
    let token = document.settings.get(VERIFY_TOKEN).into_iter().flat_map(|token| {
        let encoded = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        [("{verify_token}".to_owned(), token.clone()), ("{verify_token:form}".to_owned(), encoded)]
    });
    document.secrets.iter().enumerate().flat_map(secret).chain(token).collect()
}

/// The text with labels for secrets, if it holds any.
fn withhold(text: &str, secrets: &[(String, String)]) -> Option<String> {
    let held: Vec<_> = secrets.iter().filter(|(_, value)| !value.is_empty() && text.contains(value)).collect();
    let label = |text: String, (label, value): &&(String, String)| text.replace(value, label);
    (!held.is_empty()).then(|| held.iter().fold(text.to_owned(), label))
}

/// Keeps requests in a folder, the newest ones.
#[derive(Debug)]
pub(crate) struct Capturer {
    folder: PathBuf,
    endpoints: DataFolder,
    /// The origin under which providers call, if it is not the one that the request names.
    public_url: Option<String>,
    /// The captures of the folder and their sizes in bytes, oldest first.
    kept: Mutex<BTreeMap<String, usize>>,
}

impl Capturer {
    /// Keeps requests in this folder.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be made or read.
    pub(crate) fn new(folder: PathBuf, endpoints: DataFolder, public_url: Option<String>) -> Result<Self, Failure> {
        let denied = |error: std::io::Error| {
            Failure::usage(
                format!("{} cannot be used: {error}", folder.display()),
                "choose another folder with --capture",
            )
        };
        fs::create_dir_all(&folder).map_err(denied)?;
        let files = fs::read_dir(&folder).map_err(denied)?.flatten().filter_map(|file| {
            let name = file.file_name().into_string().ok().filter(|name| name.ends_with(ENDING))?;
            Some((name, usize::try_from(file.metadata().ok()?.len()).unwrap_or(usize::MAX)))
        });
        let kept = Mutex::new(files.collect());
        Ok(Self { folder, endpoints, public_url, kept })
    }

    /// What a person has to know about the folder.
    pub(crate) fn notice(&self) -> String {
        format!(
            "Requests are kept in {}, without secrets: the newest {CAPTURES_MAX}, {} MiB at most, bodies up to {} MiB.\n\
             Check one with `hookonce verify --request FILE`.",
            self.folder.display(),
            FOLDER_BYTES_MAX / (1024 * 1024),
            BODY_BYTES_MAX / (1024 * 1024),
        )
    }

    /// Keeps a gateway event and its answer: a status, and the word of the answer or of its refusal. A request to an
    /// endpoint that does not exist has no provider to judge it by, so it is not kept.
    pub(crate) fn keep(&self, event: &Value, (status, word): (u64, &str), at: EpochMs) {
        let Ok(Ok(inbound)) = serde_json::from_value(event.clone()).map(Inbound::read) else { return };
        let endpoint = inbound.path.rsplit('/').next().and_then(|id| EndpointId::parse(id).ok());
        let Some(endpoint) = endpoint else { return };
        let document = fs::read_to_string(self.endpoints.endpoints().path(&endpoint)).ok();
        let Some(document) = document.and_then(|text| EndpointDocument::parse(&text).ok()) else { return };
        if inbound.body.len() > BODY_BYTES_MAX {
            output::note(&format!("not kept: a request to {endpoint} with a body of {} bytes", inbound.body.len()));
            return;
        }
        let text = self.text(&inbound, &endpoint, &document, (status, word), at);
        let time = Timestamp::from_millisecond(at.0).unwrap_or_default().strftime("%Y%m%dT%H%M%S.%3fZ");
        let word: String = word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        self.store(&format!("{time}-{endpoint}-{status}-{word}"), &text);
    }

    fn text(
        &self,
        inbound: &Inbound,
        endpoint: &EndpointId,
        document: &EndpointDocument,
        (status, word): (u64, &str),
        at: EpochMs,
    ) -> String {
        let origin = match (&self.public_url, &inbound.domain) {
            (Some(url), _) => url.clone(),
            (None, domain) => format!("https://{}", domain.as_deref().unwrap_or_default()),
        };
        let query = if inbound.query.is_empty() { String::new() } else { format!("?{}", inbound.query) };
        let url = format!("{origin}{}{query}", inbound.path);
        let secrets = secrets(document);
        let mut withheld = Withheld { url: withhold(&url, &secrets), headers: BTreeMap::new() };
        let mut headers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, value) in &inbound.headers {
            let value = String::from_utf8_lossy(value).into_owned();
            match withhold(&value, &secrets) {
                Some(label) => drop(withheld.headers.insert(name.clone(), label)),
                None => headers.entry(name).or_default().push(value),
            }
        }
        let mut capture = json!({
            "endpoint": endpoint.as_str(), "provider": document.provider, "method": inbound.method, "headers": headers,
            "body_base64": STANDARD.encode(&inbound.body), "now_unix": at.as_seconds().0,
            "answer": { "status": status, "word": word },
        });
        if let Some(fields) = capture.as_object_mut() {
            if withheld.url.is_none() {
                fields.insert("url".to_owned(), url.into());
            }
            if withheld != Withheld::default() {
                fields.insert("withheld".to_owned(), json!(withheld));
            }
        }
        serde_json::to_string_pretty(&capture).unwrap_or_default()
    }

    /// Writes a capture, and removes the oldest ones beyond the limits.
    fn store(&self, name: &str, text: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        let mut names = numbered.map(|name| name + ENDING).filter(|name| !kept.contains_key(name));
        let Some(name) = names.next() else { return };
        if let Err(failure) = write(&self.folder.join(&name), text) {
            return output::failure(&failure);
        }
        kept.insert(name, text.len());
        for oldest in beyond_limits(&mut kept) {
            // Whoever removed it before did the same.
            let _ = fs::remove_file(self.folder.join(oldest));
        }
    }
}

/// Takes out the oldest captures beyond the limits.
fn beyond_limits(kept: &mut BTreeMap<String, usize>) -> Vec<String> {
    let (mut taken, mut bytes) = (Vec::new(), kept.values().sum::<usize>());
    while kept.len() > CAPTURES_MAX || bytes > FOLDER_BYTES_MAX {
        let Some((oldest, size)) = kept.pop_first() else { break };
        bytes -= size;
        taken.push(oldest);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capturer(folder: &tempfile::TempDir) -> Capturer {
        let endpoints = DataFolder { data: folder.path().join("data") };
        Capturer::new(folder.path().join("captures"), endpoints, None).unwrap()
    }

    #[test]
    fn the_newest_captures_within_the_limits_stay() {
        let captures = |sizes: &[usize]| sizes.iter().zip(0..).map(|(size, at)| (format!("{at:04}"), *size)).collect();
        let taken = |sizes: &[usize]| beyond_limits(&mut captures(sizes));
        assert_eq!(taken(&[1; CAPTURES_MAX]), [""; 0]);
        assert_eq!(taken(&[1; CAPTURES_MAX + 2]), ["0000", "0001"]);
        assert_eq!(taken(&[1, FOLDER_BYTES_MAX]), ["0000"]);
        assert_eq!(taken(&[FOLDER_BYTES_MAX]), [""; 0]);
    }

    #[test]
    fn a_capture_replaces_no_other_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let captures = folder.path().join("captures");
        fs::create_dir_all(&captures).unwrap();
        fs::write(captures.join("0-mine.json"), "mine").unwrap();
        fs::write(captures.join(format!("0-old{ENDING}")), "old").unwrap();
        capturer(&folder).store("1-same", "{}");
        let capturer = capturer(&folder);
        capturer.store("1-same", "{}");
        capturer.store("2-large", &"x".repeat(FOLDER_BYTES_MAX - 4));
        let names = fs::read_dir(&captures).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        let expected = ["1-same-2", "1-same", "2-large"].map(|name| format!("{name}{ENDING}"));
        assert_eq!(names, [&["0-mine.json".to_owned()][..], &expected].concat());
    }

    #[test]
    fn a_secret_in_any_form_is_withheld_and_filled_in_again() {
        let mut document: EndpointDocument =
            EndpointDocument::parse(r#"{"provider":"gitlab","secrets":["a newer secret ..","an older secret"]}"#)
                .unwrap();
        document.settings.insert(VERIFY_TOKEN.to_owned(), "a token".to_owned());
        let secrets = secrets(&document);
        for text in
            ["an older secret", "Bearer a newer secret ..", "Basic YW4gb2xkZXIgc2VjcmV0", "https://x/?t=a+token&u=1"]
        {
            let label = withhold(text, &secrets).unwrap();
            for hidden in ["secret ..", "an older", "YW4gb2xkZXIg", "a+token"] {
                assert!(!label.contains(hidden), "{label}");
            }
            let withheld = Withheld { url: Some(label), headers: BTreeMap::new() };
            assert_eq!(withheld.restored(&document).0.as_deref(), Some(text));
        }
        assert_eq!(withhold("t=1,v1=00", &secrets), None);
    }
}
