//! What the handlers in this build would do with a record, without doing it.

use std::sync::Arc;

use hookonce_protocol::call::{Planned, Split};
use hookonce_protocol::record::Record;
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::aws::DynamoStore;
use hookonce_runtime::process::WorkerParts;
use hookonce_runtime::route::{RouteSet, Routing};
use hookonce_worker::handlers;

use crate::failure::Failure;
use crate::route_set::text_of;
use crate::target::Target;

/// A worker that can only plan: it has no queue and no clock.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    parts: WorkerParts<DynamoStore, (), ()>,
    routing: Routing,
}

impl Rehearsal {
    /// The handlers and the catalog of this build, on these tables, with the stack's route set.
    ///
    /// # Errors
    /// [`Failure`] when the stack has a route set that cannot be read or does not check.
    pub(crate) async fn of(store: DynamoStore, target: &Target) -> Result<Self, Failure> {
        let routing = match text_of(target).await? {
            None => Routing::Handlers,
            Some(text) => {
                let set = RouteSet::parse(&text, &handlers::all().names());
                Routing::Set(Arc::new(set.map_err(|error| {
                    let hint = "this build of hookonce may lack a handler of the stack's; `hookonce route show` prints the set";
                    Failure::usage(format!("the stack's route set does not check: {error}"), hint)
                })?))
            }
        };
        Ok(Self::with(store, routing))
    }

    /// The same for a stack whose route set nobody could read. It splits events, and plans nothing.
    pub(crate) fn without_routes(store: DynamoStore) -> Self {
        Self::with(store, Routing::Unknown)
    }

    fn with(store: DynamoStore, routing: Routing) -> Self {
        let (handlers, catalog, timing) = (handlers::all(), Catalog::built_in(), Timing::standard());
        Self { parts: WorkerParts { store, queue: (), ambient: (), handlers, catalog, timing }, routing }
    }

    /// What a worker would do with a record.
    pub(crate) async fn plan(&self, record: &Record) -> Planned {
        self.parts.plan(record, &self.routing).await
    }

    /// The events of an envelope.
    pub(crate) fn split(&self, record: &Record) -> Split {
        self.parts.split(record)
    }
}
