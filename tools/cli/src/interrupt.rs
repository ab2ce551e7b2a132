//! Ctrl-C, for commands that end between two writes, never within one.

use tokio::sync::watch;

use crate::output;

/// The status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Whether Ctrl-C came. From the moment it is watched, the first one asks the command to stop, and the second one ends
/// the process at once.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Begins to watch.
    pub(crate) fn watch() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                sender.send_replace(true);
                output::note("stopping after the current write; Ctrl-C again ends the command at once");
                let _ = tokio::signal::ctrl_c().await;
                std::process::exit(INTERRUPTED);
            }
            // Ctrl-C cannot be watched here. Keep the sender alive, so that `wait` never ends.
            std::future::pending::<()>().await;
        });
        Self(receiver)
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
