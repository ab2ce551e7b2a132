//! The pages of the codes, the sections of the runbook, and the command that prints one.

macro_rules! pages {
    ($($code:ident)*) => {
        &[$((stringify!($code), include_str!(concat!("../../../../docs/errors/", stringify!($code), ".md"))),)*]
    };
}

/// The pages of docs/errors, by code. A build script that lists them would hand its variables on to every build that a
/// command of `cargo hookonce` starts, and crates of others would be built again.
pub(crate) const PAGES: &[(&str, &str)] = pages! {
    AMOUNT_NEGATIVE ATTEMPTS_EXHAUSTED BODY_MISSING BODY_NOT_COMPRESSED BODY_UNREADABLE CALL_UNCLEAR
    CHARGE_UNREADABLE CONDITION_FAILED DEAD_LETTER DESTINATION_UNAVAILABLE ENVELOPE_UNREADABLE EVENT_TOO_LARGE
    EVENT_UNREADABLE FACT_MISSING HANDLER_ANSWER_MALFORMED HANDLER_ASKED_TOO_MUCH HANDLER_CRASHED
    HANDLER_FACT_CHANGED HANDLER_PANICKED HANDLER_TIMED_OUT HANDLER_UNAVAILABLE ID_COLLISION
    INVOICE_UNREADABLE MESSAGE_UNREADABLE PERMANENT PLAN_REFUSED PROVIDER_UNKNOWN PUSH_UNREADABLE REFUSED
    REQUEST_VERSION_UNKNOWN REWOUND STALE TABLE_UNAVAILABLE TIMESTAMP_UNREADABLE UNKNOWN_OUTCOME UNROUTED
    WRITE_INVALID body_too_large duplicate_header endpoint_unavailable header_malformed malformed
    material_unavailable method_not_allowed not_configured not_through_edge scheme_not_taken
    signature_malformed signature_mismatch signature_missing source_not_allowed store_unavailable
    timestamp_malformed timestamp_missing timestamp_out_of_range unknown_endpoint
};

/// The command that explains a code, if it has a page. A handler may fail with a code of its own, which has none.
pub(crate) fn explaining(code: &str) -> Option<String> {
    PAGES.iter().any(|(name, _)| *name == code).then(|| format!("`hookonce explain {code}`"))
}

/// The runbook, which has a section for each alarm and each thing that needs a person.
const RUNBOOK: &str = include_str!("../../../../docs/run/runbook.md");

/// How its sections are named, as a path of this repository.
pub(crate) const RUNBOOK_SECTION: &str = "docs/run/runbook.md#";

/// What its first lines name an alarm with, by its severity.
const SEVERITIES: [&str; 2] = ["` (page)", "` (notice)"];

/// The letters of a name without what the ways to write it differ in, as in `Records died` and `records-died`.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Where the sections begin, how deep each is, and its title.
fn headings() -> Vec<(usize, usize, &'static str)> {
    let (mut headings, mut at, mut is_code) = (Vec::new(), 0, false);
    for line in RUNBOOK.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if !is_code && title.len() < line.len() {
            headings.push((at, line.len() - title.len(), title.trim()));
        }
        at += line.len();
    }
    headings
}

/// A section of the runbook, by the name of its alarm or by its title, with what an alarm or a page writes before it.
pub(crate) fn section(name: &str) -> Option<&'static str> {
    let name = name.rsplit(['#', '/']).next().unwrap_or_default();
    let headings = headings();
    let alarm = SEVERITIES.iter().find_map(|severity| RUNBOOK.find(&format!("`{name}{severity}")));
    let index = match alarm {
        Some(place) => headings.iter().rposition(|(at, ..)| *at < place),
        None => headings.iter().position(|(_, depth, title)| *depth > 1 && letters(title) == letters(name)),
    };
    let (start, depth, _) = headings.get(index?)?;
    let end = headings.iter().find(|(at, other, _)| at > start && other <= depth).map_or(RUNBOOK.len(), |(at, ..)| *at);
    RUNBOOK.get(*start..end)
}

/// The command that prints a section of the runbook, or the path of any other page.
pub(crate) fn opening(page: &str) -> String {
    let name = page.rsplit(['#', '/']).next().unwrap_or_default();
    section(page).map_or_else(|| page.to_owned(), |_| format!("hookonce explain {name}"))
}

/// The names of the alarms that have a section.
pub(crate) fn alarms() -> impl Iterator<Item = &'static str> {
    SEVERITIES
        .iter()
        .flat_map(|severity| RUNBOOK.match_indices(severity))
        .filter_map(|(at, _)| RUNBOOK.get(..at)?.rsplit('`').next())
}

/// Where to read more about a code, or that it is the handler's own.
pub(crate) fn describe(code: &str) -> String {
    explaining(code).map_or_else(|| "the code is its handler's own".to_owned(), |command| format!("{command} has more"))
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::code::Code;
    use hookonce_protocol::record::DeadReason;

    use super::*;

    #[test]
    fn a_section_is_found_by_its_alarm_and_by_its_title_and_ends_before_the_next_one() {
        for name in
            ["RecordsDied", "hookonce/inbox/page/RecordsDied", "records-died", "docs/run/runbook.md#records-died"]
        {
            let section = section(name).unwrap();
            assert!(
                section.starts_with("### Records died\n") && !section.contains("### Records are quarantined"),
                "{name}"
            );
        }
        assert!(section("WebhookFails").unwrap().starts_with("### Deliveries are not accepted"));
        assert!(section("an-endpoint-is-silent").unwrap().contains("#### Expect deliveries"));
        assert!(section("").is_none() && section("RecordsDie").is_none());
        assert_eq!(alarms().count(), 14);
        assert!(alarms().all(|alarm| section(alarm).is_some()));
    }

    #[test]
    fn every_code_has_a_page() {
        let codes =
            Code::ALL.iter().map(|code| code.as_str()).chain(DeadReason::ALL.iter().map(|reason| reason.as_str()));
        for code in codes {
            assert_eq!(describe(code), format!("`hookonce explain {code}` has more"));
        }
        assert_eq!(describe("OUT_OF_STOCK"), "the code is its handler's own");
    }
}
