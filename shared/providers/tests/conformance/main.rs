//! The catalog and the engine against vectors, hostile input and the documentation.
#![cfg(test)]

mod additions;
mod age;
mod authentic;
mod batches;
mod borders;
mod catalog;
mod configuration;
mod coverage;
mod explanations;
mod facts;
mod flips;
mod handshakes;
mod key_pairs;
mod materials;
mod pasted;
mod properties;
mod public;
mod receive;
mod roundtrips;
mod support;
mod vectors;
mod work;
