//! What a handler in another language is asked, and what it answers. `schemas/handler-request.json` and
//! `schemas/handler-answer.json` describe both.

use std::io;

use hookonce_protocol::call::Failure;
use hookonce_protocol::effect::Effect;
use hookonce_protocol::item::Item;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, WhenConditionFails};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::REQUEST_BYTES_MAX;

/// The version of the form.
const VERSION: u32 = 1;

/// The longest code of a handler's own, in bytes.
const CODE_BYTES_MAX: usize = 64;

/// Codes that hookonce itself gives. A handler that used one would mislead whoever reads it.
const RESERVED: [&str; 22] = [
    "ATTEMPTS_EXHAUSTED",
    "BODY_MISSING",
    "BODY_NOT_COMPRESSED",
    "BODY_UNREADABLE",
    "CALL_UNCLEAR",
    "CONDITION_FAILED",
    "DEAD_LETTER",
    "DESTINATION_UNAVAILABLE",
    "ENVELOPE_UNREADABLE",
    "EVENT_HAS_RECORD",
    "EVENT_TOO_LARGE",
    "EVENT_UNREADABLE",
    "FACT_MISSING",
    "ID_COLLISION",
    "PERMANENT",
    "PLAN_REFUSED",
    "PROVIDER_UNKNOWN",
    "REFUSED",
    "STALE",
    "UNKNOWN_OUTCOME",
    "UNROUTED",
    "WRITE_INVALID",
];

/// The code of a handler that does not know the version of a request. The packages in `clients` answer with it.
const VERSION_UNKNOWN: &str = "REQUEST_VERSION_UNKNOWN";

/// What the codes of hookonce about handlers begin with.
const RESERVED_PREFIX: &str = "HANDLER_";

/// An item that a handler asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownItem {
    /// Its name.
    #[serde(flatten)]
    pub name: ItemRef,
    /// The item, if it exists.
    pub item: Option<Item>,
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
    pub items: &'a [ShownItem],
}

impl<'a> HandlerRequest<'a> {
    /// A request in this version.
    pub fn new(request: &'a str, event: &'a Event, items: &'a [ShownItem]) -> Self {
        Self { version: VERSION, request, event, items }
    }

    /// The request as bytes. `None` if it would be longer than [`REQUEST_BYTES_MAX`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bounded = Bounded(Vec::new());
        serde_json::to_writer(&mut bounded, self).ok()?;
        Some(bounded.0)
    }
}

/// Takes at most [`REQUEST_BYTES_MAX`] bytes: a hundred large items must not become tens of megabytes first.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > REQUEST_BYTES_MAX {
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
    Error(Failure),
    /// It is older than the worker, and does not know the version of the request.
    VersionUnknown,
}

/// An answer that is none. It names the place and the reason, and never holds a byte of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field `{field}` of the handler's answer {why}")]
pub struct MalformedAnswer {
    /// The field. Empty for the answer as a whole.
    pub field: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl MalformedAnswer {
    pub(super) fn new(field: impl Into<String>, why: &'static str) -> Self {
        Self { field: field.into(), why }
    }
}

/// All fields of all shapes. A field that is null is there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    request: Value,
    #[serde(default, deserialize_with = "present")]
    fact: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    reads: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    writes: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    checks: Option<Value>,
    // As it was written: a `Value` would round what an effect sends.
    #[serde(default, deserialize_with = "present")]
    effects: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    when_condition_fails: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    ignore: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Value>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFields {
    code: String,
    retryable: bool,
}

impl HandlerAnswer {
    /// Reads the answer to the request of this id.
    ///
    /// # Errors
    /// [`MalformedAnswer`] for anything but exactly one of the shapes. An answer is never taken for "nothing to do" by
    /// accident.
    pub fn parse(bytes: &[u8], request: &str) -> Result<Self, MalformedAnswer> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(|error| {
            MalformedAnswer::new(
                "",
                match error.classify() {
                    Category::Data => "is not an object with `request` and known fields only, each once",
                    Category::Io | Category::Syntax | Category::Eof => "is no JSON",
                },
            )
        })?;
        if fields.request != request {
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
                let reads = each(reads, "reads", "must name an item by `table` and `key`")?;
                Ok(Self::Reads { fact: fact(fields.fact)?, reads })
            }
            (None, Some(writes), None, None) => {
                let writes: Vec<DomainWrite> = each(writes, "writes", "must be a write of the known fields")?;
                let checks: Vec<Check> = fields
                    .checks
                    .map_or(Ok(Vec::new()), |checks| each(checks, "checks", "must be a check of the known fields"))?;
                let why = "must be `retry` or `permanent`";
                let when_condition_fails = fields
                    .when_condition_fails
                    .map_or(Ok(WhenConditionFails::default()), |value| one(value, "when_condition_fails", why))?;
                let effects = fields.effects.map_or(Ok(Vec::new()), |effects| each_effect(&effects))?;
                let plan = Plan { writes, checks, effects, when_condition_fails };
                Ok(Self::Plan { fact: fact(fields.fact)?, plan })
            }
            (None, None, Some(ignore), None) => {
                beside("fact", fields.fact.is_some())?;
                only_with_writes()?;
                let is_true = ignore == Value::Bool(true);
                if is_true { Ok(Self::Ignore) } else { Err(MalformedAnswer::new("ignore", "must be true")) }
            }
            (None, None, None, Some(error)) => {
                beside("fact", fields.fact.is_some())?;
                only_with_writes()?;
                let failure = failure(error)?;
                Ok(if failure.code == VERSION_UNKNOWN { Self::VersionUnknown } else { Self::Error(failure) })
            }
            _ => Err(MalformedAnswer::new("", "must have exactly one of `reads`, `writes`, `ignore` and `error`")),
        }
    }
}

fn one<T: DeserializeOwned>(value: Value, field: &str, why: &'static str) -> Result<T, MalformedAnswer> {
    serde_json::from_value(value).map_err(|_| MalformedAnswer::new(field, why))
}

/// Reads a list, and names the first entry that does not fit.
fn each<T: DeserializeOwned>(value: Value, field: &str, why: &'static str) -> Result<Vec<T>, MalformedAnswer> {
    let Value::Array(values) = value else { return Err(MalformedAnswer::new(field, "must be a list")) };
    values.into_iter().enumerate().map(|(index, value)| one(value, &format!("{field}[{index}]"), why)).collect()
}

fn each_effect(effects: &RawValue) -> Result<Vec<Effect>, MalformedAnswer> {
    let why = "must be an effect of the known fields, with either `payload` or `payload_base64`";
    let effects: Vec<&RawValue> =
        serde_json::from_str(effects.get()).map_err(|_| MalformedAnswer::new("effects", "must be a list"))?;
    let read = |(index, effect): (usize, &RawValue)| {
        serde_json::from_str(effect.get()).map_err(|_| MalformedAnswer::new(format!("effects[{index}]"), why))
    };
    effects.into_iter().enumerate().map(read).collect()
}

fn fact(value: Option<Value>) -> Result<Option<DomainKey>, MalformedAnswer> {
    let why = "must be text of at most 1,024 bytes, without an empty part between two `#`";
    let read = |value: Value| value.as_str().and_then(DomainKey::parse).ok_or(MalformedAnswer::new("fact", why));
    value.map(read).transpose()
}

fn failure(value: Value) -> Result<Failure, MalformedAnswer> {
    let ErrorFields { code, retryable } = one(value, "error", "must be `code` and `retryable`")?;
    let plain = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
    if !(1..=CODE_BYTES_MAX).contains(&code.len()) || !code.bytes().all(plain) {
        return Err(MalformedAnswer::new("error.code", "must have 1 to 64 of the characters A-Z, 0-9 and _"));
    }
    if RESERVED.contains(&code.as_str()) || code.starts_with(RESERVED_PREFIX) {
        return Err(MalformedAnswer::new("error.code", "is a code of hookonce itself"));
    }
    Ok(Failure { code, retryable })
}
