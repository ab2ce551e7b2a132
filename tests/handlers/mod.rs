//! The shipped handlers as pure functions: a map stands in for the domain table and carries out their plans.

mod cases;
mod example;
mod messages;
mod payments;
mod plan_cases;

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::check::Scope;
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{EVENT_VERSION, Event, Snapshot};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{NotApplied, Write};
use hookonce_runtime::handlers::Handler;

use crate::support::Delivery;

/// The domain table as a map, and the domain keys in it.
#[derive(Debug, Default)]
struct Domain {
    items: BTreeMap<String, Item>,
    facts: BTreeSet<String>,
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Applied {
    Once,
    Duplicate,
}

impl Domain {
    /// Applies an event as the worker would, without concurrency.
    fn apply(&mut self, handler: &impl Handler, event: &Event) -> Applied {
        let wanted = format!("{} does not want {}", handler.name(), event.event_type);
        let fact = handler.recognise(event).unwrap().expect(&wanted);
        let reads = handler.reads(event, &fact);
        let shown = |item: &ItemRef| (item.clone(), self.items.get(item.key.as_str()).cloned());
        let snapshot: Snapshot = reads.iter().map(shown).collect();
        let plan = handler.plan(event, &fact, &snapshot).unwrap();
        plan.check(&event.tenant, &Scope { shown: reads.into_iter().collect(), ..Scope::default() }).unwrap();
        let fact = handler.domain_key(&fact).item(&event.tenant, handler.name(), &event.record, event.generation);
        if self.facts.contains(&fact) {
            return Applied::Duplicate;
        }
        let apply = |write: Write| {
            let key = write.key.as_str();
            Ok((key.to_owned(), write.apply(self.items.get(key))?))
        };
        let after: Result<Vec<_>, NotApplied> = plan.into_writes().map(apply).collect();
        for (key, item) in after.expect("nothing else changed the items of the snapshot") {
            match item {
                Some(item) => drop(self.items.insert(key, item)),
                None => drop(self.items.remove(&key)),
            }
        }
        self.facts.insert(fact);
        Applied::Once
    }

    fn number(&self, key: &str, attribute: &str) -> i64 {
        self.items.get(key).and_then(|item| item.get(attribute)).and_then(Value::as_i64).unwrap_or(0)
    }

    fn text(&self, key: &str, attribute: &str) -> Option<&str> {
        self.items.get(key)?.get(attribute)?.as_text()
    }
}

/// The events of a delivery, as the worker passes them to a handler.
fn events(delivery: &Delivery) -> Vec<Event> {
    let headers = delivery.headers.iter().cloned().collect();
    let parts = delivery.provider.split(&delivery.body, &headers);
    let endpoint = EndpointId::parse(&delivery.endpoint).unwrap();
    let event = |part: hookonce_providers::EventPart| Event {
        version: EVENT_VERSION,
        endpoint: endpoint.clone(),
        tenant: endpoint.clone().into(),
        record: RecordKey::delivery(&endpoint, part.key.as_str()),
        provider: delivery.provider.id().to_owned(),
        key: part.key.as_str().to_owned(),
        event_type: part.event_type,
        received_at: EpochMs(1_767_225_600_000),
        generation: 0,
        headers: BTreeMap::new(),
        body: part.body,
    };
    parts.into_iter().map(event).collect()
}

/// The one event of a delivery.
pub(crate) fn event(delivery: &Delivery) -> Event {
    let mut events = events(delivery);
    assert_eq!(events.len(), 1);
    events.remove(0)
}
