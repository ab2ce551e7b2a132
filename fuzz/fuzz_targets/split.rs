//! The body of a delivery that is split into its events.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::split(data));
