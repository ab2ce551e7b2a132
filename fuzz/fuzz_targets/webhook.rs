//! The whole webhook function, from a gateway's event to the answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::webhook(data));
