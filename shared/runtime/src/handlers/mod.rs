//! Business rules.
//!
//! A [`Handler`] is pure: the same event and the same snapshot give the same plan. It calls nothing. The runtime reads
//! the items that it asks for, and commits its plan in one transaction with the record and the domain key.

pub mod remote;
pub(crate) mod snapshot;
pub mod tables;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use hookonce_protocol::call::Failure;
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::{DestinationId, EffectError};
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use serde::de::DeserializeOwned;

use crate::documents::strict::{self, ShowNames};

/// The most domain items that a handler may ask for.
pub const READS_MAX: usize = 100;

/// A business rule for some events.
///
/// A handler reads an event once per attempt into its `Fact`; the other methods work on the fact. It never names a
/// tenant: the protocol adds the tenant to the stored domain key, and [`Event::item_key`] and [`Event::once`] add it to
/// the keys of items. By default an endpoint is a tenant, so the same fact at two endpoints is applied at both.
///
/// ```
#[doc = include_str!("../../doc/handler.rs")]
/// ```
pub trait Handler: Send + Sync + fmt::Debug + 'static {
    /// What the handler reads from an event.
    type Fact: Send;

    /// The handler's name. It is the consumer in its domain keys, so it must never change.
    fn name(&self) -> &'static str;

    /// Reads an event. Returns `None` if the handler does not want it; then the next handler is asked.
    ///
    /// An authentic delivery that cannot be read comes as an event of type `unreadable`, with its raw body.
    ///
    /// # Errors
    /// [`HandlerError`] when the handler wants the event but cannot read it.
    fn recognise(&self, event: &Event) -> Result<Option<Self::Fact>, HandlerError>;

    /// Names the business fact, not the delivery: providers report one fact under several delivery ids.
    fn domain_key(&self, fact: &Self::Fact) -> DomainKey;

    /// The items that the handler needs to see. None by default.
    fn reads(&self, event: &Event, fact: &Self::Fact) -> Vec<ItemRef> {
        let _ = (event, fact);
        Vec::new()
    }

    /// Plans the changes, given the items that the handler asked for.
    ///
    /// # Errors
    /// [`HandlerError`] when the event cannot be applied, now or ever.
    fn plan(&self, event: &Event, fact: &Self::Fact, snapshot: &Snapshot) -> Result<Plan, HandlerError>;
}

/// Parses the event's JSON body. A type with derived fields refuses a body in which one of them stands twice; a
/// `serde_json::Value` takes the last one without a word. The log names the field that does not fit, by the names of the
/// type's own fields.
///
/// # Errors
/// A permanent [`HandlerError`] with this code if the body does not fit, because no retry can help.
pub fn read<T: DeserializeOwned>(event: &Event, code: &'static str) -> Result<T, HandlerError> {
    serde_json::from_slice(&event.body).map_err(|_| {
        let field = misfit::<T>(&event.body);
        tracing::warn!(record.key = %event.record, code, field, "the body does not fit what the handler reads");
        HandlerError::permanent(code)
    })
}

/// The field of a body that does not fit a type. Serde's own error holds values; this has the names of the type's fields,
/// positions, and `*` for any other name. Empty for the whole body.
fn misfit<T: DeserializeOwned>(body: &[u8]) -> String {
    strict::read::<T>(body, ShowNames::Known).err().map_or_else(String::new, |error| error.place)
}

/// Why a handler failed. Logs, metrics and the record show the code, so it must never contain a byte of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler failed: {code}")]
pub struct HandlerError {
    /// A fixed code in upper case.
    pub code: &'static str,
    /// Whether another attempt can succeed.
    pub retryable: bool,
}

impl HandlerError {
    /// An error that another attempt can resolve.
    pub const fn retryable(code: &'static str) -> Self {
        Self { code, retryable: true }
    }

    /// An error that no attempt can resolve.
    pub const fn permanent(code: &'static str) -> Self {
        Self { code, retryable: false }
    }
}

impl From<HandlerError> for Failure {
    fn from(error: HandlerError) -> Self {
        Self { code: error.code.to_owned(), retryable: error.retryable }
    }
}

/// An effect that cannot be built is as wrong as one that the worker refuses.
impl From<EffectError> for HandlerError {
    fn from(_: EffectError) -> Self {
        Self::permanent(Code::PlanRefused.as_str())
    }
}

/// What the plan for an event may use beside the domain table, and where the event itself goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// The user tables that a route lists. `None` without a route: all that the worker has, since whoever
    /// configured them also chose the handlers of this build.
    pub tables: Option<Vec<TableAlias>>,
    /// The destinations that a route lists, in either list. None without a route.
    pub destinations: BTreeSet<DestinationId>,
    /// The destinations that get the event itself, in the order of the route.
    pub forward: Vec<DestinationId>,
}

/// Who remembers which fact, and what the plan may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Who remembers the fact: the name that a route gives, else the handler's.
    pub consumer: String,
    /// The business fact.
    pub domain_key: DomainKey,
    /// What the plan may use.
    pub grants: Grants,
}

/// All handlers of a worker. The first one that wants an event gets it.
#[derive(Debug, Default)]
pub struct Handlers(Vec<Box<dyn Recognise>>);

impl Handlers {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler at the end.
    #[must_use]
    pub fn with(mut self, handler: impl Handler) -> Self {
        self.0.push(Box::new(handler));
        self
    }

    /// Asks the handlers in order until one wants the event.
    ///
    /// # Errors
    /// [`HandlerError`] of the first handler that wants the event but cannot read it.
    pub fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError> {
        self.0.iter().find_map(|handler| handler.recognise(event).transpose()).transpose()
    }

    /// Asks the handler of this name alone.
    ///
    /// # Errors
    /// [`HandlerError`] when it wants the event but cannot read it.
    pub fn recognise_by<'a>(&'a self, name: &str, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError> {
        self.0.iter().find(|handler| handler.name() == name).map_or(Ok(None), |handler| handler.recognise(event))
    }

    /// Whether there is no handler.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the handlers, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|handler| handler.name()).collect()
    }
}

type PlanStep<'a> = Box<dyn FnOnce(&Snapshot) -> Result<Plan, HandlerError> + Send + 'a>;

/// A handler's answer about an event that it wants: plain data, and one last step from a snapshot to a plan. Both are
/// data in and data out, so a handler in another language can answer over the wire.
pub struct Recognised<'a> {
    /// Who remembers the fact: the handler's name, unless a route gives another.
    pub consumer: Cow<'a, str>,
    /// The business fact.
    pub domain_key: DomainKey,
    /// The items that the handler needs to see.
    pub reads: Vec<ItemRef>,
    /// What its plan may use.
    pub grants: Grants,
    plan: PlanStep<'a>,
}

impl Recognised<'_> {
    /// The same for another consumer, and under another name of the fact if one is given.
    #[must_use]
    pub fn for_consumer(self, consumer: &str, domain_key: Option<DomainKey>) -> Self {
        let domain_key = domain_key.unwrap_or(self.domain_key);
        Self { consumer: Cow::Owned(consumer.to_owned()), domain_key, ..self }
    }

    /// The same with what a route lets its plan use.
    #[must_use]
    pub fn with_grants(self, grants: &Grants) -> Self {
        Self { grants: grants.clone(), ..self }
    }

    /// Who remembers which fact, and what the plan may use.
    pub fn assignment(&self) -> Assignment {
        let (consumer, domain_key) = (self.consumer.clone().into_owned(), self.domain_key.clone());
        Assignment { consumer, domain_key, grants: self.grants.clone() }
    }

    /// Plans the changes, given these items.
    ///
    /// # Errors
    /// [`HandlerError`] when the event cannot be applied, now or ever.
    pub fn plan(self, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        (self.plan)(snapshot)
    }
}

impl fmt::Debug for Recognised<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumer, domain_key, reads, grants, plan: _ } = self;
        let mut shown = formatter.debug_struct("Recognised");
        shown.field("consumer", consumer).field("domain_key", domain_key).field("reads", reads).field("grants", grants);
        shown.finish_non_exhaustive()
    }
}

/// A handler without its `Fact` type, so that handlers of different facts fit in one list.
trait Recognise: Send + Sync + fmt::Debug {
    fn name(&self) -> &'static str;

    fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError>;
}

impl<H: Handler> Recognise for H {
    fn name(&self) -> &'static str {
        Handler::name(self)
    }

    fn recognise<'a>(&'a self, event: &'a Event) -> Result<Option<Recognised<'a>>, HandlerError> {
        let fact = Handler::recognise(self, event)?;
        Ok(fact.map(|fact| Recognised {
            consumer: Cow::Borrowed(Handler::name(self)),
            domain_key: self.domain_key(&fact),
            reads: self.reads(event, &fact),
            grants: Grants::default(),
            plan: Box::new(move |snapshot| self.plan(event, &fact, snapshot)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Invoice {
        lines: Vec<Line>,
        labels: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Line {
        amount: i64,
    }

    #[test]
    fn a_message_about_a_body_that_does_not_fit_names_fields_of_the_type_and_nothing_of_the_event() {
        for (body, field) in [
            (r#"{"labels": {}}"#, "lines"),
            (r#"{"lines": [{"amount": 1}, {}], "labels": {}}"#, "lines[1].amount"),
            (r#"{"lines": [{"amount": "hush"}], "labels": {}}"#, "lines[0].amount"),
            (r#"{"lines": [], "labels": {"hush": 1}}"#, "labels.*"),
            ("hush", ""),
        ] {
            assert_eq!(misfit::<Invoice>(body.as_bytes()), field, "{body}");
        }
    }
}
