//! The interned values of one exploration, and the steps of machines and stores on them. Each step is computed once.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use hookonce_protocol::call::{Call, CancellationReason, Next, Reply, Written};
use hookonce_protocol::destination::{Called, NoTurn};
use hookonce_protocol::item::Item;
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::message::Message;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, attribute};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::write::{Action, Change, Clause, NotApplied, Table, Write};
use rustc_hash::FxHashMap;

use super::callee::Document;
use super::edge::Edge;
use super::effect::{pass_bit, passes_of};
use super::pool::{CallId, Callees, Calls, DomainId, Domains, ItemId, Items, MessageId, Messages, Pool, ProcId, Procs};
use super::process::{Actor, Advanced, End, Proc};
use super::reply::immediate;
use super::scenario::Scenario;
use super::state::SLOTS;
use super::view::{Domain, DomainView, FACT_NAMES, ItemView, plain, plain_domain, plain_write};
use crate::call::{writes, writes_mut};
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
        /// The place of the effect that it creates.
        effect: Option<usize>,
        /// A person accepts that an effect is called once more.
        accepts: bool,
    },
    /// Messages.
    Send,
    /// A query of the index.
    Query,
    /// A handler's plan for the record at this place.
    Plan(usize),
    /// A read of the trail of the record at this place.
    Trail(usize),
    /// A read of the document of the destination.
    Terms,
    /// A call of the destination.
    Deliver {
        /// The effect's place.
        slot: usize,
        /// The number of its key.
        key: u8,
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
    /// The commit was cancelled, for a reason of each write.
    Cancelled([CancellationReason; COMMIT_MAX]),
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
    /// The handler is unavailable.
    HandlerAway,
    /// The handler is slow.
    HandlerSlow,
    /// The document of the destination, by its place.
    Terms(u8),
    /// The document of the destination, by its place, and why there is no turn.
    NoTurn(u8, NoTurn),
    /// The document of the destination is unavailable.
    NoTerms,
    /// How a call of the destination ended.
    Called(Called),
}

/// The most writes in a transaction of the model: the record, the domain key, the handler's own, the effect.
const COMMIT_MAX: usize = 4;

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
    /// The passes that it knows of, as bits.
    pub(super) passes: u16,
    /// The document that the dispatcher was told.
    pub(super) document: u8,
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

/// What a transaction changes: the record, the domain table, and the effect that it creates.
pub(super) type Committing = (ItemId, DomainId, ItemId);

/// Everything that is looked up.
#[derive(Debug)]
pub(super) struct World {
    /// The durations, as the scenario and the mutant have them.
    pub(super) timing: Timing,
    entropy: u64,
    /// Plans depend on the domain table.
    pub(super) contended: bool,
    pub(super) mutation: Mutation,
    /// The documents of the destination, one after the other; none if events have no effects.
    pub(super) documents: Vec<Option<Document>>,
    /// How long an effect is tried.
    pub(super) give_up_after: Millis,
    /// The keys that callees were called with. Their places are their numbers.
    idempotency_keys: Vec<String>,
    /// What was called.
    pub(super) callees: Pool<Callees>,
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
    commits: FxHashMap<(CallId, Committing), (Answer, Committing)>,
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
            documents: scenario.documents.clone(),
            give_up_after: scenario.give_up_after,
            idempotency_keys: Vec::new(),
            callees: Pool::default(),
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

    /// The item of an index.
    pub(super) fn item_value(&self, id: ItemId) -> Option<&Item> {
        id.is_some().then(|| self.items.value(id).as_ref())
    }

    /// The index of an item.
    pub(super) fn intern_item(&mut self, item: Option<Item>) -> ItemId {
        let Some(item) = item.map(plain) else { return ItemId::NONE };
        self.items.find(&item).unwrap_or_else(|| {
            let view = ItemView::of(&item, &self.timing, &self.keys);
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
            Message::Ref { .. } | Message::Slow { .. } => (true, i64::MAX, None),
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

    /// Notes whether the mutation has changed something.
    pub(super) fn note(&self, mutated: bool) {
        self.mutated.set(self.mutated.get() || mutated);
    }

    /// The call of an index.
    pub(super) fn call(&self, id: CallId) -> &Arc<Call> {
        self.calls.value(id)
    }

    /// A process that begins with this step.
    pub(super) fn begin(&mut self, mut advanced: Advanced, now: i64) -> Outcome {
        loop {
            match advanced {
                Next::Done(end) => return Outcome::Ended(end),
                Next::Call(actor, mut call) => {
                    self.note(self.mutation.rewrite_call(actor.role(), &mut call));
                    writes_mut(&mut call).iter_mut().for_each(plain_write);
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
            Actor::Dispatcher(_, context) => (context.message, ItemId::NONE),
            Actor::Operator(_, shown) => (MessageId::NONE, *shown),
            Actor::Ingress(..) | Actor::Scan(..) | Actor::Chunk(..) => (MessageId::NONE, ItemId::NONE),
        };
        let (role, call, part) = (proc.actor.role(), proc.call, proc.done.len());
        let (mut passes, mut document) = (0, 0);
        if let Actor::Dispatcher(_, context) = &proc.actor {
            (passes, document) = (context.passes, context.document);
        }
        if let Call::Deliver(delivery) = self.calls.value(call).as_ref() {
            self.key_number(delivery.idempotency_key.clone());
        }
        if let Call::Write(write) = self.calls.value(call).as_ref() {
            passes |= passes_of(write);
        }
        let (class, repeats) = (self.class(call, part), proc.repeats);
        // The first dead letter of a record counts, even if its message is a copy: the one before was of an expired
        // record.
        let first = Clause::Absent(attribute::DEAD_LETTERS.into());
        let counts = |call: &Call| {
            matches!(call, Call::Write(write) if !write.condition.0.contains(&first)
                && matches!(write.purpose, Purpose::RearmDeadLetter | Purpose::DieOfDeadLetter))
        };
        let hasty = matches!(proc.actor, Actor::DeadLetter(_, _, true)) && counts(self.calls.value(call));
        self.procs.insert(proc, ProcView { role, class, call, part, message, repeats, hasty, shown, passes, document })
    }

    /// The process after its write was carried out and the reply was lost.
    pub(super) fn repeated(&mut self, id: ProcId) -> ProcId {
        let proc = Proc::clone(self.procs.value(id));
        self.intern_waiting(Proc { repeats: true, ..proc })
    }

    /// The number of a key that callees are called with.
    pub(super) fn key_number(&mut self, key: String) -> u8 {
        let known = self.idempotency_keys.iter().position(|known| *known == key);
        let number = known.unwrap_or_else(|| {
            self.idempotency_keys.push(key);
            self.idempotency_keys.len() - 1
        });
        u8::try_from(number).expect("few keys")
    }

    /// The effect of a call, and the number of its key; `None` if no destination is called.
    pub(super) fn delivery(&self, call: CallId) -> Option<(usize, u8)> {
        let Call::Deliver(delivery) = self.calls.value(call).as_ref() else { return None };
        let number = self.idempotency_keys.iter().position(|key| *key == delivery.idempotency_key)?;
        Some((self.slot(delivery.effect.as_str()), u8::try_from(number).ok()?))
    }

    /// What a call does.
    pub(super) fn class(&self, call: CallId, part: usize) -> Class {
        let write = |write: &Write, best_effort| Class::Write { slot: self.slot(write.key.as_str()), best_effort };
        match self.calls.value(call).as_ref() {
            Call::Write(one) => write(one, false),
            Call::WriteBestEffort(one) => write(one, true),
            Call::WriteEach(each) => write(&each[part], false),
            Call::Read(_) | Call::ReadHeads(_) => Class::Read,
            Call::Commit(writes) => self.transaction(writes),
            Call::Send(_) | Call::SendEach(_) => Class::Send,
            Call::QueryDue(_) => Class::Query,
            Call::Plan(record) => Class::Plan(self.slot(record.key.as_str())),
            Call::ReadTrail(key) => Class::Trail(self.slot(key.as_str())),
            Call::CountReceived { .. } | Call::Split(_) | Call::Wait(_) => unreachable!("answered at once"),
            Call::Terms(_) => Class::Terms,
            Call::Deliver(_) => {
                let (slot, key) = self.delivery(call).expect("its key has a number");
                Class::Deliver { slot, key }
            }
        }
    }

    fn transaction(&self, writes: &[Write]) -> Class {
        let slot = self.slot(writes[0].key.as_str());
        let created = writes.iter().find(|write| write.purpose == Purpose::CreateEffect);
        let accepts = self.keys[slot].kind() == RecordKind::Effect && accepts(&writes[0]);
        Class::Commit { slot, effect: created.map(|write| self.slot(write.key.as_str())), accepts }
    }

    /// The records that a process waits to read, by place.
    pub(super) fn reads(&self, call: CallId) -> Vec<usize> {
        let call = self.calls.value(call).as_ref();
        if let Call::Read(key) = call {
            return vec![self.slot(key.as_str())];
        }
        let Call::ReadHeads(keys) = call else { panic!("not a read of records: {call:?}") };
        keys.iter().map(|key| self.slot(key.as_str())).collect()
    }

    /// The messages of a send.
    pub(super) fn sends(&mut self, call: CallId) -> Arc<Vec<MessageId>> {
        if let Some(known) = self.sends.get(&call) {
            return Arc::clone(known);
        }
        let messages = sent_by(self.calls.value(call)).to_vec();
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

    /// What a transaction does.
    pub(super) fn commit(&mut self, call: CallId, before: Committing) -> (Answer, Committing) {
        if let Some(known) = self.commits.get(&(call, before)) {
            return *known;
        }
        let (item, domain, effect) = before;
        let shared = Arc::clone(self.calls.value(call));
        let Call::Commit(writes) = shared.as_ref() else { unreachable!("not a commit") };
        let mut record = self.item_value(item).cloned();
        let mut created = self.item_value(effect).cloned();
        let mut table = Domain::clone(self.domains.value(domain));
        let mut reasons = [CancellationReason::None; COMMIT_MAX];
        for (reason, write) in reasons.iter_mut().zip(writes) {
            let applied = match write.table {
                Table::Inbox if write.purpose == Purpose::CreateEffect => {
                    write.apply(created.as_ref()).map(|after| created = after)
                }
                Table::Inbox => write.apply(record.as_ref()).map(|after| record = after),
                Table::Domain => write.apply(table.get(write.key.as_str())).map(|after| {
                    table.remove(write.key.as_str());
                    table.extend(after.map(|item| (write.key.as_str().to_owned(), item)));
                }),
                Table::Own(_) => unreachable!("the handler of the model uses the domain table alone"),
            };
            if let Err(why) = applied {
                assert_eq!(why, NotApplied::ConditionFailed, "no plan that was checked names an attribute twice");
                *reason = CancellationReason::refused(write, table.get(write.key.as_str()));
            }
        }
        let result = if reasons.iter().any(|reason| reason.is_failed_condition()) {
            (Answer::Cancelled(reasons), before)
        } else {
            let after = (self.intern_item(record), self.intern_domain(table), self.intern_item(created));
            (Answer::Committed, after)
        };
        self.commits.insert((call, before), result);
        result
    }

    /// The domain table without the keys that have expired.
    pub(super) fn forget(&mut self, domain: DomainId, now: i64) -> DomainId {
        let kept = self.domains.value(domain).iter();
        let kept = kept.filter(|(_, item)| {
            let expiry = item.get(attribute::EXPIRES_AT).and_then(hookonce_protocol::item::Value::as_i64);
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
        if let Actor::Dispatcher(_, context) = &mut proc.actor {
            match (&reply, answer) {
                (Reply::Read(Ok(Found::Record(record))), _) => {
                    let pass = record.effect.as_ref().and_then(|effect| effect.pass.as_ref());
                    context.passes |= pass.map_or(0, |pass| pass_bit(&pass.id));
                }
                (_, Answer::Terms(document)) => context.document = document,
                _ => {}
            }
        }
        let moment = self.moment(now, draw);
        let advanced = proc.actor.step(reply, moment);
        (self.begin(advanced, now), disowned)
    }
}

/// The messages of a send.
pub(super) fn sent_by(call: &Call) -> &[Message] {
    if let Call::Send(message) = call {
        return std::slice::from_ref(message);
    }
    let Call::SendEach(messages) = call else { panic!("not a send: {call:?}") };
    messages
}

/// One write of a call.
pub(super) fn write_of(call: &Call, part: usize) -> &Write {
    &writes(call)[part]
}

/// A person accepts that what the write brings back happens twice.
fn accepts(write: &Write) -> bool {
    let sets = |change: &Change| matches!(change, Change::Set(name, _) if name == attribute::ACCEPT_DUPLICATE);
    write.purpose == Purpose::Retry && matches!(&write.action, Action::Update(changes) if changes.iter().any(sets))
}
