//! Checks captured requests in bulk: reads one JSON object per line, writes one verdict per line.
//!
//! `scripts/differential` compares these verdicts with those of the providers' own SDKs.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufWriter, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Catalog, Received, Request, Settings};
use serde::Deserialize;

/// A captured request, in the form of the vectors in `events/vectors`.
#[derive(Deserialize)]
struct Captured {
    provider: String,
    method: String,
    url: String,
    headers: BTreeMap<String, Values>,
    body_base64: String,
    secrets: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    now_unix: i64,
}

/// The values of one header.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let (verdict, code) = judge(&serde_json::from_str(&line?)?)?;
        writeln!(out, "{}", serde_json::json!({ "verdict": verdict, "code": code }))?;
    }
    Ok(())
}

fn judge(captured: &Captured) -> Result<(&'static str, &'static str), Box<dyn Error>> {
    let provider = Catalog::built_in().provider(&captured.provider).ok_or("unknown provider")?;
    let keyring = provider.keyring(&captured.secrets)?;
    let settings = Settings::from(captured.settings.clone());
    let mut headers = Vec::new();
    for (name, values) in &captured.headers {
        match values {
            Values::One(value) => headers.push((name.clone(), value.clone().into_bytes())),
            Values::Several(values) => {
                headers.extend(values.iter().map(|value| (name.clone(), value.clone().into_bytes())));
            }
        }
    }
    let body = STANDARD.decode(&captured.body_base64)?;
    let request = Request { method: &captured.method, url: &captured.url, headers: &headers, body: &body };
    Ok(match provider.receive(&request, &keyring, &settings, None, EpochSec(captured.now_unix)) {
        Ok(Received::Delivery(_)) => ("accepted", ""),
        Ok(Received::Handshake(_)) => ("handshake", ""),
        Ok(Received::NeedsMaterial(_)) => ("rejected", "needs_material"),
        Err(refusal) => ("rejected", refusal.code()),
    })
}
