//! The pages of the codes, and the command that prints one.

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

/// Where to read more about a code, or that it is the handler's own.
pub(crate) fn describe(code: &str) -> String {
    explaining(code)
        .map_or_else(|| "the code is its handler's own".to_owned(), |command| format!("{command} says more"))
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::code::Code;
    use hookonce_protocol::record::DeadReason;

    use super::*;

    #[test]
    fn every_code_has_a_page() {
        let codes =
            Code::ALL.iter().map(|code| code.as_str()).chain(DeadReason::ALL.iter().map(|reason| reason.as_str()));
        for code in codes {
            assert_eq!(describe(code), format!("`hookonce explain {code}` says more"));
        }
        assert_eq!(describe("OUT_OF_STOCK"), "the code is its handler's own");
    }
}
