//! Secrets that a person gives. Every process of the machine can read a command line, so a secret that is to be kept comes
//! from standard input.

use std::fmt;
use std::io::{IsTerminal as _, Read as _};

use crate::failure::Failure;

/// The value that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The value of an option that takes a secret. It takes any text, because a refusal by the parser would print it.
#[derive(Clone)]
pub(crate) struct SecretOption(String);

impl From<&str> for SecretOption {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for SecretOption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretOption(<hidden>)")
    }
}

impl SecretOption {
    /// The secret, from standard input alone: for a secret that is stored.
    ///
    /// # Errors
    /// [`Failure::Usage`] for anything but `-`, or when standard input cannot be read.
    pub(crate) fn read_from_input(&self, what: &str) -> Result<String, Failure> {
        if self.0 == STANDARD_INPUT {
            return read(what);
        }
        Err(Failure::usage(
            format!("the {what} stands on the command line, where every process of this machine can read it"),
            "pass `-`, and give the secret on standard input",
        ))
    }

    /// The secret as given, or from standard input: for a delivery that tests an endpoint.
    ///
    /// # Errors
    /// [`Failure::Usage`] when standard input cannot be read.
    pub(crate) fn given(self, what: &str) -> Result<String, Failure> {
        if self.0 == STANDARD_INPUT { read(what) } else { Ok(self.0) }
    }
}

/// Reads a secret: asked for without showing it on a terminal, else all of standard input without the line break at its
/// end.
fn read(what: &str) -> Result<String, Failure> {
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
