//! The codes of failures that have a page. A handler may fail with a code of its own, which has none.

/// The codes of records that have a page in docs/errors.
const WITH_A_PAGE: [&str; 36] = [
    "AMOUNT_NEGATIVE",
    "ATTEMPTS_EXHAUSTED",
    "BODY_MISSING",
    "BODY_NOT_COMPRESSED",
    "BODY_UNREADABLE",
    "CALL_UNCLEAR",
    "CHARGE_UNREADABLE",
    "CONDITION_FAILED",
    "DEAD_LETTER",
    "DESTINATION_UNAVAILABLE",
    "ENVELOPE_UNREADABLE",
    "EVENT_HAS_RECORD",
    "EVENT_TOO_LARGE",
    "EVENT_UNREADABLE",
    "FACT_MISSING",
    "HANDLER_ANSWER_MALFORMED",
    "HANDLER_ASKED_TOO_MUCH",
    "HANDLER_CRASHED",
    "HANDLER_FACT_CHANGED",
    "HANDLER_PANICKED",
    "HANDLER_TIMED_OUT",
    "HANDLER_UNAVAILABLE",
    "ID_COLLISION",
    "INVOICE_UNREADABLE",
    "MESSAGE_UNREADABLE",
    "PERMANENT",
    "PLAN_REFUSED",
    "PROVIDER_UNKNOWN",
    "PUSH_UNREADABLE",
    "REFUSED",
    "REQUEST_VERSION_UNKNOWN",
    "STALE",
    "TIMESTAMP_UNREADABLE",
    "UNKNOWN_OUTCOME",
    "UNROUTED",
    "WRITE_INVALID",
];

/// The page of a code, if it has one.
pub(crate) fn page(code: &str) -> Option<String> {
    WITH_A_PAGE.contains(&code).then(|| format!("docs/errors/{code}.md"))
}

/// Where to read more about a code, or that nobody but the handler knows.
pub(crate) fn more(code: &str) -> String {
    page(code).map_or_else(|| "the code is its handler's own".to_owned(), |page| format!("{page} says more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_known_and_every_known_code_has_its_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let names = std::fs::read_dir(folder).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
        let of_records = names.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let mut pages: Vec<_> = of_records.map(|name| format!("docs/errors/{name}")).collect();
        pages.sort();
        assert_eq!(WITH_A_PAGE.map(|code| page(code).unwrap()).as_slice(), pages);
        assert_eq!(more("STALE"), "docs/errors/STALE.md says more");
        assert_eq!(more("OUT_OF_STOCK"), "the code is its handler's own");
    }
}
