//! `hookonce completions`: prints what lets a shell complete the commands.

use clap::Args;
use clap_complete::{Shell, generate};

use crate::failure::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command: clap::Command) -> Exit {
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, crate::NAME, &mut script);
    output::bytes(&script);
    Exit::Done
}
