//! The codes of failures that have a page. A handler may fail with a code of its own, which has none.

use hookonce_protocol::code::Code;
use hookonce_protocol::record::DeadReason;

/// The codes of the sample handlers and of the packages in `clients`. They have pages, too.
const OF_HANDLERS: [&str; 7] = [
    "AMOUNT_NEGATIVE",
    "CHARGE_UNREADABLE",
    "INVOICE_UNREADABLE",
    "MESSAGE_UNREADABLE",
    "PUSH_UNREADABLE",
    "REQUEST_VERSION_UNKNOWN",
    "TIMESTAMP_UNREADABLE",
];

/// The page of a code, if it has one.
pub(crate) fn page(code: &str) -> Option<String> {
    let of_hookonce = Code::parse(code).is_some() || DeadReason::parse(code).is_some();
    (of_hookonce || OF_HANDLERS.contains(&code)).then(|| format!("docs/errors/{code}.md"))
}

/// Where to read more about a code, or that it is the handler's own.
pub(crate) fn describe(code: &str) -> String {
    page(code).map_or_else(|| "the code is its handler's own".to_owned(), |page| format!("{page} says more"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_is_known_and_every_known_code_has_its_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let names = std::fs::read_dir(folder).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
        let of_records = names.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let pages: BTreeSet<_> = of_records.map(|name| format!("docs/errors/{name}")).collect();
        let of_hookonce = Code::ALL.iter().map(|code| code.as_str());
        let of_records = of_hookonce.chain(DeadReason::ALL.iter().map(|reason| reason.as_str())).chain(OF_HANDLERS);
        assert_eq!(of_records.map(|code| page(code).unwrap()).collect::<BTreeSet<_>>(), pages);
        assert_eq!(describe("STALE"), "docs/errors/STALE.md says more");
        assert_eq!(describe("OUT_OF_STOCK"), "the code is its handler's own");
    }
}
