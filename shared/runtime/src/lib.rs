//! Ports, adapters and drivers: they carry out what `hookonce-protocol` decides.
//!
//! | module | holds |
//! |---|---|
//! | [`port`] | what the drivers need from outside: a store, a queue, providers' keys |
//! | [`documents`] | what people write for a stack, by kind and id |
//! | [`mod@file`] | documents in a folder |
//! | [`drive`] | the driver: carries out a machine's calls until it ends |
//! | [`body`] | stored payloads |
//! | [`batch`], [`ingest`], [`process`], [`dispatch`], [`maintain`] | deliveries, batches, effects, relay runs, dead letters |
//! | [`operate`] | an operator's orders |
//! | [`message_key`] | the key of messages that carry a payload, read once |
//! | [`deadline`] | one deadline for everything that a request waits for |
//! | [`handler`] | the trait that business rules implement |
//! | [`remote`] | handlers in another language: the calls, and what is asked and answered |
//! | [`route`] | which event goes to which handler, as data |
//! | [`destination`] | where effects go, what is promised there, and the calls |
//! | [`fault`] | what is wrong with a document that people write |
//! | [`strict`] | JSON that others write, read so that nothing wrong is taken for right |
//! | [`document`], [`endpoint`], [`config`], `location` | endpoint documents and the environment, parsed once into types |
//! | [`tables`] | which table an alias of a user table stands for |
//! | [`material`] | certificates and keys of providers, fetched and cached |
//! | [`circuit_breaker`] | pauses the calls of a handler or a destination that fails several times in a row |
//! | `per_minute` | limits how often callers can make an instance call other services |
//! | [`memory`] | the memory that the messages of a batch share |
//! | `snapshot` | reads what a handler asks for, and completes its plan |
//! | [`telemetry`] | structured logs and metrics, with stable names |
//! | [`ambient`] | the only place that reads the clock and random numbers |
//!
//! Architecture Invariant: this crate holds no rule of the protocol. A driver never decides whether to write, send or
//! acknowledge. It carries out the machine's calls and reports the results.

pub mod ambient;
pub mod batch;
pub mod body;
pub mod circuit_breaker;
pub mod config;
pub mod deadline;
pub mod destination;
mod differences;
pub mod dispatch;
pub mod document;
pub mod documents;
pub mod drive;
pub mod endpoint;
pub mod fault;
pub mod file;
pub mod handler;
pub mod ingest;
mod location;
pub mod maintain;
pub mod material;
pub mod memory;
pub mod message_key;
pub mod operate;
mod per_minute;
pub mod port;
pub mod process;
pub mod remote;
pub mod route;
mod snapshot;
pub mod strict;
pub mod tables;
pub mod telemetry;
