//! Requests to the providers of the scheme kind `adyen_items`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(&["adyen"], data));
