//! Ctrl-C, for commands that end between two writes, never within one.

use tokio::sync::watch;

use crate::failure::{Exit, Failure};
use crate::output;

/// Ctrl-C and the request to end. From the moment they are watched, neither ends the process by itself.
#[cfg(unix)]
pub(crate) struct Stop(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(windows)]
pub(crate) struct Stop(tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlClose);

impl Stop {
    /// # Errors
    /// [`Failure`] where they cannot be watched.
    pub(crate) fn watch() -> Result<Self, Failure> {
        Self::signals().map_err(|error| {
            Failure::unavailable(format!("Ctrl-C cannot be watched: {error}"), "run it where signals are allowed")
        })
    }

    #[cfg(unix)]
    fn signals() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    #[cfg(windows)]
    fn signals() -> std::io::Result<Self> {
        use tokio::signal::windows::{ctrl_c, ctrl_close};
        Ok(Self(ctrl_c()?, ctrl_close()?))
    }

    /// Waits for the next of them, also for one that came since the last call.
    pub(crate) async fn came(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Waits for Ctrl-C, which no longer ends the process. Where it cannot be watched, it does.
pub(crate) async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// How a command ends that was stopped while it read.
pub(crate) fn stopped_reading(records: &impl ToString) -> Exit {
    output::note(&format!(
        "stopped after reading {}; nothing was changed. --since, --until and --endpoint read fewer",
        output::number_of(records, "record")
    ));
    Exit::No
}

/// The status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Whether Ctrl-C came. From the moment it is watched, the first one asks the command to stop, and the second one ends
/// the process at once.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Begins to watch.
    ///
    /// # Errors
    /// [`Failure`] where it cannot be watched.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let (sender, receiver) = watch::channel(false);
        let mut stop = Stop::watch()?;
        tokio::spawn(async move {
            stop.came().await;
            sender.send_replace(true);
            output::note("stopping after the current write; Ctrl-C again ends the command at once");
            stop.came().await;
            std::process::exit(INTERRUPTED);
        });
        Ok(Self(receiver))
    }

    /// Whether it came.
    pub(crate) fn came(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it.
    pub(crate) async fn wait(&mut self) {
        let _ = self.0.wait_for(|came| *came).await;
    }
}
