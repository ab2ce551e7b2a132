//! The ports of one process: every call goes through the day's faults on its way to the tables and the queue.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use hookonce_protocol::call::{Call, CancellationReason, Committed, DuePage, DueQuery, Reply, Unavailable, Written};
use hookonce_protocol::item::Item;
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::message::{HintQueue, MESSAGE_VERSION, Message, MessageKey};
use hookonce_protocol::place::{ItemRef, Key, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, attribute};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{DESTINATION_CALL_MAX, Moment, Timing};
use hookonce_protocol::write::{Action, Table, Write};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::port::{Queue, Store};

use super::fault::{Answers, CallEdge, CallPurpose, Side, SimFault};
use super::handler::{OWN_KEY, OWN_TABLE};
use super::interference::interfere;
use super::tables::NotWritten;
use super::world::{Inner, NEXT_VERSION, Release, World, head_seen_by, seen_by};
use crate::call::writes;
use crate::label::{self, Role, labels};

/// The message key of every day.
pub(super) const KEY: MessageKey = MessageKey::new([7; 32]);

/// How late a call that its caller gave up may still reach a third party.
const CALL_LATE_MAX: Millis = DESTINATION_CALL_MAX;

/// The ports of one process.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The day.
    pub world: World,
    /// What it runs.
    pub role: Role,
    /// The release that it runs.
    pub release: Release,
    /// How far its clock is off, in milliseconds.
    pub skew: i64,
    /// How long it waits for an answer, in milliseconds.
    patience: i64,
    dead: Arc<AtomicBool>,
    /// Nothing goes wrong, nothing interferes, and nothing takes time.
    undisturbed: bool,
}

impl Ports {
    /// The ports of a new process of a role.
    pub fn new(world: &World, role: Role) -> Self {
        let elapsed = world.elapsed();
        let mut inner = world.lock();
        let off = inner.config.clock_off_max;
        let skew = inner.rng.between(-off, off);
        let release = match inner.config.rollout {
            Some((from, until)) if elapsed >= from => {
                if elapsed >= until || inner.rng.chance(5_000) {
                    Release::Next
                } else {
                    Release::Current
                }
            }
            Some(_) | None => Release::Current,
        };
        let timing = &inner.config.timing;
        let patience = if role == Role::Ingress { timing.claim_timeout.0 } else { 3_000 };
        drop(inner);
        Self { world: world.clone(), role, release, skew, patience, dead: Arc::default(), undisturbed: false }
    }

    /// The ports of an undisturbed process of the release under test.
    pub fn undisturbed(world: &World, role: Role) -> Self {
        let (release, skew, patience) = (Release::Current, 0, i64::MAX);
        Self { world: world.clone(), role, release, skew, patience, dead: Arc::default(), undisturbed: true }
    }

    /// The durations that all releases have.
    pub fn timing(&self) -> Timing {
        self.world.lock().config.timing
    }

    /// Runs the process until it ends, dies, or takes longer than it may.
    pub async fn live<T>(&self, longest: Millis, process: impl Future<Output = T>) -> Option<T> {
        self.world.lock().running += 1;
        let mut process = pin!(process);
        let mortal = poll_fn(|context| match process.as_mut().poll(context) {
            _ if self.dead.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Pending,
        });
        let longest = longest.0 + self.stall_max();
        let longest = Duration::from_millis(u64::try_from(longest).unwrap_or(0));
        let ended = tokio::time::timeout(longest, mortal).await.ok().flatten();
        self.world.lock().running -= 1;
        ended
    }

    async fn die<T>(&self) -> T {
        self.dead.store(true, Ordering::Relaxed);
        std::future::pending().await
    }

    fn carry_later(&self, edge: CallEdge, effect: impl FnOnce(&mut Inner, i64) + Send + 'static) {
        let world = self.world.clone();
        let delay = {
            let mut inner = world.lock();
            inner.late += 1;
            let longest = if edge.side == Side::Callee { CALL_LATE_MAX } else { inner.config.timing.zombie_age_max };
            if inner.config.steady { 30_000 } else { inner.rng.between(1, longest.0) }
        };
        tokio::spawn(async move {
            sleep(delay).await;
            let now = world.now();
            let mut inner = world.lock();
            effect(&mut inner, now);
            inner.late -= 1;
            drop(inner);
            world.wake();
        });
    }

    fn carry_out_now<T>(&self, edge: CallEdge, effect: impl FnOnce(&mut Inner, i64) -> T) -> T {
        let now = self.world.now();
        let reply = effect(&mut self.world.lock(), now);
        if edge.side == Side::Queue {
            self.world.wake();
        }
        reply
    }

    /// One call: `effect` is what the other side does, `answers` what is said when it does not do it.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        edge: CallEdge,
        answers: Answers<T>,
        effect: impl FnOnce(&mut Inner, i64) -> T + Clone + Send + 'static,
    ) -> T {
        if self.undisturbed {
            return self.carry_out_now(edge, effect);
        }
        let elapsed = self.world.elapsed();
        let (fault, there, back) = self.world.lock().drawn(edge, elapsed);
        match fault {
            Some(SimFault::CrashBefore) => self.die().await,
            Some(SimFault::Refused) => after(there, answers.refused).await,
            Some(SimFault::Conflict) => after(there, answers.conflict).await,
            Some(SimFault::Invalid) => after(there, answers.invalid).await,
            Some(SimFault::Repeated) => {
                sleep(there).await;
                self.carry_out_now(edge, effect.clone());
                sleep(there + back).await;
                let reply = self.carry_out_now(edge, effect);
                sleep(back).await;
                reply
            }
            Some(SimFault::CrashAfter) => {
                sleep(there).await;
                self.carry_out_now(edge, effect);
                self.die().await
            }
            Some(SimFault::CrashDuring) => {
                self.carry_later(edge, |inner, now| drop(effect(inner, now)));
                self.die().await
            }
            Some(SimFault::Late) => {
                self.carry_later(edge, |inner, now| drop(effect(inner, now)));
                after(self.patience, answers.lost).await
            }
            None | Some(SimFault::ReplyLost) => {
                if there > self.patience {
                    self.carry_later(edge, |inner, now| drop(effect(inner, now)));
                    return after(self.patience, answers.lost).await;
                }
                sleep(there).await;
                let reply = self.carry_out_now(edge, effect);
                let late = fault.is_some() || there + back > self.patience;
                sleep(if late { self.patience - there } else { back }).await;
                if late { answers.lost } else { reply }
            }
        }
    }

    pub(super) fn edge(&self, purpose: impl Into<CallPurpose>, changes: bool, side: Side) -> CallEdge {
        CallEdge { role: self.role, purpose: purpose.into(), changes, side }
    }

    /// The call as the machine made it, because the driver splits some calls.
    fn call_of(write: Write) -> Call {
        match write.purpose {
            Purpose::Rearm | Purpose::RepairDueTime | Purpose::ClaimChild => Call::WriteEach(vec![write]),
            Purpose::CountDuplicate | Purpose::MarkDue => Call::WriteBestEffort(write),
            Purpose::Claim
            | Purpose::ClaimDead
            | Purpose::Quarantine
            | Purpose::Settle
            | Purpose::DomainKey
            | Purpose::DomainWrite
            | Purpose::DomainCheck
            | Purpose::MarkDuplicate
            | Purpose::MarkIgnored
            | Purpose::CloseEnvelope
            | Purpose::CountFailure
            | Purpose::Postpone
            | Purpose::DeadAfterFailures
            | Purpose::DeadTooOld
            | Purpose::DeadRewound
            | Purpose::RearmDeadLetter
            | Purpose::DieOfDeadLetter
            | Purpose::Retry
            | Purpose::Force
            | Purpose::Discard
            | Purpose::Redact
            | Purpose::Doubt
            | Purpose::CreateEffect
            | Purpose::GuardCall
            | Purpose::SettleEffect
            | Purpose::RearmEffect
            | Purpose::FailEffect
            | Purpose::DieOfCall
            | Purpose::NoteOperation
            | Purpose::NoteBody => Call::Write(write),
        }
    }

    /// The call after the day's mutation has rewritten it.
    pub(super) fn mutated(&self, mut call: Call) -> Call {
        let mut inner = self.world.lock();
        inner.mutated |= inner.mutation.rewrite_call(self.role, &mut call);
        call
    }

    /// Whether the day's mutation makes a call without an answer once more.
    pub(super) fn repeats_calls(&self) -> bool {
        let mut inner = self.world.lock();
        inner.mutated |= inner.mutation.repeats_calls;
        inner.mutation.repeats_calls
    }

    /// Records a transition that does not pass through a port.
    pub(super) fn saw(&self, what: &str) {
        self.world.lock().labels.insert(format!("{}: {what}", self.role));
    }

    /// The reply for the machine; records its transition.
    pub(super) fn note_reply(&self, call: &Call, mut reply: Reply) -> Reply {
        let mut inner = self.world.lock();
        inner.mutated |= inner.mutation.rewrite_reply(self.role, call, &mut reply);
        if self.release == Release::Current {
            for label in labels(self.role, call, &reply) {
                if !inner.labels.contains(&label) {
                    inner.labels.insert(label);
                }
            }
        }
        reply
    }

    /// An item as the next release would write it.
    fn as_release_writes(&self, mut write: Write) -> Write {
        if let (Release::Next, Table::Inbox, Action::Put(item)) = (self.release, write.table, &mut write.action) {
            item.insert(attribute::SCHEMA_VERSION.to_owned(), NEXT_VERSION.into());
        }
        write
    }

    fn text_of(&self, message: &Message) -> String {
        let text = message.encode(Some(&KEY)).unwrap_or_default();
        if self.release == Release::Next { versioned(&text, MESSAGE_VERSION, NEXT_VERSION) } else { text }
    }

    /// A received text as this process's release reads it.
    pub fn read_text(&self, text: &str) -> String {
        let text = if self.release == Release::Next {
            versioned(text, NEXT_VERSION, MESSAGE_VERSION)
        } else {
            text.to_owned()
        };
        let Ok(mut message) = Message::decode(&text, Some(&KEY)) else { return text };
        let mut inner = self.world.lock();
        let changed = inner.mutation.rewrite_message(self.role, &mut message);
        inner.mutated |= changed;
        if changed { message.encode(Some(&KEY)).unwrap_or_default() } else { text }
    }

    async fn let_others_in(&self, about_to: &Write) {
        if !self.undisturbed {
            self.stall().await;
            interfere(&self.world, about_to).await;
        }
    }

    /// How long this process may pause. Meanwhile its timeout does not run either.
    fn stall_max(&self) -> i64 {
        let config = &self.world.lock().config;
        if self.role == Role::Relay && config.stalls > 0 { 2 * config.timing.delivery_retention.0 } else { 0 }
    }

    /// Sometimes the process pauses for longer than a record is kept, and then continues.
    async fn stall(&self) {
        let longest = self.stall_max();
        let length = {
            let mut inner = self.world.lock();
            let stalls = longest > 0 && !inner.calm;
            let chance = inner.config.stalls;
            if stalls && inner.rng.chance(chance) { inner.rng.between(longest / 2, longest) } else { return }
        };
        sleep(length).await;
    }

    /// The same process, which waits this long for an answer.
    pub(super) fn with_patience(&self, patience: Millis) -> Self {
        Self { patience: patience.0, ..self.clone() }
    }

    /// Whether this process may sleep. Meanwhile its time-out does not run either.
    pub(super) fn sleeps(&self) -> bool {
        self.world.lock().config.freezes > 0
    }

    /// Sometimes the process sleeps for longer than it may live, and then continues.
    pub(super) async fn freeze(&self) {
        let length = {
            let mut inner = self.world.lock();
            let shortest = inner.config.timing.dispatcher_timeout.0;
            let freezes = inner.strikes(|config| if self.undisturbed { 0 } else { config.freezes });
            if freezes { inner.rng.between(shortest, 30 * shortest) } else { return }
        };
        sleep(length).await;
    }

    /// Reads records, the last of which may be left out.
    async fn read_records(
        &self,
        keys: &[RecordKey],
        name: &'static str,
        seen: fn(Release, Option<&Item>) -> Found,
    ) -> Vec<Result<Found, Unavailable>> {
        let (wanted, release) = (keys.to_vec(), self.release);
        let effect = move |inner: &mut Inner, _| {
            let found = |key: &RecordKey| Ok(seen(release, inner.tables.get(Table::Inbox, key.as_str())));
            wanted.iter().map(found).collect::<Vec<_>>()
        };
        let refused = vec![Err(Unavailable); keys.len()];
        let mut found = self.call(self.edge(name, false, Side::Store), Answers::only(refused), effect).await;
        if self.drops_one()
            && let Some(last) = found.last_mut()
        {
            *last = Err(Unavailable);
        }
        found
    }

    /// Whether this answer of the batch operation is partial, at random.
    fn drops_one(&self) -> bool {
        self.world.lock().strikes(|config| if self.undisturbed { 0 } else { config.partial })
    }
}

fn versioned(text: &str, from: i64, to: i64) -> String {
    text.replacen(&format!("\"v\":{from}"), &format!("\"v\":{to}"), 1)
}

/// What is heard after a while.
async fn after<T>(milliseconds: i64, answer: T) -> T {
    sleep(milliseconds).await;
    answer
}

/// Lets time pass.
pub async fn sleep(milliseconds: i64) {
    tokio::time::sleep(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))).await;
}

/// One write, as the store carries it out. A write that finds itself has been repeated by the store's client; it must
/// say so, and change nothing more.
fn carry_out(inner: &mut Inner, now: i64, role: Role, release: Release, write: &Write) -> Written {
    let seen_at = inner.index_seen_at(now);
    let before = inner.tables.get(write.table, write.key.as_str()).cloned();
    let itself = write.stands_in(before.as_ref());
    if itself && release == Release::Current {
        inner.labels.insert(label::repeated(role, write));
    }
    match inner.tables.write(write, seen_at) {
        Ok(change) => {
            if itself && change.before != change.after {
                inner.invariants.disowned(write);
            }
            inner.invariants.intent(write);
            inner.changed(&[change], now);
            Written::Applied
        }
        Err(NotWritten::Invalid) => Written::Invalid,
        Err(NotWritten::ConditionFailed(item)) => match inner.mutation.judge(write, item.as_ref()) {
            Written::ConditionFailed(_) => {
                if itself {
                    inner.invariants.disowned(write);
                }
                Written::ConditionFailed(head_seen_by(release, item.as_ref()))
            }
            judged @ (Written::Applied | Written::TransactionConflict | Written::Invalid | Written::Unavailable) => {
                judged
            }
        },
    }
}

impl Store for Ports {
    async fn write(&self, write: &Write) -> Written {
        let call = self.mutated(Self::call_of(write.clone()));
        let Some(carried) = writes(&call).first().cloned() else { return Written::Unavailable };
        let purpose = carried.purpose;
        if purpose == Purpose::ClaimChild {
            self.saw("split -> events"); // Only a split makes such a claim.
        }
        if purpose == Purpose::MarkIgnored {
            self.saw("plan -> no handler"); // Only such a plan makes such a mark.
        }
        self.let_others_in(&carried).await;
        let edge = self.edge(purpose, true, Side::Store);
        let (role, release) = (self.role, self.release);
        let carried = self.as_release_writes(carried);
        let effect = move |inner: &mut Inner, now: i64| carry_out(inner, now, role, release, &carried);
        let answers = Answers {
            conflict: Written::TransactionConflict,
            invalid: Written::Invalid,
            ..Answers::only(Written::Unavailable)
        };
        let written = self.call(edge, answers, effect).await;
        if purpose == Purpose::GuardCall {
            self.freeze().await;
        }
        if matches!(call, Call::WriteEach(_)) {
            return self.note_reply(&call, Reply::WrittenEach(vec![written])).written_each(1).remove(0);
        }
        if matches!(call, Call::WriteBestEffort(_)) {
            self.note_reply(&call, Reply::Done);
            return written;
        }
        self.note_reply(&call, Reply::Written(written)).written()
    }

    async fn commit(&self, writes: &[Write]) -> Committed {
        let call = self.mutated(Call::Commit(writes.to_vec()));
        let Call::Commit(carried) = call.clone() else { return Committed::Unavailable };
        let carried: Vec<_> = carried.into_iter().map(|write| self.as_release_writes(write)).collect();
        let conflict = Committed::Cancelled(vec![CancellationReason::Transient; carried.len()]);
        let effect = move |inner: &mut Inner, now: i64| {
            let seen_at = inner.index_seen_at(now);
            let (committed, changes) = inner.tables.commit(&carried, seen_at);
            if committed == Committed::Applied {
                for write in &carried {
                    inner.invariants.intent(write);
                }
            }
            inner.changed(&changes, now);
            committed
        };
        if let Some(record) = writes.first() {
            self.let_others_in(record).await;
        }
        let edge = self.edge(CallPurpose::Commit, true, Side::Store);
        let answers = Answers { conflict, ..Answers::only(Committed::Unavailable) };
        let committed = self.call(edge, answers, effect).await;
        self.note_reply(&call, Reply::Committed(committed)).committed()
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        let call = Call::Read(key.clone());
        let (key, release) = (key.clone(), self.release);
        let effect = move |inner: &mut Inner, _| Ok(seen_by(release, inner.tables.get(Table::Inbox, key.as_str())));
        let found = self.call(self.edge("read", false, Side::Store), Answers::only(Err(Unavailable)), effect).await;
        self.note_reply(&call, Reply::Read(found)).read()
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        let heads = self.read_records(keys, "read heads", head_seen_by).await;
        let noted = keys.iter().zip(heads).map(|(key, head)| {
            let call = Call::ReadHeads(vec![key.clone()]);
            self.note_reply(&call, Reply::ReadHeads(vec![head])).read_heads(1).remove(0)
        });
        noted.collect()
    }

    /// The worker's batch is read ahead of its machines, each of which takes its own as the answer to a read.
    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        let found = self.read_records(keys, "read each", seen_by).await;
        let noted = keys
            .iter()
            .zip(found)
            .map(|(key, found)| self.note_reply(&Call::Read(key.clone()), Reply::Read(found)).read());
        noted.collect()
    }

    async fn read_items(&self, items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        if items.is_empty() {
            return Ok(Snapshot::default());
        }
        let items = items.to_vec();
        let effect = move |inner: &mut Inner, _| {
            let read = |item: ItemRef| {
                let table = item.table.map_or(Table::Domain, Table::Own);
                let found = inner.tables.get(table, item.key.as_str()).cloned();
                (item, found)
            };
            Ok(items.into_iter().map(read).collect())
        };
        let read =
            self.call(self.edge("read domain", false, Side::Store), Answers::only(Err(Unavailable)), effect).await;
        match (self.role, &read) {
            (Role::Operator, Ok(_)) => self.saw("read trail -> read"),
            (Role::Operator, Err(_)) => self.saw("read trail -> unavailable"),
            (_, Ok(_)) => {}
            (_, Err(_)) => self.saw("plan -> unavailable"),
        }
        read
    }

    async fn key_schema(&self, table: TableAlias, _: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        let partition = KeyAttribute { name: OWN_KEY.to_owned(), kind: KeyKind::Text };
        let schema = (table == *OWN_TABLE).then_some(KeySchema { partition, sort: None });
        let effect = move |_: &mut Inner, _| Ok(schema);
        self.call(self.edge("describe table", false, Side::Store), Answers::only(Err(Unavailable)), effect).await
    }

    async fn query_due(&self, query: &DueQuery) -> Result<DuePage, Unavailable> {
        let wanted = query.clone();
        let effect = move |inner: &mut Inner, now: i64| Ok(inner.tables.query_due(&wanted, now));
        let due = self.call(self.edge("query due", false, Side::Store), Answers::only(Err(Unavailable)), effect).await;
        self.note_reply(&Call::QueryDue(query.clone()), Reply::Due(due)).due()
    }

    async fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> Result<u64, Unavailable> {
        let effect = move |inner: &mut Inner, _| Ok(inner.tables.count_received(shard, from, until));
        self.call(self.edge("count received", false, Side::Store), Answers::only(Err(Unavailable)), effect).await
    }
}

impl Queue for Ports {
    async fn send(&self, message: &Message) -> Result<(), Unavailable> {
        let call = Call::Send(message.clone());
        if matches!(message, Message::Slow { .. }) {
            self.saw("plan -> handler slow"); // Only after such a plan is such a message sent.
        }
        let (text, role, key, lane) = (self.text_of(message), self.role, message.record_key().clone(), message.lane());
        let effect = move |inner: &mut Inner, now: i64| {
            inner.lane(lane).queue.send(text, now, now);
            inner.invariants.sent(role, &key);
            Ok(())
        };
        let sent = self
            .call(self.edge(label::kind(message), true, Side::Queue), Answers::only(Err(Unavailable)), effect)
            .await;
        self.note_reply(&call, Reply::Sent(sent)).sent()
    }

    async fn send_each(&self, messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        let call = Call::SendEach(messages.to_vec());
        let text = |message: &Message| (self.text_of(message), message.record_key().clone(), message.lane());
        let texts: Vec<_> = messages.iter().map(text).collect();
        let kept = if self.drops_one() { texts.len() - 1 } else { texts.len() };
        let role = self.role;
        let effect = move |inner: &mut Inner, now: i64| {
            let count = texts.len();
            for (text, key, lane) in texts.into_iter().take(kept) {
                inner.lane(lane).queue.send(text, now, now);
                inner.invariants.sent(role, &key);
            }
            (0..count).map(|index| if index < kept { Ok(()) } else { Err(Unavailable) }).collect()
        };
        let refused = vec![Err(Unavailable); messages.len()];
        let sent = self.call(self.edge("send hints", true, Side::Queue), Answers::only(refused), effect).await;
        self.note_reply(&call, Reply::SentEach(sent)).sent_each(messages.len())
    }

    async fn hide(&self, lane: HintQueue, receipt_handle: &str, length: Millis) -> Result<(), Unavailable> {
        let handle = receipt_handle.parse().unwrap_or(0);
        let effect = move |inner: &mut Inner, now: i64| {
            inner.lane(lane).queue.hide(handle, length, now);
            Ok(())
        };
        self.call(self.edge("hide", true, Side::Queue), Answers::only(Err(Unavailable)), effect).await
    }
}

impl Ambient for Ports {
    fn moment(&self) -> Moment {
        let now = EpochMs(self.world.now() + self.skew);
        Moment { now, entropy: self.world.lock().rng.bits() }
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId(self.world.lock().claim_id())
    }
}
