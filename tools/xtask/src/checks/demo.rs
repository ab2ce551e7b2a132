//! `hookonce demo --json` against a stack that runs already: it plays the providers, which retry what was not answered,
//! and counts in the tables what became of each event.

use std::process::Command;

use serde::Deserialize;

use crate::process::{Outcome, json};

/// What is delivered, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deliveries {
    pub(crate) port: u16,
    /// The data folder of the stack.
    pub(crate) data: &'static str,
    /// How many events there are. Each is delivered three times.
    pub(crate) events: u32,
    /// The same seed makes the same events.
    pub(crate) seed: u64,
}

/// What became of the events.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) events: u64,
    pub(crate) applied: u64,
    pub(crate) applied_twice: u64,
    pub(crate) lost: u64,
    pub(crate) dead: u64,
    pub(crate) pending: u64,
    pub(crate) violations: u64,
    /// Whether the demo itself has found nothing wrong.
    #[serde(skip)]
    pub(crate) held: bool,
}

impl Deliveries {
    /// Delivers, with `hookonce` as the command line, and waits until every event is settled.
    pub(crate) fn make(&self, mut hookonce: Command) -> Outcome<Report> {
        let Self { port, data, events, seed } = self;
        hookonce.args(["demo", "--json", "--stack", data, "--url", &format!("http://127.0.0.1:{port}")]);
        hookonce.args(["--deliveries", &events.to_string(), "--copies", "3", "--concurrency", "12"]);
        hookonce.args(["--seed", &seed.to_string(), "--wait-minutes", "25"]);
        let output = hookonce.output().map_err(|error| format!("cannot start hookonce: {error}"))?;
        let (report, held) = (String::from_utf8_lossy(&output.stdout), output.status.success());
        if !held {
            eprintln!("{report}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Report { held, ..json(&report)? })
    }
}
