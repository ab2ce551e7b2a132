//! The worker function: takes an SQS batch and returns the failed messages.
//!
//! It parses each message on its own, so one foreign message fails alone. It always returns the failures that it
//! computed: an empty list would acknowledge everything.
//!
//! A project with handlers of its own builds its own worker from this crate: it implements [`handler::Handler`] and
//! passes its handlers to `run`. What a handler is written with is here, too: [`plan`], [`key`], [`item`],
//! [`mod@write`], [`place`] for tables of your own, and [`effect`].
//!
//! ```
//! use hookonce_worker::effect::Effect;
//! use hookonce_worker::handler::{Handler, HandlerError};
//! use hookonce_worker::key::DomainKey;
//! use hookonce_worker::place::{ItemRef, TableAlias};
//! use hookonce_worker::plan::{DomainWrite, Event, Plan, Snapshot};
//! use hookonce_worker::write::Change;
//!
//! /// Counts what is taken from the stock of an article, in a table of its own, and tells the shop when it is empty.
//! #[derive(Debug)]
//! struct Stock {
//!     table: TableAlias,
//! }
//!
//! impl Handler for Stock {
//!     type Fact = String;
//!
//!     fn name(&self) -> &'static str {
//!         "stock"
//!     }
//!
//!     fn recognise(&self, event: &Event) -> Result<Option<String>, HandlerError> {
//!         Ok(String::from_utf8(event.body.clone()).ok())
//!     }
//!
//!     fn domain_key(&self, article: &String) -> DomainKey {
//!         DomainKey::of([article])
//!     }
//!
//!     fn reads(&self, _: &Event, article: &String) -> Vec<ItemRef> {
//!         vec![ItemRef::own(self.table, [("article", article.as_str().into())])]
//!     }
//!
//!     fn plan(&self, event: &Event, article: &String, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
//!         let Some(item) = self.reads(event, article).pop() else { return Ok(Plan::default()) };
//!         let left = snapshot.number(&item, "left") - 1;
//!         let empty = (left == 0).then(|| Effect::json("empty", "shop", article)).transpose()?;
//!         let write = DomainWrite::update(item, vec![Change::Set("left".into(), left.into())]);
//!         Ok(Plan::default().with(write.as_seen(snapshot, "left")).with_effect(empty))
//!     }
//! }
//! ```

mod start;

use hookonce_protocol::call::Signal;
use hookonce_protocol::record::Outcome;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::worker::{Done, Settled};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::inbox::batch::{Batch, BatchResponse};
use hookonce_runtime::inbox::process::{Received, WorkerParts, respond};
use hookonce_runtime::port::{Queue, Store};
use hookonce_runtime::routes::{FetchOutcome, Routes};
use hookonce_runtime::telemetry::{Counts, Telemetry};

pub use hookonce_protocol::{effect, item, key, place, plan, write};
pub use hookonce_runtime::handlers as handler;
pub use {lambda_runtime::Error, start::run};

/// The worker function.
#[derive(Debug)]
pub struct WorkerFunction<S, Q, A> {
    parts: WorkerParts<S, Q, A>,
    routes: Routes,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, A: Ambient> WorkerFunction<S, Q, A> {
    /// Creates the function from its parts.
    pub fn new(parts: WorkerParts<S, Q, A>, routes: Routes, telemetry: Telemetry) -> Self {
        Self { parts, routes, telemetry }
    }

    /// Processes a batch, and ends before the deadline, when Lambda would end the process.
    pub async fn handle(&self, batch: Batch, deadline: EpochMs) -> BatchResponse {
        let current = self.routes.current(self.parts.ambient.moment()).await;
        let now = || self.parts.ambient.moment().now;
        let on_signal = |signal: &Signal| self.telemetry.record(signal, now());
        let processed = self.parts.process(&Received::each(&batch), &current.routing, deadline, &on_signal).await;
        let mut counts = Counts::default();
        if current.refused {
            counts.add("routes_refused", 1);
        }
        if current.fetch == FetchOutcome::Unanswered {
            counts.add("routes_unavailable", 1);
        }
        let (response, by_endpoint) =
            respond(batch, processed, self.parts.keys.known().as_ref(), |settled| Some(metric(settled)));
        for counts in std::iter::once(&counts).chain(&by_endpoint) {
            self.telemetry.emit(counts, now());
        }
        response
    }
}

fn metric(settled: &Settled) -> &'static str {
    match settled {
        Settled::Ack(Done::Settled(Outcome::Applied)) => "event_applied",
        Settled::Ack(Done::Settled(Outcome::Duplicate)) => "event_duplicate",
        Settled::Ack(Done::Settled(Outcome::Ignored)) => "event_ignored",
        Settled::Ack(Done::Settled(Outcome::FannedOut)) => "envelope_fanned_out",
        Settled::Ack(Done::Settled(Outcome::Delivered)) => "effect_delivered",
        Settled::Ack(Done::Moved) => "event_moved",
        Settled::Ack(Done::Deferred) => "event_deferred",
        Settled::Ack(Done::Elsewhere | Done::Absent | Done::Dead) => "message_acknowledged",
        Settled::Retry(_) => "event_retried",
    }
}
