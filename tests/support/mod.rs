//! What the tests share: the real functions on the real adapters, faults between them, a clock that stands still, and a
//! checker that reads the tables.

pub(crate) mod call_names;
pub(crate) mod capacity;
// Shared with the suite of the adapters, which is a package of its own.
#[path = "../adapters/clients.rs"]
pub(crate) mod clients;
pub(crate) mod clock;
pub(crate) mod counting;
pub(crate) mod delivery;
pub(crate) mod destinations;
pub(crate) mod documents;
pub(crate) mod faults;
#[path = "../adapters/fixtures.rs"]
pub(crate) mod fixtures;
pub(crate) mod harness;
pub(crate) mod history;
pub(crate) mod iam;
pub(crate) mod in_flight;
#[path = "../adapters/logs.rs"]
pub(crate) mod logs;
pub(crate) mod materials;
pub(crate) mod metrics;
pub(crate) mod orders;
pub(crate) mod receiver;
pub(crate) mod remote;
pub(crate) mod roles;
pub(crate) mod samples;
#[path = "../adapters/scripted.rs"]
#[expect(dead_code, reason = "the suite of the adapters needs all of it")]
pub(crate) mod scripted;
pub(crate) mod stack;
pub(crate) mod tables;
pub(crate) mod template;
pub(crate) mod tokens;
pub(crate) mod webhook;
pub(crate) mod wire;

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(crate) use clock::Clock;
pub(crate) use delivery::Delivery;
pub(crate) use faults::{Fault, Gate, Operation, Script};
pub(crate) use harness::{Harness, body, word};
pub(crate) use in_flight::CommitInFlight;
pub(crate) use orders::order;
pub(crate) use tables::Verdict;
pub(crate) use webhook::Answer;

/// The text of a file of the repository.
pub(crate) fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lets an invocation hang until something has happened, and then kills it.
pub(crate) async fn hang_until(invocation: impl Future<Output: Debug>, happened: impl AsyncFn() -> bool) {
    let watch = async {
        while !happened().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = invocation => panic!("it does not hang: {ended:?}"),
        () = watch => {}
    }
}
