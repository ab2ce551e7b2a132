//! Where something does not fit, and what a type says of it.

use std::fmt;

use hookonce_protocol::check::Shown;
use serde::de::{Error, Expected, Unexpected};

/// How a place shows the names that its type does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowNames {
    /// Whole, to the author of the text.
    Whole,
    /// How they begin, and their length: they may have been made of what a provider sent, or of a secret.
    Shortened,
}

/// Where a value stands: in a field or in a list of the value around it.
pub(super) enum Place<'a> {
    Whole,
    Field { around: &'a Place<'a>, name: &'a str, is_known: bool },
    Element { around: &'a Place<'a>, index: usize },
}

impl<'a> Place<'a> {
    /// The place of a field, which the type around it may know.
    pub(super) fn field(&'a self, name: &'a str, known: &[&str]) -> Self {
        Self::Field { around: self, name, is_known: known.contains(&name) }
    }

    /// The place of a field that the type around it knows.
    pub(super) fn known(&'a self, name: &'a str) -> Self {
        Self::Field { around: self, name, is_known: true }
    }

    pub(super) fn shown(&self, names: ShowNames) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Element { around, index } => format!("{}[{index}]", around.shown(names)),
            Self::Field { around, name, is_known } => {
                let around = around.shown(names);
                let dot = if around.is_empty() { "" } else { "." };
                match names {
                    ShowNames::Shortened if !is_known => format!("{around}{dot}{}", Shown::from(*name)),
                    ShowNames::Shortened | ShowNames::Whole => format!("{around}{dot}{name}"),
                }
            }
        }
    }
}

/// What a type says of a value that does not fit. It leaves out the value, which the usual errors show.
#[derive(Debug)]
pub(super) enum Misfit {
    /// It is kept, with its place.
    Kept,
    /// It expects this.
    Kind(String),
    /// Its own words.
    Told(String),
    /// A field is not there.
    Missing(&'static str),
    /// A field that it does not have.
    Unknown(String),
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value does not fit")
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Told(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::Told(super::Asked::OneOf(expected).rule(""))
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown(name.to_owned())
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Missing(name)
    }
}
