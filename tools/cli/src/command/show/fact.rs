//! The record that applied a fact, by what a person knows of the fact: the id of an invoice or an order.

use std::collections::BTreeSet;

use hookonce_aws::DynamoStore;
use hookonce_protocol::item::{Item, Value as Stored};
use hookonce_protocol::key::{DOMAIN_KEY_PREFIX, EndpointId, RecordKey, Tenant};
use hookonce_protocol::place::{ItemRef, Key};
use hookonce_runtime::port::Store as _;
use serde_json::Value;

use crate::connection::Connection;
use crate::documents;
use crate::failure::Failure;
use crate::handlers;
use crate::route_set::text_of;
use crate::target::store_unavailable;
use crate::timeline::RECORD;

/// How many domain keys one read asks for.
const KEYS_AT_ONCE: usize = 100;

/// The records that applied a fact, as endpoints and keys: one for each tenant and consumer that knows it.
///
/// # Errors
/// [`Failure`] when routes, endpoints or the store cannot be read.
pub(super) async fn applied_by(
    stack: &Connection,
    store: &DynamoStore,
    fact: &str,
) -> Result<Vec<[String; 2]>, Failure> {
    let keys = keys(stack, fact).await?;
    let mut found = BTreeSet::new();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let items: Vec<_> = keys.iter().map(|key| ItemRef { table: None, key: Key::from(key.as_str()) }).collect();
        let snapshot = store.read_items(&items).await.map_err(|_| store_unavailable())?;
        let record = |item: &Item| item.get(RECORD).and_then(Stored::as_text).and_then(RecordKey::parse);
        found.extend(items.into_iter().filter_map(|item| record(snapshot.item(item)?)));
    }
    Ok(found.iter().map(|key| [key.parts().0.to_owned(), key.parts().1.to_owned()]).collect())
}

/// The domain keys that a fact may have: the whole one, or one for each tenant, consumer and type of the routes.
async fn keys(stack: &Connection, fact: &str) -> Result<Vec<String>, Failure> {
    if fact.starts_with(DOMAIN_KEY_PREFIX) {
        return Ok(vec![fact.to_owned()]);
    }
    let endpoints = documents::valid(&*stack.documents::<EndpointId>().await?).await?;
    let tenants: BTreeSet<_> =
        endpoints.into_iter().map(|(id, document, _)| document.tenant.unwrap_or_else(|| Tenant::from(id))).collect();
    let set: Value = text_of(stack).await?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let routes = set.get("routes").and_then(Value::as_array).into_iter().flatten();
    // A handler of this build that no route names is its own consumer.
    let mut facts: BTreeSet<_> = handlers::of(stack).names().iter().map(|name| format!("{name}#{fact}")).collect();
    for route in routes {
        let Some(consumer) = route.get("consumer").and_then(Value::as_str) else { continue };
        let types = route.get("types").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let of_type = types.map(|event_type| format!("%type#{event_type}#{fact}"));
        let forms = [fact.to_owned(), format!("%fact#{fact}")].into_iter().chain(of_type);
        facts.extend(forms.map(|form| format!("{consumer}#{form}")));
    }
    let of_tenant = |tenant: &Tenant| facts.iter().map(|fact| format!("{DOMAIN_KEY_PREFIX}{tenant}#{fact}")).collect();
    // A fact may also be named as `audit` prints it, with its tenant and consumer.
    let whole = format!("{DOMAIN_KEY_PREFIX}{fact}");
    Ok(tenants.iter().flat_map(|tenant| -> Vec<String> { of_tenant(tenant) }).chain([whole]).collect())
}
