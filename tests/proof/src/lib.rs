//! Proof that nothing is lost and nothing happens twice, by programs that anyone can run again.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the exhaustive model: every order of steps and faults within bounds |
//! | [`mutant`] | the protocol with one clause taken out; the model must notice each |
//! | [`sim`] | simulated days: the deployed drivers, with every fault at random |
//! | [`grid`] | every remote call times every fault, and every pair of those |
//! | [`search`] | explorations, and the replay of their traces |
//! | [`outage`] | the relay's policy under an outage of the workers |
//! | [`route_cost`] | what a route set costs an event |
//! | [`memory`] | what a worker holds in memory while it splits envelopes |
//! | [`table`] | the table of mutants in the documents |
//! | [`parts`] | what `scripts/prove` runs |
//! | [`call`] | the writes of a call |
//! | [`label`] | names for a process's calls and their results |
#![deny(clippy::wildcard_enum_match_arm)] // a new variant must not go unseen
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a proof that meets something it cannot explain must stop, not go on"
)]

pub mod call;
pub mod grid;
pub mod label;
pub mod memory;
pub mod model;
pub mod mutant;
pub mod outage;
pub mod parts;
pub mod route_cost;
pub mod search;
pub mod sim;
pub mod table;
