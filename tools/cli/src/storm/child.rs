//! The receiver as a child of the storm: started, killed, and started again.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::wire::Wire;
use crate::failure::Failure;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_mins(1);

/// The pause between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// How much of its output a failure shows, in bytes.
const OUTPUT_BYTES: i64 = 2_000;

/// The receiver. Dropping it kills it, with what it started.
#[derive(Debug)]
pub(crate) struct Receiver {
    command: String,
    output: std::fs::File,
    child: Option<Child>,
}

impl Receiver {
    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// [`Failure::Usage`] when something else listens there, and [`Failure::Unavailable`] when it does not come up.
    pub(crate) async fn start(command: &str, wire: &Wire) -> Result<Self, Failure> {
        if wire.is_up().await {
            return Err(Failure::usage(
                format!("something listens at {} already", wire.target.authority()),
                "stop it, or leave out --run",
            ));
        }
        let output = tempfile::tempfile().map_err(|error| {
            Failure::unavailable(format!("creating a temporary file failed: {error}"), "check TMPDIR")
        })?;
        let mut receiver = Self { command: command.to_owned(), output, child: None };
        receiver.begin(wire).await?;
        Ok(receiver)
    }

    async fn begin(&mut self, wire: &Wire) -> Result<(), Failure> {
        let copy = || self.output.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::null()).stdout(copy()).stderr(copy()).kill_on_drop(true);
        // A group of its own, so that what it starts is killed with it, and nothing else.
        #[cfg(unix)]
        shell.process_group(0);
        let started = shell.spawn();
        let child = started.map_err(|error| self.did_not_come_up(&format!("it cannot be started: {error}")))?;
        self.child = Some(child);
        let begin = Instant::now();
        while !wire.is_up().await {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                return Err(self.did_not_come_up(&format!("it ended with {status}")));
            }
            if begin.elapsed() > START_MAX {
                let authority = wire.target.authority();
                return Err(self.did_not_come_up(&format!("nothing listens at {authority} after {START_MAX:?}")));
            }
            tokio::time::sleep(LOOK_PERIOD).await;
        }
        Ok(())
    }

    /// Kills it at once, with what it started.
    pub(crate) async fn kill(&mut self) {
        self.signal();
        if let Some(mut child) = self.child.take() {
            // It is dead already if this fails.
            let _ = child.wait().await;
        }
    }

    /// Starts it again.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when it does not come up.
    pub(crate) async fn restart(&mut self, wire: &Wire) -> Result<(), Failure> {
        self.begin(wire).await
    }

    #[cfg(unix)]
    fn signal(&self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let id = self.child.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            // Nothing is left of it if this fails.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.start_kill();
        }
    }

    fn did_not_come_up(&mut self, why: &str) -> Failure {
        let length = self.output.metadata().map_or(0, |it| i64::try_from(it.len()).unwrap_or(i64::MAX));
        // Without its output the reason is shorter.
        let _ = self.output.seek(SeekFrom::End(-length.min(OUTPUT_BYTES)));
        let mut bytes = Vec::new();
        let _ = self.output.read_to_end(&mut bytes);
        let printed = String::from_utf8_lossy(&bytes);
        let printed = if printed.trim().is_empty() { String::new() } else { format!("\n{}", printed.trim()) };
        Failure::unavailable(format!("the command of --run does not receive: {why}{printed}"), "run it by itself")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.signal();
    }
}
