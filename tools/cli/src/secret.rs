//! Secrets that a person gives: never on the command line, where every process of the machine can read them.

use std::io::{IsTerminal as _, Read as _};

use crate::failure::Failure;

/// The only value of an option that takes a secret.
const STANDARD_INPUT: &str = "-";

/// An option that takes a secret from standard input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromInput;

/// Parses the value of an option that takes a secret.
///
/// # Errors
/// A sentence, for anything but `-`. It does not repeat the value, which may be a secret.
pub(crate) fn from_input(text: &str) -> Result<FromInput, String> {
    if text == STANDARD_INPUT {
        return Ok(FromInput);
    }
    Err("every process of this machine can read a command line: pass `-` and give the secret on standard input"
        .to_owned())
}

impl FromInput {
    /// Reads the secret: asked for without showing it on a terminal, else all of standard input without the line break at
    /// its end.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot be read.
    #[expect(clippy::unused_self, reason = "only an option that was given as `-` may read")]
    pub(crate) fn read(self, what: &str) -> Result<String, Failure> {
        let read = if std::io::stdin().is_terminal() {
            rpassword::prompt_password(format!("{what}: "))
        } else {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        };
        let unreadable = |error: std::io::Error| {
            Failure::usage(format!("reading {what} failed: {error}"), "give it on standard input, as UTF-8 text")
        };
        let text = read.map_err(unreadable)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
    }
}
