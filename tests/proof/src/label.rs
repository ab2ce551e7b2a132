//! Names for what a process asked and what came of it. The model and the simulator share them, so that one can say
//! whether the other saw everything.

use std::fmt;

use hookonce_protocol::call::{Call, CancellationReason, Committed, Planned, Reply, Split, Written};
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::FIRST_SEEN_PREFIX;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Status, attribute};
use hookonce_protocol::write::{Action, Change, Write};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// One delivery on its way in.
    Ingress,
    /// One message at work.
    Worker,
    /// One relay run.
    Relay,
    /// One dead letter at work.
    DeadLetter,
    /// A person's action.
    Operator,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ingress => "ingress",
            Self::Worker => "worker",
            Self::Relay => "relay",
            Self::DeadLetter => "dead-letter",
            Self::Operator => "operator",
        })
    }
}

/// The value that an update sets an attribute to.
pub fn setting<'a>(write: &'a Write, name: &str) -> Option<&'a Value> {
    let Action::Update(changes) = &write.action else { return None };
    changes.iter().find_map(|change| match change {
        Change::Set(set, value) if set == name => Some(value),
        Change::Set(..) | Change::Remove(_) | Change::Add(..) => None,
    })
}

/// What a write of the inbox table is for.
pub fn purpose(write: &Write) -> &'static str {
    let text = |name: &str| setting(write, name).and_then(Value::as_text);
    let sets = |name: &str| setting(write, name).is_some();
    match &write.action {
        Action::Put(_) if write.key.starts_with(FIRST_SEEN_PREFIX) => "note body",
        Action::Put(item) => purpose_of_put(item),
        Action::Delete => "delete",
        Action::Update(changes) if changes.iter().any(|change| matches!(change, Change::Add(..))) => "count duplicate",
        Action::Update(_) if sets(attribute::GENERATION) => "force",
        Action::Update(_) if sets(attribute::OUTCOME) => match text(attribute::OUTCOME) {
            Some("DUPLICATE") => "mark duplicate",
            Some("FANNED_OUT") => "close envelope",
            Some("IGNORED") => "mark ignored",
            _ => "settle",
        },
        Action::Update(_) if text(attribute::STATUS) == Some("PENDING") => "retry",
        Action::Update(_) if text(attribute::STATUS) == Some("DISCARDED") => "discard",
        Action::Update(_) if sets(attribute::DEAD_LETTERS) && sets(attribute::DEAD_REASON) => "die of dead letter",
        Action::Update(_) if sets(attribute::DEAD_LETTERS) => "re-arm dead letter",
        Action::Update(_) if text(attribute::DEAD_REASON) == Some("STALE") => "die of age",
        Action::Update(_) if sets(attribute::DEAD_REASON) => "die of failure",
        Action::Update(_) if sets(attribute::ATTEMPTS) => "count failure",
        Action::Update(_) if sets(attribute::RESENDS) => "re-arm",
        Action::Update(_) => "move due time",
    }
}

fn purpose_of_put(item: &Item) -> &'static str {
    let status = item.get(attribute::STATUS).and_then(Value::as_text).and_then(Status::parse);
    match (status, item.contains_key(attribute::PARENT)) {
        (Some(Status::Pending), false) => "claim",
        (Some(Status::Pending), true) => "claim child",
        (Some(Status::Dead), _) => "claim dead",
        (Some(Status::Processed | Status::Discarded) | None, _) => "put",
    }
}

/// What came of a write.
pub fn written(written: &Written) -> &'static str {
    match written {
        Written::Applied => "applied",
        Written::ConditionFailed(found) => match found {
            Found::Nothing => "lost to nothing",
            Found::Unreadable(_) => "lost to another version",
            Found::Record(record) => match record.status {
                Status::Pending => "lost to PENDING",
                Status::Processed => "lost to PROCESSED",
                Status::Dead => "lost to DEAD",
                Status::Discarded => "lost to DISCARDED",
            },
        },
        Written::TransactionConflict => "conflict",
        Written::Unavailable => "unavailable",
    }
}

/// What a read showed.
pub fn found<E>(found: &Result<Found, E>) -> &'static str {
    match found {
        Err(_) => "unavailable",
        Ok(Found::Nothing) => "nothing",
        Ok(Found::Unreadable(_)) => "another version",
        Ok(Found::Record(record)) => record.status.as_str(),
    }
}

/// What came of a commit.
pub fn committed(committed: &Committed) -> &'static str {
    let failed = |reason: &CancellationReason| *reason == CancellationReason::ConditionFailed;
    match committed {
        Committed::Applied => "applied",
        Committed::Invalid => "invalid",
        Committed::Unavailable => "unavailable",
        Committed::Cancelled(reasons) if reasons.first().is_some_and(failed) => "cancelled by the record",
        Committed::Cancelled(reasons) if reasons.get(1).is_some_and(failed) => "cancelled by the domain key",
        Committed::Cancelled(reasons) if reasons.iter().any(failed) => "cancelled by the plan",
        Committed::Cancelled(..) => "cancelled for now",
    }
}

/// What was sent.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Ref { .. } => "send hint",
        Message::Full(_) => "send payload",
    }
}

/// The labels of one call and its reply: one, or one for each part.
pub fn labels(role: Role, call: &Call, reply: &Reply) -> Vec<String> {
    let one = |ask: &str, answer: &str| vec![format!("{role}: {ask} -> {answer}")];
    let sent = |sent: bool| if sent { "sent" } else { "unavailable" };
    match (call, reply) {
        (Call::Write(write), Reply::Written(result)) => one(purpose(write), written(result)),
        (Call::WriteBestEffort(write), _) => one(purpose(write), "done"),
        (Call::WriteEach(writes), Reply::WrittenEach(each)) => {
            writes.iter().zip(each).flat_map(|(write, result)| one(purpose(write), written(result))).collect()
        }
        (Call::Read(_), Reply::Read(result)) => one("read", found(result)),
        (Call::ReadEach(_), Reply::ReadEach(each)) => {
            each.iter().flat_map(|result| one("read each", found(result))).collect()
        }
        (Call::Commit(_), Reply::Committed(result)) => one("commit", committed(result)),
        (Call::Send(message), Reply::Sent(result)) => one(kind(message), sent(result.is_ok())),
        (Call::SendEach(messages), Reply::SentEach(each)) => {
            messages.iter().zip(each).flat_map(|(message, result)| one(kind(message), sent(result.is_ok()))).collect()
        }
        (Call::QueryDue { .. }, Reply::Due(result)) => one("query due", sent(result.is_ok())),
        (Call::Plan(_), Reply::Planned(planned)) => one(
            "plan",
            match planned {
                Planned::Plan(_) => "plan",
                Planned::NoHandler => "no handler",
                Planned::Failed(failure) if failure.retryable => "failed",
                Planned::Failed(_) => "failed for good",
                Planned::Unavailable => "unavailable",
            },
        ),
        (Call::Split(_), Reply::Split(split)) => {
            one("split", if matches!(split, Split::Events(_)) { "events" } else { "failed" })
        }
        _ => Vec::new(),
    }
}
