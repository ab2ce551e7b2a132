//! The business rule of a day: a count for each fact, unprotected, so that every application shows.

use std::sync::{Arc, LazyLock};

use hookonce_protocol::effect::Effect;
use hookonce_protocol::key::{DomainKey, ItemKey};
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot, WhenConditionFails};
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError};
use hookonce_runtime::routes::{BUILTIN_SET, Offered, RouteSet};
use serde_json::{Value, json};

use super::destination::DESTINATIONS;
use super::provider::facts_in;
use super::world::World;
use crate::label::Role;

/// The attribute that counts.
pub const COUNT: &str = "count";

/// The kind of the items that count a fact each.
pub const EFFECT: &str = "effect";

/// What the facts begin with that count in the user's own table instead.
pub const OWN: &str = "own-";

/// What the facts begin with for which the handler fails until [`Config::fails_until`](super::config::Config).
pub const LATER: &str = "later";

/// The user's own table. Its partition key is a fact.
pub static OWN_TABLE: LazyLock<TableAlias> = LazyLock::new(|| TableAlias::parse("own").expect("it is an alias"));

/// The name of its partition key.
pub const OWN_KEY: &str = "fact";

/// The kind of the items that several facts count in.
pub const TOTAL: &str = "total";

/// The set that asks the handlers of the build.
pub(super) static BUILTIN: LazyLock<Arc<RouteSet>> = LazyLock::new(|| parsed(BUILTIN_SET));

/// A set that ignores every event.
pub(super) static UNROUTED: LazyLock<Arc<RouteSet>> = LazyLock::new(|| set(&[]));

/// The set of a day with effects. Events of one provider are forwarded, besides.
pub(super) static ROUTED: LazyLock<Arc<RouteSet>> = LazyLock::new(|| routed(false));

/// The same, but the events of some endpoints go to a handler in another language.
pub(super) static ROUTED_REMOTE: LazyLock<Arc<RouteSet>> = LazyLock::new(|| routed(true));

fn routed(remote: bool) -> Arc<RouteSet> {
    let here = json!({"builtin": LEDGER});
    let there = if remote { json!({"lambda": LEDGER}) } else { here.clone() };
    let route = |name: &str, endpoints: &[&str], handler: &Value, forward: &[&str]| {
        let mut route = json!({
            "name": name, "consumer": LEDGER, "endpoints": endpoints, "handler": handler, "destinations": DESTINATIONS,
            "tables": [*OWN_TABLE],
        });
        if !forward.is_empty() {
            route["forward"] = json!(forward);
        }
        route
    };
    set(&[
        route("forwarded", &[FORWARDED], &here, &["crm"]),
        route("remote", &REMOTE_ENDPOINTS, &there, &[]),
        route("the rest", &["*"], &here, &[]),
    ])
}

fn set(routes: &[Value]) -> Arc<RouteSet> {
    parsed(&json!({"version": 1, "otherwise": "ignore", "routes": routes}).to_string())
}

fn parsed(set: &str) -> Arc<RouteSet> {
    Arc::new(
        RouteSet::parse(set, Offered { handlers: &[LEDGER], urls: false, tables: None })
            .expect("the set of a day is valid"),
    )
}

/// The name of the handler.
pub(super) const LEDGER: &str = "ledger";

/// The endpoint whose events are forwarded.
const FORWARDED: &str = "github";

/// The endpoints whose events another language handles, on some days.
const REMOTE_ENDPOINTS: [&str; 2] = ["stripe", "meta_whatsapp"];

/// The destinations that a fact has an effect at, on a day with effects.
fn destinations_of(fact: &str) -> &'static [&'static str] {
    match fact.split('-').next() {
        Some("pays") => &["bank"],
        Some("mails") => &["mail"],
        Some("tells") => &["crm"],
        Some("orders") => &DESTINATIONS,
        _ => &[],
    }
}

/// How many effects the plan of a fact has.
pub fn effects_planned(endpoint: &str, fact: &str) -> i64 {
    let own = i64::try_from(destinations_of(fact).len()).unwrap_or(0);
    own + i64::from(endpoint == FORWARDED)
}

/// Whether a fact also counts in its endpoint's total. Such a plan needs a snapshot that is up to date.
pub fn is_shared(fact: &str) -> bool {
    ["shared-", "strict-", "orders-"].iter().any(|kind| fact.starts_with(kind))
}

fn total(event: &Event, fact: &str) -> Option<ItemKey> {
    is_shared(fact).then(|| event.item_key(TOTAL, ["all"]))
}

fn own_item(fact: &str) -> Option<ItemRef> {
    fact.starts_with(OWN).then(|| ItemRef::own(*OWN_TABLE, [(OWN_KEY, fact.into())]))
}

/// Applies facts, and fails as the day's configuration says.
#[derive(Debug)]
pub struct Ledger(pub World);

impl Ledger {
    fn saw(&self, what: &str) {
        let label = format!("{}: plan -> {what}", Role::Worker);
        self.0.lock().labels.insert(label);
    }

    fn fails(&self, fact: &str) -> Option<HandlerError> {
        let mut inner = self.0.lock();
        *inner.attempts.entry(fact.to_owned()).or_default() += 1;
        let first = inner.attempts.get(fact) == Some(&1);
        let fails = inner.strikes(|config| config.handler_fails);
        let fails_until = inner.config.fails_until;
        drop(inner);
        match fact.split('-').next() {
            Some("poison") => Some(HandlerError::permanent("POISON")),
            Some("once") if first => Some(HandlerError::retryable("LATER")),
            Some(LATER) if self.0.elapsed() < fails_until => Some(HandlerError::retryable("LATER")),
            Some("panics") if first => {
                self.saw("failed");
                // Unlike a panic, this prints nothing.
                std::panic::resume_unwind(Box::new("the handler panics"))
            }
            _ => fails.then_some(HandlerError::retryable("LATER")),
        }
    }
}

impl Handler for Ledger {
    type Fact = String;

    fn name(&self) -> &'static str {
        LEDGER
    }

    fn recognise(&self, event: &Event) -> Result<Option<String>, HandlerError> {
        Ok(facts_in(&event.body).into_iter().next().filter(|fact| !fact.starts_with("ignored")))
    }

    fn domain_key(&self, fact: &String) -> DomainKey {
        DomainKey::of([fact])
    }

    fn reads(&self, event: &Event, fact: &String) -> Vec<ItemRef> {
        total(event, fact).map(ItemRef::from).into_iter().chain(own_item(fact)).collect()
    }

    fn plan(&self, event: &Event, fact: &String, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        if let Some(failure) = self.fails(fact) {
            self.saw(if failure.retryable { "failed" } else { "failed for good" });
            return Err(failure);
        }
        self.saw("plan");
        let counter = own_item(fact).unwrap_or_else(|| event.item_key(EFFECT, [fact]).into());
        // A word of the business, and a time long past: no item may expire by it.
        let expired = || Change::Set("expires_at".into(), 1.into());
        let mut plan =
            Plan::default().with(DomainWrite::update(counter, vec![Change::Add(COUNT.into(), 1), expired()]));
        if let Some(total) = total(event, fact) {
            let sum = snapshot.number(&total, COUNT) + 1;
            let write = DomainWrite::update(total, vec![Change::Set(COUNT.into(), sum.into()), expired()]);
            plan = plan.with(write.as_seen(snapshot, COUNT));
        }
        let effects = if self.0.lock().config.effects { destinations_of(fact) } else { &[] };
        for destination in effects {
            plan = plan.with_effect(Effect::json(destination, destination, &json!({"fact": fact}))?);
        }
        if fact.starts_with("strict") {
            plan.when_condition_fails = WhenConditionFails::Permanent;
        }
        Ok(plan)
    }
}
