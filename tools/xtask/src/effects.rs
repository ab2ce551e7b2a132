//! Effects under load, with faults on every wire. `scripts/effects/prove.py` does the work, beside the servers: the
//! callee is in Python, because a library of the Standard Webhooks project verifies what it is sent.

use std::path::Path;
use std::process::Command as Program;

use crate::backends::{PRIVATE_ADDRESS, Servers};
use crate::process::{Outcome, binaries, build_functions, build_hookonce, run, run_and_keep};

const DATA: &str = "target/effects-test";

/// Loads a stack with events that have effects, and kills at least so many processes of the dispatcher meanwhile.
pub(crate) fn test(short: bool) -> Outcome<bool> {
    let (events, kills) = if short { (200, 25) } else { (1_000, 125) };
    run(Program::new("bash").args(["-euo", "pipefail", "-c", ". scripts/tools.bash && python_tool effects"]))?;
    let hookonce = build_hookonce()?;
    build_functions()?;
    let data = std::path::absolute(Path::new(DATA)).map_err(|error| format!("{DATA}: {error}"))?;
    let servers = Servers::start(false)?;
    let mut prove = servers.command("target/tools/effects/bin/python");
    prove.arg("scripts/effects/prove.py").arg("--hookonce").arg(hookonce).arg("--binaries").arg(binaries("release")?);
    prove.arg("--data").arg(data).args(["--host", PRIVATE_ADDRESS]);
    prove.args(["--events", &events.to_string(), "--kills", &kills.to_string()]);
    let (held, figures) = run_and_keep(&mut prove, "{\"part\":\"effects\"")?;
    Ok(held && figures.is_some())
}
