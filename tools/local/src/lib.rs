//! AWS on loopback: the services around hookonce's functions when they run on a laptop.
//!
//! The functions are the deployed ones, and they call DynamoDB and SQS through the AWS SDK. This crate answers those
//! calls and invokes the functions. Each part behaves as its AWS counterpart was observed to behave. The crate knows
//! nothing of webhooks: a function is anything that implements [`Invoke`](invoke::Invoke).
//!
//! ```text
//! HTTP --> gateway --invoke--> function --SDK--> backends (DynamoDB, SQS)
//!          event source <--poll-- SQS            schedule
//!               `--invoke--> function               `--invoke--> function
//! ```
//!
//! | module | stands in for |
//! |---|---|
//! | [`backends`] | DynamoDB and SQS, embedded; DynamoDB can keep its data in a directory and then survives a restart |
//! | [`tables`] | the `CloudFormation` stack: tables, indexes, TTL, queue, dead-letter queue |
//! | [`clients`] | the SDK configuration: clients for an endpoint URL |
//! | [`gateway`] | an API Gateway HTTP API with a Lambda proxy integration, payload format 2.0 |
//! | [`event_source`] | the Lambda event source mapping of an SQS queue, with `ReportBatchItemFailures` |
//! | [`schedule`] | an `EventBridge` rule with a fixed rate |
//! | [`calls`] | a count of the calls through the SDK |
//! | [`invoke`] | the Lambda service: runs a function, turns a panic or a timeout into an error |
//! | [`invoke_api`] | Lambda's invoke API: functions by their names |
//! | [`process`] | the same for a function's binary, as a separate process behind Lambda's Runtime API |
//! | [`ambient`] | the clock and the generator of identifiers |
//! | `visitor` | the check of signatures: who may talk to these servers |
//!
//! Architecture Invariant: nothing here listens on anything but 127.0.0.1, and nothing here is deployed.
//!
//! # Where it differs from AWS
//!
//! - DynamoDB: no throttling, no `TransactionConflict`, no stale reads; signatures are not verified. TTL deletes when
//!   [`sweep_ttl`](backends::Backends::sweep_ttl) runs, so within a minute instead of days.
//! - SQS: a body holds at most 256 KiB (AWS: 1 MiB), the group of a message (`MessageGroupId`) is checked and then
//!   ignored, retention is accepted but nothing expires, a bad receipt handle counts as deleted, `StartMessageMoveTask`
//!   does not exist. Messages live in memory: after a restart the relay sends the hints again.
//! - Gateway: every path and method reaches the one function; no throttling, no limit on request line and headers.

pub mod ambient;
pub mod backends;
pub mod calls;
pub mod clients;
pub mod event_source;
pub mod gateway;
pub mod invoke;
pub mod invoke_api;
pub mod process;
pub mod schedule;
pub mod tables;
mod visitor;

pub use visitor::is_local;
