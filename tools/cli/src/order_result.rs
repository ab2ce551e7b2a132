//! The results for the records that a command was to change.

use std::collections::BTreeMap;

use hookonce_protocol::operator::Refusal;
use hookonce_protocol::trail::Operation;

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
            Self::DoneBefore if operation == Operation::Redact => "already redacted",
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
