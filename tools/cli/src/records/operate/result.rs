//! The result of an order on one record, and the end of a run over many.

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
    /// Whether the record is not as it was ordered to be.
    pub(super) fn failed(self) -> bool {
        matches!(self, Self::Refused(_) | Self::Overtaken | Self::Blocked)
    }

    /// Whether the record was changed, or would be.
    pub(super) const fn changes(self) -> bool {
        matches!(self, Self::Would | Self::Done)
    }

    /// What a refusal means to whoever runs the command again.
    pub(crate) fn of(refusal: Refusal, operation: Operation) -> Self {
        match refusal {
            Refusal::ForcedBefore => Self::DoneBefore,
            Refusal::NoBody if operation == Operation::Redact => Self::DoneBefore,
            Refusal::NotRetryable
            | Refusal::NotForceable
            | Refusal::Rewound
            | Refusal::NotDiscardable
            | Refusal::OutcomeUnknown
            | Refusal::OtherBody
            | Refusal::NoBody
            | Refusal::Envelope
            | Refusal::Effect
            | Refusal::EffectOpen
            | Refusal::LaterTrail
            | Refusal::NotDoubtable
            | Refusal::NotRedactable => Self::Refused(refusal),
        }
    }

    /// Its word for people.
    pub(crate) fn describe(self, operation: Operation) -> &'static str {
        match self {
            Self::DoneBefore if operation == Operation::Redact => "no body",
            Self::DoneBefore => "done before",
            Self::Would => operation.as_str(),
            Self::Done | Self::Overtaken | Self::Blocked | Self::Refused(_) => self.word(),
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
