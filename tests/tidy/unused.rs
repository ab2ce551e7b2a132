//! Every dependency is used: named by the sources of the member that lists it, or, in the workspace's own list, by a
//! member.

use std::collections::BTreeSet;

use super::arrows::dependencies;
use super::documents::resolve;
use super::words::has_word;
use super::{Files, none, planted, project, rust};

/// Packages whose library has another name.
const LIBRARIES: &[(&str, &str)] = &[("dynoxide-rs", "dynoxide")];

/// A separate workspace, whose targets include sources of the functions.
const APART: &str = "fuzz/";

fn findings(files: &Files) -> Vec<String> {
    let manifests: Vec<_> =
        files.iter().filter(|(path, _)| path.ends_with("/Cargo.toml") && !path.starts_with(APART)).collect();
    let folders: Vec<&str> = manifests.iter().map(|(path, _)| path.trim_end_matches("Cargo.toml")).collect();
    let (mut findings, mut listed) = (Vec::new(), BTreeSet::new());
    for ((path, text), folder) in manifests.iter().zip(&folders) {
        let inner = folders.iter().filter(|other| other.len() > folder.len() && other.starts_with(folder));
        let inner: Vec<_> = inner.collect();
        let own = rust(files).filter(|(source, _)| source.starts_with(folder));
        let own = own.filter(|(source, _)| !inner.iter().any(|inner| source.starts_with(**inner)));
        let sources: Vec<&str> = own.flat_map(|(source, text)| with_included(files, source, text)).collect();
        for name in dependencies(&toml::from_str(text).unwrap()) {
            if !sources.iter().any(|text| has_word(text, &library(&name))) {
                findings.push(format!("{path} lists {name} and does not use it"));
            }
            listed.insert(name);
        }
    }
    let root = files.get("Cargo.toml").map(|text| toml::from_str(text).unwrap()).unwrap_or_default();
    let unlisted = dependencies(&root).into_iter().filter(|name| !listed.contains(name));
    findings.extend(unlisted.map(|name| format!("Cargo.toml lists {name} and no member does")));
    findings
}

/// A source, and those that it includes from elsewhere by their path.
fn with_included<'a>(files: &'a Files, source: &str, text: &'a str) -> Vec<&'a str> {
    let paths = text.split("#[path = \"").skip(1).filter_map(|rest| rest.split_once('"'));
    let included = paths.filter_map(|(path, _)| files.get(&resolve(source, path))).map(String::as_str);
    std::iter::once(text).chain(included).collect()
}

fn library(package: &str) -> String {
    let renamed = LIBRARIES.iter().find(|(name, _)| *name == package);
    renamed.map_or_else(|| package.replace('-', "_"), |(_, library)| (*library).to_owned())
}

#[test]
fn every_dependency_is_used() {
    none(&findings(&project()));
    let planted = planted([
        ("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\nhex = \"1\"\nonly-here = \"1\""),
        (
            "a/Cargo.toml",
            "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nhex = \"1\"\ntwo-words = \"1\"\nshared = \"1\"",
        ),
        (
            "a/src/lib.rs",
            "use serde::Serialize; use two_words as _; fn hexagon() {} #[path = \"../../c/part.rs\"] mod part;",
        ),
        ("c/part.rs", "use shared::it;"),
        ("a/b/Cargo.toml", ""),
        ("a/b/src/lib.rs", "use hex::encode;"),
    ]);
    let found = ["a/Cargo.toml lists hex and does not use it", "Cargo.toml lists only-here and no member does"];
    assert_eq!(findings(&planted), found);
}
