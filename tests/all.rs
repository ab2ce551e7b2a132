//! Integration tests: the deployed functions on real adapters, embedded servers, and faults in between.
#![cfg(test)]

mod contract;
mod destinations;
mod edge;
mod effects;
mod events;
mod faults;
mod handlers;
mod operators;
mod pages;
mod protocol;
mod relay;
mod remote;
mod routes;
mod stack;
mod stored;
mod support;
mod template;
mod tidy;
mod worker;
