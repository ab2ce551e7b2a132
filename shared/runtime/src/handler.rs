//! Business rules.
//!
//! A [`Handler`] is pure: the same event and the same snapshot give the same plan. It never calls anything; the
//! runtime reads what it asks for and commits what it plans, in one transaction with the record and the domain key.

use std::fmt;

use hookonce_protocol::plan::{Event, Plan, Snapshot};

/// A business rule for some events.
///
/// ```
/// use hookonce_protocol::item::{Item, Value};
/// use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
/// use hookonce_runtime::handler::{Handler, HandlerError};
///
/// /// Remembers each signed contract once.
/// #[derive(Debug)]
/// struct Contracts;
///
/// impl Handler for Contracts {
///     fn name(&self) -> &'static str {
///         "contracts"
///     }
///
///     fn handles(&self, event: &Event) -> bool {
///         event.provider == "docusign" && event.event_type == "envelope-completed"
///     }
///
///     fn domain_key(&self, event: &Event) -> Result<String, HandlerError> {
///         let body: serde_json::Value =
///             serde_json::from_slice(&event.body).map_err(|_| HandlerError::permanent("CONTRACT_NOT_JSON"))?;
///         let envelope = body["data"]["envelopeId"].as_str().ok_or(HandlerError::permanent("CONTRACT_WITHOUT_ID"))?;
///         Ok(format!("signed#{envelope}"))
///     }
///
///     fn plan(&self, event: &Event, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
///         let item = Item::from([("signed_at".to_owned(), Value::from(event.received_at.0))]);
///         Ok(Plan::default().with(DomainWrite::create(format!("contract#{}", self.domain_key(event)?), item)))
///     }
/// }
/// ```
pub trait Handler: Send + Sync + fmt::Debug + 'static {
    /// Its name: part of its domain keys, so it must never change.
    fn name(&self) -> &'static str;

    /// Whether it wants this event.
    fn handles(&self, event: &Event) -> bool;

    /// Names the business fact, never the delivery: providers report one fact under several delivery ids.
    ///
    /// # Errors
    /// [`HandlerError`] when the event does not name its fact.
    fn domain_key(&self, event: &Event) -> Result<String, HandlerError>;

    /// The domain items that it needs to see. None by default.
    ///
    /// # Errors
    /// [`HandlerError`] when the event does not say which.
    fn reads(&self, event: &Event) -> Result<Vec<String>, HandlerError> {
        let _ = event;
        Ok(Vec::new())
    }

    /// What the event changes, given what it asked to see.
    ///
    /// # Errors
    /// [`HandlerError`] when it cannot be applied, now or ever.
    fn plan(&self, event: &Event, snapshot: &Snapshot) -> Result<Plan, HandlerError>;
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
pub struct Handlers(Vec<Box<dyn Handler>>);

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

    /// The handler for an event.
    pub fn route(&self, event: &Event) -> Option<&dyn Handler> {
        self.0.iter().map(AsRef::as_ref).find(|handler| handler.handles(event))
    }
}
