//! Rust sources as tokens: without comments, and text in strings is not taken for code.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens of a source, without its attributes and without its test modules.
pub(crate) fn product(path: &str, text: &str) -> Vec<TokenTree> {
    without_tests(text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}")))
}

fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    let mut in_test_item = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                // `#[..]` or `#![..]`
                if matches!(tokens.peek(), Some(TokenTree::Punct(bang)) if bang.as_char() == '!') {
                    tokens.next();
                }
                let attribute = tokens.next().map(|attribute| attribute.to_string().replace(' ', ""));
                in_test_item |= attribute.as_deref() == Some("[cfg(test)]");
            }
            TokenTree::Group(group) if in_test_item && group.delimiter() == Delimiter::Brace => in_test_item = false,
            TokenTree::Punct(punct) if in_test_item && punct.as_char() == ';' => in_test_item = false,
            _ if in_test_item => {}
            TokenTree::Group(group) => {
                let inner = without_tests(group.stream()).into_iter().collect();
                kept.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
            }
            other => kept.push(other),
        }
    }
    kept
}

/// Every identifier, at any depth.
pub(crate) fn identifiers(tokens: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    each(tokens, &mut |token| found.extend(identifier(token)));
    found
}

/// The content of every plain string literal, at any depth.
pub(crate) fn strings(tokens: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    each(tokens, &mut |token| {
        if let TokenTree::Literal(literal) = token {
            let text = literal.to_string();
            if let Some(content) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                found.push(content.to_owned());
            }
        }
    });
    found
}

/// The strings in the bodies of the functions of this name.
pub(crate) fn strings_of_function(tokens: &[TokenTree], name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after_fn = false;
    let mut wanted = false;
    for token in tokens {
        if let Some((delimiter, inner)) = group(token) {
            if wanted && delimiter == Delimiter::Brace {
                wanted = false;
                found.extend(strings(&inner));
            } else {
                found.extend(strings_of_function(&inner, name));
            }
        }
        let ident = identifier(token);
        wanted |= after_fn && ident.as_deref() == Some(name);
        after_fn = ident.as_deref() == Some("fn");
    }
    found
}

/// The strings in the braces right behind this name, where it is not implemented: the variants of an enum.
pub(crate) fn strings_of_enum(tokens: &[TokenTree], name: &str) -> Vec<String> {
    strings_behind(tokens, &|before, word| word == name && before != "impl")
}

/// The strings in the inherent implementations of a type.
pub(crate) fn strings_of_impl(tokens: &[TokenTree], name: &str) -> Vec<String> {
    strings_behind(tokens, &|before, word| word == name && before == "impl")
}

/// The strings in the braces right behind two such tokens, at any depth. What is no identifier is empty.
fn strings_behind(tokens: &[TokenTree], wanted: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let (mut before, mut word) = (String::new(), String::new());
    for token in tokens {
        if let Some((delimiter, inner)) = group(token) {
            let is_wanted = delimiter == Delimiter::Brace && wanted(&before, &word);
            found.extend(if is_wanted { strings(&inner) } else { strings_behind(&inner, wanted) });
        }
        before = std::mem::replace(&mut word, identifier(token).unwrap_or_default());
    }
    found
}

fn identifier(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn group(token: &TokenTree) -> Option<(Delimiter, Vec<TokenTree>)> {
    if let TokenTree::Group(group) = token {
        Some((group.delimiter(), group.stream().into_iter().collect()))
    } else {
        None
    }
}

fn each(tokens: &[TokenTree], visit: &mut impl FnMut(&TokenTree)) {
    for token in tokens {
        visit(token);
        if let Some((_, inner)) = group(token) {
            each(&inner, visit);
        }
    }
}

#[test]
fn tests_comments_and_attributes_are_not_product_code() {
    let text = r#"
        #![doc = "OUTSIDE_ONE"]
        /// "OUTSIDE_TWO"
        fn kept() { let _ = "INSIDE"; } // "OUTSIDE_THREE"
        #[cfg(test)]
        mod tests { const NOT: &str = "OUTSIDE_FOUR"; }
        fn after() { let _ = "AFTER"; }
    "#;
    assert_eq!(strings(&product("planted.rs", text)), ["INSIDE", "AFTER"]);
    assert_eq!(strings_of_function(&product("planted.rs", text), "after"), ["AFTER"]);
    let text = r#"word! { Kind { One = "ONE" } } impl Kind { fn a(kind: Kind) -> &str { "TWO" } }"#;
    assert_eq!(strings_of_enum(&product("planted.rs", text), "Kind"), ["ONE"]);
    assert_eq!(strings_of_impl(&product("planted.rs", text), "Kind"), ["TWO"]);
}
