//! The business rule of a day as a handler in another language: it is asked and answers with JSON, and is unavailable
//! at times.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use hookonce_protocol::plan::{Event, Snapshot};
use hookonce_protocol::timing::HANDLER_CALL_MAX;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::handlers::remote::{CallError, CallHandler, RemoteHandlers, RemoteTarget};
use hookonce_runtime::handlers::{Handler as _, HandlerError};
use serde_json::{Value, from_value, json};

use super::fault::{Answers, Side};
use super::handler::{LEDGER, Ledger};
use super::ports::Ports;
use super::world::Inner;

/// The handlers in other languages that a process can call. It may have found them slow before.
pub(super) fn handlers(ports: &Ports) -> RemoteHandlers {
    let handlers = RemoteHandlers::new(Some(Box::new(RemoteLedger(ports.clone()))), None);
    let is_slow = ports.world.lock().strikes(|config| config.remote_slow);
    if is_slow {
        let target = RemoteTarget::Lambda(LEDGER.to_owned());
        (0..CALLS_UNTIL_SLOW).for_each(|_| handlers.took(&target, HANDLER_CALL_MAX, ports.moment().now));
    }
    handlers
}

/// So many calls that take as long as a call may make a handler slow.
const CALLS_UNTIL_SLOW: usize = 2;

/// The handler as a process reaches it.
#[derive(Debug)]
struct RemoteLedger(Ports);

impl CallHandler for RemoteLedger {
    fn call<'a>(
        &'a self,
        _: &'a str,
        request: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let Self(ports) = self;
            let takes_it = |inner: &mut Inner, _| !inner.strikes(|config| config.remote_busy.unwrap_or(0));
            let edge = ports.edge("call handler", false, Side::Handler);
            if !ports.call(edge, Answers::only(false), takes_it).await {
                ports.saw("plan -> handler away");
                return Err(CallError::Away("it takes no calls".into()));
            }
            let ledger = Ledger(ports.world.clone());
            // What panics here is a process of its own.
            let answer = catch_unwind(AssertUnwindSafe(|| answer(&ledger, &request)));
            let answer = answer.map_err(|_| CallError::Crashed("it has crashed".into()))?;
            answer.map_err(|error| CallError::Crashed(error.into()))
        })
    }
}

/// What the handler answers to a request.
fn answer(ledger: &Ledger, request: &[u8]) -> serde_json::Result<Vec<u8>> {
    let parsed: Value = serde_json::from_slice(request)?;
    let event: Event = from_value(parsed["event"].clone())?;
    let shown: Snapshot = from_value(json!({ "items": parsed["items"] }))?;
    let mut answer = answer_of(ledger, &event, &shown)?;
    answer["request"] = parsed["request"].clone();
    serde_json::to_vec(&answer)
}

/// What it says of an event, once it was shown these items.
fn answer_of(ledger: &Ledger, event: &Event, shown: &Snapshot) -> serde_json::Result<Value> {
    let failed = |HandlerError { code, retryable }| Ok(json!({"error": {"code": code, "retryable": retryable}}));
    let fact = match ledger.recognise(event) {
        Ok(Some(fact)) => fact,
        Ok(None) => return Ok(json!({"ignore": true})),
        Err(error) => return failed(error),
    };
    let reads = ledger.reads(event, &fact);
    if shown.items().count() < reads.len() {
        return Ok(json!({ "fact": fact, "reads": reads }));
    }
    match ledger.plan(event, &fact, shown) {
        Ok(plan) => {
            let mut answer = serde_json::to_value(plan)?;
            answer["fact"] = fact.into();
            Ok(answer)
        }
        Err(error) => failed(error),
    }
}
