//! Files and functions stay short enough to check on one screen.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::parse;
use super::{Files, has_extension, none, planted, project, rust};

/// Longest source file, in lines.
const FILE_LINES_MAX: usize = 700;

/// Longest function, in lines, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Longest line of a comment or a page, in characters. Tables, diagrams and addresses may need more.
const LINE_LENGTH_MAX: usize = 120;

/// Pages that programs write.
const WRITTEN_BY_PROGRAMS: [&str; 2] = ["docs/capacity.md", "docs/providers.md"];

fn long_lines(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !WRITTEN_BY_PROGRAMS.contains(&path.as_str())) {
        let (is_rust, is_page) = (has_extension(path, "rs"), has_extension(path, "md"));
        let mut in_block = false;
        for (line, number) in text.lines().zip(1..) {
            let prose = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            let is_prose = if is_rust { line.trim_start().starts_with("//") } else { is_page };
            in_block ^= is_prose && prose.starts_with("```");
            let is_free = in_block || prose.starts_with('|') || line.contains("://");
            if is_prose && !is_free && line.chars().count() > LINE_LENGTH_MAX {
                findings.push(format!("{path}:{number} is longer than {LINE_LENGTH_MAX} characters"));
            }
        }
    }
    findings
}

fn long_files(files: &Files) -> Vec<String> {
    let long =
        rust(files).map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > FILE_LINES_MAX);
    long.map(|(path, lines)| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}")).collect()
}

fn long_functions(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in rust(files) {
        collect(path, parse(path, text), &mut findings);
    }
    findings
}

/// A function is `fn name .. {`; one that ends in `;` has no body.
fn collect(path: &str, tokens: TokenStream, findings: &mut Vec<String>) {
    let mut open: Option<(String, usize)> = None;
    let mut after_fn = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if after_fn => {
                after_fn = false;
                open = Some((ident.to_string(), ident.span().start().line));
            }
            TokenTree::Ident(ident) => after_fn = ident == "fn",
            TokenTree::Punct(punct) if punct.as_char() == ';' => open = None,
            TokenTree::Group(group) => {
                after_fn = false;
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, first)) = open.take()
                {
                    let lines = group.span_close().end().line - first + 1;
                    if lines > FUNCTION_LINES_MAX {
                        findings
                            .push(format!("{path}:{first}: {name} has {lines} lines, at most {FUNCTION_LINES_MAX}"));
                    }
                }
                collect(path, group.stream(), findings);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[test]
fn no_sentence_leaves_the_screen() {
    none(&long_lines(&project()));
    let (long, short) = ("a".repeat(LINE_LENGTH_MAX + 1), "a".repeat(LINE_LENGTH_MAX - 3));
    none(&long_lines(&planted([(
        "a.rs",
        &format!("// {short}\n/// | {long}\n/// ```text\n/// {long}\n/// ```\n{long}"),
    )])));
    assert_eq!(long_lines(&planted([("a.rs", &format!("// {long}")), ("a.md", &long)])).len(), 2);
}

#[test]
fn no_file_is_too_long() {
    none(&long_files(&project()));
    none(&long_files(&planted([("a.rs", &"\n".repeat(FILE_LINES_MAX))])));
    assert_eq!(long_files(&planted([("a.rs", &"\n".repeat(FILE_LINES_MAX + 1))])).len(), 1);
}

#[test]
fn no_function_is_too_long() {
    none(&long_functions(&project()));
    let function = |lines: usize| format!("impl A {{ fn long(a: fn(u8)) -> u8 {{{}}} }}", "\n".repeat(lines - 1));
    none(&long_functions(&planted([("a.rs", &function(FUNCTION_LINES_MAX))])));
    let found = long_functions(&planted([("a.rs", &function(FUNCTION_LINES_MAX + 1))]));
    assert_eq!(found, [format!("a.rs:1: long has {} lines, at most {FUNCTION_LINES_MAX}", FUNCTION_LINES_MAX + 1)]);
}
