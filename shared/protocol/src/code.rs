//! The codes that hookonce itself gives to failures. `docs/errors` has a page for each, and for each
//! [reason of a death](crate::record::DeadReason). No handler may answer with one of them.

use crate::words::words;

words! {
    /// Why an event, its handler or an effect failed.
    Code {
        /// A record has lost its body.
        BodyMissing = "BODY_MISSING",
        /// A body cannot be compressed.
        BodyNotCompressed = "BODY_NOT_COMPRESSED",
        /// A stored body cannot be read.
        BodyUnreadable = "BODY_UNREADABLE",
        /// The last call of an effect has an unknown outcome.
        CallUnclear = "CALL_UNCLEAR",
        /// A condition of the plan does not hold.
        ConditionFailed = "CONDITION_FAILED",
        /// An effect was not done: its destination is unknown, cannot be reached, or takes no calls for now.
        DestinationUnavailable = "DESTINATION_UNAVAILABLE",
        /// An envelope cannot be split.
        EnvelopeUnreadable = "ENVELOPE_UNREADABLE",
        /// An event of an envelope fits into no record.
        EventTooLarge = "EVENT_TOO_LARGE",
        /// A route asks about a body that is no JSON.
        EventUnreadable = "EVENT_UNREADABLE",
        /// The event lacks what names its fact.
        FactMissing = "FACT_MISSING",
        /// A handler's answer is refused.
        HandlerAnswerMalformed = "HANDLER_ANSWER_MALFORMED",
        /// A handler asked for more items than a request holds.
        HandlerReadsRefused = "HANDLER_ASKED_TOO_MUCH",
        /// A handler crashed, or refused the call.
        HandlerCrashed = "HANDLER_CRASHED",
        /// A handler named another fact in its second answer.
        HandlerFactChanged = "HANDLER_FACT_CHANGED",
        /// A built-in handler panicked.
        HandlerPanicked = "HANDLER_PANICKED",
        /// A handler did not answer in time.
        HandlerTimedOut = "HANDLER_TIMED_OUT",
        /// A handler is unavailable.
        HandlerUnavailable = "HANDLER_UNAVAILABLE",
        /// The store can never commit the plan.
        PlanRefused = "PLAN_REFUSED",
        /// The catalog does not know the record's provider.
        ProviderUnknown = "PROVIDER_UNKNOWN",
        /// A user table that a handler uses is missing or busy, or cannot be read or written.
        TableUnavailable = "TABLE_UNAVAILABLE",
        /// No route takes the event, and the set says that such events die.
        Unrouted = "UNROUTED",
        /// The store can never carry out a write.
        WriteInvalid = "WRITE_INVALID",
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.as_str().to_owned()
    }
}
