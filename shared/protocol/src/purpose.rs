//! The purposes of writes.

use crate::words::words;

words! {
    /// What a write is for. The machine that makes the write sets it. Logs, the model and its mutants show it. It is
    /// not stored, and no condition depends on it.
    ///
    /// Each line ends with its clause; `docs/trust/clauses.md` says what each one is.
    Purpose {
        /// Creates the record of a delivery: G1, W1, 1.8.
        Claim = "claim",
        /// Creates the record of one event of an envelope: F1.
        ClaimChild = "claim child",
        /// Creates a record as DEAD, from a payload that came too late: W1, 1.8.
        ClaimDead = "claim dead",
        /// Keeps another body that came under a known id: G3.
        Quarantine = "quarantine",
        /// Counts another delivery of a known id: G3.
        CountDuplicate = "count duplicate",
        /// Makes the record due at once, because the hint could not be sent: G2.
        MarkDue = "mark due",
        /// Ends a record in the transaction that applies it: W4\[0\].
        Settle = "settle",
        /// Claims the business fact for this record: W4\[1\].
        DomainKey = "domain key",
        /// A write of the handler: W4\[2..\].
        DomainWrite = "domain write",
        /// A check of the handler, on an item that its plan does not write: W4\[2..\].
        DomainCheck = "domain check",
        /// Ends a record whose fact was applied before: W4.
        MarkDuplicate = "mark duplicate",
        /// Ends a record that no handler wants: W3.
        MarkIgnored = "mark ignored",
        /// Ends an envelope whose events all have records: F3.
        CloseEnvelope = "close envelope",
        /// Counts a failure of the handler: W5.
        CountFailure = "count failure",
        /// Lets a record wait, without counting, for a handler, a table or others' changes: Q11.
        Postpone = "postpone",
        /// Makes a record DEAD after its last failure: W5.
        DeadAfterFailures = "die of failure",
        /// Makes a record DEAD that is too old to commit: W2.
        DeadTooOld = "die of age",
        /// Makes a record DEAD whose own domain key says that it was applied: W4.
        DeadRewound = "die of rewind",
        /// Moves the due time into the future before the relay sends a hint: R2.
        Rearm = "re-arm",
        /// Moves the due time closer, because the relay's hint could not be sent: R3.
        RepairDueTime = "repair due time",
        /// Makes a record due again after a round of dead letters: 1.8.
        RearmDeadLetter = "re-arm dead letter",
        /// Makes a record DEAD after its last round of dead letters: 1.8.
        DieOfDeadLetter = "die of dead letter",
        /// Lets a PENDING, DEAD or IGNORED record run again: 1.9.
        Retry = "retry",
        /// Lets a record run again that was applied, in the next generation: 1.9.
        Force = "force",
        /// Discards a DEAD record: 1.9.
        Discard = "discard",
        /// Erases the body of a settled record: 1.9.
        Redact = "redact",
        /// Makes a record DEAD that may have been applied, or an effect that may have been called, after the moment
        /// that its table was restored to: 1.9.
        Doubt = "doubt",
        /// Creates the record of an effect, beside the record of its event: W4\[2..\].
        CreateEffect = "create effect",
        /// Lets one process make the next call of an effect: D4.
        GuardCall = "guard call",
        /// Ends an effect whose callee did it: D6.
        SettleEffect = "settle effect",
        /// Lets an effect wait after a call that did nothing: D6.
        RearmEffect = "re-arm effect",
        /// Counts a call with an unknown outcome: D6.
        FailEffect = "fail effect",
        /// Makes an effect DEAD, before its next call or after its last: D2, D3, D6.
        DieOfCall = "die of call",
        /// Adds an entry to the audit trail of a record: 1.9.
        NoteOperation = "note operation",
        /// Notes which record a body first came with: the worker's answer to H15.
        NoteBody = "note body",
    }
}
