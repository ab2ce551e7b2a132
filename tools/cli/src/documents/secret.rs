//! Secrets that a person gives. Every process of the machine can read a command line, so a secret comes from standard
//! input, never from an option.

use std::fmt;
use std::io::{BufRead as _, IsTerminal as _, Read as _};

use crate::failure::Failure;

/// The value that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The value of an option that may be a secret. It takes any text, because a refusal by the parser would print it.
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
    /// The one that a terminal asks for. `None` where nobody sits at one.
    pub(crate) fn from_terminal() -> Option<Self> {
        std::io::stdin().is_terminal().then(|| STANDARD_INPUT.into())
    }

    /// Whether it stands for standard input.
    pub(crate) fn is_input(&self) -> bool {
        self.0 == STANDARD_INPUT
    }

    /// What stands on the command line.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The secret, from standard input alone.
    ///
    /// # Errors
    /// [`Failure::Usage`] for anything but `-`, or when standard input does not give it.
    pub(crate) fn secret(&self, what: &str, input: &mut Input) -> Result<String, Failure> {
        if self.is_input() { input.read(what) } else { Err(on_the_command_line(what, "pass `-`")) }
    }

    /// A value that is no secret: from the command line, or from standard input for `-`.
    ///
    /// # Errors
    /// [`Failure::Usage`] when standard input does not give it.
    pub(crate) fn open(&self, what: &str, input: &mut Input) -> Result<String, Failure> {
        if self.is_input() { input.read(what) } else { Ok(self.0.clone()) }
    }
}

/// The failure of a secret that everybody can read.
pub(crate) fn on_the_command_line(what: &str, pass: &str) -> Failure {
    Failure::usage(
        format!("the {what} stands on the command line, where every process of this machine can read it"),
        format!("{pass}, and give it on standard input"),
    )
}

/// Standard input, of which each `-` of a command takes a part: one line, and the last one all the rest, because a key
/// may have several lines. A terminal asks for each without showing it.
#[derive(Debug)]
pub(crate) struct Input {
    awaited: usize,
    is_prompted: bool,
}

impl Input {
    /// For those of these options that are `-`. They are read in this order.
    pub(crate) fn of<'a>(options: impl IntoIterator<Item = &'a SecretOption>) -> Self {
        let awaited = options.into_iter().filter(|option| option.is_input()).count();
        Self { awaited, is_prompted: awaited > 0 && std::io::stdin().is_terminal() }
    }

    /// Whether a terminal asks a person for a part of it.
    pub(crate) fn is_prompted(&self) -> bool {
        self.is_prompted
    }

    /// Refuses every `-` where the file of this option takes all of standard input.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is one.
    pub(crate) fn taken_by_file(&self, option: &str) -> Result<(), Failure> {
        if self.awaited == 0 {
            return Ok(());
        }
        Err(Failure::usage(
            format!("`{option} -` reads all of standard input, so no other option can be `-`"),
            format!("pass a path with {option}"),
        ))
    }

    fn read(&mut self, what: &str) -> Result<String, Failure> {
        self.awaited = self.awaited.saturating_sub(1);
        let mut text = String::new();
        let read = if self.is_prompted {
            rpassword::prompt_password(format!("{what}: ")).map(|typed| text = typed)
        } else if self.awaited > 0 {
            std::io::stdin().lock().read_line(&mut text).map(|_| ())
        } else {
            std::io::stdin().lock().read_to_string(&mut text).map(|_| ())
        };
        read.map_err(|error| {
            Failure::usage(format!("reading {what} failed: {error}"), "give it on standard input, as UTF-8 text")
        })?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim().is_empty() {
            return Err(Failure::usage(
                format!("no {what} came on standard input"),
                "type it, or pipe it into the command. Of several `-`, each takes a line: --secret first, then the others \
                 in their order",
            ));
        }
        Ok(line.to_owned())
    }
}
