//! What is shown of a record everywhere.

use std::borrow::Cow;

use hookonce_protocol::record::{DeadReason, FAILURES_KEPT, FailedAttempt, Outcome, Record, Status};
use serde_json::{Value, json};

/// One record as JSON.
pub(crate) fn summary(record: &Record) -> Value {
    let (endpoint, key) = record.key.parts();
    json!({
        "endpoint": endpoint,
        "key": key,
        "state": record.status.as_str(),
        "outcome": record.outcome.map(Outcome::as_str),
        "provider": record.provider,
        "type": record.event_type,
        "received_at_ms": record.received_at.0,
        "processed_at_ms": record.processed_at.map(|at| at.0),
        "dead_at_ms": record.dead_at.map(|at| at.0),
        "dead_reason": record.dead_reason.map(DeadReason::as_str),
        "due_at_ms": record.due.as_ref().map(|due| due.at.0),
        "attempts": record.attempts,
        "tries": tries(record),
        "resends": record.resends,
        "duplicates": record.duplicate_count,
        "generation": record.generation,
        "last_error": record.last_error,
        "failures": record.failures.iter().map(failure).collect::<Vec<_>>(),
        "effect": record.effect.as_ref().map(|effect| effect.name.as_str()),
        "destination": record.effect.as_ref().map(|effect| effect.destination.as_str()),
        "parent": record.parent.as_ref().map(|parent| parent.parts().1.to_owned()),
    })
}

fn failure(failed: &FailedAttempt) -> Value {
    json!({ "at_ms": failed.at.0, "code": failed.code })
}

/// How often the record was tried, replays included: once for each failure, and once for each generation that was
/// settled. Of the failures before a replay, a record keeps only the latest; of a run that ended as IGNORED, it keeps
/// nothing.
pub(crate) fn tries(record: &Record) -> i64 {
    let kept = i64::try_from(record.failures.len()).unwrap_or(0);
    let tries = record.attempts.max(kept) + record.generation + i64::from(record.status == Status::Processed);
    let Some(effect) = &record.effect else { return tries };
    match record.status {
        // What did nothing is no attempt of the effect, and is what it waits for.
        Status::Pending => tries + effect.not_done,
        // A call that ends an effect is counted nowhere else.
        Status::Dead => tries.max(i64::from(effect.first_call_at.is_some())),
        Status::Processed | Status::Discarded => tries,
    }
}

/// The same for people, with a `+` where there may have been more.
pub(crate) fn format_tries(record: &Record) -> String {
    let kept = record.failures.len();
    let lost = record.retries + record.generation > 0 && kept >= FAILURES_KEPT;
    format!("{}{}", tries(record), if lost { "+" } else { "" })
}

/// What the type column prints: the type of an event, or where an effect goes.
pub(crate) fn type_of(record: &Record) -> Cow<'_, str> {
    match &record.effect {
        Some(effect) => format!("{} to {}", effect.name, effect.destination).into(),
        None => record.event_type.as_str().into(),
    }
}

/// What the error column prints: the last error, or else the death reason.
pub(crate) fn error_of(record: &Record) -> Option<&str> {
    record.last_error.as_deref().or(record.dead_reason.map(DeadReason::as_str))
}
