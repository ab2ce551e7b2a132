//! Where something does not fit, and what a type says of it.

use std::fmt;

use hookonce_protocol::check::Shown;
use serde::de::{self, Error, Unexpected};

/// How a place shows the names that its type does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowNames {
    /// Whole, to the author of the text.
    Whole,
    /// How they begin, and their length: they may have been made of what a provider sent, or of a secret.
    Shortened,
    /// None of them: `*` stands for each. What is left is made of the code alone.
    Known,
}

/// Where a value stands: in a field or in a list of the value around it.
pub(super) enum DocumentPath<'a> {
    Whole,
    Field { around: &'a DocumentPath<'a>, name: &'a str, is_known: bool },
    Element { around: &'a DocumentPath<'a>, index: usize },
}

impl<'a> DocumentPath<'a> {
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
                    ShowNames::Known if !is_known => format!("{around}{dot}*"),
                    ShowNames::Shortened | ShowNames::Whole | ShowNames::Known => format!("{around}{dot}{name}"),
                }
            }
        }
    }
}

/// Why a value does not fit a type. It leaves out the value, which the usual errors show.
#[derive(Debug)]
pub(super) enum Mismatch {
    /// It is kept, with its place.
    Kept,
    /// It expects this.
    Kind(String),
    /// A message of its own.
    Message(String),
    /// A field is not there.
    Missing(&'static str),
    /// A field that it does not have.
    Unknown(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value does not fit")
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn invalid_length(_: usize, expected: &dyn de::Expected) -> Self {
        Self::Kind(expected.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::Message(Expected::OneOf(expected).rule(""))
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown(name.to_owned())
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Missing(name)
    }
}

/// What a type expects at a place.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Anything,
    Flag,
    /// A whole number, from one to another.
    Whole(i128, i128),
    Number,
    Text,
    /// A list, perhaps of this length.
    List(Option<usize>),
    /// An object, of which these fields are known.
    Object(&'static [&'static str]),
    /// One of these words, or an object with one of them.
    OneOf(&'static [&'static str]),
}

impl Expected {
    pub(super) fn rule(self, expected: &str) -> String {
        match self {
            Self::Anything => format!("must be {expected}"),
            Self::Flag => "must be true or false".to_owned(),
            Self::Whole(least, most) => format!("must be a whole number from {least} to {most}"),
            Self::Number => "must be a number".to_owned(),
            Self::Text => "must be text".to_owned(),
            Self::List(None) => "must be a list".to_owned(),
            Self::List(Some(length)) => format!("must be a list of {length}"),
            Self::Object(_) => "must be an object".to_owned(),
            Self::OneOf(words) => format!("must be exactly one of {}", words.join(", ")),
        }
    }

    /// The names that the type gives its own fields.
    pub(super) fn known(self) -> &'static [&'static str] {
        match self {
            Self::Object(names) | Self::OneOf(names) => names,
            Self::Anything | Self::Flag | Self::Whole(..) | Self::Number | Self::Text | Self::List(_) => &[],
        }
    }
}
