//! Every recorded file belongs to a test. A file that no test reads is a mistake.

use std::collections::BTreeSet;
use std::path::Path;

use hookonce_providers::Catalog;

use crate::support::samples::events_folder;

/// Files of a folder, and the test that reads each.
const READ: [(&str, &str, &str); 5] = [
    ("batches", "deliveries", "meta_whatsapp-messages"),
    ("handlers", "deliveries", "meta_whatsapp-statuses"),
    ("gateways", "gateway", GATEWAYS),
    ("edges", "schedule", "every-minute"),
    ("edges", "sqs", "strangers"),
];

const GATEWAYS: &str = "alb-base64 alb-duplicate-header alb-json function-url-json http-api-cookies \
                        http-api-duplicate-header http-api-form http-api-handshake http-api-json http-api-javascript \
                        http-api-json-suffix http-api-multipart http-api-octet-stream http-api-payload-1 http-api-text \
                        http-api-xml http-api-malformed-base64 http-api-no-content-type http-api-stage rest-api-base64 \
                        rest-api-duplicate-header rest-api-json";

/// Paths below a folder, with forward slashes.
fn files(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{path}/"), found);
        } else {
            found.insert(path);
        }
    }
}

#[test]
fn every_recorded_file_is_read_by_a_test() {
    let mut found = BTreeSet::new();
    files(&events_folder(), "", &mut found);
    let files_of = |(_, folder, names): &(_, &str, &str)| {
        names.split(' ').map(|name| format!("{folder}/{name}.json")).collect::<Vec<_>>()
    };
    let registered: BTreeSet<String> = READ.iter().flat_map(files_of).collect();
    let table = std::fs::read_to_string(events_folder().join("../tools/cli/src/dev/fixtures/table.rs")).unwrap();
    for path in &found {
        // The command line's table of samples, every one of which passes the real edge, names its files.
        let sample = path.strip_prefix("deliveries/").is_some_and(|name| table.contains(&format!("body!(\"{name}\")")));
        // The conformance tests of the providers read their whole folders, one file for each provider.
        let folder = ["vectors/", "public/"].iter().find_map(|folder| path.strip_prefix(folder));
        let vector = folder.and_then(|name| name.strip_suffix(".jsonl"));
        let read = match vector {
            Some(provider) => Catalog::built_in().provider(provider).is_some(),
            None => sample || path.ends_with("README.md") || registered.contains(path),
        };
        assert!(read, "no test reads events/{path}");
    }
    for (path, test) in READ.iter().flat_map(|read| files_of(read).into_iter().map(|path| (path, read.0))) {
        assert!(found.contains(&path), "{test} is said to read events/{path}, which does not exist");
    }
}
