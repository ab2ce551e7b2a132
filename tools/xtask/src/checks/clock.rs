//! A clock for programs, on which days pass in minutes. libfaketime, a package of Debian and Ubuntu, tells them the
//! time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{Outcome, functions_with, output, write};

/// A clock that starts at the true time and can be set forward, for the wall and for timers.
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
    ahead: Duration,
}

impl Clock {
    /// Starts a clock that is kept in a file of this folder.
    pub(crate) fn start(folder: &Path) -> Outcome<Self> {
        let install = ". scripts/tools/install.bash && faketime_library";
        let library = output(Command::new("bash").args(["-euo", "pipefail", "-c", install]))?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let clock = Self { library: library.trim().into(), file: folder.join("clock"), ahead: Duration::ZERO };
        clock.write().map(|()| clock)
    }

    /// Sets it forward. Fails if programs do not go by it: one that cannot load the library only warns.
    pub(crate) fn forward(&mut self, by: Duration) -> Outcome {
        self.ahead += by;
        self.write()?;
        let (expected, shown) = (date(&[])? + self.ahead.as_secs(), date(&self.variables())?);
        let is_shown = shown.abs_diff(expected) <= 5;
        if is_shown { Ok(()) } else { Err(format!("by the clock it is {expected}, and a program was told {shown}")) }
    }

    fn write(&self) -> Outcome {
        let new = self.file.with_extension("new");
        write(&new, format!("+{}\n", self.ahead.as_secs()))?;
        std::fs::rename(&new, &self.file).map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// The arguments of `env` for a program that goes by this clock.
    pub(crate) fn variables(&self) -> [String; 3] {
        [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
        ]
    }

    /// A folder from which the functions' release binaries run by this clock. They get no environment of ours.
    pub(crate) fn functions(&self) -> Outcome<PathBuf> {
        functions_with(&self.variables().join(" "), self.file.with_file_name("functions"), None)
    }
}

/// The time that a program with these variables is told, in seconds since the epoch.
fn date(variables: &[String]) -> Outcome<u64> {
    let shown = output(Command::new("env").args(variables).args(["date", "+%s"]))?;
    shown.trim().parse().map_err(|_| format!("date says {shown:?}"))
}
