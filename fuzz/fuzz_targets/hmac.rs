//! Requests to the providers of the scheme kind `hmac`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hookonce_providers_fuzz::receive(
    &[
        "stripe",
        "github",
        "slack",
        "shopify",
        "square",
        "standard_webhooks",
        "linear",
        "mailgun",
        "docusign",
        "workos",
        "sanity",
        "twitch_eventsub"
    ],
    data
));
