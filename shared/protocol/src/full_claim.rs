//! The claim that a message with its payload makes. Ingress could not confirm it, so the message may be the only copy
//! of the payload: it is let go only once a record has it, or stands for it.
//!
//! ```text
//! claim ─ won ─▶ a record of its own, DEAD if the message is too old
//!   ├─ lost to another body, and the endpoint quarantines it ─▶ keep this body beside the other ─▶ the other record
//!   ├─ lost ─▶ the other record
//!   └─ unknown ─▶ keep the message
//! ```

use crate::call::{Call, Signal, Step, Written};
use crate::claim::Claim;
use crate::ingress::{body_mismatch, creation, has_other_body, quarantined};
use crate::purpose::Purpose;
use crate::record::{DeadReason, Found, Record};
use crate::timing::{Moment, Timing};

/// The machine for one such claim. It is part of another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum FullClaim {
    Claiming { record: Box<Record>, stale: bool },
    KeepingOther { old: Box<Record> },
}

/// How it ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Claimed {
    /// The record is new.
    Fresh(Box<Record>),
    /// The record is new and DEAD, because the message is too old.
    Stale(Box<Record>),
    /// Another claim made this record, of which only the head is known.
    Met(Box<Record>),
    /// No record is known to have the payload. Keep the message.
    Unsure,
}

impl FullClaim {
    /// Starts with the record that the claim would make.
    pub(crate) fn start(mut record: Record, claim: &Claim, timing: &Timing, moment: Moment) -> (Self, Call) {
        let stale = moment.now > claim.accept_before;
        if stale {
            record = record.stillborn(DeadReason::Stale, timing, moment);
        }
        let write = creation(&record, if stale { Purpose::ClaimDead } else { Purpose::Claim });
        (Self::Claiming { record: Box::new(record), stale }, Call::Write(write))
    }

    pub(crate) fn step(self, written: Written, timing: &Timing, moment: Moment) -> Step<Self, Claimed> {
        match (self, written) {
            (Self::Claiming { record, stale: true }, Written::Applied) => Step::done(Claimed::Stale(record)),
            (Self::Claiming { record, stale: false }, Written::Applied) => Step::done(Claimed::Fresh(record)),
            (Self::Claiming { record, .. }, Written::ConditionFailed(Found::Record(old))) => {
                met(&record, old, timing, moment)
            }
            (Self::Claiming { .. }, Written::ConditionFailed(Found::Unreadable(_))) => {
                Step::done(Claimed::Unsure).signal(Signal::UnknownVersion)
            }
            (Self::KeepingOther { old }, Written::Applied) => {
                let died = Signal::RecordDead { key: old.key.alternate(), reason: DeadReason::IdCollision };
                Step::done(Claimed::Met(old)).signal(died)
            }
            (Self::KeepingOther { old }, Written::ConditionFailed(_)) => Step::done(Claimed::Met(old)),
            // Keep the message for a corrected release, or for a person.
            (_, Written::Invalid) => Step::done(Claimed::Unsure).signal(Signal::WriteInvalid),
            (_, Written::ConditionFailed(Found::Nothing) | Written::TransactionConflict | Written::Unavailable) => {
                Step::done(Claimed::Unsure)
            }
        }
    }
}

/// The claim lost. If the other record has another body and the endpoint quarantines it, keeps this body first.
fn met(record: &Record, old: Box<Record>, timing: &Timing, moment: Moment) -> Step<FullClaim, Claimed> {
    if !has_other_body(record, &old) {
        return Step::done(Claimed::Met(old));
    }
    let mismatch = body_mismatch(&old, record.body.as_deref().unwrap_or_default());
    if !record.quarantine_mismatch {
        return Step::done(Claimed::Met(old)).signal(mismatch);
    }
    let write = creation(&quarantined(record, timing, moment), Purpose::Quarantine);
    Step::call(FullClaim::KeepingOther { old }, Call::Write(write)).signal(mismatch)
}
