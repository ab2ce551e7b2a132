//! Reads what a handler asks for, and completes its plan with what it may write.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::call::{Failure, HandlerPlan, Planned, Unavailable};
use hookonce_protocol::check::Scope;
use hookonce_protocol::key::{DomainKey, Tenant};
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::plan::{Event, Plan, Snapshot};

use crate::handler::READS_MAX;
use crate::port::Store;

/// Reads these items for the handler of an event.
///
/// # Errors
/// What becomes of the event instead.
pub(crate) async fn read<S: Store>(
    store: &S,
    event: &Event,
    reads: &[ItemRef],
    allowed: Option<&[TableAlias]>,
) -> Result<(Scope, Snapshot), Planned> {
    let mut scope =
        Scope { shown: reads.iter().cloned().collect(), tables: BTreeMap::new(), destinations: BTreeSet::new() };
    let named = reads.iter().filter_map(|item| item.table).collect();
    describe(store, &mut scope, named, allowed).await.map_err(|_| Planned::Unavailable)?;
    if let Err(fault) = asked(reads, &event.tenant, &scope) {
        tracing::warn!(record.key = %event.record, fault, "what the handler asked for is refused");
        return Err(asked_too_much());
    }
    let snapshot = store.read_items(reads).await.map_err(|_| Planned::Unavailable)?;
    Ok((scope, snapshot))
}

/// The failure of a handler that asks for what it may not have.
pub(crate) fn asked_too_much() -> Planned {
    Planned::Failed(Failure::permanent("HANDLER_ASKED_TOO_MUCH"))
}

/// A plan with its consumer and fact, by a handler that has seen this.
pub(crate) async fn complete<S: Store>(
    store: &S,
    mut scope: Scope,
    consumer: String,
    domain_key: DomainKey,
    plan: Plan,
    allowed: Option<&[TableAlias]>,
) -> Planned {
    if !plan.effects.is_empty() {
        tracing::warn!("the plan has effects, which this worker cannot commit");
        return Planned::Failed(Failure::permanent("PLAN_REFUSED"));
    }
    let named = plan.writes.iter().map(|write| write.table).chain(plan.checks.iter().map(|check| check.table));
    let Ok(()) = describe(store, &mut scope, named.flatten().collect(), allowed).await else {
        return Planned::Unavailable;
    };
    Planned::Plan(Box::new(HandlerPlan { consumer, domain_key, plan, effects: Vec::new(), scope }))
}

/// Learns the keys of the tables that a handler names, as far as it may use them. Any other stays unknown, and its items
/// are refused.
async fn describe<S: Store>(
    store: &S,
    scope: &mut Scope,
    named: BTreeSet<TableAlias>,
    allowed: Option<&[TableAlias]>,
) -> Result<(), Unavailable> {
    for table in named {
        if scope.tables.contains_key(&table) || allowed.is_some_and(|allowed| !allowed.contains(&table)) {
            continue;
        }
        if let Some(schema) = store.key_schema(table).await? {
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
