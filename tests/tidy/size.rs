//! Files stay short enough for one subject. Clippy counts the lines of functions (`clippy.toml`).

use super::{Files, none, planted, project, rust};

/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 700;

fn long_files(files: &Files) -> Vec<String> {
    let long =
        rust(files).map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > FILE_LINES_MAX);
    long.map(|(path, lines)| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}")).collect()
}

/// How many lines the rules in this folder have together.
fn rule_lines(files: &Files) -> usize {
    files.iter().filter(|(path, _)| path.starts_with("tests/tidy/")).map(|(_, text)| text.lines().count()).sum()
}

#[test]
fn the_rules_on_sources_stay_few() {
    assert!(rule_lines(&project()) <= 700, "{} lines", rule_lines(&project()));
    assert_eq!(rule_lines(&planted([("tests/tidy/a.rs", "1\n2\n"), ("tests/a.rs", "1\n")])), 2);
}

#[test]
fn no_file_is_too_long() {
    none(&long_files(&project()));
    none(&long_files(&planted([("a.rs", &"\n".repeat(FILE_LINES_MAX))])));
    assert_eq!(long_files(&planted([("a.rs", &"\n".repeat(FILE_LINES_MAX + 1))])).len(), 1);
}
