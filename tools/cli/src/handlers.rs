//! The handlers that this command line was built with.

use std::sync::OnceLock;

use hookonce_runtime::handler::Handlers;

/// Decided once, when the process starts.
static HANDLERS: OnceLock<fn() -> Handlers> = OnceLock::new();

/// Takes the handlers of the program. Only the first call counts.
pub(crate) fn take(handlers: fn() -> Handlers) {
    HANDLERS.get_or_init(|| handlers);
}

/// All handlers of this build.
pub(crate) fn all() -> Handlers {
    HANDLERS.get().map_or_else(Handlers::new, |handlers| handlers())
}
