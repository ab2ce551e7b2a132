//! Reading the attributes of a stored item, one by one.

use crate::effect::EffectName;
use crate::item::{Item, Value};
use crate::time::EpochMs;

/// An attribute is missing, or is there and not understood.
#[derive(Debug)]
pub(super) struct NotUnderstood;

/// The attributes of a stored item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a Item);

impl<'a> Attributes<'a> {
    /// What `read` makes of an attribute. `None` if it is missing.
    pub(super) fn optional<T>(
        self,
        name: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, NotUnderstood> {
        self.0.get(name).map(|value| read(value).ok_or(NotUnderstood)).transpose()
    }

    /// The same of an attribute that is never missing.
    pub(super) fn required<T>(self, name: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, NotUnderstood> {
        self.optional(name, read)?.ok_or(NotUnderstood)
    }

    /// A text that is never missing.
    pub(super) fn text(self, name: &str) -> Result<String, NotUnderstood> {
        self.required(name, text)
    }

    /// A number that is never missing.
    pub(super) fn number(self, name: &str) -> Result<i64, NotUnderstood> {
        self.required(name, Value::as_i64)
    }

    /// A counter, which is stored only where it is not zero.
    pub(super) fn count(self, name: &str) -> Result<i64, NotUnderstood> {
        Ok(self.optional(name, Value::as_i64)?.unwrap_or(0))
    }

    /// A moment.
    pub(super) fn moment(self, name: &str) -> Result<Option<EpochMs>, NotUnderstood> {
        self.optional(name, |value| value.as_i64().map(EpochMs))
    }

    /// A flag, which is stored only where it is set.
    pub(super) fn flag(self, name: &str) -> Result<bool, NotUnderstood> {
        let flag = |value: &Value| if let Value::Flag(flag) = value { Some(*flag) } else { None };
        Ok(self.optional(name, flag)?.unwrap_or(false))
    }

    /// Names of effects, which are stored only where there are any.
    pub(super) fn names(self, name: &str) -> Result<Vec<EffectName>, NotUnderstood> {
        Ok(self.optional(name, decode_names)?.unwrap_or_default())
    }
}

/// The value as a text of its own.
pub(super) fn text(value: &Value) -> Option<String> {
    value.as_text().map(str::to_owned)
}

/// Names of effects as a value.
pub(crate) fn encode_names(names: &[EffectName]) -> Value {
    Value::List(names.iter().map(|name| name.as_str().into()).collect())
}

/// Reads stored names of effects.
fn decode_names(value: &Value) -> Option<Vec<EffectName>> {
    let Value::List(names) = value else { return None };
    names.iter().map(|name| EffectName::stored(name.as_text()?)).collect()
}
