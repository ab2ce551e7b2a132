//! What the servers of the run do for the deployed adapters, and what every source of documents does. What no local
//! server does is in `tests/adapters`.

mod documents;
mod fakes;
mod inspect;
mod lost;
mod queue;
mod store;

pub(crate) use crate::support::clients::{config_at, dynamodb, sqs};
