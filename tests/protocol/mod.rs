//! The pure parts of the protocol, where a table or a property checks more than a run.

mod calls;
mod commits;
mod dead_letters;
mod dispatcher;
mod effects;
mod keys;
mod messages;
mod operators;
mod plans;
mod purposes;
mod records;
mod relay;
mod timing;

pub(crate) use crate::support::fixtures::{a_claim, a_record};
