//! The callee of the effects, outside of the account: it keeps every call. In the end its calls are compared with the
//! records of the effects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use hookonce_local::clients::without_key;
use hookonce_protocol::dispatcher::idempotency_key;
use hookonce_protocol::record::{DeadReason, Outcome, Record, Status};
use hookonce_runtime::documents::DocumentKind;
use serde_json::{Value, json};

use super::fault_plan::{CALL_DESTINATION, Call, FaultPlan, Role, RoleInjector};
use super::handler;
use super::scenarios::{AT_MOST_ONCE, CLASSES, KEYED, Scenario};
use crate::effects::keyed;
use crate::support::stack::TestStack;
use crate::support::wire::{HttpMessage, Proxy, ScriptedServer, WireFault};

/// How long callees remember keys.
const WINDOW_HOURS: u32 = 24;

/// A callee with one address for each class. It does every call whose key it does not know.
pub(crate) struct Callee {
    server: ScriptedServer,
    _proxy: Proxy,
}

impl Callee {
    /// A callee behind a proxy at this address, and the documents of its destinations.
    pub(crate) async fn start(address: Ipv4Addr, stack: &TestStack, plan: &Arc<FaultPlan>) -> Self {
        let server = ScriptedServer::start(|_, _| (200, "")).await;
        let injector = Arc::new(RoleInjector { role: Role::Dispatcher, plan: Arc::clone(plan) });
        let proxy = Proxy::start_at(address, server.url(), &injector).await;
        for class in CLASSES {
            let mut document = document(class);
            document["url"] = format!("{}/{class}", without_key(proxy.url())).into();
            document["allow_private"] = true.into();
            stack.write_document(DocumentKind::Destination, class, &document.to_string()).await;
        }
        Self { server, _proxy: proxy }
    }

    /// What is wrong with the effects of a scenario with this fault. There must be one, at this destination.
    pub(crate) fn wrong(
        &self,
        class: &str,
        scenario: &Scenario,
        effects: &[Record],
        point: Option<&(Call, WireFault)>,
    ) -> Vec<String> {
        let [effect] = effects else { return vec![format!("{} effects", effects.len())] };
        let calls = self.server.requests();
        let key_epoch = effect.effect.as_ref().map_or(0, |part| part.key_epoch);
        let key = idempotency_key(&effect.key, &effect.claim_id, effect.generation, key_epoch);
        let is_its_own = |call: &&HttpMessage| {
            call.head.starts_with(&format!("POST /{class} "))
                && call.header("hookonce-key") == Some(&key)
                && call.body == scenario.deliveries[0].body
        };
        let strange = calls.iter().filter(|call| !is_its_own(call)).count();
        let end = (effect.status, effect.outcome, effect.dead_reason);
        let fits = match end {
            // All calls have one key, so whoever honours keys has done it once.
            (Status::Processed, Some(Outcome::Delivered), None) if class == AT_MOST_ONCE => calls.len() == 1,
            (Status::Processed, Some(Outcome::Delivered), None) => !calls.is_empty(),
            (Status::Dead, None, Some(DeadReason::UnknownOutcome)) => {
                let is_open = point.is_some_and(leaves_it_open);
                class == AT_MOST_ONCE && is_open && calls.len() <= 1
            }
            _ => false,
        };
        let mut wrong = Vec::new();
        if !fits {
            wrong.push(format!("{class}: {end:?} after {} calls", calls.len()));
        }
        if strange > 0 {
            wrong.push(format!("{class}: {strange} calls with another address, key or body"));
        }
        wrong
    }
}

/// Whether this fault leaves the outcome of a call unknown that may be made only once.
fn leaves_it_open((call, fault): &(Call, WireFault)) -> bool {
    let has_no_answer = call.operation == CALL_DESTINATION
        && matches!(
            fault,
            WireFault::CrashBefore
                | WireFault::CrashAfter
                | WireFault::ReplyLost
                | WireFault::Late
                | WireFault::LateAtRest
        );
    // The first write takes the right to call, the second one notes how the call ended.
    let dies_between = call.operation == "UpdateItem"
        && matches!((call.index, fault), (0, WireFault::CrashAfter) | (1, WireFault::CrashBefore));
    call.role == Role::Dispatcher && (has_no_answer || dies_between)
}

/// The document of a destination, without its address. That of `at_most_once` lists 503 as not done; elsewhere a
/// refusal leaves the outcome open.
fn document(class: &str) -> Value {
    match class {
        KEYED => keyed(WINDOW_HOURS),
        AT_MOST_ONCE => json!({ "kind": "http", "class": class, "not_done_statuses": [503] }),
        _ => json!({ "kind": "http", "class": class }),
    }
}

/// The routes that apply and forward what comes to an endpoint with the name of a destination, and the route of the
/// remote handler.
pub(crate) fn route_set() -> Value {
    let route = |class: &str| {
        json!({ "name": class, "consumer": "payments", "endpoints": [class], "handler": {"builtin": "payments"},
            "forward": [class] })
    };
    let routes: Vec<_> = CLASSES.map(route).into_iter().chain([handler::route()]).collect();
    json!({ "version": 1, "otherwise": "builtin", "routes": routes })
}
