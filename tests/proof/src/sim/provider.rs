//! Providers: real entries of the catalog, real signatures, and four ways of behaving.

use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Catalog, Received, Refusal, Request, Settings, UnsignedRequest, VerifiedDelivery};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::Endpoint;

use super::config::{Choices, Config};
use super::rng::Rng;

/// How a provider behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Retries until it gets a 2xx.
    Retries,
    /// Never retries.
    GivesUp,
    /// Puts several events into a delivery, and regroups them when it retries.
    Batches,
}

/// A provider of the day.
#[derive(Debug, Clone, Copy)]
pub struct ProviderProfile {
    /// Its id in the catalog; its endpoint's id, too.
    pub id: &'static str,
    /// What it does.
    pub behaviour: Behaviour,
    /// The header of the delivery's id, if a header carries it.
    id_header: Option<&'static str>,
}

/// The providers: id in the signed body; signed id header; id in a header that is not signed; batches.
pub const PROVIDERS: [ProviderProfile; 4] = [
    ProviderProfile { id: "stripe", behaviour: Behaviour::Retries, id_header: None },
    ProviderProfile { id: "standard_webhooks", behaviour: Behaviour::Retries, id_header: Some("webhook-id") },
    ProviderProfile { id: "github", behaviour: Behaviour::GivesUp, id_header: Some("x-github-delivery") },
    ProviderProfile { id: "meta_whatsapp", behaviour: Behaviour::Batches, id_header: None },
];

/// The secrets that an endpoint has had, oldest first. None of them protects anything.
const SECRETS: [&str; 2] = ["whsec_TEVBS01FTk9UTEVBS01FTk9UTEVBS01FTk9U", "whsec_Tk9UTEVBS01FTk9UTEVBS01FTk9UTEVBS01F"];

/// The secret of a forger.
const FORGED: &str = "whsec_Rk9SR0VERk9SR0VERk9SR0VERk9SR0VERk9S";

/// How long before and after a rotation both secrets are accepted, in milliseconds.
const OVERLAP: i64 = 600_000;

/// An endpoint with its provider.
#[derive(Debug)]
pub struct Receiver {
    /// How it behaves.
    pub provider: ProviderProfile,
    /// With the old secret, with both, with the new one.
    phases: [Endpoint; 3],
    rotates_at: i64,
}

impl Receiver {
    fn new(provider: ProviderProfile, choices: Choices) -> Self {
        let endpoint = |secrets: &[&str]| {
            let document = EndpointDocument {
                provider: provider.id.to_owned(),
                tenant: None,
                secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(),
                settings: std::collections::BTreeMap::new(),
                schemes: Vec::new(),
                on_store_outage: choices.on_store_outage,
                on_body_mismatch: Some(choices.on_body_mismatch),
                tolerance_seconds: None,
                body_bytes_max: 1 << 20,
                source_ranges: Vec::new(),
                expect_every: None,
            };
            let id = EndpointId::parse(provider.id).expect("the id of a provider is one of an endpoint");
            Endpoint::new(id, document, Catalog::built_in()).expect("the document is valid")
        };
        let phases = [endpoint(&SECRETS[..1]), endpoint(&[SECRETS[1], SECRETS[0]]), endpoint(&SECRETS[1..])];
        Self { provider, phases, rotates_at: choices.rotates_at }
    }

    /// The endpoints of a day.
    pub fn all(config: &Config) -> Vec<Self> {
        PROVIDERS.into_iter().zip(config.endpoints).map(|(provider, choices)| Self::new(provider, choices)).collect()
    }

    /// The endpoint as it is configured at this time of the day.
    pub fn endpoint(&self, elapsed: i64) -> &Endpoint {
        let phase = match elapsed {
            _ if elapsed < self.rotates_at.saturating_sub(OVERLAP) => 0,
            _ if elapsed < self.rotates_at.saturating_add(OVERLAP) => 1,
            _ => 2,
        };
        &self.phases[phase]
    }

    /// The delivery as it arrives: signed at `sent_at`, judged at `now`.
    ///
    /// # Errors
    /// The refusal, where the signature does not hold.
    pub fn receive(
        &self,
        request: &ProviderRequest,
        elapsed: i64,
        sent_at: EpochSec,
        now: EpochSec,
    ) -> Result<VerifiedDelivery, Refusal> {
        let endpoint = self.endpoint(elapsed);
        let url = format!("https://hooks.example.com/webhooks/{}", self.provider.id);
        let mut headers = Vec::new();
        if let Some(name) = self.provider.id_header {
            headers.push((name.to_owned(), request.id.clone()));
        }
        headers.push(("x-github-event".to_owned(), "sim".to_owned()));
        let unsigned = UnsignedRequest { method: "POST", url: &url, headers: &headers, body: &request.body };
        let secret = match (request.genuine, elapsed < self.rotates_at) {
            (false, _) => FORGED,
            (true, true) => SECRETS[0],
            (true, false) => SECRETS[1],
        };
        let signed = endpoint.provider.sign(&unsigned, secret, sent_at).expect("the provider signs with a secret");
        let bytes = |(name, value): (String, String)| (name, value.into_bytes());
        let headers: Vec<_> = headers.into_iter().chain(signed).map(bytes).collect();
        let request = Request { method: "POST", url: &url, headers: &headers, body: &request.body };
        let received = endpoint.provider.receive(&request, &endpoint.keyring, &Settings::none(), None, now)?;
        let Received::Delivery(delivery) = received else { panic!("a delivery is no handshake: {received:?}") };
        Ok(delivery)
    }
}

/// What a provider puts into one request.
#[derive(Debug, Clone)]
pub struct ProviderRequest {
    /// The delivery's id, if a header carries it.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// Signed with the endpoint's secret.
    pub genuine: bool,
}

/// One event: its id with the provider, and the fact that it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentEvent {
    /// The event's id.
    pub id: String,
    /// The fact.
    pub fact: String,
}

/// What a provider has to deliver.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Which provider.
    pub provider: usize,
    /// Its events: one, unless the provider batches.
    pub events: Vec<SentEvent>,
    /// When it is first attempted, in milliseconds of the day.
    pub at: i64,
    /// Copies that race each other.
    pub copies: usize,
    /// How the body is rendered; another rendering is another body under the same id.
    pub rendering: u32,
    /// Signed with the endpoint's secret.
    pub genuine: bool,
}

impl Delivery {
    /// The facts of its events.
    pub fn facts(&self) -> impl Iterator<Item = String> {
        self.events.iter().map(|event| event.fact.clone())
    }

    /// The request of some of the events.
    pub fn request(&self, events: &[SentEvent], rendering: u32) -> ProviderRequest {
        let id = events.first().map(|event| event.id.clone()).unwrap_or_default();
        let item =
            |event: &SentEvent| format!("{{\"id\":\"{}\",\"fact\":\"{}\",\"r\":{rendering}}}", event.id, event.fact);
        let items: Vec<_> = events.iter().map(item).collect();
        let body = match PROVIDERS[self.provider].behaviour {
            Behaviour::Batches => format!(
                "{{\"entry\":[{{\"changes\":[{{\"field\":\"messages\",\"value\":{{\"messages\":[{}]}}}}]}}]}}",
                items.join(",")
            ),
            Behaviour::Retries | Behaviour::GivesUp => items[0].replacen('{', "{\"type\":\"sim\",", 1),
        };
        ProviderRequest { id, body: body.into_bytes(), genuine: self.genuine }
    }
}

/// The facts that a body carries.
pub fn facts_in(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let facts = text.split("\"fact\":\"").skip(1);
    facts.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect()
}

/// What the providers of a day have to deliver.
pub fn deliveries(config: &Config, rng: &mut Rng) -> Vec<Delivery> {
    let mut all: Vec<Delivery> = Vec::new();
    let span = config.span;
    let burst = rng.between(0, span);
    for number in 0..config.deliveries {
        let provider = rng.below(PROVIDERS.len());
        let at = if rng.chance(2_000) { burst + rng.between(0, 60_000) } else { rng.between(0, span) };
        let mut delivery = Delivery {
            provider,
            events: Vec::new(),
            at,
            copies: if rng.chance(1_500) { 2 + rng.below(2) } else { 1 },
            rendering: 0,
            genuine: !rng.chance(150),
        };
        let batches = PROVIDERS[provider].behaviour == Behaviour::Batches;
        for event in 0..(if batches { 1 + rng.below(4) } else { 1 }) {
            delivery.events.push(fresh(&format!("{number}-{event}"), rng));
        }
        if let Some(other) = repeated(&all, provider, at, config, rng)
            && delivery.genuine
        {
            delivery.events[0] = other;
        }
        all.push(delivery);
    }
    all
}

fn fresh(number: &str, rng: &mut Rng) -> SentEvent {
    let kind = match rng.below(100) {
        0..3 => "poison",
        3..5 => "panics",
        5..7 => "ignored",
        7..9 => "strict",
        9..20 => "shared",
        20..28 => "pays",
        28..34 => "mails",
        34..40 => "tells",
        40..44 => "orders",
        _ => "plain",
    };
    SentEvent { id: format!("e{number}"), fact: format!("{kind}-{number}") }
}

/// An event that this provider sent before: the same one again, or the same fact under another id.
fn repeated(all: &[Delivery], provider: usize, at: i64, config: &Config, rng: &mut Rng) -> Option<SentEvent> {
    let own: Vec<_> = all.iter().filter(|earlier| earlier.provider == provider).collect();
    if own.is_empty() || !rng.chance(1_200) {
        return None;
    }
    let earlier = own[rng.below(own.len())];
    // A provider that reports a fact again does so within its own window.
    let near = (earlier.at - at).abs() < config.timing.provider_window.0 / 4;
    let event = earlier.events[rng.below(earlier.events.len())].clone();
    if !earlier.genuine || !near {
        return None;
    }
    let same_id = rng.chance(5_000);
    Some(if same_id { event } else { SentEvent { id: format!("{}-{}", event.id, rng.below(1_000_000)), ..event } })
}
