//! The header that carries the signature, for every provider.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::signature_header(data));
