//! Tests the emulated services from outside: through the SDK and over HTTP.
#![cfg(test)]

mod backends;
mod event_source;
mod gateway;
mod http_invoke;
mod invoke_api;
mod process;
mod support;
mod tables;
