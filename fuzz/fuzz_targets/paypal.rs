//! Requests to the providers of the scheme kind `paypal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(&["paypal"], data));
