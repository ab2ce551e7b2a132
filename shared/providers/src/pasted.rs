//! A secret as a person pastes it: with quotation marks, as a line of an environment file, or something else in its
//! place.

use crate::provider::Provider;
use crate::scheme::Scheme;

/// Most layers around a secret that are taken off.
const LAYERS_MAX: usize = 8;

/// What stands around a text where it was copied.
const QUOTES: [(char, char); 7] = [
    ('"', '"'),
    ('\'', '\''),
    ('`', '`'),
    ('\u{201c}', '\u{201d}'),
    ('\u{201e}', '\u{201c}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{ab}', '\u{bb}'),
];

/// Words in the names of variables and labels that hold a secret.
const NAMED: [&str; 7] = ["secret", "key", "token", "password", "signing", "webhook", "hmac"];

/// Beginnings that only one kind of text has, and what it is. No provider of the catalog signs with one of them.
const KINDS: [(&str, &str); 37] = [
    ("sk_test_", "a secret API key of Stripe or Clerk"),
    ("sk_live_", "a secret API key of Stripe or Clerk"),
    ("rk_test_", "a restricted API key of Stripe"),
    ("rk_live_", "a restricted API key of Stripe"),
    ("pk_test_", "a publishable API key of Stripe or Clerk"),
    ("pk_live_", "a publishable API key of Stripe or Clerk"),
    ("sk-proj-", "an API key of OpenAI"),
    ("sk-svcacct-", "an API key of OpenAI"),
    ("sk-admin-", "an API key of OpenAI"),
    ("sk-ant-", "an API key of Anthropic"),
    ("ghp_", "an access token of GitHub"),
    ("gho_", "an access token of GitHub"),
    ("ghu_", "an access token of GitHub"),
    ("ghs_", "an access token of GitHub"),
    ("github_pat_", "an access token of GitHub"),
    ("glpat-", "an access token of GitLab"),
    ("xoxb-", "a token of Slack"),
    ("xoxp-", "a token of Slack"),
    ("xapp-", "a token of Slack"),
    ("shpat_", "an access token of Shopify"),
    ("shpca_", "an access token of Shopify"),
    ("SG.", "an API key of SendGrid"),
    ("lin_api_", "an API key of Linear"),
    ("pdl_live_apikey_", "an API key of Paddle"),
    ("pdl_sdbx_apikey_", "an API key of Paddle"),
    ("rzp_test_", "a key id of Razorpay"),
    ("rzp_live_", "a key id of Razorpay"),
    ("whpk_", "the public key of an asymmetric scheme that is not supported"),
    ("whsk_", "the private key of an asymmetric scheme that is not supported"),
    ("sha256=", "a signature"),
    ("sha1=", "a signature"),
    ("v1=", "a signature"),
    ("v0=", "a signature"),
    ("t=", "a signature"),
    ("http://", "an address"),
    ("https://", "an address"),
    ("curl ", "a command"),
];

/// The secret without what stood around it.
#[derive(Clone, PartialEq, Eq)]
pub struct Pasted {
    /// The secret.
    pub secret: String,
    /// What was taken off, in words.
    pub taken_off: Vec<&'static str>,
}

/// Why a text that was pasted is no secret. It holds none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PastedError {
    /// It is something else.
    #[error("what was pasted is {kind}, and not the secret of a webhook")]
    Other {
        /// What it is, in words.
        kind: &'static str,
    },
    /// There is nothing within what stands around it.
    #[error("what was pasted is empty within its quotation marks or behind its name")]
    Empty,
}

impl std::fmt::Debug for Pasted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pasted").field("taken_off", &self.taken_off).finish_non_exhaustive()
    }
}

impl Provider {
    /// The secret in a text that a person pasted.
    ///
    /// # Errors
    /// [`PastedError`] when it is something else. Whether it has the form of this provider's secrets is a question for
    /// [`Facts::check_secret`](crate::Facts::check_secret).
    pub fn pasted_secret(&self, text: &str) -> Result<Pasted, PastedError> {
        let (mut secret, mut taken_off) = (text, Vec::new());
        for _ in 0..LAYERS_MAX {
            let Some((inner, what)) = self.without_layer(secret, &taken_off) else { break };
            if inner.is_empty() {
                return Err(PastedError::Empty);
            }
            secret = inner;
            if !taken_off.contains(&what) {
                taken_off.push(what);
            }
        }
        self.other_kind(secret).map_or_else(
            || Ok(Pasted { secret: secret.to_owned(), taken_off }),
            |kind| Err(PastedError::Other { kind }),
        )
    }

    /// The text without the outermost thing that is no part of it, and what that is.
    fn without_layer<'a>(&self, text: &'a str, taken_off: &[&str]) -> Option<(&'a str, &'static str)> {
        let bare = text.trim_matches(is_blank);
        if bare.len() < text.len() {
            return Some((bare, BLANKS));
        }
        if let Some(version) = self.without_version(text) {
            return Some((version, VERSION));
        }
        if let Some(value) = self.assigned(text) {
            return Some((value, ASSIGNMENT));
        }
        let quoted = QUOTES.iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
        if let Some(inner) = quoted {
            return Some((inner, MARKS));
        }
        let last = text.strip_suffix([',', ';'])?;
        let ends_a_line = taken_off.contains(&ASSIGNMENT) || QUOTES.iter().any(|(_, close)| last.ends_with(*close));
        ends_a_line.then_some((last, SEPARATOR))
    }

    /// `v1,whsec_...`, as Supabase shows the secrets of Standard Webhooks.
    fn without_version<'a>(&self, text: &'a str) -> Option<&'a str> {
        let prefix = self.facts().secret_prefix.as_deref()?;
        text.strip_prefix("v1,").filter(|secret| secret.starts_with(prefix))
    }

    /// The value of `NAME=value`, `name: value` or `"name": "value"`, if the name is one of a secret.
    fn assigned<'a>(&self, text: &'a str) -> Option<&'a str> {
        if text.starts_with("-----BEGIN") || text.lines().count() > 1 {
            return None;
        }
        let equals =
            text.split_once('=').filter(|(name, value)| names_variable(name) && !value.trim_matches('=').is_empty());
        // What such a provider sends is a header's value, which may have a name of its own.
        let is_free = self.schemes.iter().any(|entry| matches!(entry.scheme, Scheme::Token(_)));
        let colon = || text.split_once(": ").filter(|(name, _)| !is_free && names_label(name));
        let quoted = || text.split_once("\":").filter(|(name, _)| names_label(&format!("{name}\"")));
        equals.or_else(quoted).or_else(colon).map(|(_, value)| value)
    }

    /// What a text is that is no secret.
    fn other_kind(&self, text: &str) -> Option<&'static str> {
        let key_pair = !self.can_sign();
        let sid = |start: &str| text.len() == 34 && text.starts_with(start) && is_hex(&text[2..]);
        let access_key =
            |start: &str| text.len() == 20 && text.starts_with(start) && text.bytes().all(is_upper_or_digit);
        let own = self.facts().secret_prefix.as_deref().is_some_and(|prefix| text.starts_with(prefix));
        if !own && let Some((_, kind)) = KINDS.iter().find(|(start, _)| text.starts_with(start)) {
            return Some(kind);
        }
        if sid("AC") || sid("SK") || sid("MG") {
            return Some("an id of Twilio");
        }
        if text.starts_with("re_") && text.as_bytes().get(11) == Some(&b'_') {
            return Some("an API key of Resend");
        }
        if text.starts_with("eyJ") && text.matches('.').count() == 2 {
            return Some("a JSON Web Token");
        }
        if access_key("AKIA") || access_key("ASIA") {
            return Some("an access key id of AWS");
        }
        if !key_pair && QUOTES.iter().any(|(open, close)| text.starts_with(*open) || text.ends_with(*close)) {
            return Some("a text with a quotation mark at one end");
        }
        if !key_pair && text.starts_with("-----BEGIN") {
            return Some("a key or a certificate in PEM");
        }
        if !key_pair && (text.starts_with('{') || text.starts_with('[')) {
            return Some("JSON");
        }
        if !key_pair && text.contains(['\n', '\r']) {
            return Some("a text of several lines");
        }
        None
    }
}

/// What is taken off, as a person reads it.
const BLANKS: &str = "white space or a byte order mark around it";
const MARKS: &str = "quotation marks around it";
const ASSIGNMENT: &str = "the name in front of it";
const VERSION: &str = "the version `v1,` in front of it (not for Supabase auth hooks: their answer decides a login)";
const SEPARATOR: &str = "a comma or semicolon after it";

/// White space, and what is invisible in a copy.
fn is_blank(symbol: char) -> bool {
    symbol.is_whitespace() || matches!(symbol, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\0')
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

const fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn holds_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMED.iter().any(|word| name.contains(word))
}

/// `STRIPE_SECRET`, `export STRIPE_SECRET`, `$env:STRIPE_SECRET `.
fn names_variable(name: &str) -> bool {
    let name = name.trim();
    let name = ["export ", "set ", "setx ", "const ", "let ", "$env:", "$"]
        .iter()
        .fold(name, |name, start| name.strip_prefix(start).unwrap_or(name));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.contains('_') && name.bytes().all(plain) && holds_word(name)
}

/// `Signing secret`, `stripe_secret`, `"secret"`.
fn names_label(name: &str) -> bool {
    let name = name.trim().trim_matches(['"', '\'', '{', ' ', ',']);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b' ';
    !name.is_empty() && name.bytes().all(plain) && holds_word(name)
}
