//! Pauses of the stack on this machine. A file says which function is to be paused, so a pause survives a restart of
//! `dev`; a second file, written by `dev` alone, says that nothing is polled any more.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hookonce_local::event_source::Switch;
use hookonce_runtime::ambient::{Ambient as _, System};
use tokio::task::JoinHandle;

use super::{PausedFunction, Turn, too_slow};
use crate::failure::Failure;
use crate::output;
use crate::stack::target::{DataFolder, write};

/// How often a command looks at the file of the running stack.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// How often a running stack looks at the files of the commands: seldom, because it does so for as long as it runs.
const OBEY_PERIOD: Duration = Duration::from_millis(500);

/// How long `dev` may take: a poll that waits at an empty queue ends first.
const SECONDS_MAX: i64 = 60;

fn wanted(folder: &DataFolder, function: PausedFunction) -> PathBuf {
    folder.pauses().join(function.as_str())
}

fn reached(folder: &DataFolder, function: PausedFunction) -> PathBuf {
    folder.pauses().join(format!("{}.idle", function.as_str()))
}

/// Whether a function is to be paused.
pub(super) fn is_wanted(folder: &DataFolder, function: PausedFunction) -> bool {
    wanted(folder, function).exists()
}

pub(super) async fn switch(folder: &DataFolder, function: PausedFunction, turn: Turn) -> Result<(), Failure> {
    let path = wanted(folder, function);
    match turn {
        Turn::Pause => write(&path, "")?,
        Turn::Resume => match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("{} cannot be removed: {error}", path.display());
                return Err(Failure::usage(what, "check who owns the folder"));
            }
            Ok(()) | Err(_) => {}
        },
    }
    let waiting = output::spinner(&format!("waiting for the event sources of the {}", function.as_str()));
    waiting.enable_steady_tick(LOOK_PERIOD);
    let until = System.moment().now.0 + SECONDS_MAX * 1_000;
    let is_done = || reached(folder, function).exists() == (turn == Turn::Pause);
    while !is_done() && System.moment().now.0 < until {
        tokio::time::sleep(LOOK_PERIOD).await;
    }
    waiting.finish_and_clear();
    if is_done() { Ok(()) } else { Err(too_slow(function, turn)) }
}

/// The event sources of a running stack, which obey the files. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Switches(JoinHandle<()>);

impl Switches {
    /// Whether the event sources of a function begin to poll at once.
    pub(crate) fn begins_on(folder: &DataFolder, function: PausedFunction) -> bool {
        !is_wanted(folder, function)
    }

    /// Obeys the files from now on.
    pub(crate) fn obey(folder: DataFolder, sources: [(PausedFunction, Vec<Switch>); 2]) -> Self {
        // A stack that was killed may have left them.
        for (function, _) in &sources {
            let _ = fs::remove_file(reached(&folder, *function));
        }
        let mut sources = sources.map(|(function, switches)| Switched { function, switches, reached: false });
        Self(tokio::spawn(async move {
            loop {
                for source in &mut sources {
                    source.look(&folder);
                }
                tokio::time::sleep(OBEY_PERIOD).await;
            }
        }))
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The event sources of a function.
struct Switched {
    function: PausedFunction,
    switches: Vec<Switch>,
    /// Whether the file says that nothing is polled.
    reached: bool,
}

impl Switched {
    fn look(&mut self, folder: &DataFolder) {
        let is_paused = is_wanted(folder, self.function);
        for switch in &self.switches {
            switch.turn(!is_paused);
        }
        let path = reached(folder, self.function);
        if !is_paused && self.reached {
            self.reached = fs::remove_file(&path).is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound);
        } else if is_paused && !self.reached && self.switches.iter().all(Switch::is_off) {
            // It is tried again at the next look.
            self.reached = write(&path, "").is_ok();
        }
    }
}
