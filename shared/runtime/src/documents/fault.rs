//! What is wrong with a document that people write: a route set, an endpoint or a destination.

use crate::documents::strict::StrictError;

/// One fault: where it is, and why. Neither repeats a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct DocumentFault {
    /// The place, such as `headers.host` or `routes[2].when.data.id`.
    pub place: String,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl DocumentFault {
    /// The fault of a text that cannot be read as a document. `whole` stands for the place of the document itself.
    pub(crate) fn unread(unread: StrictError, whole: &str) -> Self {
        let StrictError { place, why: reason, line, column, is_json } = unread;
        let place = match place {
            _ if !is_json => format!("line {line} column {column}"),
            place if place.is_empty() => whole.to_owned(),
            place => place,
        };
        Self { place, reason }
    }
}

/// Notes what is wrong at one place of a document.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    place: String,
    faults: &'a mut Vec<DocumentFault>,
}

impl<'a> Checker<'a> {
    /// For the document as a whole.
    pub(crate) fn new(faults: &'a mut Vec<DocumentFault>) -> Self {
        Self { place: String::new(), faults }
    }

    /// For a field of what stands here.
    pub(crate) fn field(&mut self, name: &str) -> Checker<'_> {
        let place = if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) };
        Checker { place, faults: self.faults }
    }

    /// For an element of the list that stands here.
    pub(crate) fn element(&mut self, index: usize) -> Checker<'_> {
        Checker { place: format!("{}[{index}]", self.place), faults: self.faults }
    }

    /// Notes a fault of what stands here, up to 20 of a document.
    pub(crate) fn add(&mut self, reason: impl Into<String>) {
        if self.faults.len() < 20 {
            self.faults.push(DocumentFault { place: self.place.clone(), reason: reason.into() });
        }
    }

    /// Notes each of these fields that is there.
    pub(crate) fn none_of<const N: usize>(&mut self, fields: [(&str, bool); N], reason: &str) {
        for (name, _) in fields.into_iter().filter(|(_, is_there)| *is_there) {
            self.field(name).add(reason);
        }
    }
}

/// Faults in one line.
pub(crate) fn joined(faults: &[DocumentFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use crate::destinations::DestinationDocument;
    use crate::documents::document::EndpointDocument;

    const SECRET: &str = "LEAKMENOT";

    /// The faults of a document with the secret in the place of each field's value, and at each place of the text.
    fn faults(document: &Value, fault: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
        let values =
            [json!(SECRET), json!([SECRET]), json!([[SECRET]]), json!({SECRET: SECRET}), json!([{SECRET: SECRET}])];
        let names = document.as_object().unwrap().keys();
        let replaced = names.flat_map(|name| {
            values.iter().map(move |value| {
                let mut wrong = document.clone();
                wrong[name] = value.clone();
                wrong.to_string()
            })
        });
        let text = document.to_string();
        let inserted = (0..=text.len()).map(|at| format!("{}{SECRET}{}", &text[..at], &text[at..]));
        replaced.chain(inserted).filter_map(|text| fault(&text)).collect()
    }

    #[test]
    fn a_fault_names_its_place_and_holds_nothing_of_a_secret_in_a_wrong_place() {
        let endpoint = json!({
            "provider": "stripe", "tenant": "shop", "secrets": ["whsec_1"], "settings": {"public_url": "https://a.example"},
            "schemes": ["v1"], "on_store_outage": "enqueue", "on_body_mismatch": "duplicate", "tolerance_seconds": 300,
            "body_bytes_max": 1000, "source_ranges": ["10.0.0.0/8"]
        });
        let destination = json!({
            "kind": "http", "url": "https://a.example", "class": "keyed", "key_window_hours": 24,
            "headers": {"authorization": "Bearer 1"}, "done_statuses": [409], "allow_private": true,
            "success_json": {"pointer": "/ok", "equals": true}
        });
        let endpoint = faults(&endpoint, |text| Some(EndpointDocument::parse(text).err()?.to_string()));
        let destination = faults(&destination, |text| Some(DestinationDocument::parse(text).err()?.to_string()));
        for (found, expected) in [
            (&endpoint, "secrets[0]: must be text"),
            (&endpoint, "tenant: a tenant has 1 to 64"),
            (&endpoint, "`sLE...` (16 bytes): unknown field"),
            (&endpoint, "line 1 col"),
            (&destination, "headers: must be an object"),
            (&destination, "kind: must be exactly one of http"),
            (&destination, "done_statuses[0]: must be a"),
            (&destination, "class: "),
        ] {
            assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:#?}");
        }
        for fault in endpoint.union(&destination) {
            assert!(!fault.contains("LEAK"), "{fault}");
        }
    }
}
