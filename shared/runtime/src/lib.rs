//! Ports, adapters and drivers: what carries out the decisions of `hookonce-protocol`.
//!
//! | module | holds |
//! |---|---|
//! | [`port`] | what the drivers need from outside: a store, a queue, endpoint documents, the clock |
//! | [`aws`] | the ports on DynamoDB, SQS and SSM; [`mod@file`] endpoint documents in a folder |
//! | [`drive`] | the one driver: carries out a machine's calls until it ends |
//! | [`batch`], [`ingest`], [`process`], [`maintain`] | a delivery, a batch, a relay run, dead letters |
//! | [`handler`] | the trait that business rules implement |
//! | [`document`], [`endpoint`], [`config`] | endpoint documents and the environment, parsed once into types |
//! | [`material`] | certificates and keys of providers, fetched and kept |
//! | `per_minute` | what bounds how often strangers make an instance ask elsewhere |
//! | [`telemetry`] | structured logs and metrics, with stable names |
//! | [`ambient`] | the one place that reads the clock and draws randomness |
//!
//! Architecture Invariant: no rule of the protocol stands here. A driver never decides whether to write, send or
//! acknowledge; it only says what came of what the machine asked for.

pub mod ambient;
#[cfg(feature = "aws")]
pub mod aws;
pub mod batch;
pub mod body;
pub mod config;
pub mod document;
pub mod drive;
pub mod endpoint;
pub mod file;
pub mod handler;
pub mod ingest;
pub mod maintain;
pub mod material;
mod per_minute;
pub mod port;
pub mod process;
pub mod telemetry;
