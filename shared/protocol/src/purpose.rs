//! What a write is for.

use crate::words::words;

words! {
    /// What a write is for. The machine that makes a write says so; logs, the model and its mutants repeat it. It is not
    /// stored and no condition depends on it.
    ///
    /// Each line ends with its clause of the contract.
    Purpose {
        /// Creates the record of a delivery: G1, W1.
        Claim = "claim",
        /// Creates the record of one event of an envelope: F1.
        ClaimChild = "claim child",
        /// Creates the record of a payload that came too late or as a dead letter, dead from the start: W1, 1.8.
        ClaimDead = "claim dead",
        /// Keeps another body that came under a known id: G3.
        Quarantine = "quarantine",
        /// Counts a further delivery of a known id: G3.
        CountDuplicate = "count duplicate",
        /// Lets the relay send at once, because the hint could not be sent: G2.
        MarkDue = "mark due",
        /// Ends a record with its effect: W4\[0\].
        Settle = "settle",
        /// Takes the business fact for this record: W4\[1\].
        DomainKey = "domain key",
        /// One of the handler's own: W4\[2..\].
        DomainWrite = "domain write",
        /// Ends a record whose fact was applied before: W4.
        MarkDuplicate = "mark duplicate",
        /// Ends a record that no handler wants: W3.
        MarkIgnored = "mark ignored",
        /// Ends an envelope whose events all have records: F3.
        CloseEnvelope = "close envelope",
        /// Counts a failure of the handler: W5.
        CountFailure = "count failure",
        /// Gives a record up after its last failure: W5.
        DieOfFailure = "die of failure",
        /// Gives a record up that is too old to be committed: W2.
        DieOfAge = "die of age",
        /// Moves the due time into the future before a hint is sent again: R2.
        Rearm = "re-arm",
        /// Moves the due time nearer, because that hint could not be sent: R3.
        RepairDueTime = "repair due time",
        /// Lets a record be sent again whose message was a dead letter before its handler ran: 1.8.
        RearmDeadLetter = "re-arm dead letter",
        /// Gives a record up whose message was a dead letter: 1.8.
        DieOfDeadLetter = "die of dead letter",
        /// Lets a PENDING or DEAD record run again: 1.9.
        Retry = "retry",
        /// Lets a PROCESSED record run again, in the next generation: 1.9.
        Force = "force",
        /// Gives a DEAD record up for good: 1.9.
        Discard = "discard",
        /// Notes which record a body first came with: the worker's answer to H15.
        NoteBody = "note body",
    }
}
