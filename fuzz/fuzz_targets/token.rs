//! Requests to the providers of the scheme kind `token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(
    &["telegram", "okta", "auth0", "gitlab"],
    data
));
