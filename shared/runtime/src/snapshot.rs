//! Reads what a handler asks for, and completes its plan with what it may write.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::call::{Failure, HandlerPlan, Planned, Unavailable};
use hookonce_protocol::check::{CONTENT_TYPE_BYTES_MAX, Scope};
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::{DestinationId, Effect, EffectDraft, EffectName, Method, Payload};
use hookonce_protocol::item::{memory_bytes, size_bytes};
use hookonce_protocol::key::Tenant;
use hookonce_protocol::place::{ItemRef, Key, TableAlias};
use hookonce_protocol::plan::{Event, PLAN_MEMORY_MAX, PLAN_WRITES_MAX, Plan, Snapshot};
use sha2::{Digest as _, Sha256};

use crate::body::{self, BODY_BYTES_MAX};
use crate::handler::{Assignment, READS_MAX};
use crate::memory::MemoryPermit;
use crate::port::{NotRead, Store};

/// The most bytes of items that a handler may see.
const SNAPSHOT_BYTES_MAX: usize = 5 * 1024 * 1024;

/// The most memory that these items may take, in bytes.
const SNAPSHOT_MEMORY_MAX: usize = PLAN_MEMORY_MAX;

/// The most bytes of answers for which all messages of a batch have room at once.
const SHORT_ANSWER_BYTES_MAX: u64 = 128 * 1024;

/// The most bytes of answers that are read together. Of more, a message reads one item after the other.
const LONG_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How many bytes of the budget are held for a byte of an answer: ten short answers fit together, and long ones do not.
/// Items of small maps take some 60 bytes of memory for a byte of their answer, and the function has room for that
/// (`scripts/bench memory`).
const ROOM_OF_A_BYTE: u64 = 24;

/// Reads these items for the handler of an event. The message then holds their part of the budget, unless it gets none.
///
/// # Errors
/// What becomes of the event instead.
pub(crate) async fn read<S: Store>(
    store: &S,
    event: &Event,
    reads: &[ItemRef],
    allowed: Option<&[TableAlias]>,
    memory: &MemoryPermit,
) -> Result<(Scope, Snapshot), Planned> {
    let mut scope =
        Scope { shown: reads.iter().cloned().collect(), tables: BTreeMap::new(), destinations: BTreeSet::new() };
    let named = reads.iter().map(|item| (item.table, &item.key));
    describe(store, &mut scope, named, allowed).await.map_err(|_| Planned::TableAway)?;
    if let Err(fault) = asked(reads, &event.tenant, &scope) {
        tracing::warn!(record.key = %event.record, fault, "what the handler asked for is refused");
        return Err(asked_too_much());
    }
    let distinct: Vec<_> = scope.shown.iter().cloned().collect();
    let snapshot = read_items(store, event, &distinct, memory).await.inspect_err(|_| memory.release())?;
    Ok((scope, snapshot))
}

/// Reads items. How long they are is known only from the answer, and how much memory they take once they are read. So a
/// long answer is asked for again, once there is room for it. Very long ones are read one by one, while no other
/// message of the batch holds anything.
async fn read_items<S: Store>(
    store: &S,
    event: &Event,
    reads: &[ItemRef],
    memory: &MemoryPermit,
) -> Result<Snapshot, Planned> {
    if reads.is_empty() {
        return Ok(Snapshot::default());
    }
    let not_read = |reads: &[ItemRef]| {
        if reads.iter().any(|item| item.table.is_some()) { Planned::TableAway } else { Planned::Unavailable }
    };
    let (mut read, mut bytes_max) = (Size::default(), SHORT_ANSWER_BYTES_MAX);
    for _ in 0..2 {
        memory.hold(usize::try_from(bytes_max * ROOM_OF_A_BYTE).unwrap_or(usize::MAX)).await;
        match store.read_few_bytes(reads, bytes_max).await {
            Ok(snapshot) => return read.add(&snapshot, event).map(|()| snapshot),
            Err(NotRead::Unavailable) => return Err(not_read(reads)),
            Err(NotRead::TooLong(bytes)) if bytes <= LONG_ANSWER_BYTES_MAX => bytes_max = bytes,
            Err(NotRead::TooLong(_)) => break,
        }
    }
    memory.hold(usize::MAX).await;
    let mut snapshot = Snapshot::default();
    for item in reads {
        let item = std::slice::from_ref(item);
        let one = store.read_items(item).await.map_err(|_| not_read(item))?;
        read.add(&one, event)?;
        snapshot.extend(one);
    }
    Ok(snapshot)
}

/// What the items of a handler take, in bytes.
#[derive(Default)]
struct Size {
    stored: usize,
    memory: usize,
}

impl Size {
    /// Adds items, unless all are too large together.
    fn add(&mut self, read: &Snapshot, event: &Event) -> Result<(), Planned> {
        self.stored += read.items().filter_map(|(_, item)| item).map(size_bytes).sum::<usize>();
        self.memory += read.items().filter_map(|(_, item)| item).map(memory_bytes).sum::<usize>();
        if self.stored <= SNAPSHOT_BYTES_MAX && self.memory <= SNAPSHOT_MEMORY_MAX {
            return Ok(());
        }
        tracing::warn!(record.key = %event.record, bytes = self.stored, memory = self.memory,
            "the items that the handler asked for are too large together");
        Err(asked_too_much())
    }
}

/// The failure of a handler that asks for what it may not have.
pub(crate) fn asked_too_much() -> Planned {
    Planned::Failed(Failure::permanent(Code::HandlerAskedTooMuch))
}

/// A plan with its assignment, by a handler that has seen this.
pub(crate) async fn complete<S: Store>(
    store: &S,
    event: &Event,
    mut scope: Scope,
    assignment: Assignment,
    mut plan: Plan,
) -> Planned {
    let Assignment { consumer, domain_key, grants } = assignment;
    let checked = plan.checks.iter().map(|check| (check.table, &check.key));
    let named = plan.writes.iter().map(|write| (write.table, &write.key)).chain(checked);
    let Ok(()) = describe(store, &mut scope, named, grants.tables.as_deref()).await else {
        return Planned::TableAway;
    };
    match drafts(std::mem::take(&mut plan.effects), event, &grants.forward) {
        Ok(effects) => {
            scope.destinations = grants.destinations;
            Planned::Plan(Box::new(HandlerPlan { consumer, domain_key, plan, effects, scope }))
        }
        Err(failure) => Planned::Failed(failure),
    }
}

/// What the commit stores: the plan's effects, and the event itself for each destination that it is forwarded to. Of
/// more effects than a plan may have, no more are made than it takes to refuse it.
fn drafts(effects: Vec<Effect>, event: &Event, forward: &[DestinationId]) -> Result<Vec<EffectDraft>, Failure> {
    let mut drafts = Vec::new();
    for effect in effects.into_iter().take(PLAN_WRITES_MAX + 1) {
        let Effect { name, destination, payload, method, path } = effect;
        let content_type = payload.content_type().to_owned();
        let (body, sha256) = stored(payload.bytes())?;
        drafts.push(EffectDraft { name, destination, method, path, content_type, body, sha256 });
    }
    if forward.is_empty() {
        return Ok(drafts);
    }
    let (body, sha256) = stored(&event.body)?;
    let forwarded = forward.iter().map(|destination| EffectDraft {
        name: EffectName::forward(destination),
        destination: destination.clone(),
        method: Method::Post,
        path: String::new(),
        content_type: content_type(event).to_owned(),
        body: body.clone(),
        sha256,
    });
    Ok(drafts.into_iter().chain(forwarded).collect())
}

/// The compressed payload and its hash. A payload that is too long to be decompressed again is refused.
fn stored(payload: &[u8]) -> Result<(Vec<u8>, [u8; 32]), Failure> {
    if payload.len() as u64 > BODY_BYTES_MAX {
        tracing::warn!("the payload of an effect has more than {BODY_BYTES_MAX} bytes");
        return Err(Failure::permanent(Code::PlanRefused));
    }
    let body = body::compress(payload).map_err(|_| Failure::retryable(Code::BodyNotCompressed))?;
    Ok((body, Sha256::digest(payload).into()))
}

/// The content type that the event came with.
fn content_type(event: &Event) -> &str {
    let plain = |text: &&str| {
        let fits = (1..=CONTENT_TYPE_BYTES_MAX).contains(&text.len());
        fits && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    };
    let came = event.headers.get("content-type").map(String::as_str).filter(plain);
    came.unwrap_or_else(|| Payload::Bytes(Vec::new()).content_type())
}

/// Learns the keys of the tables of these items, as far as it may use them. Any other stays unknown, and its items
/// are refused.
async fn describe<'a, S: Store>(
    store: &S,
    scope: &mut Scope,
    named: impl Iterator<Item = (Option<TableAlias>, &'a Key)>,
    allowed: Option<&[TableAlias]>,
) -> Result<(), Unavailable> {
    let mut keys: BTreeMap<TableAlias, Vec<&Key>> = BTreeMap::new();
    for (table, key) in named {
        if let Some(table) = table.filter(|table| allowed.is_none_or(|allowed| allowed.contains(table))) {
            keys.entry(table).or_default().push(key);
        }
    }
    for (table, keys) in keys {
        if let Some(schema) = store.key_schema(table, &keys).await? {
            scope.tables.insert(table, schema);
        }
    }
    Ok(())
}

/// Checks what a handler asks for, and says what is wrong with it.
fn asked(reads: &[ItemRef], tenant: &Tenant, scope: &Scope) -> Result<(), String> {
    if reads.len() > READS_MAX {
        return Err(format!("it asks for more than {READS_MAX} items"));
    }
    for (index, item) in reads.iter().enumerate() {
        item.check(tenant, &scope.tables).map_err(|fault| format!("reads[{index}]: {fault}"))?;
    }
    Ok(())
}
