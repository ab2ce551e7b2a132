//! Every code that an operator can meet has a page, and every page its code.

use std::collections::BTreeSet;

use crate::support::tokens::{product, strings, strings_of_enum, strings_of_function};
use crate::tidy::{Files, none, planted, project, rust};

/// Where HTTP refusals get their codes: file and function.
const HTTP: &[(&str, &str)] =
    &[("functions/webhook/src/answer.rs", "parts"), ("shared/providers/src/refusal.rs", "code")];

/// Where records get their reasons to be dead: file and enum.
const DEAD: (&str, &str) = ("shared/protocol/src/record/mod.rs", "DeadReason");

const PAGES: &str = "docs/errors/";

/// Upper-case words that are not failure codes: an outcome, methods, names of the environment.
fn is_failure(text: &str) -> bool {
    let shape = (text.contains('_') || text == "UNROUTED")
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let other = ["AWS_", "CARGO_", "HOOKONCE_", "SSL_CERT_"].iter().any(|prefix| text.starts_with(prefix))
        || ["FANNED_OUT", "OUT_DIR"].contains(&text);
    shape && !text.starts_with('_') && !text.ends_with('_') && !other
}

fn codes(files: &Files) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for (path, function) in HTTP {
        if let Some(text) = files.get(*path) {
            codes.extend(strings_of_function(&product(path, text), function));
        }
    }
    if let Some(text) = files.get(DEAD.0) {
        codes.extend(strings_of_enum(&product(DEAD.0, text), DEAD.1));
    }
    // Those of the samples count, too: they are what a first reader meets.
    let product_code = |path: &str| {
        ["functions/", "shared/", "examples/"].iter().any(|at| path.starts_with(at)) && path.contains("/src/")
    };
    for (path, text) in rust(files).filter(|(path, _)| product_code(path)) {
        codes.extend(strings(&product(path, text)).into_iter().filter(|text| is_failure(text)));
    }
    codes
}

fn pages(files: &Files) -> BTreeSet<String> {
    let names = files.keys().filter_map(|path| path.strip_prefix(PAGES)?.strip_suffix(".md"));
    names.map(str::to_owned).collect()
}

fn unpaired(files: &Files) -> Vec<String> {
    let (codes, pages) = (codes(files), pages(files));
    let missing = codes.difference(&pages).map(|code| format!("{code} has no page {PAGES}{code}.md"));
    let stale = pages.difference(&codes).map(|page| format!("{PAGES}{page}.md describes a code that nothing reports"));
    let nameless = pages.iter().filter(|page| {
        files.get(&format!("{PAGES}{page}.md")).is_some_and(|text| !text.starts_with(&format!("# {page}\n")))
    });
    let nameless = nameless.map(|page| format!("{PAGES}{page}.md does not begin with its code"));
    missing.chain(stale).chain(nameless).collect()
}

#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let project = project();
    none(&unpaired(&project));
    let codes = codes(&project);
    for expected in
        ["signature_mismatch", "store_unavailable", "STALE", "ATTEMPTS_EXHAUSTED", "PLAN_REFUSED", "PUSH_UNREADABLE"]
    {
        assert!(codes.contains(expected), "{expected} was not found in the sources");
    }
}

#[test]
fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
    let handler = r#"fn plan() { permanent("ONE_CODE") } /// "NOT_CODE"
        #[cfg(test)] mod tests { const A: &str = "TEST_CODE"; }"#;
    let refusal = r#"impl Refusal { const fn code(self) -> &'static str { "two_code" } }"#;
    let reasons = "words! {\n    DeadReason {\n        /// Old.\n        Stale = \"STALE\",\n    }\n}\n";
    let files = planted([
        ("examples/src/a.rs", handler),
        ("shared/providers/src/refusal.rs", refusal),
        ("shared/protocol/src/record/mod.rs", reasons),
        ("docs/errors/THREE_CODE.md", "# THREE_CODE\n"),
    ]);
    let found = unpaired(&files);
    for code in ["ONE_CODE has no page", "two_code has no page", "STALE has no page", "THREE_CODE.md describes"] {
        assert!(found.iter().any(|finding| finding.contains(code)), "{code} not in {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
}
