//! Documents link only to what exists.

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

/// Tools that a document installs in a version other than the scripts do.
fn other_pins(files: &Files) -> Vec<String> {
    let pinned = files.get("scripts/tools.bash").map_or("", String::as_str);
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| has_extension(path, "md")) {
        for pin in text.split_whitespace() {
            let Some((tool, version)) = pin.split_once("==") else { continue };
            let assignment = format!("{}={version}", tool.replace('-', "_"));
            let is_version = version.starts_with(|first: char| first.is_ascii_digit());
            if is_version && !pinned.lines().any(|line| line == assignment) {
                findings.push(format!("{path} installs {pin}, which scripts/tools.bash does not"));
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
fn a_tool_has_one_version() {
    none(&other_pins(&project()));
    let files = planted([
        ("docs/a.md", "pip install cargo-lambda==1.2.3 ziglang==1.0.0"),
        ("scripts/tools.bash", "cargo_lambda=1.2.3\nziglang=1.0.1"),
    ]);
    assert_eq!(other_pins(&files), ["docs/a.md installs ziglang==1.0.0, which scripts/tools.bash does not"]);
}
