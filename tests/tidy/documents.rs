//! Documents link only to what exists.

use std::collections::BTreeMap;

use super::{Files, has_extension, none, planted, project};

/// Relative links of Markdown files that lead nowhere.
fn dead_links(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| has_extension(path, "md")) {
        for target in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            let outside = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            if !outside && !exists(files, &resolve(path, file)) {
                findings.push(format!("{path} links to {target}, which does not exist"));
            }
        }
    }
    findings
}

/// Python packages that a document or a script installs without their hashes.
fn unlocked(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !has_extension(path, "rs")) {
        let installs = |line: &&str| line.contains("pip") && line.contains(" install ");
        for line in text.lines().filter(installs).filter(|line| !line.contains("--require-hashes")) {
            findings.push(format!("{path} installs without hashes: {}", line.trim()));
        }
    }
    findings
}

/// Tools that two environments have in different versions.
fn differing_pins(files: &Files) -> Vec<String> {
    let mut versions = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("scripts/locks/") && has_extension(path, "in"))
    {
        for (package, version) in text.lines().filter_map(|line| line.split_once("==")) {
            let first = *versions.entry(package).or_insert(version);
            if first != version {
                findings.push(format!("{path} has {package} {version}, another environment has {first}"));
            }
        }
    }
    findings
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn exists(files: &Files, path: &str) -> bool {
    files.contains_key(path)
        || files.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

#[test]
fn every_link_leads_somewhere() {
    none(&dead_links(&project()));
    let files = planted([
        ("docs/a.md", "[b](b.md) [c](../c/d.md#part) [here](#part) [web](https://example.com)"),
        ("docs/b.md", ""),
    ]);
    assert_eq!(dead_links(&files), ["docs/a.md links to ../c/d.md#part, which does not exist"]);
}

#[test]
fn every_python_package_is_installed_by_its_hash() {
    none(&unlocked(&project()));
    let files = planted([
        ("docs/a.md", "pip install --require-hashes --no-deps --requirement scripts/locks/a.txt"),
        ("scripts/b", "  \"$tools/bin/pip\" install cargo-lambda==1.2.3"),
    ]);
    assert_eq!(unlocked(&files).len(), 1);
}

#[test]
fn a_tool_has_one_version() {
    none(&differing_pins(&project()));
    let files = planted([("scripts/locks/a.in", "one==1.0\ntwo==2.0"), ("scripts/locks/b.in", "one==1.1\ntwo==2.0")]);
    assert_eq!(differing_pins(&files), ["scripts/locks/b.in has one 1.1, another environment has 1.0"]);
}
