//! A server with its own thread and runtime.

use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

use error_reporter::Report;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::BackendError;

/// How long the tasks of a stopped server may take before they are dropped.
const SHUTDOWN_MILLIS_MAX: u64 = 10_000;

/// The handle of a running server. Dropping it stops the server in the background.
#[derive(Debug)]
pub(super) struct ServerThread {
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

impl ServerThread {
    /// Runs `serve` on a new thread named `thread` with `workers` worker threads.
    ///
    /// `serve` gets the stop signal, which resolves when the handle is stopped or dropped. Everything that `serve` owns
    /// is dropped before [`stopped`](Self::stopped) returns.
    pub(super) fn start<S, F>(thread: &'static str, workers: usize, serve: S) -> Result<Self, BackendError>
    where
        S: FnOnce(StopSignal) -> F + Send + 'static,
        F: Future<Output = io::Result<()>>,
    {
        let failed = |source| BackendError::Thread { thread, source };
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name(thread)
            .enable_all()
            .build()
            .map_err(failed)?;
        let (stop, stopping) = oneshot::channel();
        let (ended, stopped) = oneshot::channel();
        let body = move || {
            if let Err(error) = runtime.block_on(serve(StopSignal(stopping))) {
                tracing::error!(server = thread, error = %Report::new(&error), "the embedded server ended");
            }
            runtime.shutdown_timeout(Duration::from_millis(SHUTDOWN_MILLIS_MAX));
            // Nobody receives this when the handle was dropped.
            let _ = ended.send(());
        };
        thread::Builder::new().name(thread.to_owned()).spawn(body).map_err(failed)?;
        Ok(Self { stop: Some(stop), stopped })
    }

    /// Tells the server to stop.
    pub(super) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits until the server has stopped.
    pub(super) async fn stopped(self) {
        // An error means that the thread ended without an answer. It has stopped, too.
        drop(self.stopped.await);
    }
}

/// Resolves when the server has to stop.
#[derive(Debug)]
pub(super) struct StopSignal(oneshot::Receiver<()>);

impl StopSignal {
    pub(super) async fn received(self) {
        // Nothing is ever sent; the sender is only dropped.
        drop(self.0.await);
    }
}
