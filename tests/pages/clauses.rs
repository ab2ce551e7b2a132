//! Every clause of the protocol that a comment, a proof or a page names has a line, and every line is used.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{Files, none, planted, project, rust};

/// Where clauses are defined: a line of a table begins with the code. The second page defines the promises alone.
const PAGES: &[&str] = &["docs/trust/clauses.md", "docs/trust/reliability.md"];

/// Where clauses are named.
fn names_clauses(path: &str) -> bool {
    ["shared/protocol/src/", "tests/proof/src/"].iter().any(|folder| path.starts_with(folder))
        || path == "tools/cli/src/command/audit.rs"
}

/// The clause that a word is: a letter of the protocol's parts and a number, or a section such as `1.9`.
fn clause(word: &str) -> Option<&str> {
    let word = word.split('[').next().unwrap_or(word);
    let (part, number) = word.split_at_checked(1)?;
    let is_number = (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_section = part == "1" && number.len() == 2 && number.starts_with('.') && number.ends_with(char::is_numeric);
    ((is_number && "ADFGHPQRW".contains(part)) || is_section).then_some(word)
}

/// The words of a text that are clauses. A section counts where a list of clauses can stand: in front of `:` and `,`,
/// or at the end of a sentence.
fn clauses(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| char.is_whitespace() || "\"/|(`\\".contains(char));
    let ends = |word: &&str| !word.starts_with('1') || word.ends_with([':', ',', '.']);
    words.filter(ends).filter_map(|word| clause(word.trim_end_matches([':', ',', '.', ';', ')']))).collect()
}

fn unpaired(files: &Files) -> Vec<String> {
    let pages = || PAGES.iter().filter_map(|page| Some((*page, files.get(*page)?)));
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    for (page, text) in pages() {
        let first = |line| str::strip_prefix(line, "| ").and_then(|rest| rest.split(" |").next());
        defined
            .extend(text.lines().filter_map(first).filter(|&cell| clause(cell) == Some(cell)).map(|code| (code, page)));
    }
    let mut used: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, text) in rust(files).filter(|(path, _)| names_clauses(path)) {
        used.extend(clauses(text).into_iter().map(|code| (code, path)));
    }
    let named = used.iter().filter(|(code, _)| !defined.contains_key(*code));
    let named = named.map(|(code, path)| format!("{path} names {code}, which has no line in {}", PAGES[0]));
    let stale = defined.iter().filter(|(code, page)| **page == PAGES[0] && !used.contains_key(*code));
    named.chain(stale.map(|(code, page)| format!("{page} explains {code}, which nothing names"))).collect()
}

#[test]
fn every_clause_has_its_line_and_every_line_its_use() {
    let project = project();
    none(&unpaired(&project));
    let purposes = clauses(&project["shared/protocol/src/purpose.rs"]);
    assert!(["G1", "1.8", "W4", "Q11", "H15"].iter().all(|code| purposes.contains(code)), "{purposes:?}");
}

#[test]
fn a_clause_without_a_line_and_a_line_without_a_use_are_found() {
    let files = planted([
        ("docs/trust/clauses.md", "| clause | says |\n|---|---|\n| G1 | A claim. |\n| W9 | Old. |\n"),
        (
            "shared/protocol/src/purpose.rs",
            "/// A claim: G1, W4\\[0\\], 1.8.\n/// From 1 to 1.25, in A100 parts of 1.5 each.\n",
        ),
    ]);
    assert_eq!(
        unpaired(&files),
        [
            "shared/protocol/src/purpose.rs names 1.8, which has no line in docs/trust/clauses.md",
            "shared/protocol/src/purpose.rs names W4, which has no line in docs/trust/clauses.md",
            "docs/trust/clauses.md explains W9, which nothing names",
        ]
    );
}
