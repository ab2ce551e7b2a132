//! `hookonce destination test`: one call, and what its answer means.
//!
//! The call is made as the dispatcher makes it, with a key of its own, and nothing repeats it. By default it is a POST
//! of a small payload that means nothing to most callees, so a refusal shows that address, TLS and credential are
//! right; a queue stores it, and a function runs with it. It comes from this machine: whether the functions can reach a
//! private address is not shown, and neither is what the dispatcher's role may do.

use std::path::PathBuf;

use clap::Args;
use error_reporter::Report;
use hookonce_aws::AccountCaller;
use hookonce_protocol::destination::{Called, Class, OutboundCall};
use hookonce_protocol::effect::{DestinationId, Method};
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::timing::Moment;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::destinations::{
    Attempt, AttemptError, CalleeAnswer, Destination, DestinationKind, HttpCaller, Target,
};
use hookonce_runtime::inbox::body;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::endpoint::word;
use super::advice::{advice, permission};
use crate::documents::destinations::shown_address;
use crate::documents::{DocumentId as _, parse_id};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::target::Place;

/// The methods that an effect can have.
const METHODS: [Method; 4] = [Method::Post, Method::Put, Method::Patch, Method::Delete];

/// What is sent without `--file`: as JSON, and as a form.
const PROBE: &str = r#"{"hookonce":"test"}"#;
const PROBE_FORM: &str = "hookonce=test";
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Destination id.
    id: String,
    /// Payload to send. Without it, `{"hookonce":"test"}` is sent.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Method.
    #[arg(long, default_value = "POST", value_parser = word(&METHODS, Method::as_str))]
    method: Method,
    /// What follows the address, such as /v1/ping.
    #[arg(long, value_name = "PATH", default_value = "")]
    path: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id: DestinationId = parse_id(&arguments.id)?;
    let stack = arguments.place.connect();
    let stored = stack.documents::<DestinationId>().await?.find(&id).await?;
    let document = stored.document(&id)?;
    let destination = id.check(&document)?;
    let delivery = delivery(&id, &destination, &arguments)?;
    let call = describe_call(&destination, delivery.method);
    // The dispatcher on this machine leaves queues and functions alone.
    let may_leave = destination.http().is_some() || arguments.place.deployed().is_some();
    if may_leave && !arguments.yes {
        output::note(&format!("this makes one real {call}, which may have an effect there"));
        output::confirm("Send it?", "pass --yes to send it")?;
    }
    let caller = Caller::of(&stack).await?;
    let started = System.moment();
    let attempt = caller.attempt(&destination, &delivery, started).await;
    let duration_ms = System.moment().now.0.saturating_sub(started.now.0).max(0);
    let then = then(destination.terms().class, attempt.called);
    if arguments.json {
        let (answer, host) = (attempt.answer.as_ref().ok(), destination.http().map(|target| target.authority.host()));
        output::json(&json!({
            "destination": id, "kind": document.kind, "method": delivery.method.as_str(), "host": host,
            "address": shown_address(&document), "key": delivery.idempotency_key,
            "status": answer.map(|answer| answer.status), "code": answer.map(|answer| &answer.code),
            "message": answer.map(|answer| &answer.message), "answer_id": answer.map(|answer| &answer.id),
            "trouble": attempt.answer.as_ref().err().map(AttemptError::word), "sent": attempt.sent,
            "outcome": word_of(attempt.called), "then": then, "permission": permission(document.kind),
            "duration_ms": duration_ms,
        }));
    } else {
        let call = format!("{call}, key {}", delivery.idempotency_key);
        print(&call, &attempt, then, duration_ms);
        explain(&id, document.kind, &attempt, arguments.file.is_none());
    }
    Ok(if matches!(attempt.called, Called::Done { .. }) { Exit::Done } else { Exit::No })
}

/// The same code as the dispatcher of a place, with the credentials of whoever runs the command.
enum Caller {
    /// That of the stack on this machine.
    Laptop(HttpCaller),
    Account(Box<AccountCaller>),
}

impl Caller {
    async fn of(stack: &Connection) -> Result<Self, Failure> {
        if let Some(deployed) = stack.deployed() {
            return Ok(Self::Account(Box::new(AccountCaller::new(deployed.account().await?))));
        }
        Ok(Self::Laptop(HttpCaller::on_loopback()))
    }

    async fn attempt(&self, destination: &Destination, delivery: &OutboundCall, started: Moment) -> Attempt {
        match self {
            Self::Laptop(caller) => caller.attempt(destination, delivery, started).await,
            Self::Account(caller) => Box::pin(caller.attempt(destination, delivery, started)).await,
        }
    }
}

/// The call, for a person.
fn describe_call(destination: &Destination, method: Method) -> String {
    match &destination.target {
        Target::Http(target) => format!("{} to {}", method.as_str(), target.authority.host()),
        Target::Queue(queue) => format!("hand-over to the queue {}", queue.url),
        Target::Function(name) => format!("asynchronous call of the function {name}"),
    }
}

fn delivery(id: &DestinationId, destination: &Destination, arguments: &Arguments) -> Result<OutboundCall, Failure> {
    let content_type = destination.http().and_then(|target| target.content_type.as_ref());
    let is_form = content_type.is_some_and(|content_type| content_type == FORM);
    let payload = match &arguments.file {
        Some(file) => std::fs::read(file)
            .map_err(|error| Failure::usage(format!("reading {} failed: {error}", file.display()), "check the path"))?,
        None if is_form => PROBE_FORM.into(),
        None => PROBE.into(),
    };
    let is_json = serde_json::from_slice::<Value>(&payload).is_ok();
    let key = Uuid::new_v4().to_string();
    let endpoint = EndpointId::parse("hookonce-test").map_err(|error| Failure::usage(error.to_string(), ""))?;
    Ok(OutboundCall {
        effect: RecordKey::delivery(&endpoint, &key),
        event: RecordKey::delivery(&endpoint, &key),
        destination: id.clone(),
        idempotency_key: key,
        method: arguments.method,
        path: arguments.path.clone(),
        content_type: if is_json { "application/json" } else { "application/octet-stream" }.to_owned(),
        body: body::compress(&payload).map_err(|error| Failure::usage(error.to_string(), "send a smaller payload"))?,
        hops: 0,
    })
}

/// How a call ended, in the words of the documentation.
fn word_of(called: Called) -> &'static str {
    match called {
        Called::Done { .. } => "done",
        Called::AlreadyDone { .. } => "already_done",
        Called::NotDone { .. } | Called::NoTime => "not_done",
        Called::Refused { .. } => "refused",
        Called::Unknown { .. } | Called::Unclear { .. } => "unclear",
    }
}

/// What becomes of an effect whose first call ends so.
fn then(class: Class, called: Called) -> &'static str {
    match (called, class) {
        (Called::Done { .. }, _) => "the effect is DELIVERED",
        (Called::NotDone { .. } | Called::NoTime, _) => "the effect is called again later, and no attempt is counted",
        (Called::Refused { .. }, _) => "the effect is DEAD as REFUSED",
        // Nobody has called with this key before.
        (Called::AlreadyDone { .. } | Called::Unknown { .. }, _) | (Called::Unclear { .. }, Class::AtMostOnce) => {
            "the effect is DEAD as UNKNOWN_OUTCOME"
        }
        (Called::Unclear { .. }, Class::Keyed { .. }) => {
            "the effect is called again with the same key, within its window"
        }
        (Called::Unclear { .. }, Class::AtLeastOnce) => "the effect is called again with the same key",
    }
}

fn print(call: &str, attempt: &Attempt, then: &str, duration_ms: i64) {
    let mut table = output::table(&[]);
    table.add_row(["call", call]);
    let answer = match &attempt.answer {
        Ok(CalleeAnswer { status, code, id, .. }) => {
            let code = code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
            let id = id.as_ref().map(|id| format!(", id {id}")).unwrap_or_default();
            format!("{status}{code} after {duration_ms}ms{id}")
        }
        Err(trouble) => format!("none: {}", Report::new(trouble)),
    };
    table.add_row(["answer", &answer]);
    if let Ok(CalleeAnswer { message: Some(message), .. }) = &attempt.answer {
        table.add_row(["message", message]);
    }
    let left = if attempt.sent { "" } else { "; nothing has left this machine" };
    table.add_row(["means", &format!("{}{left}", word_of(attempt.called).replace('_', " "))]);
    table.add_row(["then", then]);
    output::print(&table);
}

fn explain(id: &DestinationId, kind: DestinationKind, attempt: &Attempt, is_probe: bool) {
    if let Some(advice) = advice(id, kind, &attempt.answer, is_probe) {
        output::note(&format!("  try: {advice}"));
    }
    if let Some(permission) = permission(kind).filter(|_| attempt.sent) {
        output::note(&format!(
            "  this call had your own credentials. The dispatcher has a role of its own: for the same call, the managed policy \
             in the stack's parameter DestinationPolicyArn must allow it {permission}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::call::{Call, Machine as _, Next, Reply, Written};
    use hookonce_protocol::destination::{Offer, Terms};
    use hookonce_protocol::dispatcher::Dispatcher;
    use hookonce_protocol::item::{Value, fields};
    use hookonce_protocol::key::ClaimId;
    use hookonce_protocol::message::Message;
    use hookonce_protocol::purpose::Purpose;
    use hookonce_protocol::record::{Found, Record};
    use hookonce_protocol::time::{EpochMs, Millis};
    use hookonce_protocol::timing::Timing;

    use super::*;

    const NOW: Moment = Moment { now: EpochMs(1_767_225_600_000), entropy: 0 };

    /// An effect that nobody has called.
    fn effect() -> Record {
        let event = RecordKey::delivery(&EndpointId::parse("shop").unwrap(), "evt_1");
        let key = RecordKey::effect(&event, &ClaimId("claim".to_owned()), 0, "receipt");
        let item = fields([
            ("pk", key.as_str().into()),
            ("schema_version", 1.into()),
            ("status", "PENDING".into()),
            ("claim_id", "claim".into()),
            ("generation", 0.into()),
            ("provider", "stripe".into()),
            ("event_type", "invoice.paid".into()),
            ("body", Value::Bytes(vec![1])),
            ("body_sha256", Value::Bytes(vec![0; 32])),
            ("headers", Value::Map([].into())),
            ("secret_index", 0.into()),
            ("received_at", NOW.now.0.into()),
            ("due_shard", "effect_due#0".into()),
            ("due_at", NOW.now.0.into()),
            ("attempts", 0.into()),
            ("resends", 0.into()),
            ("parent", event.as_str().into()),
            ("effect", "receipt".into()),
            ("destination", "receipts".into()),
            ("method", "POST".into()),
            ("path", "".into()),
            ("content_type", "application/json".into()),
        ]);
        Record::decode(&item).unwrap()
    }

    /// What the dispatcher writes after a first call that ends so, and the effect as that leaves it.
    fn written(class: Class, called: Called) -> (Purpose, Record) {
        let (callee, timeout, give_up_after) = ("callee".to_owned(), Millis::seconds(5), Millis::hours(72));
        let terms = Terms { class, callee, timeout, give_up_after };
        let mut effect = effect();
        let hint = Ok(Message::Ref { pk: effect.key.clone() });
        let mut next = Dispatcher::start(hint, 1, "pass".to_owned(), Timing::standard(), NOW).next;
        loop {
            let Next::Call(machine, call) = next else { panic!("it writes how the call ended") };
            let reply = match call {
                Call::Read(_) => Reply::Read(Ok(Found::Record(Box::new(effect.clone())))),
                Call::Terms(_) => Reply::Terms(Ok(Some(Offer { terms: terms.clone(), turn: Ok(()) }))),
                Call::Deliver(_) => Reply::Called(called),
                Call::Write(write) => {
                    effect = Record::decode(&write.apply(Some(&effect.encode())).unwrap().unwrap()).unwrap();
                    if write.purpose != Purpose::GuardCall {
                        return (write.purpose, effect);
                    }
                    Reply::Written(Written::Applied)
                }
                other => panic!("{other:?}"),
            };
            next = machine.step(reply, NOW).next;
        }
    }

    #[test]
    fn what_becomes_of_an_effect_is_what_the_dispatcher_does() {
        let window = Millis::hours(24);
        for class in [Class::Keyed { window }, Class::AtMostOnce, Class::AtLeastOnce] {
            for called in [
                Called::Done { status: Some(200) },
                Called::AlreadyDone { status: 409 },
                Called::NotDone { status: None, retry_after: None },
                Called::Refused { status: Some(400) },
                Called::Unknown { status: 302 },
                Called::Unclear { status: None, retry_after: None },
            ] {
                let (purpose, after) = written(class, called);
                let does = match (purpose, after.dead_reason) {
                    (Purpose::SettleEffect, None) => "DELIVERED".to_owned(),
                    (Purpose::RearmEffect, None) => "no attempt is counted".to_owned(),
                    (Purpose::DieOfCall, Some(reason)) => format!("DEAD as {reason}"),
                    (Purpose::FailEffect, None) => "called again with the same key".to_owned(),
                    (purpose, reason) => panic!("{purpose}, {reason:?}"),
                };
                let printed = then(class, called);
                assert!(printed.contains(&does), "{class:?}, {called:?}: it says {printed:?}, and does {does:?}");
                let within = matches!((class, called), (Class::Keyed { .. }, Called::Unclear { .. }));
                assert_eq!(printed.contains("within its window"), within, "{class:?}, {called:?}");
            }
        }
    }
}
