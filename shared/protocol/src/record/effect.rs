//! What only the record of an effect holds.

use super::failed::{AT, FAILURES_KEPT};
use super::read::{Attributes, NotUnderstood, text};
use super::{attribute, equals, set};
use crate::effect::{DestinationId, EffectName, Method};
use crate::item::{Item, Value, fields};
use crate::time::{EpochMs, Millis};
use crate::timing::Timing;
use crate::write::{Change, Clause};

/// What the record of an effect holds besides. Its body is the payload, and `received_at` the time of the commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EffectPart {
    /// Its name within the event.
    pub name: EffectName,
    /// Where it goes.
    pub destination: DestinationId,
    /// The method.
    pub method: Method,
    /// What follows the address of the destination.
    pub path: String,
    /// The type of its content.
    pub content_type: String,
    /// Who may make the next call, or makes it now, and since when. `None` if nobody does.
    pub pass: Option<Pass>,
    /// When the first call was allowed that may have been carried out.
    pub first_call_at: Option<EpochMs>,
    /// Who was called then.
    pub callee: Option<String>,
    /// How often a call ended and the callee had done nothing, or there was no turn for one. A guard that the store
    /// carries out only after that finds another number, and takes no pass.
    pub not_done: i64,
    /// How often an operator replaced its key, because the callee had refused it.
    pub key_epoch: i64,
    /// When an operator last brought it back.
    pub retried_at: Option<EpochMs>,
    /// The latest calls that ended, for people. No machine acts on them.
    pub calls: Vec<EndedCall>,
    /// How long the call took with which it was done.
    pub duration: Option<Millis>,
}

/// A call that ended, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndedCall {
    /// When it ended. When its process took the pass, if that process did not note an end.
    pub at: EpochMs,
    /// The status of its answer. `None` if there was none, or nobody knows it.
    pub status: Option<u16>,
    /// Whether nothing of it was sent, so that the callee does not know of it.
    pub unsent: bool,
}

/// The right to make one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pass {
    /// Identifies it: drawn once for each receive of a message, before the first call.
    pub id: String,
    /// When it was taken.
    pub at: EpochMs,
}

impl Pass {
    /// Until when the process that has it may live.
    pub const fn held_until(&self, timing: &Timing) -> EpochMs {
        self.at.plus(timing.effects_visibility_timeout)
    }
}

impl Attributes<'_> {
    /// The right to make a call. Half of one may be a right that a later release notes in another way.
    fn pass(self) -> Result<Option<Pass>, NotUnderstood> {
        match (self.optional(attribute::PASS, text)?, self.moment(attribute::PASS_AT)?) {
            (Some(id), Some(at)) => Ok(Some(Pass { id, at })),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(NotUnderstood),
        }
    }
}

impl EffectPart {
    /// Requires that the first call is still as it was read. It decides whether a death means `UNKNOWN_OUTCOME`, and
    /// whether the next call is noted as the first.
    pub(crate) fn first_call_as_read(&self) -> Clause {
        match self.first_call_at {
            Some(at) => equals(attribute::FIRST_CALL_AT, at.0),
            None => Clause::Absent(attribute::FIRST_CALL_AT.into()),
        }
    }

    pub(crate) fn call_ended(&mut self, call: EndedCall) {
        self.calls.push(call);
        self.calls.drain(..self.calls.len().saturating_sub(FAILURES_KEPT));
    }

    /// The process that has the pass is gone. If it did not note how its call ended, nobody knows.
    pub fn pass_is_over(&mut self) {
        let noted = self.calls.last().map(|call| call.at);
        if let Some(at) = self.pass.as_ref().map(|pass| pass.at).filter(|at| noted < Some(*at)) {
            self.call_ended(EndedCall { at, status: None, unsent: false });
        }
    }

    /// Writes the calls, if there was one.
    pub(crate) fn noted_calls(&self) -> Option<Change> {
        self.encoded_calls().map(|calls| set(attribute::CALLS, calls))
    }

    fn encoded_calls(&self) -> Option<Value> {
        let one = |call: &EndedCall| {
            let mut one = fields([(AT, call.at.0.into())]);
            let status = call.status.map(|status| i64::from(status).into());
            insert(&mut one, [(attribute::STATUS, status), ("unsent", call.unsent.then_some(Value::Flag(true)))]);
            Value::Map(one)
        };
        (!self.calls.is_empty()).then(|| Value::List(self.calls.iter().map(one).collect()))
    }

    pub(super) fn encode(&self, item: &mut Item) {
        let optional = [
            (attribute::EFFECT, Some(self.name.as_str().into())),
            (attribute::DESTINATION, Some(self.destination.as_str().into())),
            (attribute::METHOD, Some(self.method.as_str().into())),
            (attribute::PATH, Some(self.path.as_str().into())),
            (attribute::CONTENT_TYPE, Some(self.content_type.as_str().into())),
            (attribute::PASS, self.pass.as_ref().map(|pass| pass.id.as_str().into())),
            (attribute::PASS_AT, self.pass.as_ref().map(|pass| pass.at.0.into())),
            (attribute::FIRST_CALL_AT, self.first_call_at.map(|at| at.0.into())),
            (attribute::CALLEE, self.callee.as_deref().map(Value::from)),
            (attribute::NOT_DONE, (self.not_done > 0).then(|| self.not_done.into())),
            (attribute::KEY_EPOCH, (self.key_epoch > 0).then(|| self.key_epoch.into())),
            (attribute::RETRIED_AT, self.retried_at.map(|at| at.0.into())),
            (attribute::CALLS, self.encoded_calls()),
            (attribute::DURATION_MS, self.duration.map(|duration| duration.0.into())),
        ];
        insert(item, optional);
    }

    pub(super) fn decode(read: Attributes<'_>) -> Result<Self, NotUnderstood> {
        Ok(Self {
            name: read.required(attribute::EFFECT, |name| EffectName::stored(name.as_text()?))?,
            destination: read.required(attribute::DESTINATION, |id| DestinationId::parse(id.as_text()?).ok())?,
            method: read.required(attribute::METHOD, |word| Method::parse(word.as_text()?))?,
            path: read.text(attribute::PATH)?,
            content_type: read.text(attribute::CONTENT_TYPE)?,
            pass: read.pass()?,
            first_call_at: read.moment(attribute::FIRST_CALL_AT)?,
            callee: read.optional(attribute::CALLEE, text)?,
            not_done: read.count(attribute::NOT_DONE)?,
            key_epoch: read.count(attribute::KEY_EPOCH)?,
            retried_at: read.moment(attribute::RETRIED_AT)?,
            calls: read.optional(attribute::CALLS, decode_calls)?.unwrap_or_default(),
            duration: read.optional(attribute::DURATION_MS, |duration| duration.as_i64().map(Millis))?,
        })
    }
}

fn decode_calls(value: &Value) -> Option<Vec<EndedCall>> {
    let Value::List(calls) = value else { return None };
    let one = |call: &Value| {
        let Value::Map(call) = call else { return None };
        let status = match call.get(attribute::STATUS) {
            Some(status) => Some(status.as_i64()?.try_into().ok()?),
            None => None,
        };
        let unsent = match call.get("unsent") {
            Some(Value::Flag(unsent)) => *unsent,
            Some(_) => return None,
            None => false,
        };
        Some(EndedCall { at: EpochMs(call.get(AT)?.as_i64()?), status, unsent })
    };
    calls.iter().map(one).collect()
}

/// Adds the attributes that there are.
pub(super) fn insert<const N: usize>(item: &mut Item, optional: [(&str, Option<Value>); N]) {
    for (name, value) in optional {
        if let Some(value) = value {
            item.insert(name.to_owned(), value);
        }
    }
}
