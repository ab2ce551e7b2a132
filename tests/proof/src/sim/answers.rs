//! Replies to calls that were not carried out.

use super::fault::SimFault;

/// What is said about a call that is not carried out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers<T> {
    /// The other side does not answer, or not in time.
    pub(super) refused: T,
    /// What its silence means once the call was sent, where that is something else.
    pub(super) lost: Option<T>,
    /// A transaction is in the way, where that can be.
    pub(super) conflict: Option<T>,
    /// The other side can never carry it out, where that can be.
    pub(super) invalid: Option<T>,
}

impl<T> Answers<T> {
    pub(super) fn only(refused: T) -> Self {
        Self { refused, lost: None, conflict: None, invalid: None }
    }

    /// What is said if the other side answers with this fault.
    pub(super) fn to(self, fault: SimFault) -> T {
        let answer = match fault {
            SimFault::Conflict => self.conflict,
            SimFault::Invalid => self.invalid,
            SimFault::Refused
            | SimFault::ReplyLost
            | SimFault::Repeated
            | SimFault::Late
            | SimFault::CrashBefore
            | SimFault::CrashAfter
            | SimFault::CrashDuring => None,
        };
        answer.unwrap_or(self.refused)
    }

    /// What the other side's silence means once the call was sent.
    pub(super) fn silence(self) -> T {
        self.lost.unwrap_or(self.refused)
    }
}
