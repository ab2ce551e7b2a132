//! What a handler in another language is asked, and what it answers. `schemas/handler-request.json` and
//! `schemas/handler-answer.json` describe both.

use std::io;

use hookonce_protocol::call::Failure;
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::Effect;
use hookonce_protocol::item::Item;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, WhenConditionFails};
use hookonce_protocol::record::DeadReason;
use serde::{Deserialize, Serialize};

use crate::documents::document::EVENT_BYTES_MAX;
use crate::documents::strict::{self, ShowNames, StrictError, present};

/// The longest code of a handler's own, in bytes.
const CODE_BYTES_MAX: usize = 64;

/// What the codes of hookonce about handlers begin with, also those of later releases.
const RESERVED_PREFIX: &str = "HANDLER_";

/// An item that a handler asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SnapshotItem<'a> {
    /// Its name.
    #[serde(flatten)]
    pub name: &'a ItemRef,
    /// The item, if it exists.
    pub item: Option<&'a Item>,
}

/// What a handler is asked.
#[derive(Debug, Serialize)]
pub struct HandlerRequest<'a> {
    /// 1.
    pub version: u32,
    /// Names this call. The answer repeats it.
    pub request: &'a str,
    /// The event.
    pub event: &'a Event,
    /// The items that the handler asked for. None in the first call.
    pub items: &'a [SnapshotItem<'a>],
}

impl<'a> HandlerRequest<'a> {
    /// A request in this version.
    pub fn new(request: &'a str, event: &'a Event, items: &'a [SnapshotItem<'a>]) -> Self {
        Self { version: 1, request, event, items }
    }

    /// The request as bytes. `None` if Lambda would not take it, because it is longer than [`EVENT_BYTES_MAX`]. A
    /// delivery comes in an event of at most this length, so it fits into a request that shows no items.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bounded = Bounded(Vec::new());
        serde_json::to_writer(&mut bounded, self).ok()?;
        Some(bounded.0)
    }
}

/// Takes at most [`EVENT_BYTES_MAX`] bytes: a hundred large items must not become tens of megabytes first.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a handler answers. It has exactly one of these shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerAnswer {
    /// It has to see these items, and is asked once more.
    Reads {
        /// The fact, if the handler names it.
        fact: Option<DomainKey>,
        /// The items.
        reads: Vec<ItemRef>,
    },
    /// Its plan.
    Plan {
        /// The fact, if the handler names it.
        fact: Option<DomainKey>,
        /// The changes.
        plan: Plan,
    },
    /// It does not want the event.
    Ignore,
    /// It cannot handle the event, now or ever.
    Error {
        /// Why.
        failure: Failure,
        /// Which field of the body does not fit, in the names of the handler's code. Empty if it does not say.
        at: String,
    },
    /// It is older than the worker, and does not know the version of the request.
    VersionUnknown,
}

/// An invalid answer. It names the place and the reason, and never holds a value of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the handler's answer is refused: {field}: {why}")]
pub struct MalformedAnswer {
    /// The place, such as `writes[0].action.put`. Empty for the answer as a whole. An unknown name is cut to its
    /// beginning and its length: a handler may have made it out of what a provider sent.
    pub field: String,
    /// What is wrong there.
    pub why: String,
}

impl MalformedAnswer {
    pub(super) fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

impl From<StrictError> for MalformedAnswer {
    fn from(unread: StrictError) -> Self {
        let why = if unread.is_json { unread.why } else { "is no JSON".to_owned() };
        Self { field: unread.place, why }
    }
}

/// All fields of all shapes. A field that is null counts as present.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, deserialize_with = "present")]
    request: Option<String>,
    #[serde(default, deserialize_with = "present")]
    fact: Option<String>,
    #[serde(default, deserialize_with = "present")]
    reads: Option<Vec<ItemRef>>,
    #[serde(default, deserialize_with = "present")]
    writes: Option<Vec<DomainWrite>>,
    #[serde(default, deserialize_with = "present")]
    checks: Option<Vec<Check>>,
    #[serde(default, deserialize_with = "present")]
    effects: Option<Vec<Effect>>,
    #[serde(default, deserialize_with = "present")]
    when_condition_fails: Option<WhenConditionFails>,
    #[serde(default, deserialize_with = "present")]
    ignore: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    error: Option<ErrorFields>,
}

/// Why a handler failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFields {
    code: String,
    retryable: bool,
    #[serde(default)]
    at: String,
}

impl HandlerAnswer {
    /// Reads the answer to the request of this id.
    ///
    /// # Errors
    /// [`MalformedAnswer`] for anything but exactly one of the shapes. An answer is never taken for "nothing to do" by
    /// accident.
    pub fn parse(bytes: &[u8], request: &str) -> Result<Self, MalformedAnswer> {
        let fields: Fields = strict::read(bytes, ShowNames::Shortened)?;
        let named = fields.request.ok_or_else(|| MalformedAnswer::new("request", "is missing"))?;
        if named != request {
            return Err(MalformedAnswer::new("request", "is not that of the request"));
        }
        let beside = |name, is_there: bool| {
            let why = "is not allowed in an answer of this shape";
            if is_there { Err(MalformedAnswer::new(name, why)) } else { Ok(()) }
        };
        let only_with_writes = || {
            beside("checks", fields.checks.is_some())?;
            beside("effects", fields.effects.is_some())?;
            beside("when_condition_fails", fields.when_condition_fails.is_some())
        };
        match (fields.reads, fields.writes, fields.ignore, fields.error) {
            (Some(reads), None, None, None) => {
                only_with_writes()?;
                Ok(Self::Reads { fact: fact(fields.fact)?, reads })
            }
            (None, Some(writes), None, None) => {
                let plan = Plan {
                    writes,
                    checks: fields.checks.unwrap_or_default(),
                    effects: fields.effects.unwrap_or_default(),
                    when_condition_fails: fields.when_condition_fails.unwrap_or_default(),
                };
                Ok(Self::Plan { fact: fact(fields.fact)?, plan })
            }
            (None, None, Some(ignore), None) => {
                beside("fact", fields.fact.is_some())?;
                only_with_writes()?;
                if ignore { Ok(Self::Ignore) } else { Err(MalformedAnswer::new("ignore", "must be true")) }
            }
            (None, None, None, Some(error)) => {
                beside("fact", fields.fact.is_some())?;
                only_with_writes()?;
                let ErrorFields { code, retryable, at } = error;
                check_code(&code)?;
                check_path(&at)?;
                // As the packages in `clients` answer to a version that they do not know.
                let is_old = code == "REQUEST_VERSION_UNKNOWN";
                let failure = Failure { code, retryable };
                Ok(if is_old { Self::VersionUnknown } else { Self::Error { failure, at } })
            }
            _ => Err(MalformedAnswer::new("", "must have exactly one of `reads`, `writes`, `ignore` and `error`")),
        }
    }
}

fn fact(text: Option<String>) -> Result<Option<DomainKey>, MalformedAnswer> {
    let why = "must be text of at most 1,024 bytes, without an empty part between two `#`";
    let read = |text: String| DomainKey::parse(&text).ok_or_else(|| MalformedAnswer::new("fact", why));
    text.map(read).transpose()
}

fn check_code(code: &str) -> Result<(), MalformedAnswer> {
    let plain = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    if !(1..=CODE_BYTES_MAX).contains(&code.len()) || !code.bytes().all(plain) {
        return Err(MalformedAnswer::new("error.code", "must have 1 to 64 of the characters A-Z, 0-9 and _"));
    }
    // A handler that used one would mislead whoever reads it.
    if Code::parse(code).is_some() || DeadReason::parse(code).is_some() || code.starts_with(RESERVED_PREFIX) {
        return Err(MalformedAnswer::new("error.code", "is a code of hookonce itself"));
    }
    Ok(())
}

/// A path reaches the log, so it has the form of one.
fn check_path(at: &str) -> Result<(), MalformedAnswer> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$-[]".contains(&byte);
    if at.len() > 4 * CODE_BYTES_MAX || !at.bytes().all(plain) {
        return Err(MalformedAnswer::new(
            "error.at",
            "must have at most 256 letters, digits and characters of `_.$-[]`",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// The fields that a type reads: its refusal of another one names them.
    fn read<T: DeserializeOwned>() -> BTreeSet<String> {
        let Err(refused) = serde_json::from_value::<T>(json!({ "": null })) else { panic!("it reads any field") };
        let refused = refused.to_string();
        let (_, expected) = refused.split_once("unknown field ``, expected ").unwrap();
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The fields of an object in a schema.
    fn described(object: &Value) -> BTreeSet<String> {
        assert_eq!(object["additionalProperties"], false, "{object}");
        object["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_fields_that_are_read_are_those_of_the_schema_at_each_level() {
        let answer: Value = serde_json::from_str(include_str!("../../../../../schemas/handler-answer.json")).unwrap();
        let plan: Value = serde_json::from_str(include_str!("../../../../../schemas/plan.json")).unwrap();
        assert_eq!(read::<Fields>(), described(&answer));
        assert_eq!(read::<ErrorFields>(), described(&answer["properties"]["error"]));
        let lists = [
            ("reads", read::<ItemRef>()),
            ("writes", read::<DomainWrite>()),
            ("checks", read::<Check>()),
            ("effects", read::<Effect>()),
        ];
        for (list, known) in lists {
            let place = answer["properties"][list]["items"]["$ref"].as_str().unwrap();
            let (_, pointer) = place.split_once("plan.json#").unwrap();
            assert_eq!(known, described(plan.pointer(pointer).unwrap()), "{list}");
        }
    }

    #[test]
    fn the_reserved_codes_are_those_of_the_cases() {
        let cases: Value = serde_json::from_str(include_str!("../../../../../tests/cases/codes.json")).unwrap();
        let codes = Code::ALL.iter().map(|code| code.as_str()).filter(|code| !code.starts_with(RESERVED_PREFIX));
        let reserved: BTreeSet<_> = codes.chain(DeadReason::ALL.iter().map(|reason| reason.as_str())).collect();
        assert_eq!(cases["reserved"], json!(reserved));
        assert_eq!(cases["reserved_prefix"], RESERVED_PREFIX);
        for code in cases["own"].as_array().unwrap() {
            assert!(check_code(code.as_str().unwrap()).is_ok(), "{code}");
        }
    }
}
