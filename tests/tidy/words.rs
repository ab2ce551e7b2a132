//! Words that must not appear in the project. They are put together from halves here, so that this file passes.

use super::{Files, none, planted, project, rust};

/// Work that was left undone.
const UNDONE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Code that was left undone: searched in Rust sources, spaces aside.
const UNDONE_CODE: &[&str] = &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ign", "ore")];

/// What comes from one person's machine and means nothing to a reader: local folders, private notes, writing tools.
/// Compared in lower case, as whole words.
const LOCAL_TRACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/us", "ers/"),
    concat!("design", ".md"),
    concat!("protocol", ".md"),
    concat!("style", ".md"),
    concat!("facts/", "aws.md"),
    concat!("facts/", "local.md"),
    concat!("this ses", "sion"),
    concat!("ai assis", "tant"),
    concat!("assis", "tant"),
    concat!("chat", "gpt"),
    concat!("cla", "ude"),
    concat!("cop", "ilot"),
    concat!("l", "lm"),
];

/// A ticket by its number: the reason belongs in the text.
const TICKET: &[&str] =
    &[concat!("i", "ssue "), concat!("i", "ssue #"), concat!("tick", "et "), concat!("tick", "et #")];

/// Written by machines or by others.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE", "events/"];

fn ours(files: &Files) -> impl Iterator<Item = (&str, usize, &str)> {
    let ours = files.iter().filter(|(path, _)| !NOT_OURS.iter().any(|other| path.starts_with(other)));
    ours.flat_map(|(path, text)| text.lines().zip(1..).map(move |(line, number)| (path.as_str(), number, line)))
}

fn undone(files: &Files) -> Vec<String> {
    let words = ours(files).filter(|(_, _, line)| UNDONE.iter().any(|word| has_word(line, word)));
    let mut findings: Vec<_> = words.map(|(path, number, line)| finding(path, number, line)).collect();
    for (path, text) in rust(files) {
        for (line, number) in text.lines().zip(1..) {
            let dense = line.replace(' ', "");
            if UNDONE_CODE.iter().any(|code| dense.contains(code)) {
                findings.push(finding(path, number, line));
            }
        }
    }
    findings
}

fn local_traces(files: &Files) -> Vec<String> {
    let found = ours(files).filter(|(_, _, line)| {
        let line = line.to_lowercase();
        LOCAL_TRACES.iter().any(|word| has_word(&line, word)) || TICKET.iter().any(|word| is_numbered(&line, word))
    });
    found.map(|(path, number, line)| finding(path, number, line)).collect()
}

fn finding(path: &str, number: usize, line: &str) -> String {
    format!("{path}:{number}: {}", line.trim())
}

/// Whether `line` contains `word` as a whole word. Where the word does not end in a letter, it needs no boundary.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |character: Option<char>| character.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        let free = |inner: Option<char>, outer| !(is_letter(inner) && is_letter(outer));
        free(word.chars().next(), before) && free(word.chars().next_back(), after)
    })
}

fn is_numbered(line: &str, word: &str) -> bool {
    let digit = |rest: &str| rest.starts_with(|character: char| character.is_ascii_digit());
    line.match_indices(word).any(|(at, _)| line.get(at + word.len()..).is_some_and(digit))
}

#[test]
fn nothing_is_left_undone() {
    none(&undone(&project()));
    for word in UNDONE {
        assert_eq!(undone(&planted([("a.md", &format!("- {word}: later"))])).len(), 1, "{word}");
        assert_eq!(undone(&planted([("a.md", &format!("{word}{word}"))])).len(), 0, "{word}");
    }
    for code in UNDONE_CODE {
        assert_eq!(undone(&planted([("a.rs", &format!("fn a() {{ {code})"))])).len(), 1, "{code}");
    }
}

#[test]
fn nothing_names_one_persons_machine() {
    none(&local_traces(&project()));
    for word in LOCAL_TRACES {
        assert_eq!(local_traces(&planted([("a.rs", &format!("// see {word}x and {word}"))])).len(), 1, "{word}");
    }
    for word in TICKET {
        assert_eq!(local_traces(&planted([("a.rs", &format!("// see {word}3"))])).len(), 1, "{word}");
        assert_eq!(local_traces(&planted([("a.rs", &format!("// an {word}of records"))])).len(), 0, "{word}");
    }
}
