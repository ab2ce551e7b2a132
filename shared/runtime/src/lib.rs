//! Ports, adapters and drivers: they carry out what `hookonce-protocol` decides.
//!
//! | module | holds |
//! |---|---|
//! | [`port`] | what the drivers need from outside: a store, a queue, providers' keys |
//! | [`documents`] | what people write for a stack, by kind and id |
//! | [`documents::file`] | documents in a folder |
//! | [`inbox::drive`] | the driver: carries out a machine's calls until it ends |
//! | [`inbox::body`] | stored payloads |
//! | [`inbox::batch`], [`inbox::ingest`], [`inbox::process`], [`inbox::dispatch`], [`inbox::maintain`] | deliveries, batches, effects, relay runs, dead letters |
//! | [`inbox::operate`] | an operator's orders |
//! | [`inbox::message_key`] | the key of messages that carry a payload, read once |
//! | [`deadline`] | one deadline for everything that a request waits for |
//! | [`handlers`] | the trait that business rules implement |
//! | [`handlers::remote`] | handlers in another language: the calls, and what is asked and answered |
//! | [`routes`] | which event goes to which handler, as data |
//! | [`destinations`] | where effects go, what is promised there, and the calls |
//! | [`documents::fault`] | what is wrong with a document that people write |
//! | [`documents::strict`] | JSON that others write, read so that nothing wrong is taken for right |
//! | [`documents::document`], [`documents::endpoint`], [`config`], `location` | endpoint documents and the environment, parsed once into types |
//! | [`handlers::tables`] | which table an alias of a user table stands for |
//! | [`documents::material`] | certificates and keys of providers, fetched and cached |
//! | [`circuit_breaker`] | pauses the calls of a handler or a destination that fails several times in a row |
//! | `per_minute` | limits how often callers can make an instance call other services |
//! | [`inbox::memory`] | the memory that the messages of a batch share |
//! | `snapshot` | reads what a handler asks for, and completes its plan |
//! | [`task`] | the task in which a function works |
//! | [`telemetry`] | structured logs and metrics, with stable names |
//! | [`ambient`] | the only place that reads the clock and random numbers |
//!
//! Architecture Invariant: this crate holds no rule of the protocol. A driver never decides whether to write, send or
//! acknowledge. It carries out the machine's calls and reports the results.

pub mod ambient;
pub mod circuit_breaker;
pub mod config;
pub mod deadline;
pub mod destinations;
mod differences;
pub mod documents;
pub mod handlers;
pub mod inbox;
pub mod port;
pub mod routes;
pub mod task;
pub mod telemetry;
