//! One suite per port, generic over the implementation. Here each suite runs on the deployed adapters against the
//! embedded servers. The same functions accept the addresses of other servers. What no local server does is in
//! `tests/adapters`.

mod endpoints;
mod inspect;
mod lost;
mod queue;
mod store;

pub(crate) use crate::support::clients::{config_at, dynamodb, sqs};
use crate::support::clients::{nowhere, ssm};
