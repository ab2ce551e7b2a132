//! `hookonce verify`: checks the signature of a request and stores nothing.

mod input;
mod transcript;

use std::collections::BTreeMap;

use clap::Args;
use hookonce_protocol::key::EndpointId;
use hookonce_providers::{
    CapturedRequest, Catalog, Cause, Explanation, Fallback, Fingerprint, Provider, Received, Refusal,
    UnknownCredential, VerifiedDelivery,
};
use hookonce_webhook::answer::{self, Denial};
use hookonce_webhook::gateway::Outbound;
use serde::Serialize;

use self::input::RequestArguments;
use super::providers::find;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::target::DataFolder;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: RequestArguments,
    /// SHA-256 to compare this body with.
    ///
    /// From the provider, or from the log line `no secret fits`.
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    sha256: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Parses a SHA-256 in hexadecimal.
fn sha256(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if valid { Ok(text) } else { Err("a SHA-256 has 64 hexadecimal digits".to_owned()) }
}

/// The body that was captured.
#[derive(Serialize)]
struct Captured {
    body_bytes: usize,
    body_sha256: String,
    /// Whether it is the body that `--sha256` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_the_named_body: Option<bool>,
}

impl Captured {
    fn new(request: &CapturedRequest, named: Option<&String>) -> Self {
        let Fingerprint { body_bytes, body_sha256, .. } = request.request().fingerprint();
        let is_the_named_body = named.map(|named| *named == body_sha256);
        Self { body_bytes, body_sha256, is_the_named_body }
    }

    fn print(&self) {
        let Self { body_bytes, body_sha256, .. } = self;
        output::line(&format!("  body of {body_bytes} bytes\n  SHA-256 {body_sha256}"));
        match self.is_the_named_body {
            Some(true) => {
                output::line("  the body matches --sha256: if no secret matches, the endpoint has the wrong secret");
            }
            Some(false) => output::line(
                "  the body does not match --sha256: something between the provider and the inbox changed it",
            ),
            None => {}
        }
    }
}

/// The latest request that an endpoint of the stack on this machine refused, and why.
pub(crate) struct LatestRefusal {
    pub(crate) request: CapturedRequest,
    pub(crate) explanation: Explanation,
    pub(crate) unknown_credentials: Vec<UnknownCredential>,
}

impl LatestRefusal {
    /// # Errors
    /// [`Failure`] when none is kept, or it cannot be read.
    pub(crate) async fn of(stack: &DataFolder, endpoint: &EndpointId) -> Result<Self, Failure> {
        let file = input::latest(stack, Some(endpoint.as_str()))?;
        let (request, unknown_credentials) = RequestArguments::of_file(file, stack, endpoint).read().await?;
        let explanation = find(Catalog::built_in(), &request.provider)?.explain_captured(&request);
        Ok(Self { request, explanation, unknown_credentials })
    }
}

/// How the inbox would answer, and why.
#[derive(Serialize)]
struct Printed<'a> {
    authentic: bool,
    #[serde(flatten)]
    report: &'a Report,
    captured: &'a Captured,
    causes: &'a [Cause],
    unknown_credentials: &'a [UnknownCredential],
}

/// How the inbox would answer.
#[derive(Serialize)]
struct Report {
    verdict: &'static str,
    code: Option<&'static str>,
    matched_secret: Option<usize>,
    events: Vec<ReportedEvent>,
    response: Response,
}

#[derive(Serialize)]
struct ReportedEvent {
    key: String,
    #[serde(rename = "type")]
    event_type: String,
    /// What was missing in the event, as the metric `key_fallback` names it.
    fallback: Option<&'static str>,
    #[serde(skip)]
    fallback_in_words: Option<&'static str>,
}

#[derive(Serialize)]
struct Response {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl From<Outbound> for Response {
    fn from(outbound: Outbound) -> Self {
        let Outbound { status, headers, body } = outbound;
        Self { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (captured, unknown) = arguments.input.read().await?;
    let provider = find(Catalog::built_in(), &captured.provider)?;
    let (report, explanation) = judge(provider, &captured);
    let accepted = report.verdict != "rejected";
    let body = Captured::new(&captured, arguments.sha256.as_ref());
    if arguments.json {
        let Explanation { authentic, causes, .. } = &explanation;
        output::json(&Printed {
            authentic: *authentic,
            report: &report,
            captured: &body,
            causes,
            unknown_credentials: &unknown,
        });
    } else {
        print(&report, &explanation);
        for credential in &unknown {
            output::line(&format!("  {}", stranger(credential)));
        }
        body.print();
    }
    Ok(if accepted { Exit::Done } else { Exit::No })
}

/// What is known of a credential that the capture does not hold.
pub(crate) fn stranger(credential: &UnknownCredential) -> String {
    let UnknownCredential { place, label } = credential;
    format!(
        "the credential at {place} is not one of the endpoint's; the capture shows {label}, the start of its SHA-256"
    )
}

fn judge(provider: &'static Provider, captured: &CapturedRequest) -> (Report, Explanation) {
    let CapturedRequest { secrets, settings, schemes, tolerance, now, .. } = captured;
    let request = captured.request();
    let explanation = provider.explain_captured(captured);
    let received = match provider.configure(secrets, settings.clone(), schemes) {
        Ok((keyring, settings)) => provider.receive(&request, &keyring, &settings, *tolerance, *now),
        // The explanation says what is wrong with the endpoint.
        Err(_) => Err(Refusal::NotConfigured),
    };
    let report = match received {
        Ok(Received::Handshake(handshake)) => Report {
            verdict: "handshake",
            code: None,
            matched_secret: None,
            events: Vec::new(),
            response: answer::handshake(handshake).into(),
        },
        Ok(Received::Delivery(delivery)) => accepted(provider, &delivery),
        Ok(Received::NeedsMaterial(_)) => rejected(Denial::MaterialUnavailable(provider.answers().retry_please)),
        Err(refusal) => rejected(Denial::refused(refusal, provider)),
    };
    (report, explanation)
}

fn accepted(provider: &Provider, delivery: &VerifiedDelivery) -> Report {
    let events = delivery.contents().events().iter().map(|part| ReportedEvent {
        key: part.key.as_str().to_owned(),
        event_type: part.event_type.clone(),
        fallback: part.fallback.map(Fallback::code),
        fallback_in_words: part.fallback.map(Fallback::in_words),
    });
    Report {
        verdict: "accepted",
        code: None,
        matched_secret: Some(delivery.secret_index()),
        events: events.collect(),
        response: answer::report(provider.answers_to(delivery)[0], "accepted", &record_id(delivery)).into(),
    }
}

/// The record id that the answer would hold. It does not depend on the endpoint's name.
fn record_id(delivery: &VerifiedDelivery) -> String {
    let Ok(endpoint) = EndpointId::parse("any") else { return String::new() };
    delivery.record_key(&endpoint).parts().1.to_owned()
}

fn rejected(denial: Denial) -> Report {
    let (_, code) = denial.parts();
    Report {
        verdict: "rejected",
        code: Some(code),
        matched_secret: None,
        events: Vec::new(),
        response: denial.outbound().into(),
    }
}

fn print(report: &Report, explanation: &Explanation) {
    for line in explanation.to_string().lines() {
        output::line(&output::wrapped(line));
    }
    if let Some(index) = report.matched_secret {
        output::line(&format!("  secret {index} matched (0 is the newest)"));
    }
    for event in &report.events {
        output::line(&format!("  event {} of type {}", output::shown(&event.key), output::shown(&event.event_type)));
        if let (Some(code), Some(words)) = (event.fallback, event.fallback_in_words) {
            output::line(&format!("    {code}: {words}"));
        }
    }
    if let Some(code) = report.code {
        output::line(&format!("  code {code}: see `hookonce explain {code}`"));
    }
    output::line(&format!("  the inbox would answer {}", report.response.status));
}
