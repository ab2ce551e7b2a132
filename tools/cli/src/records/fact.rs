//! The record that applied a fact, by what a person knows of the fact: the id of an invoice or an order.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_aws::DynamoStore;
use hookonce_protocol::item::{Item, Value as Stored};
use hookonce_protocol::key::{DOMAIN_KEY_PREFIX, EndpointId, RecordKey, Tenant};
use hookonce_protocol::place::{ItemRef, Key};
use hookonce_protocol::record::Record;
use hookonce_runtime::port::Store as _;
use serde_json::Value;

use crate::dev::handlers;
use crate::documents;
use crate::documents::route_set::text_of;
use crate::failure::Failure;
use crate::records::timeline::RECORD;
use crate::records::{Filter, latest};
use crate::stack::connection::Connection;
use crate::stack::target::store_unavailable;

/// How many domain keys one read asks for, and how many of the latest records are read for their types.
pub(crate) const KEYS_AT_ONCE: usize = 100;

/// The records that applied a fact, as endpoints and keys: one for each tenant and consumer that knows it. `latest` are
/// records that were applied lately, for a handler whose facts name their types and that no route gives types. They are
/// read only where the routes do not lead to the fact.
///
/// # Errors
/// [`Failure`] when routes, endpoints or the store cannot be read.
pub(crate) async fn applied_by(
    stack: &Connection,
    store: &DynamoStore,
    fact: &str,
    latest: impl Future<Output = Result<Vec<Record>, Failure>>,
) -> Result<Vec<[String; 2]>, Failure> {
    if fact.starts_with(DOMAIN_KEY_PREFIX) {
        return recorded(store, &[fact.to_owned()]).await;
    }
    let consumers = Consumers::read(stack).await?;
    let found = recorded(store, &consumers.keys(fact, &[])).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    let types: BTreeSet<_> = latest.await?.into_iter().map(|record| record.event_type).collect();
    recorded(store, &consumers.keys(fact, &types.into_iter().collect::<Vec<_>>())).await
}

/// The records that were applied last in a day.
///
/// # Errors
/// [`Failure`] when the store cannot be read.
pub(crate) async fn latest_applied(store: &DynamoStore) -> Result<Vec<Record>, Failure> {
    Ok(latest(store, &applied()?, KEYS_AT_ONCE).await?.records.into_values().collect())
}

/// The filter of records that were applied.
///
/// # Errors
/// None: the state exists.
pub(crate) fn applied() -> Result<Filter, Failure> {
    Filter::of_options([("state", "APPLIED")].into_iter())
}

/// The records that the items under these domain keys name.
async fn recorded(store: &DynamoStore, keys: &[String]) -> Result<Vec<[String; 2]>, Failure> {
    let mut found = BTreeSet::new();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let items: Vec<_> = keys.iter().map(|key| ItemRef { table: None, key: Key::from(key.as_str()) }).collect();
        let snapshot = store.read_items(&items).await.map_err(|_| store_unavailable())?;
        let record = |item: &Item| item.get(RECORD).and_then(Stored::as_text).and_then(RecordKey::parse);
        found.extend(items.into_iter().filter_map(|item| record(snapshot.item(item)?)));
    }
    Ok(found.iter().map(|key| [key.parts().0.to_owned(), key.parts().1.to_owned()]).collect())
}

/// Who may have applied a fact.
struct Consumers {
    tenants: BTreeSet<Tenant>,
    /// Their names, each with the types that the routes give it.
    types: BTreeMap<String, BTreeSet<String>>,
}

impl Consumers {
    async fn read(stack: &Connection) -> Result<Self, Failure> {
        let endpoints = documents::valid(&*stack.documents::<EndpointId>().await?).await?;
        let tenants = endpoints
            .into_iter()
            .map(|(id, document, _)| document.tenant.unwrap_or_else(|| Tenant::from(id)))
            .collect();
        let set: Value = text_of(stack).await?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        // A handler of this build that no route names is its own consumer.
        let mut types: BTreeMap<_, BTreeSet<_>> =
            handlers::of(stack).names().iter().map(|name| ((*name).to_owned(), BTreeSet::new())).collect();
        for route in set.get("routes").and_then(Value::as_array).into_iter().flatten() {
            let Some(consumer) = route.get("consumer").and_then(Value::as_str) else { continue };
            let named = route.get("types").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            types.entry(consumer.to_owned()).or_default().extend(named.map(str::to_owned));
        }
        Ok(Self { tenants, types })
    }

    /// The domain keys that a fact may have: the whole one, or one for each tenant, consumer and type. Handlers put the
    /// type before the id with which people know the fact.
    fn keys(&self, fact: &str, more_types: &[String]) -> Vec<String> {
        let mut facts = BTreeSet::new();
        for (consumer, types) in &self.types {
            let of_types = types.iter().chain(more_types);
            let of_types = of_types.flat_map(|name| [format!("%type#{name}#{fact}"), format!("{name}#{fact}")]);
            let forms = [fact.to_owned(), format!("%fact#{fact}")].into_iter().chain(of_types);
            facts.extend(forms.map(|form| format!("{consumer}#{form}")));
        }
        let of_tenant = |tenant: &Tenant| -> Vec<String> {
            facts.iter().map(|fact| format!("{DOMAIN_KEY_PREFIX}{tenant}#{fact}")).collect()
        };
        // A fact may also be named as `audit` prints it, with its tenant and consumer.
        let whole = format!("{DOMAIN_KEY_PREFIX}{fact}");
        self.tenants.iter().flat_map(of_tenant).chain([whole]).collect()
    }
}
