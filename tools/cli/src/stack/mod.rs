//! A stack, here or in an account: how a command finds it, its parts, how it is, and how it is paused.

pub(crate) mod account;
pub(crate) mod arrivals;
pub(crate) mod cloudwatch;
pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod lambda;
pub(crate) mod logs;
pub(crate) mod meter;
pub(crate) mod pauses;
pub(crate) mod query;
pub(crate) mod status;
pub(crate) mod target;
pub(crate) mod traffic;
pub(crate) mod watch;
