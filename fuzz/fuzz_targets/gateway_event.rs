//! A gateway event, before anything is known about the request in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::gateway_event(data));
