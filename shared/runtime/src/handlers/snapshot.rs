//! Reads what a handler asks for, and completes its plan with what it may write.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::call::{Failure, HandlerPlan, Planned, Unavailable};
use hookonce_protocol::check::{CONTENT_TYPE_BYTES_MAX, Scope};
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::{DestinationId, Effect, EffectDraft, EffectName, Method, Payload};
use hookonce_protocol::item::{ITEM_BYTES_MAX, memory_bytes};
use hookonce_protocol::key::Tenant;
use hookonce_protocol::place::{ItemRef, Key, TableAlias};
use hookonce_protocol::plan::{Event, PLAN_MEMORY_MAX, PLAN_WRITES_MAX, Plan, Snapshot};
use sha2::{Digest as _, Sha256};

use crate::documents::document::EVENT_BYTES_MAX;
use crate::handlers::{Assignment, READS_MAX};
use crate::inbox::body;
use crate::inbox::memory::{MemoryPermit, SHORT_BYTES_MAX};
use crate::port::{NotRead, Store};

/// Reads these items for the handler of an event. If they are long, the message has a permit for them.
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
    describe(store, &mut scope, named, allowed).await.map_err(|_| Planned::UserTableUnavailable)?;
    if let Err(fault) = check_reads(reads, &event.tenant, &scope) {
        tracing::warn!(record.key = %event.record, fault, "what the handler asked for is refused");
        return Err(reads_refused());
    }
    let distinct: Vec<_> = scope.shown.iter().cloned().collect();
    let snapshot = read_items(store, event, &distinct, memory).await.inspect_err(|_| memory.release())?;
    Ok((scope, snapshot))
}

/// Reads items. How long they are is known only from the answer. So a long answer is asked for again, with a permit.
async fn read_items<S: Store>(
    store: &S,
    event: &Event,
    reads: &[ItemRef],
    memory: &MemoryPermit,
) -> Result<Snapshot, Planned> {
    if reads.is_empty() {
        return Ok(Snapshot::default());
    }
    // A value that counts as one byte of an item takes up to seven as it is sent. What a plan has written can be read.
    let of_one = 7 * ITEM_BYTES_MAX as u64 + 4 * 1024;
    let bytes_max = if reads.len() == 1 { of_one } else { 1024 * 1024 };
    let mut read = store.read_few_bytes(reads, SHORT_BYTES_MAX as u64).await;
    if matches!(read, Err(NotRead::TooLong(bytes)) if bytes <= bytes_max) {
        memory.take().await;
        read = store.read_few_bytes(reads, bytes_max).await;
    }
    let snapshot = read.map_err(|why| match why {
        NotRead::TooLong(bytes) => too_large(event, bytes),
        NotRead::Unavailable if reads.iter().any(|item| item.table.is_some()) => Planned::UserTableUnavailable,
        NotRead::Unavailable => Planned::Unavailable,
    })?;
    let bytes: usize = snapshot.items().filter_map(|(_, item)| item).map(memory_bytes).sum();
    if bytes <= PLAN_MEMORY_MAX { Ok(snapshot) } else { Err(too_large(event, bytes as u64)) }
}

fn too_large(event: &Event, bytes: u64) -> Planned {
    tracing::warn!(record.key = %event.record, bytes, "the items that the handler asked for are too large together");
    reads_refused()
}

/// The failure of a handler whose reads are refused.
pub(crate) fn reads_refused() -> Planned {
    Planned::Failed(Failure::permanent(Code::HandlerReadsRefused))
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
        return Planned::UserTableUnavailable;
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
    if payload.len() > EVENT_BYTES_MAX {
        tracing::warn!("the payload of an effect has more than {EVENT_BYTES_MAX} bytes");
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

/// Checks what a handler wants to read. The error names what is wrong with it.
fn check_reads(reads: &[ItemRef], tenant: &Tenant, scope: &Scope) -> Result<(), String> {
    if reads.len() > READS_MAX {
        return Err(format!("it asks for more than {READS_MAX} items"));
    }
    for (index, item) in reads.iter().enumerate() {
        item.check(tenant, &scope.tables).map_err(|fault| {
            let table = item.table.as_ref().map_or_else(String::new, |table| format!(" in table {table}"));
            format!("reads[{index}]{table}: {fault}")
        })?;
    }
    Ok(())
}
