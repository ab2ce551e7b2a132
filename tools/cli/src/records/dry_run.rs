//! What the handlers in this build would do with a record, without doing it.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use error_reporter::Report;
use hookonce_aws::LambdaHandlers;
use hookonce_aws::{DynamoStore, LoopbackHandlers};
use hookonce_protocol::call::{HandlerPlan, Planned, Split};
use hookonce_protocol::code::Code;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::Event;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::{HANDLER_CALL_MAX, HANDLER_CALLS_MAX, Timing};
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::handlers::remote::{CallBudget, CallHandler, Calls, RemoteHandlers, RemoteTarget};
use hookonce_runtime::handlers::{Assignment, Grants, HandlerError, Handlers};
use hookonce_runtime::inbox::drive::duration;
use hookonce_runtime::inbox::memory::{MemoryPermit, MemoryPermits};
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::inbox::process::WorkerParts;
use hookonce_runtime::port::Store as _;
use hookonce_runtime::routes::{Assigned, Decision, Fit, Missing, Offered, RouteSet, Routing, assign};
use serde::Serialize;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event as Line, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::dev::handlers;
use crate::dev::own_handlers::calls_at;
use crate::documents::route_set::text_of;
use crate::failure::Failure;
use crate::stack::connection::{Connection, RunningStack};
use crate::stack::target::store_unavailable;

/// What becomes of one event of the delivery.
#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    pub(crate) key: String,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    /// The name of the route that takes it.
    pub(crate) route: Option<String>,
    /// `ignored`, a fixed code, what is missing, or the consumer.
    pub(crate) outcome: Outcome,
    /// The handler in another language that plans.
    pub(crate) handler: Option<String>,
    /// The destinations that the event is forwarded to.
    pub(crate) forward: Vec<String>,
    /// The key of the fact in the domain table. None if only such a handler can name the fact.
    pub(crate) domain_key: Option<String>,
    pub(crate) routes: Vec<ExplainedRoute>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Ignored,
    HandledFor(String),
    WaitsBecause(String),
    FailsWith(&'static str),
}

#[derive(Debug, Serialize)]
pub(crate) struct ExplainedRoute {
    pub(crate) name: String,
    fits: bool,
    /// Why it does not fit.
    pub(crate) why: Option<String>,
}

/// The handlers that a local stack has started.
fn own(running: &RunningStack) -> Result<Box<dyn CallHandler>, Failure> {
    let (url, names) = (running.lambda_url.as_deref().unwrap_or_default(), running.handlers.as_deref());
    calls_at(url, names.unwrap_or_default()).map_err(|error| {
        Failure::unavailable(Report::new(&error).to_string(), "start the stack again with `hookonce dev`")
    })
}

tokio::task_local! {
    /// The place in the body that does not fit what the handler reads, if the dry run at hand came upon one.
    static MISFIT: RefCell<Option<String>>;
}

/// The field of a line of the log that names such a place.
const FIELD: &str = "field";

/// Whether a line of the log is about the body of a dry run. It is for the person who ran it, and no news of a function.
pub(crate) fn is_of_dry_run(line: &Metadata<'_>) -> bool {
    // A line with a reason is about the answer of a handler.
    let fields = line.fields();
    fields.field(FIELD).is_some() && fields.field("why").is_none() && MISFIT.try_with(|_| ()).is_ok()
}

/// Keeps what such lines name: the runtime tells no caller, because a record holds the code alone.
pub(crate) struct KeepMisfits;

impl<S: Subscriber> Layer<S> for KeepMisfits {
    fn on_event(&self, line: &Line<'_>, _: Context<'_, S>) {
        if is_of_dry_run(line.metadata()) {
            line.record(&mut KeepMisfits);
        }
    }
}

impl Visit for KeepMisfits {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == FIELD {
            // Elsewhere, no line gets here.
            let _ = MISFIT.try_with(|misfit| misfit.replace(Some(value.to_owned())));
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// A worker that can only plan: it has no queue and no clock.
#[derive(Debug)]
pub(crate) struct DryRun {
    parts: WorkerParts<DynamoStore, (), ()>,
    routing: Routing,
}

impl DryRun {
    /// The handlers that the stack's workers have and the catalog of this build, on these tables, with the stack's route
    /// set.
    ///
    /// # Errors
    /// [`Failure`] when the stack has no route set, or one that cannot be read or is not valid.
    pub(crate) async fn of(store: DynamoStore, stack: &Connection) -> Result<Self, Failure> {
        let handlers = handlers::of(stack);
        let routing = match text_of(stack).await? {
            None => {
                let hint = "`hookonce route deploy FILE` writes one; docs/use/routes.md describes it";
                return Err(Failure::usage("the stack has no route set, so all its events wait", hint));
            }
            Some(text) => {
                let (urls, tables) = (stack.local().is_some(), store.aliases());
                let offered = Offered { handlers: &handlers.names(), urls, tables: Some(&tables) };
                Routing::Set(Arc::new(RouteSet::parse(&text, offered).map_err(|error| {
                    let hint = "events wait until it is mended: `hookonce route show` prints the set";
                    Failure::usage(format!("the stack's route set is not valid: {error}"), hint)
                })?))
            }
        };
        Ok(Self::with(store, handlers, routing))
    }

    /// The same for a stack whose route set nobody could read. It splits events, and plans nothing.
    pub(crate) fn without_routes(store: DynamoStore) -> Self {
        Self::with(store, Handlers::new(), Routing::Unknown)
    }

    fn with(store: DynamoStore, handlers: Handlers, routing: Routing) -> Self {
        let (catalog, timing) = (Catalog::built_in(), Timing::standard());
        let (remote, keys) = (RemoteHandlers::none(), MessageKeys::none());
        let parts = WorkerParts { store, queue: (), keys, ambient: (), handlers, remote, catalog, timing };
        Self { parts, routing }
    }

    /// Also calls handlers in other languages: those of the account if the target is a deployed stack, else those that
    /// the running stack has started and those on loopback. Without this, each of them counts as away.
    ///
    /// # Errors
    /// [`Failure`] when the account cannot be reached, or no stack is running.
    pub(crate) async fn calling_handlers(mut self, stack: &Connection) -> Result<Self, Failure> {
        if let Some(local) = stack.local() {
            let (own, loopback) = (own(local.running()?)?, Box::new(LoopbackHandlers::new()));
            self.parts.remote = RemoteHandlers::new(Some(own), Some(loopback));
        }
        if let Some(deployed) = stack.deployed() {
            let lambda = LambdaHandlers::new(deployed.account().await?);
            self.parts.remote = RemoteHandlers::new(Some(Box::new(lambda)), None);
        }
        Ok(self)
    }

    /// The handler in another language that plans for a record, if there is one.
    pub(crate) fn handler(&self, record: &Record) -> Option<RemoteTarget> {
        MISFIT.sync_scope(RefCell::default(), || self.parts.remote_target(record, &self.routing))
    }

    /// Which route takes a record's event, and why the others do not. `None` if its event or the set cannot be read.
    pub(crate) fn routed(&self, record: &Record) -> Option<Explained> {
        let Routing::Set(set) = &self.routing else { return None };
        let explain = || Some(explained(&self.parts.handlers, set, &self.parts.event(record)?));
        MISFIT.sync_scope(RefCell::default(), explain)
    }

    /// What a record's event waits for, because its route names it and this build lacks it.
    pub(crate) fn missing(&self, record: &Record) -> Option<Missing> {
        MISFIT.sync_scope(RefCell::default(), || self.parts.missing(record, &self.routing))
    }

    /// Whether the circuit of that handler is open, because it did not answer several calls in a row. Nobody calls it
    /// meanwhile.
    pub(crate) fn handler_is_open(&self, record: &Record) -> bool {
        self.handler(record).is_some_and(|handler| self.parts.remote.is_open(&handler, System.moment().now))
    }

    /// What a worker would do with a record, and where its body does not fit what the handler reads, by the names of the
    /// handler's fields.
    pub(crate) async fn plan(&self, record: &Record) -> (Planned, Option<String>) {
        let budget =
            CallBudget::until(Instant::now() + duration(HANDLER_CALL_MAX) * (u32::from(HANDLER_CALLS_MAX) + 1));
        let request_id = || System.claim_id().0;
        let (all, moment) = (MemoryPermits::default(), || System.moment());
        let memory = &MemoryPermit::of(&all);
        let calls = Calls { slow_move: false, budget: &budget, memory, request_id: &request_id, moment: &moment };
        let plan = async {
            let planned = self.parts.plan(record, &self.routing, calls).await;
            (planned, MISFIT.with(RefCell::take))
        };
        MISFIT.scope(RefCell::default(), Box::pin(plan)).await
    }

    /// The condition of a plan that does not hold now, so that the record would wait, or die. None also for a record that
    /// is settled, and for a fact that was applied: it makes a duplicate, whatever the conditions say.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(crate) async fn unmet(
        &self,
        record: &Record,
        plan: &HandlerPlan,
        domain_key: &str,
    ) -> Result<Option<String>, Failure> {
        let fact = ItemRef::from(domain_key);
        let writes = plan.plan.writes.iter().map(|write| (&write.condition, write.item()));
        let checks = plan.plan.checks.iter().map(|check| (&check.condition, check.item()));
        let conditions = writes.chain(checks).filter(|(condition, _)| !condition.0.is_empty());
        let items: Vec<_> = std::iter::once(fact.clone()).chain(conditions.map(|(_, item)| item)).collect();
        if record.status == Status::Processed || items.len() == 1 {
            return Ok(None);
        }
        let stored = self.parts.store.read_items(&items).await.map_err(|_| store_unavailable())?;
        let unmet = if stored.item(&fact).is_some() { None } else { plan.plan.unmet(&stored) };
        Ok(unmet.map(|error| format!("{}: {error}", Code::ConditionFailed)))
    }

    /// The events of an envelope.
    pub(crate) fn split(&self, record: &Record) -> Split {
        self.parts.split(record)
    }
}

/// A code, and what its page cannot say: where the body does not fit.
pub(crate) fn with_misfit(code: &str, misfit: Option<&str>) -> String {
    match misfit {
        None => code.to_owned(),
        Some("") => format!("{code}: the whole body does not fit"),
        Some(place) => format!("{code}: the body does not fit at {place}"),
    }
}

/// Which route takes an event, and why the others do not.
pub(crate) fn explained(handlers: &Handlers, set: &RouteSet, event: &Event) -> Explained {
    let key = |fact: &DomainKey, consumer: &str| fact.item(&event.tenant, consumer, &event.record, 0);
    let (outcome, handler, domain_key, grants) = match assign(handlers, set, Catalog::built_in(), event) {
        Ok(Assigned::Nobody) => (Outcome::Ignored, None, None, Grants::default()),
        Ok(Assigned::Missing(missing)) => {
            (Outcome::WaitsBecause(missing.what.to_string()), None, None, Grants::default())
        }
        Err(HandlerError { code, .. }) => (Outcome::FailsWith(code), None, None, Grants::default()),
        Ok(Assigned::Builtin(recognised)) => {
            let key = key(&recognised.domain_key, &recognised.consumer);
            (Outcome::HandledFor(recognised.consumer.into_owned()), None, Some(key), recognised.grants)
        }
        Ok(Assigned::Remote(handling)) => {
            let key = handling.fact.as_ref().map(|fact| key(fact, &handling.consumer));
            (Outcome::HandledFor(handling.consumer), Some(handling.target.to_string()), key, handling.grants)
        }
        Ok(Assigned::Forward(Assignment { consumer, domain_key, grants })) => {
            let key = key(&domain_key, &consumer);
            (Outcome::HandledFor(consumer), None, Some(key), grants)
        }
    };
    let fits = set.explain(event);
    let taken = match set.decide(event) {
        Decision::Otherwise(_) | Decision::Unreadable => None,
        Decision::Ignore | Decision::Handle(_) => fits.iter().find(|(_, fit)| *fit == Fit::Fits),
    };
    Explained {
        key: event.key.clone(),
        event_type: event.event_type.clone(),
        route: taken.map(|(name, _)| (*name).to_owned()),
        outcome,
        handler,
        forward: grants.forward.iter().map(ToString::to_string).collect(),
        domain_key,
        routes: fits.into_iter().map(|(name, fit)| explained_route(name, fit, event)).collect(),
    }
}

fn explained_route(name: &str, fit: Fit, event: &Event) -> ExplainedRoute {
    let why = match fit {
        Fit::Fits => None,
        Fit::Endpoint => Some(format!("is not for the endpoint {}", event.endpoint)),
        Fit::EventType => Some(format!("is not for the type {}", event.event_type)),
        Fit::When(field) => Some(format!("when.{field} does not fit")),
        Fit::Unreadable => Some("asks about the body, which cannot be read (EVENT_UNREADABLE)".to_owned()),
    };
    ExplainedRoute { name: name.to_owned(), fits: why.is_none(), why }
}
