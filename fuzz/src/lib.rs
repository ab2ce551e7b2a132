//! Shared by the fuzz targets: they make a request from bytes, and check what must always hold.
//!
//! The bytes of a request: one that chooses the provider, then lines `name: value` up to an empty line, then the body.

use std::collections::BTreeMap;
use std::future::ready;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Catalog, Keyring, Provider, Received, Request, Settings};
use hookonce_webhook::gateway::{self, Malformed, Outbound};
use serde_json::Value;

mod webhook;

pub use webhook::webhook;

const NOW: EpochSec = EpochSec(1_767_225_600);
const URL: &str = "https://example.com/webhooks/fuzz?a=1";

/// A secret in every form that a provider hands out. The bytes never contain it, so no request made from them is
/// authentic. Nobody has the private part of the public keys.
const SECRETS: [&str; 4] = [
    "7f0e1d2c3b4a59687f0e1d2c3b4a59687f0e1d2c3b4a59687f0e1d2c3b4a5968",
    "whsec_fw4dLDtKWWh/Dh0sO0pZaH8OHSw7SllofQ4dLDtKWWg=",
    "user:7f0e1d2c3b4a5968",
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEewZ8MtktceDdomZ4yYV4QZCPD96dFR0QRMJ+0KrX2PF9+IJHPoBvP9WTa5Rg/W2Y/Q4spnr++Lg37LHEpE5dJg==",
];

/// The provider that a byte chooses.
fn provider(choice: u8) -> &'static Provider {
    let catalog = Catalog::built_in();
    catalog.iter().nth(usize::from(choice) % catalog.len()).expect("within its length")
}

fn settings() -> Settings {
    let settings = [
        ("webhook_id", "1"),
        ("public_key", "k"),
        ("topic_arns", "arn:aws:sns:us-east-1:1:t"),
        ("verify_token", "7f0e"),
        ("header", "x-webhook-token"),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn keyring(provider: &Provider) -> Keyring {
    let usable =
        SECRETS.iter().map(|secret| vec![(*secret).to_owned()]).find_map(|secret| provider.keyring(&secret).ok());
    usable.or_else(|| provider.keyring(&[]).ok()).expect("every provider takes one of the secrets, or none")
}

/// Judges a request. Without the secret, nobody may get a delivery accepted.
pub fn receive(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let (head, body) = match rest.windows(2).position(|two| two == b"\n\n") {
        Some(at) => (&rest[..at], &rest[at + 2..]),
        None => (rest, &[][..]),
    };
    let headers: Vec<(String, Vec<u8>)> = head
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.iter().position(|byte| *byte == b':').map(|at| line.split_at(at)))
        .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value[1..].trim_ascii().to_vec()))
        .collect();
    judge(provider(*choice), &headers, body);
}

fn judge(provider: &Provider, headers: &[(String, Vec<u8>)], body: &[u8]) {
    let (keyring, settings) = (keyring(provider), settings());
    for method in ["POST", "GET"] {
        let request = Request { method, url: URL, headers, body };
        let received = provider.receive(&request, &keyring, &settings, None, NOW);
        assert!(!matches!(received, Ok(Received::Delivery(_))), "{} accepted a forgery", provider.id());
        let explanation = provider.explain(&request, &[], &settings, None, NOW);
        assert!(!format!("{explanation}").is_empty());
    }
}

/// Every provider, with the bytes as the value of each header that it reads.
pub fn signature_header(data: &[u8]) {
    let Some((choice, value)) = data.split_first() else { return };
    let provider = provider(*choice);
    let probe = Request { method: "POST", url: URL, headers: &[], body: b"{}" };
    let places = provider.explain(&probe, &[], &settings(), None, NOW).looked_for;
    let headers: Vec<(String, Vec<u8>)> =
        places.into_iter().map(|finding| (finding.place.replace('*', "1"), value.to_vec())).collect();
    judge(provider, &headers, br#"{"id":"1"}"#);
}

/// Splits a body. Splitting a part again must give only that part.
pub fn split(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let provider = provider(*choice);
    let headers = BTreeMap::from([("x-github-delivery".to_owned(), "1".to_owned())]);
    let parts = provider.split(body, &headers);
    assert!(!parts.is_empty());
    for part in &parts {
        assert!(!part.key.as_str().is_empty());
        let again = provider.split(&part.body, &headers);
        assert_eq!(again.as_slice(), std::slice::from_ref(part));
    }
}

/// Parses a catalog file. A mistake has a position.
pub fn catalog(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Catalog::parse([("fuzz.toml", text)]) {
        assert!(!error.field.is_empty() && !error.problem.is_empty());
    }
}

/// Passes an event to the webhook function's gateway code. Every event has an answer, and the body arrives and returns
/// byte for byte.
pub fn gateway_event(data: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
    let body = event["body"].as_str().unwrap_or_default().to_owned();
    let sent = if event["isBase64Encoded"] == true { STANDARD.decode(&body).ok() } else { Some(body.into_bytes()) };
    let echo = gateway::service(|request| {
        ready(match request {
            Ok(inbound) => Outbound::new(200, "application/octet-stream", inbound.body),
            Err(Malformed) => Outbound::empty(400),
        })
    });
    let answer = gateway::call(echo, event).now_or_never().expect("it waits for nothing");
    if answer["statusCode"] == 200 {
        let body = answer["body"].as_str().unwrap_or_default();
        let received = if answer["isBase64Encoded"] == true { STANDARD.decode(body).ok() } else { Some(body.into()) };
        assert_eq!(received, sent);
    } else {
        assert_eq!(answer["statusCode"], 400);
    }
}
