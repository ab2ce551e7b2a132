//! The destinations of a day, as their documents describe them, and what edits them.

use std::pin::Pin;

use hookonce_protocol::call::{Call, Reply, Unavailable};
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::timing::Moment;
use hookonce_runtime::destinations::{Caller, Destination, DestinationDocument};
use hookonce_runtime::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};
use serde_json::json;

use super::callee::{Answered, CalleeRates};
use super::config::Config;
use super::fault::{Answers, Side};
use super::ports::Ports;
use super::rng::Rng;
use super::world::Inner;

/// The destinations: the callee keeps keys; it must never be called twice; it must be called in the end.
pub const DESTINATIONS: [&str; 3] = ["bank", "mail", "crm"];

/// The classes, in the same order.
const CLASSES: [&str; 3] = ["keyed", "at_most_once", "at_least_once"];

/// What happens to the document of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It is gone. It comes back before the day ends.
    Gone,
    /// Somebody leaves it with a fault. It is fixed before the day ends.
    Faulty,
    /// It names another address.
    Moved,
    /// It names another class: the one with this number after its own.
    Reclassed(usize),
}

/// An edit of a document.
#[derive(Debug, Clone, Copy)]
pub struct Edit {
    /// Which of [`DESTINATIONS`].
    pub destination: usize,
    /// From when on, in milliseconds of the day.
    pub from: i64,
    /// Until when.
    pub until: i64,
    /// What is edited.
    pub edited: Edited,
}

/// What all documents of a day say.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// How long keys are kept, in hours.
    pub key_window_hours: i64,
    /// How long after its commit an effect is given up, in hours.
    pub give_up_after_hours: i64,
    /// How long one call may take, in milliseconds.
    pub timeout_ms: i64,
}

impl Conditions {
    /// Those of a calm day.
    pub const CALM: Self = Self { key_window_hours: 24, give_up_after_hours: 72, timeout_ms: 5_000 };

    /// Those of a seed.
    pub fn draw(rng: &mut Rng) -> Self {
        Self {
            key_window_hours: rng.pick(&[2, 2, 3, 24]),
            give_up_after_hours: rng.pick(&[1, 2, 6, 72]),
            timeout_ms: rng.pick(&[500, 5_000, 30_000]),
        }
    }
}

/// The text of a destination's document at this time of the day.
fn document(config: &Config, calm: bool, elapsed: i64, id: &str) -> Option<String> {
    let number = DESTINATIONS.iter().position(|known| *known == id)?;
    let active = |edit: &&Edit| edit.destination == number && (edit.from..edit.until).contains(&elapsed);
    let edited = config.edits.iter().rev().find(active).map(|edit| edit.edited);
    let mut class = number;
    let mut host = "example.com";
    match edited {
        Some(Edited::Gone) if !calm => return None,
        Some(Edited::Faulty) if !calm => return Some("{}".to_owned()),
        Some(Edited::Moved) => host = "example.org",
        Some(Edited::Reclassed(further)) => class = (number + further) % CLASSES.len(),
        Some(Edited::Gone | Edited::Faulty) | None => {}
    }
    let Conditions { key_window_hours, give_up_after_hours, timeout_ms } = config.conditions;
    let mut document = json!({
        "kind": "http", "url": format!("https://{id}.{host}/v1"), "class": CLASSES[class],
        "give_up_after_hours": give_up_after_hours, "timeout_ms": timeout_ms,
    });
    if CLASSES[class] == "keyed" {
        document["key_window_hours"] = key_window_hours.into();
        document["key_header"] = "Idempotency-Key".into();
        document["key_source_url"] = format!("https://{id}.{host}/keys").into();
    }
    Some(document.to_string())
}

/// Reads documents, as a process that has just started.
#[derive(Debug)]
pub struct Documents(pub Ports);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DocumentsUnavailable>> + Send + 'a>>;

impl DocumentSource for Documents {
    fn read<'a>(&'a self, _: DocumentKind, id: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let Self(ports) = self;
            let (wanted, elapsed) = (id.to_owned(), ports.world.elapsed());
            let effect = move |inner: &mut Inner, _: i64| Ok(document(&inner.config, inner.calm, elapsed, &wanted));
            let edge = ports.edge("read destination", false, Side::Documents);
            let text: Result<Option<String>, _> = ports.call(edge, Answers::only(Err(Unavailable)), effect).await;
            let text = text.map_err(|unavailable| DocumentsUnavailable(Box::new(unavailable)))?;
            let is_known = text.as_ref().is_some_and(|text| DestinationDocument::parse(text).is_ok());
            ports.saw(if is_known { "terms -> known" } else { "terms -> unknown" });
            Ok(text)
        })
    }

    fn create<'a>(&'a self, _: DocumentKind, _: &'a str, _: &'a str) -> Answer<'a, ()> {
        Box::pin(async { Err(DocumentsUnavailable("a dispatcher writes no document".into())) })
    }

    fn is_local(&self) -> bool {
        false
    }
}

/// Calls the third parties of the day.
#[derive(Debug)]
pub struct Outside(pub Ports);

impl Caller for Outside {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a OutboundCall,
        _: Moment,
    ) -> Pin<Box<dyn Future<Output = Called> + Send + 'a>> {
        Box::pin(async move {
            let terms = destination.terms();
            let ports = self.0.with_patience(terms.timeout);
            let call = ports.mutated(Call::Deliver(Box::new(delivery.clone())));
            let Call::Deliver(carried) = call.clone() else {
                return Called::NotDone { status: None, retry_after: None };
            };
            let sent = carried.clone();
            let effect = move |inner: &mut Inner, now: i64| {
                let callee_rates = if inner.calm { CalleeRates::default() } else { inner.config.callee_rates };
                let Inner { callees, rng, .. } = inner;
                Some(callees.receive(&sent, &terms, callee_rates, now, rng))
            };
            // Without a connection there is no call. Once it was sent, silence says nothing.
            let lost = Answered { called: Called::Unclear { status: None, retry_after: None }, number: 0 };
            let answers = Answers { lost: Some(lost), ..Answers::only(None) };
            let edge = ports.edge("call destination", true, Side::Callee);
            let mut answered = ports.call(edge, answers, effect.clone()).await;
            if answered == Some(lost) && ports.repeats_calls() {
                answered = ports.call(edge, answers, effect).await;
            }
            // Nobody was called: there was no connection, or no turn.
            let uncalled = || {
                let away = ports.world.lock().rng.chance(5_000);
                if away { Called::NotDone { status: None, retry_after: None } } else { Called::NoTime }
            };
            let called = answered.map_or_else(uncalled, |answered| answered.called);
            if let (Some(answered), Called::NotDone { .. } | Called::Refused { .. }) = (answered, called) {
                ports.world.lock().callees.heard_not_done(&carried, answered.number);
            }
            let called = ports.note_reply(&call, Reply::Called(called)).called();
            ports.freeze().await;
            called
        })
    }
}
