//! Pages link only to what exists.

use crate::tidy::{Files, has_extension, none, planted, project, rust};

/// Links of Markdown files that lead to no file, or to no heading.
fn dead_links(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| has_extension(path, "md")) {
        for target in links(text).filter(|target| !target.contains("://") && !target.starts_with("mailto:")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { resolve(path, file) };
            let page = files.get(&file).filter(|_| has_extension(&file, "md"));
            if !exists(files, &file) || page.is_some_and(|page| !heading.is_empty() && !has_heading(page, heading)) {
                findings.push(format!("{path} links to {target}, which does not exist"));
            }
        }
    }
    findings
}

/// Whether a page has the heading that links name so.
fn has_heading(page: &str, anchor: &str) -> bool {
    let kept = |letter: &char| letter.is_alphanumeric() || "-_".contains(*letter);
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .any(|it| it.chars().filter(kept).eq(anchor.chars()))
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
        ("docs/a.md", "[b](b.md#what-it-is) [c](../c/d.md#part) [here](#part) [web](https://example.com)"),
        ("docs/b.md", "## What `it` is\n"),
    ]);
    let dead = ["../c/d.md#part", "#part"].map(|target| format!("docs/a.md links to {target}, which does not exist"));
    assert_eq!(dead_links(&files), dead);
}

/// Tests that the threat model names and nobody wrote.
fn imagined_tests(files: &Files) -> Vec<String> {
    let named = files.get("docs/trust/security.md").map_or("", String::as_str).split('`').skip(1).step_by(2);
    // A name with fewer words is a metric.
    let named = named.filter(|name| name.matches('_').count() > 2 && !name.contains('/'));
    let exists = |name: &str| rust(files).any(|(_, text)| text.contains(&format!("fn {name}(")));
    named.filter(|name| !exists(name)).map(|name| format!("there is no test {name}")).collect()
}

#[test]
fn the_threat_model_names_tests_that_exist() {
    none(&imagined_tests(&project()));
    let files = planted([
        ("docs/trust/security.md", "`it_is_so_here`, `it_is_not_so`, `a_metric`"),
        ("tests/a.rs", "fn it_is_so_here() {}"),
    ]);
    assert_eq!(imagined_tests(&files), ["there is no test it_is_not_so"]);
}
