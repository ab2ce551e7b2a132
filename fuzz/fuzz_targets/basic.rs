//! Requests to the providers of the scheme kind `basic`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(&["postmark"], data));
