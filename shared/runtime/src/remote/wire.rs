//! What a handler in another language is asked, and what it answers. `schemas/handler-request.json` and
//! `schemas/handler-answer.json` describe both.

use std::collections::BTreeMap;
use std::io;

use hookonce_protocol::call::Failure;
use hookonce_protocol::check::Shown;
use hookonce_protocol::effect::Effect;
use hookonce_protocol::item::Item;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, WhenConditionFails};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::REQUEST_BYTES_MAX;
use super::entry::{Entry, entry};
use super::twice::twice;

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

/// An answer that is none. It names the place and the reason, and never holds a value of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field {field} of the handler's answer {why}")]
pub struct MalformedAnswer {
    /// The field. Empty for the answer as a whole. Of one that is not known, how it begins and its length: a handler may have
    /// made it of what a provider sent.
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
#[derive(Default)]
#[cfg_attr(test, derive(Serialize))]
struct Fields {
    request: Option<Value>,
    fact: Option<Value>,
    reads: Option<Value>,
    writes: Option<Value>,
    checks: Option<Value>,
    // As it was written: a `Value` would round what an effect sends.
    effects: Option<Box<RawValue>>,
    when_condition_fails: Option<Value>,
    ignore: Option<Value>,
    error: Option<Value>,
}

impl Fields {
    fn read(bytes: &[u8]) -> Result<Self, MalformedAnswer> {
        let named: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes).map_err(|error| {
            let whole = |why| MalformedAnswer::new("", why);
            match error.classify() {
                Category::Data => whole("is not an object"),
                Category::Io | Category::Syntax | Category::Eof => whole("is no JSON"),
            }
        })?;
        if let Some(place) = twice(bytes) {
            return Err(MalformedAnswer::new(place, "stands there twice"));
        }
        let mut fields = Self::default();
        for (name, raw) in named {
            fields.take(&name, raw)?;
        }
        Ok(fields)
    }

    fn take(&mut self, name: &str, raw: Box<RawValue>) -> Result<(), MalformedAnswer> {
        let place = match name {
            "request" => &mut self.request,
            "fact" => &mut self.fact,
            "reads" => &mut self.reads,
            "writes" => &mut self.writes,
            "checks" => &mut self.checks,
            "effects" => {
                self.effects = Some(raw);
                return Ok(());
            }
            "when_condition_fails" => &mut self.when_condition_fails,
            "ignore" => &mut self.ignore,
            "error" => &mut self.error,
            unknown => return Err(MalformedAnswer::new(Shown::from(unknown).to_string(), "is no field of an answer")),
        };
        *place = Some(serde_json::from_str(raw.get()).map_err(|_| MalformedAnswer::new(name, "is no JSON"))?);
        Ok(())
    }
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
        let fields = Fields::read(bytes)?;
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
                let reads = each(reads, "reads")?;
                Ok(Self::Reads { fact: fact(fields.fact)?, reads })
            }
            (None, Some(writes), None, None) => {
                let writes: Vec<DomainWrite> = each(writes, "writes")?;
                let checks: Vec<Check> = fields.checks.map_or(Ok(Vec::new()), |checks| each(checks, "checks"))?;
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

/// Reads a list, and names the first field of an entry that does not fit.
fn each<T: Entry>(value: Value, field: &str) -> Result<Vec<T>, MalformedAnswer> {
    let Value::Array(values) = value else { return Err(MalformedAnswer::new(field, "must be a list")) };
    let read = |(index, value)| {
        entry(&value, |value| T::deserialize(value).ok(), &format!("{field}[{index}]")).map_err(misfit)
    };
    values.into_iter().enumerate().map(read).collect()
}

fn misfit((field, why): (String, &'static str)) -> MalformedAnswer {
    MalformedAnswer::new(field, why)
}

fn each_effect(effects: &RawValue) -> Result<Vec<Effect>, MalformedAnswer> {
    let effects: Vec<&RawValue> =
        serde_json::from_str(effects.get()).map_err(|_| MalformedAnswer::new("effects", "must be a list"))?;
    let read = |(index, raw): (usize, &RawValue)| {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        entry(&value, |_| serde_json::from_str(raw.get()).ok(), &format!("effects[{index}]")).map_err(misfit)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::value::Error;
    use serde::de::{Error as _, Visitor};
    use serde::{Deserializer, forward_to_deserialize_any};

    use super::*;

    /// Notes the fields that a type reads, and gives it none.
    #[derive(Default)]
    struct Listening(BTreeSet<String>);

    impl<'de> Deserializer<'de> for &mut Listening {
        type Error = Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            self.0.extend(fields.iter().map(|name| (*name).to_owned()));
            Err(Error::custom("nothing is here"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("nothing is here"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn read<T: DeserializeOwned>() -> BTreeSet<String> {
        let mut listening = Listening::default();
        let _ = T::deserialize(&mut listening);
        listening.0
    }

    /// The fields of an object in a schema, and those that must be there.
    fn described(object: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
        assert_eq!(object["additionalProperties"], false, "{object}");
        let required = object["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        (object["properties"].as_object().unwrap().keys().cloned().collect(), required.collect())
    }

    fn known<T: Entry>() -> (BTreeSet<String>, BTreeSet<String>) {
        let names =
            |required: bool| T::FIELDS.iter().filter(move |it| !required || it.required).map(|it| it.name.to_owned());
        assert_eq!(names(false).collect::<BTreeSet<_>>(), read::<T>());
        (names(false).collect(), names(true).collect())
    }

    #[test]
    fn the_fields_that_are_read_are_those_of_the_schema_at_each_level() {
        let answer: Value = serde_json::from_str(include_str!("../../../../schemas/handler-answer.json")).unwrap();
        let plan: Value = serde_json::from_str(include_str!("../../../../schemas/plan.json")).unwrap();
        let every = serde_json::to_value(Fields::default()).unwrap();
        let every: BTreeSet<String> = every.as_object().unwrap().keys().cloned().collect();
        let mut fields = Fields::default();
        for name in &every {
            fields.take(name, RawValue::from_string("[]".to_owned()).unwrap()).unwrap();
        }
        assert_eq!((every, BTreeSet::from(["request".to_owned()])), described(&answer));
        assert_eq!(read::<ErrorFields>(), described(&answer["properties"]["error"]).1);
        assert_eq!(read::<ErrorFields>(), described(&answer["properties"]["error"]).0);
        let lists = [
            ("reads", known::<ItemRef>()),
            ("writes", known::<DomainWrite>()),
            ("checks", known::<Check>()),
            ("effects", known::<Effect>()),
        ];
        for (list, known) in lists {
            let place = answer["properties"][list]["items"]["$ref"].as_str().unwrap();
            let (_, pointer) = place.split_once("plan.json#").unwrap();
            assert_eq!(known, described(plan.pointer(pointer).unwrap()), "{list}");
        }
    }
}
