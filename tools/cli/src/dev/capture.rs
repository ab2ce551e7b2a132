//! Requests kept in a folder, in the form that `verify` reads. A file holds labels for the credentials of its request.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use hookonce_providers::{CapturedRequest, Settings};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_webhook::endpoint_id;
use hookonce_webhook::gateway::Inbound;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::documents::endpoints;
use crate::failure::Failure;
use crate::output;
use crate::stack::target::DataFolder;

/// The most that a folder keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    captures: usize,
    bytes: usize,
}

impl Limits {
    /// Of a folder that a person names.
    pub(crate) const NAMED: Self = Self { captures: 1_000, bytes: 100 * 1024 * 1024 };

    /// Of the folder that every local stack has, for the question that comes after the request.
    pub(crate) const LATEST: Self = Self { captures: 50, bytes: 10 * 1024 * 1024 };
}

/// The largest body that is kept, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How a capture's name ends.
const ENDING: &str = ".request.json";

/// Keeps requests in a folder, the newest ones.
#[derive(Debug)]
pub(crate) struct Capturer {
    folder: PathBuf,
    endpoints: DataFolder,
    /// The origin under which providers call, if it is not the one that the request names.
    public_url: Option<String>,
    limits: Limits,
    /// The captures of the folder and their sizes in bytes, oldest first.
    kept: Mutex<BTreeMap<String, usize>>,
}

impl Capturer {
    /// Keeps requests in this folder.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be made or read.
    pub(crate) fn new(
        folder: PathBuf,
        limits: Limits,
        endpoints: DataFolder,
        public_url: Option<String>,
    ) -> Result<Self, Failure> {
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
        Ok(Self { folder, endpoints, public_url, limits, kept })
    }

    /// The folder, for commands that run elsewhere.
    pub(crate) fn folder(&self) -> PathBuf {
        std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone())
    }

    /// What a person has to know about the folder.
    pub(crate) fn notice(&self) -> String {
        let Limits { captures, bytes } = self.limits;
        format!(
            "Requests are kept in {}, with labels for the credentials of their providers: {captures} requests, {} MiB at \
             most, bodies up to {} MiB.\n\
             Check one with `hookonce verify --request FILE`, the latest refusal with `hookonce verify --last`.",
            self.folder.display(),
            bytes / (1024 * 1024),
            BODY_BYTES_MAX / (1024 * 1024),
        )
    }

    /// Keeps a gateway event and its answer: a status, and the word of the answer or of its refusal. A request to an
    /// endpoint that does not exist has no provider to judge it by, so it is not kept.
    pub(crate) fn keep(&self, event: &Value, (status, word): (u64, &str), at: EpochMs) {
        let Ok(Ok(inbound)) = serde_json::from_value(event.clone()).map(Inbound::read) else { return };
        let Some(endpoint) = endpoint_id(&inbound.path) else { return };
        let Ok(document) = endpoints::read(&self.endpoints, &endpoint) else { return };
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
        let mut captured = CapturedRequest {
            provider: document.provider.clone(),
            method: inbound.method.clone(),
            url: inbound.url(self.public_url.as_deref()),
            headers: inbound.headers.clone(),
            body: inbound.body.clone(),
            secrets: Vec::new(),
            settings: Settings::none(),
            schemes: Vec::new(),
            tolerance: None,
            now: at.as_seconds(),
        };
        let withheld = captured.withhold();
        let mut headers: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (name, value) in &captured.headers {
            headers.entry(name).or_default().push(String::from_utf8_lossy(value));
        }
        let capture = json!({
            "endpoint": endpoint.as_str(), "provider": captured.provider, "method": captured.method,
            "url": captured.url, "headers": headers, "body_base64": STANDARD.encode(&captured.body),
            "now_unix": captured.now.0, "withheld": withheld, "answer": { "status": status, "word": word },
        });
        serde_json::to_string_pretty(&capture).unwrap_or_default()
    }

    /// Writes a capture, and removes the oldest ones beyond the limits.
    fn store(&self, name: &str, text: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name}_{number}") });
        let mut names = numbered.map(|name| name + ENDING).filter(|name| !kept.contains_key(name));
        let Some(name) = names.next() else { return };
        if let Err(error) = self.write(&name, text) {
            return output::failure(&Failure::usage(
                format!("a request cannot be kept in {}: {error}", self.folder.display()),
                "make room there, or choose another folder with --capture",
            ));
        }
        kept.insert(name, text.len());
        for oldest in beyond_limits(self.limits, &mut kept) {
            // Whoever removed it before did the same.
            let _ = fs::remove_file(self.folder.join(oldest));
        }
    }

    /// Only the owner may read the file. It is not flushed to the disk: a capture is not worth the time that this
    /// takes.
    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(self.folder.join(name)).map(drop).map_err(|error| error.error)
    }
}

/// The latest request of a folder that was refused: of an endpoint, or of any.
pub(crate) fn latest_refusal(folder: &Path, endpoint: Option<&str>) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.flatten().filter_map(|file| file.file_name().into_string().ok());
    let refused = names.filter(|name| {
        let (of, status) = parts(name);
        name.ends_with(ENDING) && status.starts_with('4') && endpoint.is_none_or(|wanted| wanted == of)
    });
    refused.max().map(|name| folder.join(name))
}

/// The endpoint and the status in a capture's name. Empty where there are none.
fn parts(name: &str) -> (&str, &str) {
    let mut parts = name.rsplitn(3, '-').skip(1);
    let status = parts.next().unwrap_or_default();
    (parts.next().and_then(|rest| rest.split_once('-')).map_or("", |(_time, endpoint)| endpoint), status)
}

/// The captures that share one quota: those of an endpoint that were taken, and those that were refused.
/// Unauthenticated requests therefore push out only each other.
fn class(name: &str) -> (&str, bool) {
    let (endpoint, status) = parts(name);
    (endpoint, status.starts_with('2'))
}

/// Takes out captures beyond the limits: the oldest of the class that has the most.
fn beyond_limits(limits: Limits, kept: &mut BTreeMap<String, usize>) -> Vec<String> {
    let mut taken = Vec::new();
    loop {
        let has_many_bytes = kept.values().sum::<usize>() > limits.bytes;
        if !has_many_bytes && kept.len() <= limits.captures {
            return taken;
        }
        let mut classes: BTreeMap<_, usize> = BTreeMap::new();
        for (name, size) in &*kept {
            *classes.entry(class(name)).or_default() += if has_many_bytes { *size } else { 1 };
        }
        let largest = classes.into_iter().max_by_key(|(_, amount)| *amount).map(|(class, _)| class);
        let Some(oldest) = kept.keys().find(|name| Some(class(name)) == largest).cloned() else { return taken };
        kept.remove(&oldest);
        taken.push(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURES_MAX: usize = Limits::NAMED.captures;
    const FOLDER_BYTES_MAX: usize = Limits::NAMED.bytes;

    fn capturer(folder: &tempfile::TempDir) -> Capturer {
        let endpoints = DataFolder { data: folder.path().join("data") };
        Capturer::new(folder.path().join("captures"), Limits::NAMED, endpoints, None).unwrap()
    }

    #[test]
    fn the_newest_captures_within_the_limits_stay() {
        let captures = |sizes: &[usize]| sizes.iter().zip(0..).map(|(size, at)| (format!("{at:04}"), *size)).collect();
        let taken = |sizes: &[usize]| beyond_limits(Limits::NAMED, &mut captures(sizes));
        assert_eq!(taken(&[1; CAPTURES_MAX]), [""; 0]);
        assert_eq!(taken(&[1; CAPTURES_MAX + 2]), ["0000", "0001"]);
        assert_eq!(taken(&[1, FOLDER_BYTES_MAX]), ["0000"]);
        assert_eq!(taken(&[FOLDER_BYTES_MAX]), [""; 0]);
    }

    #[test]
    fn what_strangers_send_pushes_out_no_accepted_request_and_no_request_of_another_endpoint() {
        let name = |at: usize, rest: &str| format!("{at:04}-{rest}{ENDING}");
        let own = ["shop-1-200-accepted", "shop-1-200-accepted_2", "shop-2-401-signature_mismatch"];
        let own: Vec<_> = own.iter().zip(0..).map(|(rest, at)| name(at, rest)).collect();
        for (count, size) in [(CAPTURES_MAX + 5, 1), (200, FOLDER_BYTES_MAX / 100)] {
            let strange = (0..count).map(|at| (name(10 + at, "shop-1-401-signature_missing"), size));
            let mut kept: BTreeMap<_, _> = own.iter().map(|name| (name.clone(), 1)).chain(strange).collect();
            let taken = beyond_limits(Limits::NAMED, &mut kept);
            assert!(!taken.is_empty() && taken.iter().all(|name| name.contains("signature_missing")), "{taken:?}");
            assert!(kept.len() <= CAPTURES_MAX && kept.values().sum::<usize>() <= FOLDER_BYTES_MAX);
        }
    }

    #[test]
    fn the_latest_refusal_is_of_the_endpoint_that_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1-my-shop-401-a", "2-other-401-b", "2-other-401-b_2", "3-my-shop-200-accepted", "4-my-shop-500-c"]
        {
            fs::write(folder.path().join(format!("{name}{ENDING}")), "").unwrap();
        }
        fs::write(folder.path().join("9-my-shop-401-notes.txt"), "").unwrap();
        let latest = |endpoint: Option<&str>| {
            let found = latest_refusal(folder.path(), endpoint)?;
            Some(found.file_name().unwrap().to_str().unwrap().trim_end_matches(ENDING).to_owned())
        };
        let latest = [None, Some("my-shop"), Some("shop")].map(latest);
        assert_eq!(latest, [Some("2-other-401-b_2".to_owned()), Some("1-my-shop-401-a".to_owned()), None]);
    }

    #[test]
    fn a_capture_replaces_no_other_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let captures = folder.path().join("captures");
        fs::create_dir_all(&captures).unwrap();
        fs::write(captures.join("0-mine.json"), "mine").unwrap();
        fs::write(captures.join(format!("0-a-200-old{ENDING}")), "old").unwrap();
        capturer(&folder).store("1-a-200-same", "{}");
        let capturer = capturer(&folder);
        capturer.store("1-a-200-same", "{}");
        capturer.store("2-a-200-large", &"x".repeat(FOLDER_BYTES_MAX - 4));
        let names = fs::read_dir(&captures).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        let expected = ["1-a-200-same", "1-a-200-same_2", "2-a-200-large"].map(|name| format!("{name}{ENDING}"));
        assert_eq!(names, [&["0-mine.json".to_owned()][..], &expected].concat());
    }
}
