//! What the handlers in this build would do with a record, without doing it.

use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::aws::DynamoStore;
use hookonce_runtime::process::WorkerParts;
use hookonce_worker::handlers;

/// A worker that can only plan: it has no queue and no clock.
pub(crate) type Rehearsal = WorkerParts<DynamoStore, (), ()>;

/// The handlers and the catalog of this build, on these tables.
pub(crate) fn parts(store: DynamoStore) -> Rehearsal {
    WorkerParts {
        store,
        queue: (),
        ambient: (),
        handlers: handlers::all(),
        catalog: Catalog::built_in(),
        timing: Timing::standard(),
    }
}
