//! What accompanies the catalog: its Markdown page, fuzz targets, and nothing else for a new provider.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_providers::{Catalog, docs};
use serde_json::{Value, json};

use crate::support::{SMALL, read_folder};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_page_of_providers_matches_the_catalog() {
    let page = fs::read_to_string(repository().join("docs/use/providers.md")).unwrap_or_default();
    let wanted = docs::markdown(Catalog::built_in());
    let differs = page.lines().zip(wanted.lines()).find(|(is, should)| is != should);
    assert!(
        page == wanted,
        "docs/use/providers.md is not what the catalog says (first difference: {differs:?}); write it anew with\n\
         cargo run -p hookonce-providers --example providers_markdown > docs/use/providers.md"
    );
}

#[test]
fn every_parser_has_a_fuzz_target_and_every_target_runs() {
    let manifest = fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let programs = manifest["bin"].as_array().unwrap().iter();
    let programs: BTreeSet<_> = programs.map(|program| program["path"].as_str().unwrap().to_owned()).collect();
    let files = fs::read_dir(repository().join("fuzz/fuzz_targets")).unwrap();
    let files = files.map(|file| format!("fuzz_targets/{}", file.unwrap().file_name().to_str().unwrap()));
    assert_eq!(programs, files.collect::<BTreeSet<_>>());
    for parser in ["request", "signature_header", "catalog", "split", "gateway_event", "webhook"] {
        assert!(programs.contains(&format!("fuzz_targets/{parser}.rs")), "{parser}");
    }
}

/// Its vectors: a valid one, and one whose body was changed.
fn vector_file() -> String {
    let signature = "t=1767225600,v1=1a810c0469f820348c6862e2b833bc87674283c8e66279ee8fa150d0be1f69cc";
    let vector = |case: &str, body: &str, expected: Value| {
        let vector = json!({
            "id": format!("acme/{case}"), "case": case, "reason": "the signature covers the body", "method": "POST",
            "url": "https://example.com/webhooks/acme", "headers": { "acme-signature": signature },
            "body_base64": STANDARD.encode(body), "secrets": ["acme-secret"], "now_unix": 1_767_225_700,
            "expected": expected, "signature_origin": "published",
        });
        format!("{vector}\n")
    };
    let answer =
        |status: u16, body: &str| json!({ "status": status, "content_type": "application/json", "body": body });
    let accepted = json!({
        "verdict": "accepted", "matched_secret": 0, "events": [{ "key": "1", "type": "made" }],
        "response": answer(200, r#"{"status":"accepted","id":"1"}"#),
    });
    let rejected = json!({
        "verdict": "rejected", "code": "signature_mismatch", "response": answer(401, r#"{"error":"signature_mismatch"}"#),
    });
    vector("valid", r#"{"id":"1","type":"made"}"#, accepted)
        + &vector("tampered-body", r#"{"id":"1","type":"mare"}"#, rejected)
}

/// A new provider takes one data file and one vector file, and no Rust.
#[test]
fn a_new_provider_is_one_data_file_and_one_vector_file() {
    let files = Catalog::built_in_files().iter().copied().chain([("acme.toml", SMALL)]);
    let catalog = Catalog::parse(files).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wrong = |text: String| {
        fs::write(folder.path().join("acme.jsonl"), text).unwrap();
        let files = read_folder(folder.path());
        assert_eq!((files.len(), files["acme"].len()), (1, 2));
        let differences =
            files["acme"].iter().filter_map(|vector| vector.difference(catalog.provider("acme").unwrap()));
        differences.collect::<Vec<_>>()
    };
    assert_eq!(wrong(vector_file()), [""; 0]);
    // The new vectors are judged, not just read.
    assert_eq!(wrong(vector_file().replace("\"rejected\"", "\"accepted\"")).len(), 1);
    assert_eq!(wrong(vector_file().replace("\"status\":200", "\"status\":204")).len(), 1);
}
