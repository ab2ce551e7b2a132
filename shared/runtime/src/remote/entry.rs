//! The entries of the lists in an answer: which field of one does not fit.

use hookonce_protocol::check::Shown;
use hookonce_protocol::effect::{DestinationId, Effect, EffectName, Method};
use hookonce_protocol::place::{ItemRef, Key, TableAlias};
use hookonce_protocol::plan::{Check, DomainWrite};
use hookonce_protocol::write::{Action, Condition};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A field of an entry.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) required: bool,
    fits: fn(&Value) -> bool,
}

/// What a list of an answer holds. Its own form refuses it; the fields say where.
pub(super) trait Entry: DeserializeOwned {
    /// Every field that it may have.
    const FIELDS: &'static [Field];
    /// What is wrong if each field by itself fits.
    const WHOLE: &'static str;
}

const fn required<T: DeserializeOwned>(name: &'static str) -> Field {
    Field { name, required: true, fits: fits::<T> }
}

const fn optional<T: DeserializeOwned>(name: &'static str) -> Field {
    Field { name, required: false, fits: fits::<T> }
}

fn fits<T: DeserializeOwned>(value: &Value) -> bool {
    T::deserialize(value).is_ok()
}

impl Entry for ItemRef {
    const FIELDS: &'static [Field] = &[optional::<TableAlias>("table"), required::<Key>("key")];
    const WHOLE: &'static str = "must name an item by `table` and `key`";
}

impl Entry for DomainWrite {
    const FIELDS: &'static [Field] = &[
        optional::<TableAlias>("table"),
        required::<Key>("key"),
        required::<Action>("action"),
        optional::<Condition>("condition"),
        optional::<bool>("blind"),
    ];
    const WHOLE: &'static str = "must be a write of the known fields";
}

impl Entry for Check {
    const FIELDS: &'static [Field] =
        &[optional::<TableAlias>("table"), required::<Key>("key"), required::<Condition>("condition")];
    const WHOLE: &'static str = "must be a check of the known fields";
}

impl Entry for Effect {
    const FIELDS: &'static [Field] = &[
        required::<EffectName>("effect"),
        required::<DestinationId>("destination"),
        optional::<Value>("payload"),
        optional::<String>("payload_base64"),
        optional::<Method>("method"),
        optional::<String>("path"),
    ];
    const WHOLE: &'static str = "must be an effect of the known fields, with either `payload` or `payload_base64`";
}

/// Reads an entry. Otherwise returns its place with its first field that does not fit, and what is wrong with that.
pub(super) fn entry<T: Entry>(
    value: &Value,
    read: impl FnOnce(&Value) -> Option<T>,
    place: &str,
) -> Result<T, (String, &'static str)> {
    read(value).ok_or_else(|| {
        let (field, why) = misfit::<T>(value).unwrap_or((String::new(), T::WHOLE));
        (format!("{place}{field}"), why)
    })
}

fn misfit<T: Entry>(value: &Value) -> Option<(String, &'static str)> {
    let fields = value.as_object()?;
    let unknown = fields.keys().find(|name| !T::FIELDS.iter().any(|field| field.name == name.as_str()));
    if let Some(name) = unknown {
        return Some((format!(".{}", Shown::from(name.as_str())), "is not a known field"));
    }
    T::FIELDS.iter().find_map(|field| {
        let why = match fields.get(field.name) {
            None if field.required => "is missing",
            Some(value) if !(field.fits)(value) => "has not the form of this field",
            None | Some(_) => return None,
        };
        Some((format!(".{}", field.name), why))
    })
}
