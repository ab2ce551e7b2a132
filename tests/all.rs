//! Integration tests: the deployed functions on real adapters, embedded servers, and faults in between.
#![cfg(test)]

mod batches;
mod capacity;
mod cdn;
mod contract;
mod deadlines;
mod destinations;
mod edges;
mod effects;
mod failures;
mod fakes;
mod gateways;
mod handlers;
mod identity;
mod lost_replies;
mod materials;
mod operators;
mod payments;
mod plans;
mod protocol;
mod providers;
mod races;
mod real_grid;
mod refusals;
mod regressions;
mod relay;
mod remote;
mod repetitions;
mod routes;
mod samples;
mod strangers;
mod support;
mod telemetry;
mod template;
mod tidy;
mod worker_time;
