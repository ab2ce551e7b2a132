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
use crate::target::{DataFolder, write};

/// How often either side looks at the other's file.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

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
        Self(tokio::spawn(async move {
            loop {
                for (function, switches) in &sources {
                    look(&folder, *function, switches);
                }
                tokio::time::sleep(LOOK_PERIOD).await;
            }
        }))
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn look(folder: &DataFolder, function: PausedFunction, switches: &[Switch]) {
    let is_paused = is_wanted(folder, function);
    for switch in switches {
        switch.turn(!is_paused);
    }
    let path = reached(folder, function);
    if !is_paused {
        let _ = fs::remove_file(&path);
    } else if !path.exists() && switches.iter().all(Switch::is_off) {
        // It is tried again at the next look.
        let _ = write(&path, "");
    }
}
