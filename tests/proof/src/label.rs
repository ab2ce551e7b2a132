//! Names for a process's calls and their results. The model and the simulator share them, so that one can check whether
//! the other saw everything.

use std::fmt;

use hookonce_protocol::call::{Call, CancellationReason, Committed, Planned, Reply, Split, Written};
use hookonce_protocol::destination::{NoTurn, Offer};
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Status};
use hookonce_protocol::write::Write;

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// One delivery on its way in.
    Ingress,
    /// A worker with one message.
    Worker,
    /// One relay run.
    Relay,
    /// The dead-letter consumer with one message.
    DeadLetter,
    /// The dispatcher with one hint of an effect.
    Dispatcher,
    /// An operator's action.
    Operator,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ingress => "ingress",
            Self::Worker => "worker",
            Self::Relay => "relay",
            Self::DeadLetter => "dead-letter",
            Self::Dispatcher => "dispatcher",
            Self::Operator => "operator",
        })
    }
}

/// The result of a write.
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
        Written::Invalid => "invalid",
        Written::Unavailable => "unavailable",
    }
}

/// The result of a read.
pub fn found<E>(found: &Result<Found, E>) -> &'static str {
    match found {
        Err(_) => "unavailable",
        Ok(Found::Nothing) => "nothing",
        Ok(Found::Unreadable(_)) => "another version",
        Ok(Found::Record(record)) => record.status.as_str(),
    }
}

/// The result of a commit. For a cancelled one, the first write whose condition did not hold.
pub fn committed(writes: &[Write], committed: &Committed) -> String {
    match committed {
        Committed::Applied => "applied".to_owned(),
        Committed::Denied => "denied".to_owned(),
        Committed::Invalid => "invalid".to_owned(),
        Committed::Unavailable => "unavailable".to_owned(),
        Committed::Cancelled(reasons) => {
            let failed = reasons.iter().zip(writes).find(|(reason, _)| reason.is_failed_condition());
            match failed {
                Some((CancellationReason::OwnFact { .. }, write)) => format!("cancelled by its own {}", write.purpose),
                Some((_, write)) => format!("cancelled by the {}", write.purpose),
                None => "cancelled for now".to_owned(),
            }
        }
    }
}

/// What the destination's document said.
pub fn terms<E>(terms: &Result<Option<Offer>, E>) -> &'static str {
    match terms {
        Err(_) => "unavailable",
        Ok(None) => "unknown",
        Ok(Some(Offer { turn: Ok(()), .. })) => "known",
        Ok(Some(Offer { turn: Err(NoTurn::Busy), .. })) => "no turn",
        Ok(Some(Offer { turn: Err(NoTurn::Away { .. }), .. })) => "away",
    }
}

/// What was sent.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Ref { .. } => "send hint",
        Message::Slow { .. } => "send slow hint",
        Message::Full(_) => "send payload",
    }
}

/// The label of a write that was repeated after its reply was lost.
pub fn repeated(role: Role, write: &Write) -> String {
    format!("{role}: {} -> found itself", write.purpose)
}

/// The labels of one call and its reply: one, or one for each part.
pub fn labels(role: Role, call: &Call, reply: &Reply) -> Vec<String> {
    let one = |call_name: &str, answer: &str| vec![format!("{role}: {call_name} -> {answer}")];
    let sent = |sent: bool| if sent { "sent" } else { "unavailable" };
    match (call, reply) {
        (Call::Write(write), Reply::Written(result)) => one(write.purpose.as_str(), written(result)),
        (Call::WriteBestEffort(write), _) => one(write.purpose.as_str(), "done"),
        (Call::WriteEach(writes), Reply::WrittenEach(each)) => {
            writes.iter().zip(each).flat_map(|(write, result)| one(write.purpose.as_str(), written(result))).collect()
        }
        (Call::Read(_), Reply::Read(result)) => one("read", found(result)),
        (Call::ReadTrail(_), Reply::Trail(result)) => {
            one("read trail", if result.is_ok() { "read" } else { "unavailable" })
        }
        (Call::ReadHeads(_), Reply::ReadHeads(each)) => {
            each.iter().flat_map(|result| one("read heads", found(result))).collect()
        }
        (Call::Commit(writes), Reply::Committed(result)) => {
            let order = writes.first().filter(|_| role == Role::Operator);
            one(order.map_or("commit", |write| write.purpose.as_str()), &committed(writes, result))
        }
        (Call::Send(message), Reply::Sent(result)) => one(kind(message), sent(result.is_ok())),
        (Call::SendEach(messages), Reply::SentEach(each)) => {
            messages.iter().zip(each).flat_map(|(message, result)| one(kind(message), sent(result.is_ok()))).collect()
        }
        (Call::QueryDue(_), Reply::Due(result)) => one("query due", sent(result.is_ok())),
        (Call::Plan(_), Reply::Planned(planned)) => one(
            "plan",
            match planned {
                Planned::Plan(_) => "plan",
                Planned::NoHandler => "no handler",
                Planned::Failed(failure) if failure.retryable => "failed",
                Planned::Failed(_) => "failed for good",
                Planned::Unavailable => "unavailable",
                Planned::CallsUsedUp => "calls used up",
                Planned::HandlerAway => "handler away",
                Planned::UserTableUnavailable => "table away",
                Planned::HandlerSlow { .. } => "handler slow",
            },
        ),
        (Call::Split(_), Reply::Split(split)) => {
            one("split", if matches!(split, Split::Events(_)) { "events" } else { "failed" })
        }
        (Call::Terms(_), Reply::Terms(result)) => one("terms", terms(result)),
        (Call::Deliver(_), Reply::Called(result)) => one("call", result.how()),
        (Call::CountReceived { .. } | Call::Wait(_), _) => Vec::new(),
        (call, reply) => unreachable!("{reply:?} is no reply to {call:?}"),
    }
}
