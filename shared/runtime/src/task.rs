//! The task in which a function works.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinError;

/// Runs a function on this thread, in a task of its own. What runs in the task that the thread waits for wakes the
/// whole runtime each time, by two system calls.
///
/// # Errors
/// Those of the function, that it panicked, and that the system refuses a runtime.
pub fn run_alone<E: From<io::Error> + From<JoinError> + 'static>(
    function: impl Future<Output = Result<(), E>> + 'static,
) -> Result<(), E> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(runtime.spawn_local(function))?
}
