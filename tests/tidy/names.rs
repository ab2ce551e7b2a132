//! No two public types of a crate share a name, so that a reader never has to ask which of them is meant.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};

use super::tokens::product;
use super::{Files, none, planted, project, rust};

/// What declares a type.
const KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];

/// The protocol's macro for a public enum; the enum's name comes first in it.
const MACRO: &str = "words";

/// A name, and the line where it is declared.
type Declared = (String, usize);

fn findings(files: &Files) -> Vec<String> {
    let mut places: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for (path, text) in rust(files) {
        let Some((folder, _)) = path.split_once("/src/") else { continue };
        let mut types = Vec::new();
        public_types(&product(path, text), &mut types);
        for (name, line) in types {
            places.entry((folder, name)).or_default().push(format!("{path}:{line}"));
        }
    }
    let twins = places.iter().filter(|(_, places)| places.len() > 1);
    twins.map(|((folder, name), places)| format!("{folder} has several public {name}: {}", places.join(", "))).collect()
}

/// The types that are `pub` without a restriction, at any depth.
fn public_types(tokens: &[TokenTree], found: &mut Vec<Declared>) {
    for (at, token) in tokens.iter().enumerate() {
        match (token, &tokens[at + 1..]) {
            (TokenTree::Ident(word), [TokenTree::Ident(keyword), TokenTree::Ident(name), ..])
                if word == "pub" && KEYWORDS.iter().any(|known| keyword == known) =>
            {
                found.push((name.to_string(), name.span().start().line));
            }
            (TokenTree::Ident(word), [TokenTree::Punct(bang), TokenTree::Group(group), ..])
                if word == MACRO && bang.as_char() == '!' =>
            {
                found.extend(first_name(group.stream()));
            }
            (TokenTree::Group(group), _) => public_types(&group.stream().into_iter().collect::<Vec<_>>(), found),
            _ => {}
        }
    }
}

fn first_name(tokens: TokenStream) -> Option<Declared> {
    let Some(TokenTree::Ident(name)) = tokens.into_iter().next() else { return None };
    Some((name.to_string(), name.span().start().line))
}

#[test]
fn no_two_public_types_of_a_crate_have_one_name() {
    none(&findings(&project()));
    let twice = |first: &str, second: &str| findings(&planted([("a/src/b.rs", first), ("a/src/c.rs", second)]));
    let wanted = ["a has several public Settled: a/src/b.rs:1, a/src/c.rs:3"];
    assert_eq!(twice("pub struct Settled;", "mod d {\n\n  pub enum Settled {} }"), wanted);
    assert_eq!(twice("pub trait Settled {}", "\n\npub type Settled = u8;"), wanted);
    assert_eq!(twice("pub union Settled {}", "words! {\n  /// One.\n  Settled { A = \"a\" } }"), wanted);
    // What is not public may have any name, and so may a test's type and another crate's.
    assert_eq!(twice("pub struct Settled;", "pub(crate) struct Settled; struct Settled;"), [""; 0]);
    assert_eq!(twice("pub struct Settled;", "#[cfg(test)] mod tests { pub struct Settled; }"), [""; 0]);
    let apart = planted([("a/src/b.rs", "pub struct Settled;"), ("d/src/b.rs", "pub struct Settled;")]);
    assert_eq!(findings(&apart), [""; 0]);
}
