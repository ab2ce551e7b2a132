//! What a process is told: the replies that answers stand for.

use hookonce_protocol::call::{
    Call, CancellationReason, Committed, DueEntry, DuePage, Failure, Planned, Reply, Split, Unavailable, Written,
};
use hookonce_protocol::destination::{NoTurn, Offer, Terms};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::DESTINATION_CALL_MAX;
use hookonce_protocol::trail::Trail;

use super::plan::events;
use super::pool::ItemId;
use super::world::{Answer, NOT_DUE, World, sent_by, write_of};
use crate::call::writes;

impl World {
    fn found(&self, id: ItemId) -> Found {
        Found::from_item(self.item_value(id))
    }

    /// The reply that an answer stands for.
    pub(super) fn reply(&self, call: &Call, part: usize, answer: Answer) -> Reply {
        match answer {
            Answer::Applied => Reply::Written(Written::Applied),
            Answer::Failed(item) => {
                let (write, item) = (write_of(call, part), self.item_value(item));
                let judged = self.mutation.judge(write, item);
                self.note(judged != Written::refused(write, item));
                Reply::Written(judged)
            }
            Answer::Invalid => Reply::Written(Written::Invalid),
            Answer::Terms(document) => Reply::Terms(Ok(self.offer(document, Ok(())))),
            Answer::NoTurn(document, why) => Reply::Terms(Ok(self.offer(document, Err(why)))),
            Answer::NoTerms => Reply::Terms(Ok(None)),
            Answer::Called(called) => Reply::Called(called),
            Answer::Conflict => match writes(call) {
                [] => panic!("no transaction can be in the way of {call:?}"),
                writes if matches!(call, Call::Commit(_)) => {
                    Reply::Committed(Committed::Cancelled(vec![CancellationReason::Transient; writes.len()]))
                }
                _ => Reply::Written(Written::TransactionConflict),
            },
            Answer::Unavailable => unavailable(call),
            Answer::Seen(seen) => {
                if let Call::ReadHeads(keys) = call {
                    let head = |item: &ItemId| Ok(Found::head_of(self.item_value(*item)));
                    Reply::ReadHeads(seen.iter().take(keys.len()).map(head).collect())
                } else {
                    assert!(matches!(call, Call::Read(_)), "not a read of records: {call:?}");
                    Reply::Read(Ok(self.found(seen[0])))
                }
            }
            Answer::Committed => Reply::Committed(Committed::Applied),
            Answer::Cancelled(reasons) => {
                let Call::Commit(writes) = call else { unreachable!("only a commit is cancelled") };
                Reply::Committed(Committed::Cancelled(reasons.into_iter().take(writes.len()).collect()))
            }
            Answer::Sent(confirmed) => {
                let sent = |index| if index < usize::from(confirmed) { Ok(()) } else { Err(Unavailable) };
                let sent = (0..sent_by(call).len()).map(sent);
                if matches!(call, Call::SendEach(_)) {
                    Reply::SentEach(sent.collect())
                } else {
                    Reply::Sent(sent.collect())
                }
            }
            Answer::Due(due) => {
                let shown = self.keys.iter().zip(due).filter(|(_, at)| *at != NOT_DUE);
                let entry = |(key, at): (&RecordKey, i64)| DueEntry { key: key.clone(), due_at: EpochMs(at) };
                Reply::Due(Ok(DuePage { entries: shown.map(entry).collect(), next: None }))
            }
            Answer::Planned(domain) => self.plan(call, domain),
            Answer::Declined => Reply::Planned(Planned::NoHandler),
            Answer::Trail(count) => Reply::Trail(Ok(Trail { count: count.into(), ..Trail::default() })),
            Answer::HandlerFails { retryable } => {
                Reply::Planned(Planned::Failed(Failure { code: "HANDLER".to_owned(), retryable }))
            }
            Answer::HandlerAway => Reply::Planned(Planned::HandlerAway),
            Answer::HandlerSlow => Reply::Planned(Planned::HandlerSlow { handler: String::new() }),
        }
    }

    /// The terms of a document, and the turn.
    fn offer(&self, document: u8, turn: Result<(), NoTurn>) -> Option<Offer> {
        let document = self.documents[usize::from(document)]?;
        let terms = Terms {
            class: document.class,
            callee: document.callee.to_owned(),
            timeout: DESTINATION_CALL_MAX,
            give_up_after: self.give_up_after,
        };
        Some(Offer { terms, turn })
    }
}

/// The reply to a call that nobody else can see.
pub(super) fn immediate(call: &Call) -> Option<Reply> {
    match call {
        Call::CountReceived { .. } => Some(Reply::Counted(Ok(0))),
        Call::Wait(_) => Some(Reply::Done),
        Call::Split(record) => Some(Reply::Split(Split::Events(events(record)))),
        Call::Write(_)
        | Call::WriteBestEffort(_)
        | Call::WriteEach(_)
        | Call::Read(_)
        | Call::ReadTrail(_)
        | Call::ReadHeads(_)
        | Call::Commit(_)
        | Call::Send(_)
        | Call::SendEach(_)
        | Call::QueryDue(_)
        | Call::Plan(_)
        | Call::Terms(_)
        | Call::Deliver(_) => None,
    }
}

fn unavailable(call: &Call) -> Reply {
    match call {
        Call::Write(_) | Call::WriteBestEffort(_) | Call::WriteEach(_) => Reply::Written(Written::Unavailable),
        Call::Read(_) => Reply::Read(Err(Unavailable)),
        Call::ReadTrail(_) => Reply::Trail(Err(Unavailable)),
        Call::ReadHeads(keys) => Reply::ReadHeads(vec![Err(Unavailable); keys.len()]),
        Call::Commit(_) => Reply::Committed(Committed::Unavailable),
        Call::Send(_) => Reply::Sent(Err(Unavailable)),
        Call::SendEach(messages) => Reply::SentEach(vec![Err(Unavailable); messages.len()]),
        Call::QueryDue(_) => Reply::Due(Err(Unavailable)),
        Call::Plan(_) => Reply::Planned(Planned::Unavailable),
        Call::Terms(_) => Reply::Terms(Err(Unavailable)),
        Call::CountReceived { .. } | Call::Split(_) | Call::Wait(_) | Call::Deliver(_) => Reply::Done,
    }
}
