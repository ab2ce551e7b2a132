//! Checks captured requests in bulk: reads one JSON object per line, writes one verdict per line.
//!
//! `scripts/oracles/differential` compares these verdicts with those of the providers' own SDKs.

use std::error::Error;
use std::io::{BufRead, BufWriter, Write};

use hookonce_providers::{CapturedRequest, Catalog, Received};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let (verdict, code) = judge(&CapturedRequest::parse(line?.as_bytes())?)?;
        writeln!(out, "{}", serde_json::json!({ "verdict": verdict, "code": code }))?;
    }
    Ok(())
}

fn judge(captured: &CapturedRequest) -> Result<(&'static str, &'static str), Box<dyn Error>> {
    let provider = Catalog::built_in().provider(&captured.provider).ok_or("unknown provider")?;
    let keyring = provider.keyring(&captured.secrets)?;
    Ok(match provider.receive(&captured.request(), &keyring, &captured.settings, None, captured.now) {
        Ok(Received::Delivery(_)) => ("accepted", ""),
        Ok(Received::Handshake(_)) => ("handshake", ""),
        Ok(Received::NeedsMaterial(_)) => ("rejected", "needs_material"),
        Err(refusal) => ("rejected", refusal.code()),
    })
}
