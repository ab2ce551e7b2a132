//! Documents that no function takes. An instance that knows an earlier one goes on with that.

use std::collections::BTreeMap;

use hookonce_protocol::key::EndpointId;

use super::Need;
use crate::documents::{DocumentId, Stored};

/// A document that no function takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedDocument {
    /// What it is of.
    noun: &'static str,
    id: String,
    /// Its id, and what is wrong with it.
    why: String,
}

impl RefusedDocument {
    pub(super) fn need(&self) -> Need {
        let Self { noun, id, why } = self;
        let (meanwhile, page) = if *noun == EndpointId::NOUN {
            let page = "docs/run/runbook.md#deliveries-are-not-accepted-or-the-gateway-answers-5xx";
            ("deliveries get 503 wherever no earlier document is known", page)
        } else {
            ("its effects wait", "docs/run/runbook.md#a-destination-is-unavailable")
        };
        let what = format!("a document is refused, so {meanwhile}: {why}");
        Need::new(format!("{noun}_refused:{id}"), what, format!("hookonce {noun} check"), page)
    }
}

/// The documents that no function takes, out of those that the caller may read.
pub(super) fn refused_documents<I: DocumentId>(documents: Option<BTreeMap<I, Stored>>) -> Vec<RefusedDocument> {
    let refused = documents.into_iter().flatten().filter_map(|(id, stored)| {
        let why = stored.checked(&id).err()?.to_string();
        Some(RefusedDocument { noun: I::NOUN, id: id.to_string(), why })
    });
    refused.collect()
}
