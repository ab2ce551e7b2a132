//! Secrets that are long enough and still easily guessed.

use std::collections::BTreeSet;

use crate::limits::SECRET_DISTINCT_BYTES_MIN;

/// The words that placeholders of secrets are made of.
const PLACEHOLDER_WORDS: [&str; 33] = [
    "api",
    "app",
    "change",
    "client",
    "default",
    "enter",
    "example",
    "here",
    "hook",
    "insert",
    "is",
    "key",
    "me",
    "my",
    "passwd",
    "password",
    "placeholder",
    "put",
    "replace",
    "secret",
    "shared",
    "signature",
    "signing",
    "test",
    "the",
    "this",
    "token",
    "value",
    "webhook",
    "webhooks",
    "whsec",
    "with",
    "your",
];

/// A longer text is no placeholder.
const PLACEHOLDER_BYTES_MAX: usize = 128;

/// True for a secret of few different bytes, and for a text whose words all stand for a secret, such as
/// `your_webhook_secret` or `changeme-1234567`.
pub(crate) fn is_guessable(secret: &[u8]) -> bool {
    secret.iter().collect::<BTreeSet<_>>().len() < SECRET_DISTINCT_BYTES_MIN || is_placeholder(secret)
}

fn is_placeholder(secret: &[u8]) -> bool {
    let Some(text) = std::str::from_utf8(secret).ok().filter(|text| text.len() <= PLACEHOLDER_BYTES_MAX) else {
        return false;
    };
    let text = text.to_ascii_lowercase();
    let mut words = text.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(is_made_of_placeholder_words)
}

/// True for `changeme`.
fn is_made_of_placeholder_words(text: &str) -> bool {
    // The ends of what is made of whole words, from the text's beginning.
    let mut ends = vec![0];
    let mut next = 0;
    while let Some(end) = ends.get(next).copied() {
        let rest = text.get(end..).unwrap_or_default();
        for word in PLACEHOLDER_WORDS.iter().filter(|word| rest.starts_with(**word)) {
            if !ends.contains(&(end + word.len())) {
                ends.push(end + word.len());
            }
        }
        next += 1;
    }
    ends.contains(&text.len())
}
