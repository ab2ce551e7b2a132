//! The remote calls of one run, and which of them meets a fault.
//!
//! A call is named by its role, its operation and its number among those. Retries of the SDK are the same call: they
//! carry the same `amz-sdk-invocation-id`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_aws::KIND;
use hookonce_runtime::destinations::REFUSED_AGE_MAX;
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::inbox::message_key::KEY_PAUSE;
use serde_json::Value;
use tokio::sync::Notify;

use crate::support::wire::{HttpMessage, Injector, ProxiedRequest, WireFault};

/// A function that makes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Webhook,
    /// The webhook function in its own process, which gets the second of two copies.
    Copy,
    Worker,
    Relay,
    Dispatcher,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [Self::Webhook, Self::Copy, Self::Worker, Self::Relay, Self::Dispatcher];
}

/// The calls that ask for no operation by a header: of a destination, and of a handler in another language.
pub(crate) const CALL_DESTINATION: &str = "CallDestination";
pub(crate) const CALL_HANDLER: &str = "CallHandler";

/// What the operation of a read of a document begins with. Its kind follows.
const READ_DOCUMENT: &str = "GetDocument ";

/// What the operation of a query begins with. The partition of the index follows.
const QUERY: &str = "Query ";

/// One call, its retries included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) role: Role,
    pub(crate) operation: String,
    /// How many calls of this operation the role made before.
    pub(crate) index: usize,
}

impl Call {
    /// Whether it only reads, or asks a handler for a plan. A read whose reply is lost or late counts as refused.
    fn reads(&self) -> bool {
        let operation = self.operation.as_str();
        matches!(operation, "GetItem" | "BatchGetItem" | "DescribeTable" | CALL_HANDLER)
            || operation.starts_with(READ_DOCUMENT)
            || self.partition().is_some()
    }

    /// The list and the shard of the index that it reads.
    pub(crate) fn partition(&self) -> Option<(&str, u16)> {
        let (list, shard) = self.operation.strip_prefix(QUERY)?.split_once('#')?;
        Some((list, shard.parse().ok()?))
    }

    /// The faults that it can meet. Its retries meet them, too. A late call is carried out once: when the function has
    /// ended its invocation, or when everything has come to rest.
    pub(crate) fn faults(&self) -> &'static [WireFault] {
        const FAULTS: [WireFault; 6] = [
            WireFault::Refused,
            WireFault::CrashBefore,
            WireFault::CrashAfter,
            WireFault::ReplyLost,
            WireFault::Late,
            WireFault::LateAtRest,
        ];
        if self.reads() { &FAULTS[..3] } else { &FAULTS }
    }
}

/// Holds one call back until something else has happened.
#[derive(Debug, Default)]
struct Hold {
    call: Mutex<Option<(Role, &'static str)>>,
    reached: Notify,
    open: Notify,
}

/// What one run records and injects.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    point: Option<(Call, WireFault)>,
    state: Mutex<State>,
    crash: Notify,
    hold: Hold,
}

#[derive(Debug, Default)]
struct State {
    /// The invocation ids of each operation, in the order of their first appearance.
    ids: BTreeMap<(Role, String), Vec<String>>,
    calls: Vec<Call>,
    struck: bool,
    /// Operations that are refused at every point until they are repaired.
    down: &'static [(Role, &'static str)],
    /// The first attempt of a call that is carried out later.
    late: Option<ProxiedRequest>,
}

impl FaultPlan {
    /// Injects this fault, or none.
    pub(crate) fn new(point: Option<(Call, WireFault)>, down: &'static [(Role, &'static str)]) -> Self {
        Self { point, state: Mutex::new(State { down, ..State::default() }), ..Self::default() }
    }

    /// Records an attempt of a call, and returns its fault. One without an id is a call of its own.
    pub(crate) fn note(&self, role: Role, operation: &str, id: Option<&str>) -> Option<WireFault> {
        let mut state = self.state.lock().unwrap();
        if state.down.contains(&(role, operation)) {
            return Some(WireFault::Refused);
        }
        let ids = state.ids.entry((role, operation.to_owned())).or_default();
        let known = ids.iter().position(|known| Some(known.as_str()) == id);
        let index = known.unwrap_or(ids.len());
        let call = Call { role, operation: operation.to_owned(), index };
        if known.is_none() {
            ids.push(id.unwrap_or_default().to_owned());
            state.calls.push(call.clone());
        }
        let (_, fault) = self.point.as_ref().filter(|(point, _)| *point == call)?;
        state.struck = true;
        Some(*fault)
    }

    /// Ends the refusals that apply at every point.
    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().down = &[];
    }

    /// Every call so far, in order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// Whether the fault struck.
    pub(crate) fn struck(&self) -> bool {
        self.state.lock().unwrap().struck
    }

    /// How long a function does not ask again for the document that it could not read, if that was the fault.
    pub(crate) fn pause_of_document(&self) -> Option<Duration> {
        let (call, _) = self.point.as_ref().filter(|_| self.struck())?;
        call.operation.starts_with(READ_DOCUMENT).then(|| match call.role {
            Role::Dispatcher => duration(REFUSED_AGE_MAX),
            Role::Webhook | Role::Copy | Role::Worker | Role::Relay => 2 * KEY_PAUSE,
        })
    }

    /// Returns when a process of this role is to be killed.
    pub(crate) async fn crashed(&self, role: Role) {
        match &self.point {
            Some((call, _)) if call.role == role => self.crash.notified().await,
            _ => std::future::pending().await,
        }
    }

    /// Carries out what is due at this moment, if that is the fault. Returns whether there was anything.
    pub(crate) async fn carry_out_late(&self, moment: WireFault) -> bool {
        if self.point.as_ref().is_none_or(|(_, fault)| *fault != moment) {
            return false;
        }
        let late = self.state.lock().unwrap().late.take();
        if let Some(request) = &late {
            request.carry_out().await;
        }
        late.is_some()
    }

    /// Holds the next call of this operation.
    pub(crate) fn hold(&self, role: Role, operation: &'static str) {
        *self.hold.call.lock().unwrap() = Some((role, operation));
    }

    /// Waits while this call is held.
    pub(crate) async fn pass(&self, role: Role, operation: &str) {
        let held = self.hold.call.lock().unwrap().take_if(|held| *held == (role, operation)).is_some();
        if held {
            self.hold.reached.notify_one();
            self.hold.open.notified().await;
        }
    }

    /// Returns once a call is held, or once [`give_up_holding`](Self::give_up_holding) says that none will be.
    pub(crate) async fn reached(&self) {
        self.hold.reached.notified().await;
    }

    /// The call that was to be held will not come.
    pub(crate) fn give_up_holding(&self) {
        *self.hold.call.lock().unwrap() = None;
        self.hold.reached.notify_one();
    }

    /// Lets the held call go on.
    pub(crate) fn release(&self) {
        self.hold.open.notify_one();
    }
}

/// Injects the fault of a plan into the calls of one role.
#[derive(Debug)]
pub(crate) struct RoleInjector {
    pub(crate) role: Role,
    pub(crate) plan: Arc<FaultPlan>,
}

impl Injector for RoleInjector {
    // The read that opens a function's connection belongs to no scenario.
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        let operation = match request.operation() {
            Some("Query") => format!("{QUERY}{}", partition(&request.json())),
            Some("GetItem") => match request.json()["Key"][KIND]["S"].as_str() {
                Some(kind) => format!("{READ_DOCUMENT}{kind}"),
                None => "GetItem".to_owned(),
            },
            Some(operation) => operation.to_owned(),
            None if self.role == Role::Worker => CALL_HANDLER.to_owned(),
            None => CALL_DESTINATION.to_owned(),
        };
        let body = String::from_utf8_lossy(&request.body);
        if operation == "GetQueueAttributes" || body.contains("\"warm-up\"") {
            return None;
        }
        let id = request.header("amz-sdk-invocation-id");
        self.plan.pass(self.role, &operation).await;
        self.plan.note(self.role, &operation, id)
    }

    fn postpone(&self, request: ProxiedRequest) {
        self.plan.state.lock().unwrap().late.get_or_insert(request);
    }

    fn kill(&self) {
        self.plan.crash.notify_one();
    }
}

/// The partition that a query asks for.
fn partition(query: &Value) -> &str {
    let values = query["ExpressionAttributeValues"].as_object().into_iter().flat_map(|values| values.values());
    values.filter_map(|value| value["S"].as_str()).find(|text| text.contains('#')).unwrap_or_default()
}
