//! What the scripts do that keeps state or reads JSON: real backends, the emulator, the proof's parts that need either.
//!
//! People call it through `scripts/`. Progress goes to standard error, the last line of standard output is for
//! programs. Exit codes: 0 done, 1 a check failed, 2 wrong usage.

#![allow(clippy::doc_markdown, reason = "the doc comments of arguments are help texts, read in a terminal")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line program")]

mod backends;
mod checks;
mod process;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::checks::{emulator, guide, projects, prove};

/// What the scripts do that keeps state or reads JSON.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "scripts/tools/xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// DynamoDB Local and ElasticMQ, from Maven Central, on a private loopback
    #[command(subcommand)]
    RealBackends(backends::Command),
    /// The release binaries under `cargo lambda watch`, with real backends behind them
    #[command(subcommand)]
    Emulator(emulator::Command),
    /// The proof, one part at a time
    #[command(subcommand)]
    Prove(prove::Part),
    /// One project of each kind that `hookonce new` writes
    Projects(projects::Clients),
    /// Run the commands that docs/run/deploy.md tells people to type, taken from the page itself
    #[command(subcommand)]
    Guide(guide::Part),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = process::enter_root().and_then(|()| match arguments.command {
        Command::RealBackends(command) => command.run(),
        Command::Emulator(emulator::Command::Test) => emulator::test(),
        Command::Prove(part) => part.run(),
        Command::Projects(clients) => projects::test(&clients),
        Command::Guide(part) => guide::run(&part),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}
