//! Documents that are not valid. An instance of a function that knows an earlier one goes on with that.

use std::collections::BTreeMap;

use hookonce_protocol::key::EndpointId;

use super::Need;
use crate::documents::endpoints::some;
use crate::documents::{DocumentId, Stored};

/// A document that is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedDocument {
    /// What it is of.
    noun: &'static str,
    id: String,
    /// Its id, and what is wrong with it.
    why: String,
}

impl RefusedDocument {
    /// One need for each family.
    pub(super) fn needs(refused: &[Self]) -> Vec<Need> {
        let of_family = |family: &[Self]| {
            let [Self { noun, id, why }, others @ ..] = family else { return None };
            let first = why.lines().next().unwrap_or_default();
            let ids: Vec<_> = family.iter().map(|it| it.id.clone()).collect();
            let (meanwhile, page) = if *noun == EndpointId::NOUN {
                let page = "docs/run/runbook.md#deliveries-are-not-accepted-or-the-gateway-answers-5xx";
                ("their deliveries may get 503", page)
            } else {
                ("their effects wait", "docs/run/runbook.md#a-destination-is-unavailable")
            };
            let what = match others {
                [] if first.starts_with(&format!("{noun} {id}")) => format!("{noun} document is not valid: {first}"),
                [] => format!("{noun} document is not valid: {id}: {first}"),
                _ => format!(
                    "{noun} documents are not valid, so {meanwhile}: {}. The first of them: {first}",
                    some(&ids)
                ),
            };
            let count = u64::try_from(family.len()).unwrap_or(0);
            let next = format!("hookonce {noun} check");
            Some(Need::new(format!("{noun}s_not_valid"), what, next, page).counted(count))
        };
        refused.chunk_by(|one, other| one.noun == other.noun).filter_map(of_family).collect()
    }
}

/// The documents that are not valid, out of those that the caller may read.
pub(super) fn refused_documents<I: DocumentId>(documents: Option<BTreeMap<I, Stored>>) -> Vec<RefusedDocument> {
    let refused = documents.into_iter().flatten().filter_map(|(id, stored)| {
        let why = stored.checked(&id).err()?.to_string();
        Some(RefusedDocument { noun: I::NOUN, id: id.to_string(), why })
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_one_need_that_names_its_documents() {
        let refused = |noun, id: &str, why: &str| RefusedDocument { noun, id: id.to_owned(), why: why.to_owned() };
        let strange = "the catalog has no provider with this id";
        let needs = RefusedDocument::needs(&[
            refused("endpoint", "shop", strange),
            refused("endpoint", "a", "x"),
            refused("destination", "crm", "destination crm\n  url: it must be https"),
        ]);
        let found: Vec<_> = needs.iter().map(|need| (&*need.word, need.sentence(), &*need.next)).collect();
        let both = "2 endpoint documents are not valid, so their deliveries may get 503: shop, a. The first of them: the catalog has \
                    no provider with this id";
        let one = "1 destination document is not valid: destination crm";
        assert_eq!(
            found,
            [
                ("endpoints_not_valid", both.to_owned(), "hookonce endpoint check"),
                ("destinations_not_valid", one.to_owned(), "hookonce destination check"),
            ]
        );
        let alone = RefusedDocument::needs(&[refused("endpoint", "shop", strange)]);
        assert_eq!(alone[0].sentence(), format!("1 endpoint document is not valid: shop: {strange}"));
    }
}
