//! What becomes of a document at the moment at which a person saves it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use serde_json::json;

use super::{DocumentId, Folder};
use crate::output;
use crate::stack::target::DataFolder;

/// How often files are looked at.
pub(crate) const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Prints what becomes of a file.
pub(crate) fn print_state(what: &str, file: &Path, state: &str, why: Vec<String>, as_json: bool) {
    if as_json {
        output::json_line(&json!({ "what": what, "file": file, "state": state, "why": why }));
    } else {
        let line = std::iter::once(format!("{what} {state}: {}", file.display())).chain(why);
        output::line(&output::wrapped(&line.collect::<Vec<_>>().join("; ")));
    }
}

/// The documents of a family, as they were last seen.
struct Watched<I> {
    folder: Folder<I>,
    /// When each was changed, its size, and whether it is refused.
    seen: BTreeMap<I, (SystemTime, u64, bool)>,
}

impl<I: DocumentId> Watched<I> {
    fn of(data: &DataFolder) -> Self {
        Self { folder: Folder::of(data), seen: BTreeMap::new() }
    }

    /// The documents that were changed since the last look: each that is refused, with what is wrong, and each that was
    /// refused before. Only files that changed are read.
    fn changes(&mut self) -> Vec<(I, Result<(), String>)> {
        let ids = self.folder.ids();
        self.seen.retain(|id, _| ids.contains(id));
        let mut changes = Vec::new();
        for id in ids {
            let Ok(file) = fs::metadata(self.folder.path(&id)) else { continue };
            let Ok(changed) = file.modified() else { continue };
            let before = self.seen.get(&id).copied();
            if before.is_some_and(|(at, size, _)| (at, size) == (changed, file.len())) {
                continue;
            }
            // Whoever cannot read it is told by the function that needs it.
            let Ok(Some(stored)) = self.folder.stored(&id) else { continue };
            let judged = stored.document(&id).and_then(|document| id.check(&document)).map(drop);
            self.seen.insert(id.clone(), (changed, file.len(), judged.is_err()));
            if judged.is_err() || before.is_some_and(|(.., was_refused)| was_refused) {
                changes.push((id, judged.map_err(|failure| failure.to_string())));
            }
        }
        changes
    }

    fn print_changes(&mut self, consequence: &str, as_json: bool) {
        for (id, judged) in self.changes() {
            let (state, why) = match judged {
                Ok(()) => ("in use", Vec::new()),
                Err(fault) => ("refused", vec![fault, consequence.to_owned()]),
            };
            print_state(I::NOUN, &self.folder.path(&id), state, why, as_json);
        }
    }
}

/// Prints each endpoint and each destination that is refused: at once, and whenever its file changes.
pub(crate) async fn watch(data: DataFolder, as_json: bool) {
    let mut endpoints = Watched::<EndpointId>::of(&data);
    let mut destinations = Watched::<DestinationId>::of(&data);
    loop {
        endpoints.print_changes(
            "the last valid one is used if it was read, otherwise its deliveries are answered with 503",
            as_json,
        );
        destinations.print_changes("its effects wait", as_json);
        tokio::time::sleep(WATCH_PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_judged_when_it_changes_and_only_then() {
        let data = tempfile::tempdir().unwrap();
        let folder = DataFolder { data: data.path().to_owned() };
        let mut watched = Watched::<DestinationId>::of(&folder);
        let save = |name: &str, text: &str| {
            fs::create_dir_all(data.path().join("destinations")).unwrap();
            fs::write(data.path().join(format!("destinations/{name}.json")), text).unwrap();
        };
        let mut changes = || {
            let changes = watched.changes().into_iter();
            changes.map(|(id, judged)| (id.to_string(), judged.err())).collect::<Vec<_>>()
        };
        assert_eq!(changes(), []);
        let valid = r#"{"kind": "http", "url": "https://a.example/in", "class": "at_least_once"}"#;
        save("good", valid);
        assert_eq!(changes(), [], "nobody asks about what works");
        save("crm", "{\n  \"kind\": \"http\",");
        let refused = changes();
        let [(id, Some(fault))] = &refused[..] else { panic!("{refused:?}") };
        assert!(id == "crm" && fault.contains("line 2 column"), "{fault}");
        assert_eq!(changes(), [], "it did not change");
        save("crm", r#"{"kind": "http", "url": "http://a.example/in", "class": "at_least_once"}"#);
        assert!(changes()[0].1.as_ref().is_some_and(|fault| fault.contains("https")), "it can be read, and is refused");
        save("crm", valid);
        assert_eq!(changes(), [("crm".to_owned(), None)]);
        save("crm", &format!("{valid} "));
        assert_eq!(changes(), []);
    }
}
