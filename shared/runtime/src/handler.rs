//! Business rules.
//!
//! A [`Handler`] is pure: the same event and the same snapshot give the same plan. It never calls anything; the
//! runtime reads what it asks for and commits what it plans, in one transaction with the record and the domain key.

use std::fmt;

use hookonce_protocol::key::{DomainKey, ItemKey};
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use serde::de::DeserializeOwned;

/// A business rule for some events.
///
/// It recognises an event once for each attempt; what it has read then is its `Fact`, and all that follows works on that.
/// It never names an endpoint: the protocol puts it into the stored domain key, and [`Event::item_key`] and
/// [`Event::once`] put it into the keys of items. An endpoint is a tenant, so the same fact at two endpoints is applied
/// at both.
///
/// ```
#[doc = include_str!("../doc/handler.rs")]
/// ```
pub trait Handler: Send + Sync + fmt::Debug + 'static {
    /// What it reads out of an event that it wants.
    type Fact: Send;

    /// Its name: part of its domain keys, so it must never change.
    fn name(&self) -> &'static str;

    /// Reads an event. `None` when it does not want it; the next handler is asked then.
    ///
    /// # Errors
    /// [`HandlerError`] when it wants the event and cannot read it.
    fn recognise(&self, event: &Event) -> Result<Option<Self::Fact>, HandlerError>;

    /// Names the business fact, never the delivery: providers report one fact under several delivery ids.
    fn domain_key(&self, fact: &Self::Fact) -> DomainKey;

    /// The domain items that it needs to see. None by default.
    fn reads(&self, event: &Event, fact: &Self::Fact) -> Vec<ItemKey> {
        let _ = (event, fact);
        Vec::new()
    }

    /// What the event changes, given what it asked to see.
    ///
    /// # Errors
    /// [`HandlerError`] when it cannot be applied, now or ever.
    fn plan(&self, event: &Event, fact: &Self::Fact, snapshot: &Snapshot) -> Result<Plan, HandlerError>;
}

/// The event's JSON body in a handler's own words.
///
/// # Errors
/// A permanent [`HandlerError`] with this code: a body that does not fit never will.
pub fn read<T: DeserializeOwned>(event: &Event, code: &'static str) -> Result<T, HandlerError> {
    serde_json::from_slice(&event.body).map_err(|_| HandlerError::permanent(code))
}

/// Why a handler could not plan. The code goes into logs, metrics and the record: never put a byte of the event in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler failed: {code}")]
pub struct HandlerError {
    /// A fixed code in upper case.
    pub code: &'static str,
    /// Whether another attempt can succeed.
    pub retryable: bool,
}

impl HandlerError {
    /// Another attempt can succeed.
    pub const fn retryable(code: &'static str) -> Self {
        Self { code, retryable: true }
    }

    /// No attempt can succeed.
    pub const fn permanent(code: &'static str) -> Self {
        Self { code, retryable: false }
    }
}

/// All handlers of a worker. The first one that wants an event gets it.
#[derive(Debug, Default)]
pub struct Handlers(Vec<Box<dyn Recognise>>);

impl Handlers {
    /// No handler yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler behind those that are there.
    #[must_use]
    pub fn with(mut self, handler: impl Handler) -> Self {
        self.0.push(Box::new(handler));
        self
    }

    /// Asks one handler after the other.
    ///
    /// # Errors
    /// [`HandlerError`] of the first handler that wants the event, when it cannot read it.
    pub fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError> {
        self.0.iter().find_map(|handler| handler.recognise(event).transpose()).transpose()
    }
}

type PlanStep<'a> = Box<dyn FnOnce(&Snapshot) -> Result<Plan, HandlerError> + Send + 'a>;

/// What a handler says about an event that it wants. But for the step that is left, it is plain data, and that step maps
/// data to data: another language can answer both over the wire.
pub struct Recognised<'a> {
    /// The handler's name.
    pub handler: &'static str,
    /// The business fact.
    pub domain_key: DomainKey,
    /// The domain items that the handler needs to see.
    pub reads: Vec<ItemKey>,
    plan: PlanStep<'a>,
}

impl Recognised<'_> {
    /// What the event changes, given these items.
    ///
    /// # Errors
    /// [`HandlerError`] when it cannot be applied, now or ever.
    pub fn plan(self, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        (self.plan)(snapshot)
    }
}

impl fmt::Debug for Recognised<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler, domain_key, reads, plan: _ } = self;
        let mut shown = formatter.debug_struct("Recognised");
        shown.field("handler", handler).field("domain_key", domain_key).field("reads", reads).finish_non_exhaustive()
    }
}

/// A handler of whatever facts, so that handlers of different facts stand in one list.
trait Recognise: Send + Sync + fmt::Debug {
    fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError>;
}

impl<H: Handler> Recognise for H {
    fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError> {
        let fact = Handler::recognise(self, event)?;
        Ok(fact.map(|fact| Recognised {
            handler: self.name(),
            domain_key: self.domain_key(&fact),
            reads: self.reads(event, &fact),
            plan: Box::new(move |snapshot| self.plan(event, &fact, snapshot)),
        }))
    }
}
