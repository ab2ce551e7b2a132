//! The results for the records that a command was to change, and what is printed of them.

use std::collections::BTreeMap;

use hookonce_protocol::operator::Refusal;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::trail::Operation;
use serde_json::{Value, json};

use crate::output;

/// The result for one record, or what it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderResult {
    /// A dry run would do it.
    Would,
    /// It is done.
    Done,
    /// A run before this one did it.
    DoneBefore,
    /// Somebody else changed it first.
    Overtaken,
    /// The store rejected the write.
    Blocked,
    /// The protocol does not allow it.
    Refused(Refusal),
}

impl OrderResult {
    /// What a refusal means to whoever runs the command again.
    pub(crate) fn of(refusal: Refusal, operation: Operation) -> Self {
        match refusal {
            Refusal::ForcedBefore => Self::DoneBefore,
            Refusal::NoBody if operation == Operation::Redact => Self::DoneBefore,
            Refusal::NotRetryable
            | Refusal::NotForceable
            | Refusal::Rewound
            | Refusal::NotDiscardable
            | Refusal::EffectUnknown
            | Refusal::OtherBody
            | Refusal::NoBody
            | Refusal::Envelope
            | Refusal::Effect
            | Refusal::EffectOpen
            | Refusal::NotDoubtable
            | Refusal::NotRedactable => Self::Refused(refusal),
        }
    }

    /// Its word for people.
    pub(crate) fn describe(self, operation: Operation) -> &'static str {
        match self {
            Self::DoneBefore if operation == Operation::Redact => "no body",
            Self::DoneBefore => "done before",
            Self::Would | Self::Done | Self::Overtaken | Self::Blocked | Self::Refused(_) => self.word(),
        }
    }

    /// Its word for programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Would => "would",
            Self::Done => "done",
            Self::DoneBefore => "done_before",
            Self::Overtaken => "overtaken",
            Self::Blocked => "blocked",
            Self::Refused(_) => "refused",
        }
    }
}

/// The counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Entries that were read.
    pub(crate) examined: usize,
    /// Records of another version.
    pub(crate) unreadable: usize,
    /// Records that no handler or route wanted, among those that are or would be retried.
    pub(crate) ignored: usize,
    /// Records that are or would be redacted because they hold bytes of a redacted event.
    pub(crate) along: usize,
    /// Records that hold bytes of a redacted event and keep them.
    pub(crate) holding: usize,
    /// How many effects a force would send again, by destination.
    pub(crate) sent_again: BTreeMap<String, usize>,
    /// How many records each result has.
    pub(crate) results: BTreeMap<OrderResult, usize>,
}

impl Tally {
    /// How many records have a result with this word.
    pub(crate) fn of(&self, word: &str) -> usize {
        self.results.iter().filter(|(result, _)| result.word() == word).map(|(_, count)| count).sum()
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Every record was read.
    Complete,
    /// It changed as many as it was to.
    Limit,
    /// Ctrl-C.
    Stopped,
}

/// Says that the records are no longer those that a person agreed to.
pub(crate) fn tell_disagreement(operation: Operation, agreed: usize, found: usize) {
    output::note(&format!(
        "nothing was changed: you agreed to {operation} {agreed} record(s), and the filter finds {found} now. Run it without \
         --yes to see them"
    ));
}

/// The counts of a run, for programs.
pub(crate) fn summary(operation: Operation, yes: bool, tally: &Tally, end: End, since: Option<EpochMs>) -> Value {
    json!({ "summary": {
        "operation": operation.as_str(),
        "dry_run": !yes,
        "examined": tally.examined,
        "would": tally.of("would"),
        "done": tally.of("done"),
        "done_before": tally.of("done_before"),
        "overtaken": tally.of("overtaken"),
        "blocked": tally.of("blocked"),
        "refused": tally.of("refused"),
        "unreadable": tally.unreadable,
        "sends_again": tally.sent_again,
        "since_ms": since.map(|since| since.0),
        "complete": end == End::Complete,
    }})
}

/// The summary, for people.
pub(crate) fn tell(operation: Operation, (yes, rate): (bool, f64), tally: &Tally, end: End, again: &str) {
    for (result, count) in &tally.results {
        output::note(&match result {
            OrderResult::Would => format!("would {operation} {count} record(s)"),
            OrderResult::Done => format!("{operation}: {count} record(s) done"),
            OrderResult::DoneBefore if operation == Operation::Redact => {
                format!("{count} record(s) have no body any more")
            }
            OrderResult::DoneBefore => format!("{count} record(s): {}", Refusal::ForcedBefore),
            OrderResult::Overtaken => {
                format!("{count} record(s) changed after they were read: another operator or the worker was first")
            }
            OrderResult::Blocked => format!(
                "{count} record(s) were not changed: DynamoDB rejected the write, or other transactions conflicted with it; \
                 retry them one by one, with --key"
            ),
            OrderResult::Refused(refusal) => format!("refused {count} record(s): {refusal}"),
        });
    }
    tell_others(tally, yes);
    if !tally.sent_again.is_empty() {
        let effects: usize = tally.sent_again.values().sum();
        let to: Vec<_> = tally.sent_again.iter().map(|(to, count)| format!("{to} ({count})")).collect();
        output::note(&format!(
            "their last commits sent {effects} effect(s); a force sends such effects again, with new keys: {}",
            to.join(", ")
        ));
    }
    if tally.ignored > 0 {
        output::note(&format!(
            "{} of them are IGNORED: today's routes and handlers decide again, and what they still do not want ends as \
             IGNORED again; `hookonce route explain --endpoint ID --file FILE` shows which route takes an \
             event",
            tally.ignored
        ));
    }
    if tally.results.is_empty() {
        output::note("no record matches; `hookonce list` with the same filters shows what there is");
    }
    if tally.unreadable > 0 {
        output::note(&format!("left out {} record(s) of another hookonce version", tally.unreadable));
    }
    match end {
        End::Complete => {}
        End::Limit if yes => {
            output::note(&format!("there may be more records: --limit was reached. To go on:\n  {again}"));
        }
        End::Limit => output::note("there may be more records: --limit was reached"),
        End::Stopped if yes => {
            output::note(&format!("stopped. To resume; records that are done are skipped:\n  {again}"));
        }
        End::Stopped => output::note("stopped"),
    }
    if !yes && tally.of("would") > 0 {
        if let Some(warning) = no_way_back(operation) {
            output::note(warning);
        }
        output::note(&format!(
            "nothing was changed: this was a dry run. Pass --yes to do it, {rate} record(s) a second:\n  {again}"
        ));
    }
    if yes && tally.of("done") > 0 && matches!(operation, Operation::Retry | Operation::Force) {
        output::note("the relay sends their hints within its budget; watch `hookonce list`");
    }
}

/// What nobody can take back, before it is done.
const fn no_way_back(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Discard => Some("there is no way back: a discarded record never runs again"),
        Operation::Redact => Some("there is no way back: an erased body cannot be read or replayed by anybody"),
        Operation::Force => Some("there is no way back: what is applied once more stays so"),
        Operation::Doubt => Some("what ends so runs again only if a person accepts that it may be carried out twice"),
        Operation::Retry => None,
    }
}

/// What a redaction did, or would do, to records that nobody named.
fn tell_others(Tally { along, holding, .. }: &Tally, yes: bool) {
    if *along > 0 {
        let word = if yes { "were" } else { "would be" };
        output::note(&format!(
            "{along} of them {word} redacted because they hold bytes of the events: effects, other bodies under their ids, \
             and deliveries that the events came in"
        ));
    }
    if *holding > 0 {
        output::note(&format!(
            "{holding} record(s) above still hold bytes of the events: let them end or discard them, then run the same \
             command again"
        ));
    }
}
