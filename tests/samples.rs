//! Every recorded file belongs to a test. A file that no test reads is a mistake.

use std::collections::BTreeSet;
use std::path::Path;

use hookonce_providers::Catalog;

use crate::support::samples::events_folder;

/// Files, and the test that reads each.
const READ: &[(&str, &str)] = &[
    ("deliveries/meta_whatsapp-messages.json", "batches"),
    ("deliveries/meta_whatsapp-statuses.json", "handlers"),
    ("gateway/alb-base64.json", "gateways"),
    ("gateway/alb-duplicate-header.json", "gateways"),
    ("gateway/alb-json.json", "gateways"),
    ("gateway/function-url-json.json", "gateways"),
    ("gateway/http-api-cookies.json", "gateways"),
    ("gateway/http-api-duplicate-header.json", "gateways"),
    ("gateway/http-api-form.json", "gateways"),
    ("gateway/http-api-handshake.json", "gateways"),
    ("gateway/http-api-json.json", "gateways"),
    ("gateway/http-api-javascript.json", "gateways"),
    ("gateway/http-api-json-suffix.json", "gateways"),
    ("gateway/http-api-multipart.json", "gateways"),
    ("gateway/http-api-octet-stream.json", "gateways"),
    ("gateway/http-api-payload-1.json", "gateways"),
    ("gateway/http-api-text.json", "gateways"),
    ("gateway/http-api-xml.json", "gateways"),
    ("gateway/http-api-malformed-base64.json", "gateways"),
    ("gateway/http-api-no-content-type.json", "gateways"),
    ("gateway/http-api-stage.json", "gateways"),
    ("gateway/rest-api-base64.json", "gateways"),
    ("gateway/rest-api-duplicate-header.json", "gateways"),
    ("gateway/rest-api-json.json", "gateways"),
    ("schedule/every-minute.json", "edges"),
    ("sqs/strangers.json", "edges"),
];

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
    let registered: BTreeSet<String> = READ.iter().map(|(path, _)| (*path).to_owned()).collect();
    let table = std::fs::read_to_string(events_folder().join("../tools/cli/src/fixtures/table.rs")).unwrap();
    for path in &found {
        // The command line's table of samples, every one of which passes the real edge, names its files.
        let sample = path.strip_prefix("deliveries/").is_some_and(|name| table.contains(&format!("body!(\"{name}\")")));
        // The conformance tests of the providers read their whole folder, one file for each provider.
        let vector = path.strip_prefix("vectors/").and_then(|name| name.strip_suffix(".jsonl"));
        let read = match vector {
            Some(provider) => Catalog::built_in().provider(provider).is_some(),
            None => sample || path.ends_with("README.md") || registered.contains(path),
        };
        assert!(read, "no test reads events/{path}");
    }
    for (path, test) in READ {
        assert!(found.contains(*path), "{test} is said to read events/{path}, which does not exist");
    }
}
