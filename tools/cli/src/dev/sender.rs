//! Delivers as a provider would: signs each attempt again, and retries when the answer asks for it.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hookonce_protocol::time::EpochSec;
use hookonce_providers::settings::PUBLIC_URL;
use hookonce_providers::{Provider, Settings, SignError, UnsignedRequest};
use hookonce_webhook::answer::{ANSWER_ID, ANSWER_STATUS};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use serde::Deserialize;

/// Attempts of one delivery while a person waits, with the first: 6 seconds of pauses.
pub(crate) const ATTEMPTS_MAX: u32 = 6;

/// Attempts of one delivery by a sender as patient as a provider: 102 seconds of pauses.
pub(crate) const PROVIDER_ATTEMPTS_MAX: u32 = 10;

/// The pause before the first retry; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// How long a provider waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One delivery to send.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryToSend {
    /// The URL to send it to.
    pub(crate) url: String,
    /// The provider whose scheme signs it.
    pub(crate) provider: &'static Provider,
    /// The secret to sign with.
    pub(crate) secret: String,
    /// The endpoint's settings, which some schemes sign with.
    pub(crate) settings: Settings,
    /// The schemes that the endpoint lists. Empty if it lists none, or is not known.
    pub(crate) schemes: Vec<String>,
    /// Headers other than the signature.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// How far the signer's clock is off, in seconds.
    pub(crate) clock_offset_seconds: i64,
}

impl DeliveryToSend {
    /// Signs it now.
    ///
    /// # Errors
    /// [`SignError`] when the secret cannot sign for this provider.
    pub(crate) fn signed(&self) -> Result<SignedDelivery, SignError> {
        let url = self.signed_url();
        let unsigned = UnsignedRequest { method: "POST", url: &url, headers: &self.headers, body: &self.body };
        let now = EpochSec(now_unix() + self.clock_offset_seconds);
        let Self { provider, secret, settings, schemes, .. } = self;
        let signed = provider.sign_request_with(&unsigned, secret, settings, schemes, now)?;
        let headers = self.headers.iter().cloned().chain(signed.headers).collect();
        Ok(SignedDelivery { headers, body: signed.body })
    }

    /// The URL that some schemes sign: the endpoint's `public_url`, or else the address as a gateway sees it, with
    /// `https` and without a port.
    pub(crate) fn signed_url(&self) -> String {
        let query = self.url.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
        if let Some(public) = self.settings.get(PUBLIC_URL) {
            return if public.contains('?') { public.to_owned() } else { format!("{public}{query}") };
        }
        let Ok(url) = reqwest::Url::parse(&self.url) else { return self.url.clone() };
        format!("https://{}{}{query}", url.host_str().unwrap_or_default(), url.path())
    }
}

/// A delivery as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct SignedDelivery {
    /// The headers, with those of the signature.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The last status; `None` without any answer.
    pub(crate) status: Option<u16>,
    /// `accepted`, `duplicate`, or the code of the refusal.
    pub(crate) word: String,
    /// The record's id, if the answer holds it.
    pub(crate) id: Option<String>,
    /// Where the answer redirects to. Nothing was sent there.
    pub(crate) location: Option<String>,
    /// Number of attempts.
    pub(crate) attempts: u32,
    /// How long the last attempt took.
    pub(crate) duration: Duration,
}

#[derive(Debug, Default, Deserialize)]
struct Answer {
    status: Option<String>,
    error: Option<String>,
    id: Option<String>,
}

impl Delivered {
    /// What to do about a redirect; `None` for any other answer.
    pub(crate) fn redirect_note(&self) -> Option<String> {
        let location = self.location.as_deref()?;
        Some(format!(
            "it was redirected to {location}, and nothing was sent there: a delivery and its credentials go only to the \
             address that you give. If that one is right, pass it with --url"
        ))
    }
}

/// The client that all deliveries share.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    client: reqwest::Client,
    attempts_max: u32,
}

impl Sender {
    /// A client for a URL. It uses no proxy for an address on this machine, and follows no redirect: whoever answers
    /// would choose who gets the delivery and its token.
    pub(crate) fn new(url: &str, attempts_max: u32) -> Self {
        let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(Policy::none());
        let client = if is_here { client.no_proxy() } else { client };
        Self { client: client.build().unwrap_or_default(), attempts_max }
    }

    /// Delivers until the answer is final or the attempts are used up. Each attempt is signed again.
    ///
    /// # Errors
    /// [`SignError`] when the secret cannot sign for this provider.
    pub(crate) async fn deliver(&self, delivery: &DeliveryToSend) -> Result<Delivered, SignError> {
        let mut pause = FIRST_PAUSE;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let delivered = self.attempt(delivery, attempts).await?;
            let is_final = delivered.status.is_some_and(|status| status < 500 && status != 409 && status != 429);
            if is_final || attempts >= self.attempts_max {
                return Ok(delivered);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn attempt(&self, delivery: &DeliveryToSend, attempts: u32) -> Result<Delivered, SignError> {
        let signed = delivery.signed()?;
        Ok(Delivered { attempts, ..self.post(&delivery.url, signed).await })
    }

    /// Sends a request once, as it is.
    pub(crate) async fn post(&self, url: &str, request: SignedDelivery) -> Delivered {
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &request.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                map.insert(name, value);
            }
        }
        #[expect(clippy::disallowed_methods, reason = "the latency that a provider sees is measured here")]
        let started = std::time::Instant::now();
        let response = self.client.post(url).headers(map).body(request.body).send().await;
        let (status, location, headers, answer) = match response {
            Ok(response) => {
                let location = response.status().is_redirection().then(|| response.headers().get(LOCATION)).flatten();
                let location = location.map(|place| String::from_utf8_lossy(place.as_bytes()).into_owned());
                let text = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
                let headers = [ANSWER_STATUS, ANSWER_ID].map(text);
                (Some(response.status().as_u16()), location, headers, response.bytes().await.unwrap_or_default())
            }
            Err(_) => (None, None, [None, None], Vec::new().into()),
        };
        let answer: Answer = serde_json::from_slice(&answer).unwrap_or_default();
        let [stored, id] = headers;
        let word = answer.status.or(answer.error).or(stored).unwrap_or_else(|| word_of(status));
        Delivered { status, word, id: answer.id.or(id), location, attempts: 1, duration: started.elapsed() }
    }
}

/// The word for an answer that is not hookonce's own, such as a gateway's.
fn word_of(status: Option<u16>) -> String {
    let reason = status.and_then(|status| reqwest::StatusCode::from_u16(status).ok()?.canonical_reason());
    match (status, reason) {
        (Some(200..300), _) => "answered".to_owned(),
        (Some(_), Some(reason)) => reason.to_ascii_lowercase().replace([' ', '-'], "_"),
        (Some(_), None) => "refused".to_owned(),
        (None, _) => "no_answer".to_owned(),
    }
}

/// Now, in seconds since the epoch.
pub(crate) fn now_unix() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a provider signs with its own clock")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
