//! The interned values of one exploration, and the steps of machines and stores on them. Each step is computed once.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use hookonce_protocol::call::{
    Call, CancellationReason, Committed, DueEntry, DuePage, Failure, Planned, Reply, Split, Unavailable, Written,
};
use hookonce_protocol::item::Item;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, attribute};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::trail::Trail;
use hookonce_protocol::write::{Clause, NotApplied, Table, Write};
use rustc_hash::FxHashMap;

use super::edge::Edge;
use super::plan::events;
use super::pool::{CallId, Calls, DomainId, Domains, ItemId, Items, MessageId, Messages, Pool, ProcId, Procs};
use super::process::{Actor, Advanced, End, Proc};
use super::scenario::Scenario;
use super::state::SLOTS;
use super::view::{Domain, DomainView, FACT_NAMES, ItemView, plain, plain_domain, plain_write};
use crate::label::{Role, labels, repeated};
use crate::mutant::Mutation;

/// What a call does, as far as the model's actions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A write of one record, alone or as the next of several.
    Write {
        /// The record's place.
        slot: usize,
        /// Its reply does not matter.
        best_effort: bool,
    },
    /// Reads of records.
    Read,
    /// A transaction on one record and the domain table.
    Commit {
        /// The record's place.
        slot: usize,
    },
    /// Messages.
    Send,
    /// A query of the index.
    Query,
    /// A handler's plan for a record.
    Plan {
        /// The record's place.
        slot: usize,
    },
    /// A read of a record's trail.
    Trail {
        /// The record's place.
        slot: usize,
    },
}

/// The answer to a call, small enough to look steps up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    /// The write was carried out.
    Applied,
    /// Its condition did not hold; the item.
    Failed(ItemId),
    /// A transaction conflicts.
    Conflict,
    /// The store can never carry out the write.
    Invalid,
    /// No answer.
    Unavailable,
    /// The records, in the order of the read.
    Seen([ItemId; SLOTS]),
    /// The commit was carried out.
    Committed,
    /// The commit was cancelled for these reasons.
    Cancelled([u8; 3]),
    /// How many messages were confirmed: the first ones.
    Sent(u8),
    /// What the index shows, by place.
    Due([i64; SLOTS]),
    /// The handler plans on this domain table.
    Planned(DomainId),
    /// No handler wants the event.
    Declined,
    /// How many acts the trail has.
    Trail(u8),
    /// The handler fails.
    HandlerFails {
        /// Whether another attempt can succeed.
        retryable: bool,
    },
    /// The handler is away.
    HandlerAway,
}

/// What a step of a process led to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    /// It goes on.
    Goes(ProcId),
    /// It ended.
    Ended(End),
}

/// One process as the model's actions see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcView {
    /// Who.
    pub(super) role: Role,
    /// What it waits for.
    pub(super) class: Class,
    /// The call's index.
    pub(super) call: CallId,
    /// Which part of the call comes next.
    pub(super) part: usize,
    /// The message that it handles, if any.
    pub(super) message: MessageId,
    /// Its write is a repetition.
    pub(super) repeats: bool,
    /// Its write counts a copy of a dead letter.
    pub(super) hasty: bool,
    /// The record that was shown to the operator, if it is one.
    pub(super) shown: ItemId,
}

/// One message as the model's actions see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageView {
    /// The record's place.
    pub(super) slot: usize,
    /// It may be lost: it carries no payload.
    pub(super) hint: bool,
    /// Until when its payload may be claimed.
    pub(super) accept_before: i64,
    /// The fact that its payload names.
    pub(super) fact: Option<usize>,
}

/// Not in the index.
pub(super) const NOT_DUE: i64 = i64::MIN;

/// Everything that is looked up.
#[derive(Debug)]
pub(super) struct World {
    /// The durations, as the scenario and the mutant have them.
    pub(super) timing: Timing,
    entropy: u64,
    contended: bool,
    mutation: Mutation,
    /// The records' keys, by place.
    pub(super) keys: Vec<RecordKey>,
    /// Items of the inbox table.
    pub(super) items: Pool<Items>,
    /// Domain tables.
    pub(super) domains: Pool<Domains>,
    calls: Pool<Calls>,
    /// Processes, and what they wait for.
    pub(super) procs: Pool<Procs>,
    /// Messages.
    pub(super) messages: Pool<Messages>,
    steps: FxHashMap<(ProcId, Answer, i64, u8), (Outcome, bool)>,
    writes: FxHashMap<(CallId, usize, ItemId), (bool, ItemId)>,
    commits: FxHashMap<(CallId, ItemId, DomainId), (Answer, ItemId, DomainId)>,
    edges: FxHashMap<(ItemId, ItemId), Edge>,
    sends: FxHashMap<CallId, Arc<Vec<MessageId>>>,
    /// The labels of the steps that were taken.
    pub(super) labels: BTreeSet<String>,
    /// The mutation has changed something.
    pub(super) mutated: Cell<bool>,
}

impl World {
    /// An empty world.
    pub(super) fn new(scenario: &Scenario, mutation: Mutation, keys: Vec<RecordKey>) -> Self {
        let mut timing = scenario.timing;
        if let Some(change) = mutation.timing {
            change(&mut timing);
        }
        Self {
            timing,
            entropy: scenario.entropy,
            contended: scenario.contended,
            mutation,
            keys,
            items: Pool::default(),
            domains: Pool::default(),
            calls: Pool::default(),
            procs: Pool::default(),
            messages: Pool::default(),
            steps: FxHashMap::default(),
            writes: FxHashMap::default(),
            commits: FxHashMap::default(),
            edges: FxHashMap::default(),
            sends: FxHashMap::default(),
            labels: BTreeSet::new(),
            mutated: Cell::new(timing != scenario.timing),
        }
    }

    /// The moment at this time, with a draw that is added to the random bits.
    pub(super) fn moment(&self, now: i64, draw: u8) -> Moment {
        Moment { now: EpochMs(now), entropy: self.entropy + u64::from(draw) }
    }

    /// The place of a record.
    pub(super) fn slot(&self, key: &str) -> usize {
        let found = self.keys.iter().position(|known| known.as_str() == key);
        found.unwrap_or_else(|| panic!("the scenario has no place for {key}"))
    }

    /// What an item says.
    pub(super) fn item(&self, id: ItemId) -> Option<&ItemView> {
        id.is_some().then(|| self.items.view(id))
    }

    fn item_value(&self, id: ItemId) -> Option<&Item> {
        id.is_some().then(|| self.items.value(id).as_ref())
    }

    /// The index of an item.
    pub(super) fn intern_item(&mut self, item: Option<Item>) -> ItemId {
        let Some(item) = item.map(plain) else { return ItemId::NONE };
        self.items.find(&item).unwrap_or_else(|| {
            let view = ItemView::of(&item, &self.timing);
            self.items.insert(item, view)
        })
    }

    /// The index of a domain table.
    pub(super) fn intern_domain(&mut self, domain: Domain) -> DomainId {
        let domain = plain_domain(domain);
        self.domains.find(&domain).unwrap_or_else(|| {
            let view = DomainView::of(&domain, &self.keys);
            self.domains.insert(domain, view)
        })
    }

    /// The index of a message.
    pub(super) fn intern_message(&mut self, message: Message) -> MessageId {
        if let Some(known) = self.messages.find(&message) {
            return known;
        }
        let slot = self.slot(message.record_key().as_str());
        let (hint, accept_before, fact) = match &message {
            Message::Ref { .. } => (true, i64::MAX, None),
            Message::Full(payload) => {
                (false, payload.accept_before.0, FACT_NAMES.iter().position(|name| name.as_bytes() == payload.body))
            }
        };
        self.messages.insert(message, MessageView { slot, hint, accept_before, fact })
    }

    /// The message as its reader takes it.
    pub(super) fn message(&self, role: Role, id: MessageId) -> Message {
        let mut message = Message::clone(self.messages.value(id));
        self.note(self.mutation.rewrite_message(role, &mut message));
        message
    }

    fn note(&self, mutated: bool) {
        self.mutated.set(self.mutated.get() || mutated);
    }

    /// The call of an index.
    pub(super) fn call(&self, id: CallId) -> &Arc<Call> {
        self.calls.value(id)
    }

    /// A process that begins with this step.
    pub(super) fn begin(&mut self, advanced: Advanced, now: i64) -> Outcome {
        let mut advanced = advanced;
        loop {
            match advanced {
                Advanced::Ended(end) => return Outcome::Ended(end),
                Advanced::Asks(actor, mut call) => {
                    self.note(self.mutation.rewrite_call(actor.role(), &mut call));
                    match &mut call {
                        Call::Write(write) | Call::WriteBestEffort(write) => plain_write(write),
                        Call::WriteEach(writes) => writes.iter_mut().for_each(plain_write),
                        _ => {}
                    }
                    let Some(reply) = immediate(&call) else { return Outcome::Goes(self.intern_proc(*actor, call)) };
                    self.labels.extend(labels(actor.role(), &call, &reply));
                    let moment = self.moment(now, 0);
                    advanced = actor.step(reply, moment);
                }
            }
        }
    }

    fn intern_proc(&mut self, actor: Actor, call: Call) -> ProcId {
        let call = self.calls.find(&call).unwrap_or_else(|| self.calls.insert(call, ()));
        self.intern_waiting(Proc { actor, call, done: Vec::new(), repeats: false })
    }

    fn intern_waiting(&mut self, proc: Proc) -> ProcId {
        if let Some(known) = self.procs.find(&proc) {
            return known;
        }
        let (message, shown) = match &proc.actor {
            Actor::Worker(_, message) | Actor::DeadLetter(_, message, _) => (*message, ItemId::NONE),
            Actor::Operator(_, shown) => (MessageId::NONE, *shown),
            Actor::Ingress(..) | Actor::Relay(..) => (MessageId::NONE, ItemId::NONE),
        };
        let (role, call, part) = (proc.actor.role(), proc.call, proc.done.len());
        let (class, repeats) = (self.class(call, part), proc.repeats);
        // The first dead letter of a record counts, even if its message is a copy: the one before was of an expired record.
        let first = Clause::Absent(attribute::DEAD_LETTERS.into());
        let counts = |call: &Call| {
            matches!(call, Call::Write(write) if !write.condition.0.contains(&first)
                && matches!(write.purpose, Purpose::RearmDeadLetter | Purpose::DieOfDeadLetter))
        };
        let hasty = matches!(proc.actor, Actor::DeadLetter(_, _, true)) && counts(self.calls.value(call));
        self.procs.insert(proc, ProcView { role, class, call, part, message, repeats, hasty, shown })
    }

    /// The process after its write was carried out and the reply was lost.
    pub(super) fn repeated(&mut self, id: ProcId) -> ProcId {
        let proc = Proc::clone(self.procs.value(id));
        self.intern_waiting(Proc { repeats: true, ..proc })
    }

    fn class(&self, call: CallId, part: usize) -> Class {
        let write = |write: &Write, best_effort| Class::Write { slot: self.slot(write.key.as_str()), best_effort };
        match self.calls.value(call).as_ref() {
            Call::Write(one) => write(one, false),
            Call::WriteBestEffort(one) => write(one, true),
            Call::WriteEach(each) => write(&each[part], false),
            Call::Read(_) | Call::ReadHeads(_) => Class::Read,
            Call::Commit(writes) => Class::Commit { slot: self.slot(writes[0].key.as_str()) },
            Call::Send(_) | Call::SendEach(_) => Class::Send,
            Call::QueryDue(_) => Class::Query,
            Call::Plan(record) => Class::Plan { slot: self.slot(record.key.as_str()) },
            Call::ReadTrail(key) => Class::Trail { slot: self.slot(key.as_str()) },
            Call::CountReceived { .. } | Call::Split(_) | Call::Wait(_) => unreachable!("answered at once"),
            Call::Terms(_) | Call::Deliver(_) => unreachable!("no effect is in the model"),
        }
    }

    /// The records that a process waits to read, by place.
    pub(super) fn reads(&self, call: CallId) -> Vec<usize> {
        match self.calls.value(call).as_ref() {
            Call::Read(key) => vec![self.slot(key.as_str())],
            Call::ReadHeads(keys) => keys.iter().map(|key| self.slot(key.as_str())).collect(),
            _ => Vec::new(),
        }
    }

    /// The messages of a send.
    pub(super) fn sends(&mut self, call: CallId) -> Arc<Vec<MessageId>> {
        if let Some(known) = self.sends.get(&call) {
            return Arc::clone(known);
        }
        let messages = match self.calls.value(call).as_ref() {
            Call::Send(message) => vec![message.clone()],
            Call::SendEach(messages) => messages.clone(),
            _ => Vec::new(),
        };
        let numbers = Arc::new(messages.into_iter().map(|message| self.intern_message(message)).collect());
        self.sends.insert(call, Arc::clone(&numbers));
        numbers
    }

    /// The effect of a write on an item: whether its condition holds, and the item afterwards.
    pub(super) fn write(&mut self, call: CallId, part: usize, item: ItemId) -> (bool, ItemId) {
        if let Some(known) = self.writes.get(&(call, part, item)) {
            return *known;
        }
        let current = self.item_value(item).cloned();
        let shared = Arc::clone(self.calls.value(call));
        let result = match write_of(&shared, part).apply(current.as_ref()) {
            Ok(after) => (true, self.intern_item(after)),
            Err(why) => {
                assert_eq!(why, NotApplied::ConditionFailed, "no machine names an attribute twice");
                (false, item)
            }
        };
        self.writes.insert((call, part, item), result);
        result
    }

    /// The effect of a transaction on a record and the domain table.
    pub(super) fn commit(&mut self, call: CallId, item: ItemId, domain: DomainId) -> (Answer, ItemId, DomainId) {
        if let Some(known) = self.commits.get(&(call, item, domain)) {
            return *known;
        }
        let shared = Arc::clone(self.calls.value(call));
        let Call::Commit(writes) = shared.as_ref() else { unreachable!("not a commit") };
        let mut record = self.item_value(item).cloned();
        let mut table = Domain::clone(self.domains.value(domain));
        let mut reasons = [0_u8; 3];
        for (index, write) in writes.iter().enumerate() {
            let applied = match write.table {
                Table::Inbox => write.apply(record.as_ref()).map(|after| record = after),
                Table::Domain => write.apply(table.get(write.key.as_str())).map(|after| {
                    table.remove(write.key.as_str());
                    table.extend(after.map(|item| (write.key.as_str().to_owned(), item)));
                }),
                Table::Own(_) => unreachable!("the handler of the model uses the domain table alone"),
            };
            if let Err(why) = applied {
                assert_eq!(why, NotApplied::ConditionFailed, "no plan that was checked names an attribute twice");
                reasons[index] = 1;
            }
        }
        let result = if reasons == [0; 3] {
            (Answer::Committed, self.intern_item(record), self.intern_domain(table))
        } else {
            (Answer::Cancelled(reasons), item, domain)
        };
        self.commits.insert((call, item, domain), result);
        result
    }

    /// The domain table without the keys that have expired.
    pub(super) fn forget(&mut self, domain: DomainId, now: i64) -> DomainId {
        let kept = self.domains.value(domain).iter();
        let kept = kept.filter(|(_, item)| {
            let expiry = item.get("expires_at").and_then(hookonce_protocol::item::Value::as_i64);
            expiry.is_none_or(|seconds| seconds.saturating_mul(1_000) > now)
        });
        let kept = kept.map(|(key, item)| (key.clone(), item.clone())).collect();
        self.intern_domain(kept)
    }

    /// What the change of a record means.
    pub(super) fn edge(&mut self, old: ItemId, new: ItemId) -> Edge {
        if let Some(known) = self.edges.get(&(old, new)) {
            return *known;
        }
        let edge = Edge::of(self.item(old), self.item(new));
        self.edges.insert((old, new), edge);
        edge
    }

    /// The next step of a process on an answer, and whether the answer takes its own write for another's.
    pub(super) fn step(&mut self, proc: ProcId, answer: Answer, now: i64, draw: u8) -> (Outcome, bool) {
        if let Some(known) = self.steps.get(&(proc, answer, now, draw)) {
            return *known;
        }
        let outcome = self.work_out(proc, answer, now, draw);
        self.steps.insert((proc, answer, now, draw), outcome);
        outcome
    }

    fn work_out(&mut self, id: ProcId, answer: Answer, now: i64, draw: u8) -> (Outcome, bool) {
        let mut proc = Proc::clone(self.procs.value(id));
        let call = Arc::clone(self.calls.value(proc.call));
        let mut reply = self.reply(&call, proc.done.len(), answer);
        let mut disowned = false;
        if std::mem::take(&mut proc.repeats) {
            let write = write_of(&call, proc.done.len());
            if reply == Reply::Written(Written::Applied) {
                self.labels.insert(repeated(proc.actor.role(), write));
            }
            disowned = matches!((&reply, answer), (Reply::Written(Written::ConditionFailed(_)), Answer::Failed(item))
                if write.stands_in(self.item_value(item)));
        }
        if let (Call::WriteEach(writes), Reply::Written(written)) = (call.as_ref(), &reply) {
            proc.done.push(written.clone());
            if proc.done.len() < writes.len() {
                return (Outcome::Goes(self.intern_waiting(proc)), disowned);
            }
            reply = Reply::WrittenEach(std::mem::take(&mut proc.done));
        }
        self.note(self.mutation.rewrite_reply(proc.actor.role(), &call, &mut reply));
        self.labels.extend(labels(proc.actor.role(), &call, &reply));
        let moment = self.moment(now, draw);
        let advanced = proc.actor.step(reply, moment);
        (self.begin(advanced, now), disowned)
    }

    fn found(&self, id: ItemId) -> Found {
        Found::from_item(self.item_value(id))
    }

    fn reply(&self, call: &Call, part: usize, answer: Answer) -> Reply {
        match answer {
            Answer::Applied => Reply::Written(Written::Applied),
            Answer::Failed(item) => {
                let (write, item) = (write_of(call, part), self.item_value(item));
                let judged = self.mutation.judge(write, item);
                self.note(judged != Written::refused(write, item));
                Reply::Written(judged)
            }
            Answer::Invalid => Reply::Written(Written::Invalid),
            Answer::Conflict => match call {
                Call::Commit(writes) => {
                    Reply::Committed(Committed::Cancelled(vec![CancellationReason::Transient; writes.len()]))
                }
                _ => Reply::Written(Written::TransactionConflict),
            },
            Answer::Unavailable => unavailable(call),
            Answer::Seen(seen) => match call {
                Call::ReadHeads(keys) => {
                    Reply::ReadHeads(seen.iter().take(keys.len()).map(|item| Ok(self.found(*item))).collect())
                }
                _ => Reply::Read(Ok(self.found(seen[0]))),
            },
            Answer::Committed => Reply::Committed(Committed::Applied),
            Answer::Cancelled(reasons) => {
                let reason = |code: u8| match code {
                    0 => CancellationReason::None,
                    _ => CancellationReason::ConditionFailed,
                };
                Reply::Committed(Committed::Cancelled(reasons.map(reason).to_vec()))
            }
            Answer::Sent(confirmed) => match call {
                Call::SendEach(messages) => {
                    let sent = |index| if index < usize::from(confirmed) { Ok(()) } else { Err(Unavailable) };
                    Reply::SentEach((0..messages.len()).map(sent).collect())
                }
                _ => Reply::Sent(if confirmed > 0 { Ok(()) } else { Err(Unavailable) }),
            },
            Answer::Due(due) => {
                let shown = self.keys.iter().zip(due).filter(|(_, at)| *at != NOT_DUE);
                let entry = |(key, at): (&RecordKey, i64)| DueEntry { key: key.clone(), due_at: EpochMs(at) };
                Reply::Due(Ok(DuePage { entries: shown.map(entry).collect(), next: None }))
            }
            Answer::Planned(domain) => self.plan(call, domain),
            Answer::Declined => Reply::Planned(Planned::NoHandler),
            Answer::Trail(count) => Reply::Trail(Ok(Trail { count: count.into(), entries: Vec::new() })),
            Answer::HandlerFails { retryable } => {
                Reply::Planned(Planned::Failed(Failure { code: "HANDLER".to_owned(), retryable }))
            }
            Answer::HandlerAway => Reply::Planned(Planned::HandlerAway),
        }
    }

    /// Whether plans depend on the domain table.
    pub(super) fn contended(&self) -> bool {
        self.contended
    }
}

/// One write of a call.
fn write_of(call: &Call, part: usize) -> &Write {
    match call {
        Call::Write(write) | Call::WriteBestEffort(write) => write,
        Call::WriteEach(writes) => &writes[part],
        other => unreachable!("not a write: {other:?}"),
    }
}

/// The reply to a call that nobody else can see.
fn immediate(call: &Call) -> Option<Reply> {
    match call {
        Call::CountReceived { .. } => Some(Reply::Counted(Ok(0))),
        Call::Wait(_) => Some(Reply::Done),
        Call::Split(record) => Some(Reply::Split(Split::Events(events(record)))),
        _ => None,
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
        Call::CountReceived { .. } | Call::Split(_) | Call::Wait(_) | Call::Terms(_) | Call::Deliver(_) => Reply::Done,
    }
}
