//! The handlers that workers have: those of the program, and on a laptop the samples if it has none.

use std::sync::OnceLock;

use hookonce_runtime::handlers::Handlers;

use crate::stack::connection::Connection;

/// Decided once, when the process starts.
static PROGRAM: OnceLock<fn() -> Handlers> = OnceLock::new();

/// Takes the handlers of the program. Only the first call counts.
pub(crate) fn take(handlers: fn() -> Handlers) {
    PROGRAM.get_or_init(|| handlers);
}

/// The handlers that the template's worker has, if this program's project deploys it.
fn deployed() -> Handlers {
    PROGRAM.get().map_or_else(Handlers::new, |handlers| handlers())
}

/// The handlers of a worker on this machine.
pub(crate) fn local() -> Handlers {
    let own = deployed();
    if own.is_empty() { hookonce_examples::handlers() } else { own }
}

/// The handlers of the workers of a stack.
pub(crate) fn of(stack: &Connection) -> Handlers {
    if stack.local().is_some() { local() } else { deployed() }
}

/// The name of the binary that has the handlers of a worker on this machine.
pub(crate) fn local_worker() -> &'static str {
    if deployed().is_empty() { "hookonce-example-worker" } else { "hookonce-worker" }
}
