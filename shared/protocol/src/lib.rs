//! The inbox protocol as pure state machines.
//!
//! **The record is the truth, the queue message is only a hint.** Acknowledging a delivery means that a durable record
//! with its payload exists. Every change of a record is one conditional write, and its condition is the state that it
//! starts from. Hints are sent by the winner of a claim or a commit, once, and by the relay; a worker that moves one to
//! the queue of slow handlers sends it again.
//!
//! Architecture Invariant: nothing in this crate waits, reads a clock, draws a random number or knows a network type. A
//! machine takes `(state, reply)` and returns the next state and one [`Call`](call::Call). The driver in
//! `hookonce-runtime` carries out the calls on AWS. A model checker or a simulator answers the same calls through
//! [`Write::apply`](write::Write::apply). So the code that is checked is the code that runs.
//!
//! | module | holds |
//! |---|---|
//! | [`time`], [`timing`] | units, the protocol's durations and the inequalities between them |
//! | [`key`], [`item`], [`write`](mod@write), [`claim`], [`record`], [`message`] | what is claimed, stored and sent, and the language of conditions |
//! | [`purpose`] | what each write is for |
//! | [`code`], `words` | the codes of failures, and enums whose variants each have a fixed word |
//! | [`place`], [`plan`], [`check`] | what a handler names, sees and returns: items, event, snapshot, plan; and what is refused of it |
//! | [`effect`], [`destination`] | what a plan sends out of the account, where to, and what is promised there |
//! | [`call`] | the calls a machine can ask for, and their replies |
//! | [`ingress`], [`worker`], [`dispatcher`], [`relay`], [`dead_letter`], [`operator`] | the machines |
//! | `full_claim` | the machine for the claim of a message with its payload: a part of `worker` and of `dead_letter` |
//! | [`trail`] | what operators did to a record |
//! | [`invariant`] | checks that hold for every stored record |

#![deny(clippy::wildcard_enum_match_arm)] // a new variant must not go unseen

pub mod call;
pub mod check;
pub mod claim;
pub mod code;
pub mod dead_letter;
pub mod destination;
pub mod dispatcher;
pub mod effect;
mod full_claim;
pub mod ingress;
pub mod invariant;
pub mod item;
pub mod key;
pub mod message;
pub mod operator;
pub mod place;
pub mod plan;
pub mod purpose;
pub mod record;
pub mod relay;
pub mod time;
pub mod timing;
pub mod trail;
mod words;
pub mod worker;
pub mod write;
