//! The inbox protocol as pure state machines.
//!
//! **The record is the truth, the queue message is only a hint.** To acknowledge a delivery means that a durable record
//! with its payload exists. Every change of a record is one conditional write that names the state it starts from.
//! Only two parties ever send a hint: the winner of the claim, once, and the relay.
//!
//! Architecture Invariant: nothing in this crate waits, reads a clock, draws a random number or knows a network type.
//! A machine takes `(state, reply)` and returns the next state and the one [`Call`](call::Call) to carry out. The driver
//! in `hookonce-runtime` carries calls out against AWS; a model checker or a simulator answers the very same calls
//! through [`Write::apply`](write::Write::apply). What is checked is what runs.
//!
//! | module | holds |
//! |---|---|
//! | [`time`], [`timing`] | units, the protocol's durations and the inequalities between them |
//! | [`key`], [`item`], [`write`](mod@write), [`claim`], [`record`], [`message`] | what is claimed, stored and sent, and the language of conditions |
//! | [`purpose`] | what each write is for |
//! | [`plan`] | what a handler sees and returns: event, snapshot, plan |
//! | [`call`] | the calls a machine can ask for, and their replies |
//! | [`ingress`], [`worker`], [`relay`], [`dead_letter`], [`operator`] | the machines |
//! | [`invariant`] | what holds for every stored record, as a check |

pub mod call;
pub mod claim;
pub mod dead_letter;
pub mod ingress;
pub mod invariant;
pub mod item;
pub mod key;
pub mod message;
pub mod operator;
pub mod plan;
pub mod purpose;
pub mod record;
pub mod relay;
pub mod time;
pub mod timing;
mod words;
pub mod worker;
pub mod write;
