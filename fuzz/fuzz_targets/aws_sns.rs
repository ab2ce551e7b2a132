//! Requests to the providers of the scheme kind `aws_sns`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(&["aws_sns"], data));
