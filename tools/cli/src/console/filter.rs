//! The filter of records that an address or a form holds.

use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::records::Filter;

/// The fields of the form, as the command names its options.
const FIELDS: [&str; 8] = ["state", "endpoint", "type", "error", "kind", "destination", "since", "until"];

/// A text of the command about its options, about the fields of the form.
pub(super) fn about_fields(text: &str) -> String {
    FIELDS.iter().fold(text.to_owned(), |text, name| text.replace(&format!("--{name}"), name))
}

/// What the moments of most rows are.
pub(super) const RECEIVED: &str = "Received";

/// What a person typed into the form.
pub(super) struct Typed(BTreeMap<&'static str, String>);

impl Typed {
    /// The fields of an address that the form has.
    pub(super) fn of(query: &BTreeMap<String, String>) -> Self {
        let given = |name: &&'static str| Some((*name, query.get(*name)?.trim().to_owned()));
        Self(FIELDS.iter().filter_map(given).filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.value("state").eq_ignore_ascii_case("dead")
    }

    /// Whether nothing but dead records is asked for: the index counts these.
    pub(super) fn is_all_dead(&self) -> bool {
        self.is_dead() && self.0.len() == 1
    }

    /// What the moments of the rows are, by which they are ordered.
    pub(super) fn moment(&self) -> &'static str {
        match self.value("state").to_ascii_lowercase().as_str() {
            "dead" => "Died",
            "pending" => "Due",
            _ => RECEIVED,
        }
    }

    /// The fields that have a value.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The filter.
    ///
    /// # Errors
    /// [`Failure::Usage`] as the command has it.
    pub(super) fn filter(&self) -> Result<Filter, Failure> {
        let filter = Filter::of_options(self.pairs())?;
        filter.check()?;
        Ok(filter)
    }
}
