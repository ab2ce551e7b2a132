//! Ctrl-C, for commands that end between two writes, never within one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::failure::{Exit, Failure};
use crate::output;

/// Ctrl-C and the request to end. From the moment they are watched, neither ends the process by itself.
pub(crate) struct Stop {
    signals: Signals,
    latest: Option<Instant>,
}

#[cfg(unix)]
type Signals = (tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(windows)]
type Signals = (tokio::signal::windows::CtrlC, tokio::signal::windows::CtrlClose);

/// How long after one of them another is no second wish: what is sent to a group of processes reaches this one twice if the
/// program that started it passes on what it gets.
const ONE_WISH: Duration = Duration::from_millis(300);

impl Stop {
    /// # Errors
    /// [`Failure`] where they cannot be watched.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let signals = Self::signals().map_err(|error| {
            Failure::unavailable(format!("Ctrl-C cannot be watched: {error}"), "run it where signals are allowed")
        })?;
        Ok(Self { signals, latest: None })
    }

    #[cfg(unix)]
    fn signals() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    #[cfg(windows)]
    fn signals() -> std::io::Result<Signals> {
        use tokio::signal::windows::{ctrl_c, ctrl_close};
        Ok((ctrl_c()?, ctrl_close()?))
    }

    /// Waits for the next of them, also for one that came since the last call.
    pub(crate) async fn came(&mut self) {
        loop {
            tokio::select! {
                _ = self.signals.0.recv() => {}
                _ = self.signals.1.recv() => {}
            }
            if is_a_wish(&mut self.latest, Instant::now()) {
                return;
            }
        }
    }
}

/// Whether a signal at this moment is more than another copy of the latest wish. A key that is held down is a second wish, too.
fn is_a_wish(latest: &mut Option<Instant>, now: Instant) -> bool {
    let is_one = latest.is_none_or(|latest| now.duration_since(latest) > ONE_WISH);
    if is_one {
        *latest = Some(now);
    }
    is_one
}

/// Waits for Ctrl-C or the request to end, which no longer end the process. Where they cannot be watched, they do.
pub(crate) async fn ctrl_c() {
    match Stop::watch() {
        Ok(mut stop) => stop.came().await,
        Err(_) => std::future::pending().await,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_a_process_twice_at_once_is_one_wish_and_a_key_that_is_held_is_two() {
        let (began, mut latest) = (Instant::now(), None);
        let mut came = |millis| is_a_wish(&mut latest, began + Duration::from_millis(millis));
        assert_eq!([0, 5, 100, 200, 300, 400].map(&mut came), [true, false, false, false, false, true]);
    }
}
