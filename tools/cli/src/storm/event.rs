//! The events of a storm, and the requests that carry them. Each has tokens that nobody else has.

use std::collections::BTreeSet;

use hookonce_providers::{Provider, Settings};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::scenario::Scenario;
use crate::dev::fixtures::{self, EventName, Sample, SampleRequest};
use crate::dev::sender::DeliveryToSend;
use crate::failure::Failure;

/// The host of the mail addresses in the samples. A trace may hold nothing of an event but its mail address.
const MAIL_HOST: &str = "@example.com";

/// How much older than the provider's limit a stale delivery is, in seconds.
const STALE_BEYOND_SECONDS: i64 = 3_600;

/// How many bytes a long body has more than others.
const LONG_BYTES: usize = 200 * 1024;

/// Text that a receiver changes when it prints again what it parsed, as members of an object.
const RAW: [&str; 7] = [
    r#""storm_text":"\u00e9\u00fc""#,
    r#""storm_text":"https:\/\/example.com\/a""#,
    r#""storm_number":1.0,"storm_power":1e3"#,
    r#""storm_number":1152921504606846976"#,
    "\"storm_text\":\"\u{1f600} \u{e9} \u{6f22}\"",
    r#""storm_text":"\ud83d\ude00""#,
    r#""storm_text" : "white space" , "storm_list":[ 1,2 ]"#,
];

/// Who sends, and what is signed with.
#[derive(Debug)]
pub(crate) struct Signer {
    pub(crate) url: String,
    pub(crate) provider: &'static Provider,
    pub(crate) secret: String,
    /// Of the same form, and known to nobody.
    pub(crate) wrong_secret: String,
    pub(crate) settings: Settings,
}

/// A request that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Those of the event, and those that signing added.
    pub(crate) headers: Vec<(String, String)>,
    /// How many of the first headers are the event's own.
    pub(crate) own_headers: usize,
    pub(crate) body: Vec<u8>,
}

/// The unsigned request of an event.
pub(crate) fn request(sample: &Sample, name: &EventName) -> SampleRequest {
    // Without changes, every place of a sample exists.
    let made = sample.request(name, &[]).unwrap_or_else(|_| SampleRequest { headers: Vec::new(), body: Vec::new() });
    let body = changed(made.body, |body| {
        harmless(body, name);
    });
    SampleRequest { headers: made.headers, body }
}

/// Several events in one delivery.
pub(crate) fn batch(sample: &Sample, names: &[EventName]) -> SampleRequest {
    let list = format!("/{}", sample.list().unwrap_or_default().replace('[', ".").replace(']', "").replace('.', "/"));
    let list = list.trim_end_matches('/');
    let mut requests = names.iter().map(|name| request(sample, name));
    let Some(mut first) = requests.next() else { return SampleRequest { headers: Vec::new(), body: Vec::new() } };
    let others = requests.filter_map(|other| {
        let body: Value = serde_json::from_slice(&other.body).ok()?;
        body.pointer(list)?.as_array()?.first().cloned()
    });
    let others: Vec<_> = others.collect();
    first.body = changed(first.body, |body| {
        if let Some(Value::Array(items)) = body.pointer_mut(list) {
            items.extend(others);
        }
    });
    first
}

/// The same event as the provider renders it when it sends it again.
pub(crate) fn rendered_again(sample: &Sample, provider: &Provider, first: &SampleRequest) -> SampleRequest {
    let body = changed(first.body.clone(), |body| {
        for path in provider.retry_changes() {
            let path = path.trim_start_matches("json:");
            let item = format!("{}[0].", sample.list().unwrap_or_default());
            let path = path.strip_prefix("@.").map_or_else(|| path.to_owned(), |rest| format!("{item}{rest}"));
            // A sample may lack what changes.
            let _ = fixtures::set(body, &path, "2");
        }
    });
    SampleRequest { headers: first.headers.clone(), body }
}

/// A body that does not survive being parsed and printed again. `None` where it is no JSON object.
pub(crate) fn raw(first: &SampleRequest, variant: usize) -> Option<SampleRequest> {
    let body = String::from_utf8(first.body.clone()).ok()?;
    let brace = body.find('{').filter(|at| body.get(..*at).is_some_and(|before| ["", "["].contains(&before)))?;
    let variant = variant % (RAW.len() + 2);
    let body = match RAW.get(variant) {
        Some(member) => insert(&body, brace, member),
        None if variant == RAW.len() => body + "\n",
        None => insert(&body, brace, &format!("\"storm_text\":\"{}\"", "x".repeat(LONG_BYTES))),
    };
    Some(SampleRequest { headers: first.headers.clone(), body: body.into_bytes() })
}

fn insert(body: &str, brace: usize, member: &str) -> String {
    let (before, after) = body.split_at(brace + 1);
    format!("{before}{member},{after}")
}

impl Signer {
    /// Signs a genuine request now.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the secret cannot sign for this provider.
    pub(crate) fn sign(&self, request: SampleRequest) -> Result<Request, Failure> {
        self.sign_with(request, &self.secret, &[], 0)
    }

    /// A request that must not be taken. `None` where the scenario is no forgery, or where there is nothing to change.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the secret cannot sign for this provider.
    pub(crate) fn forge(
        &self,
        scenario: Scenario,
        request: SampleRequest,
        tokens: &[String],
        seed: u64,
    ) -> Result<Option<Request>, Failure> {
        match scenario {
            Scenario::Secret => self.sign_with(request, &self.wrong_secret, &[], 0).map(Some),
            Scenario::Byte => {
                let mut signed = self.sign(request)?;
                Ok(change_digit(&mut signed.body, tokens, seed).then_some(signed))
            }
            Scenario::Unsigned => {
                let own_headers = request.headers.len();
                Ok(Some(Request { headers: request.headers, own_headers, body: request.body }))
            }
            Scenario::Weaker => {
                let weaker: Vec<_> = self.provider.weaker_schemes().take(1).map(str::to_owned).collect();
                self.sign_with(request, &self.secret, &weaker, 0).map(Some)
            }
            Scenario::Stale => {
                let limit = self.provider.age_limit().map_or(0, |limit| limit.0 / 1_000);
                self.sign_with(request, &self.secret, &[], -limit - STALE_BEYOND_SECONDS).map(Some)
            }
            Scenario::Copies
            | Scenario::Race
            | Scenario::GivenUp
            | Scenario::Cut
            | Scenario::Later
            | Scenario::Restart
            | Scenario::Rendering
            | Scenario::Regrouped
            | Scenario::Raw => Ok(None),
        }
    }

    fn sign_with(
        &self,
        request: SampleRequest,
        secret: &str,
        schemes: &[String],
        clock_offset_seconds: i64,
    ) -> Result<Request, Failure> {
        let own_headers = request.headers.len();
        let delivery = DeliveryToSend {
            url: self.url.clone(),
            provider: self.provider,
            secret: secret.to_owned(),
            settings: self.settings.clone(),
            schemes: schemes.to_owned(),
            headers: request.headers,
            body: request.body,
            clock_offset_seconds,
        };
        let signed = delivery.signed().map_err(|error| {
            let how = format!("`hookonce providers {}` shows how it signs", self.provider.id());
            Failure::usage(error.to_string(), how)
        })?;
        Ok(Request { headers: signed.headers, own_headers, body: signed.body })
    }
}

/// Changes one digit that is no part of a token. False if there is none.
fn change_digit(body: &mut [u8], tokens: &[String], seed: u64) -> bool {
    let text = String::from_utf8_lossy(body).into_owned();
    let taken: BTreeSet<usize> = tokens
        .iter()
        .flat_map(|token| text.match_indices(token.as_str()).map(|(at, found)| at..at + found.len()))
        .flatten()
        .collect();
    let is_free = |(at, byte): &(usize, &u8)| byte.is_ascii_digit() && !taken.contains(at);
    let places: Vec<_> = body.iter().enumerate().filter(is_free).map(|(at, _)| at).collect();
    if places.is_empty() {
        return false;
    }
    let place = places.get(StdRng::seed_from_u64(seed).random_range(0..places.len()));
    let Some(digit) = place.and_then(|at| body.get_mut(*at)) else { return false };
    // Never a zero, which must not lead a number.
    *digit = if *digit == b'9' { b'8' } else { *digit + 1 };
    true
}

/// Changes a body that is JSON, and prints it without white space. Any other stays.
fn changed(body: Vec<u8>, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let Ok(mut parsed) = serde_json::from_slice::<Value>(&body) else { return body };
    change(&mut parsed);
    parsed.to_string().into_bytes()
}

/// Nothing in it is of a live account, and each mail address is the event's own.
fn harmless(value: &mut Value, name: &EventName) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                if ["livemode", "live_mode"].contains(&member.as_str()) && value.is_boolean() {
                    *value = Value::Bool(false);
                }
                harmless(value, name);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| harmless(item, name)),
        Value::String(text) if text.ends_with(MAIL_HOST) => *text = format!("{}{MAIL_HOST}", name.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use hookonce_providers::Catalog;
    use serde_json::json;

    use super::*;

    fn sample(name: &str) -> &'static Sample {
        fixtures::find(name).unwrap()
    }

    fn name(number: usize) -> EventName {
        EventName::numbered(1, number)
    }

    fn signer(provider: &str) -> Signer {
        let provider = Catalog::built_in().provider(provider).unwrap();
        Signer {
            url: "http://127.0.0.1:3000/in".to_owned(),
            provider,
            secret: "whsec_4f9a0c7712e8b35d4f9a0c77".to_owned(),
            wrong_secret: "whsec_d53b8e2177c0a9f4d53b8e21".to_owned(),
            settings: Settings::none(),
        }
    }

    #[test]
    fn what_is_sent_is_never_of_a_live_account() {
        let mut body = json!({ "livemode": true, "data": [{ "livemode": true, "live_mode": true }], "other": true });
        harmless(&mut body, &name(1));
        assert_eq!(
            body,
            json!({ "livemode": false, "data": [{ "livemode": false, "live_mode": false }], "other": true })
        );
        for sample in fixtures::all() {
            let body = request(sample, &name(1)).body;
            let text = String::from_utf8_lossy(&body).into_owned();
            assert!(!text.contains("\"livemode\":true") && !text.contains("\"live_mode\":true"), "{}", sample.name());
        }
    }

    #[test]
    fn every_event_has_tokens_that_no_other_has() {
        for sample in fixtures::all().iter().filter(|sample| sample.name() != "dropbox.list_folder") {
            let made = [1, 2].map(|number| {
                let SampleRequest { headers, body } = request(sample, &name(number));
                format!("{headers:?}{}", String::from_utf8_lossy(&body))
            });
            for token in sample.tokens(&name(1)) {
                assert!(made[0].contains(&token) && !made[1].contains(&token), "{}: {token}", sample.name());
            }
            assert!(!sample.tokens(&name(1)).is_empty(), "{}", sample.name());
        }
    }

    #[test]
    fn a_mail_address_is_the_events_own() {
        let body = request(sample("stripe.invoice.paid"), &name(7)).body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["data"]["object"]["customer_email"], "storm0000000100007@example.com");
    }

    #[test]
    fn a_batch_holds_every_event_once() {
        for (of, list) in [
            ("meta_whatsapp.message", "/entry/0/changes/0/value/messages"),
            ("gocardless.payments.confirmed", "/events"),
            ("hubspot.deal.creation", ""),
        ] {
            let made = batch(sample(of), &[name(1), name(2), name(3)]);
            let body: Value = serde_json::from_slice(&made.body).unwrap();
            assert_eq!(body.pointer(list).unwrap().as_array().unwrap().len(), 3, "{of}");
            for number in 1..=3 {
                let tokens = sample(of).tokens(&name(number));
                let text = body.to_string();
                assert!(tokens.iter().any(|token| text.contains(token)), "{of} {number}");
            }
        }
    }

    #[test]
    fn a_rendering_differs_in_what_the_catalog_names_and_in_nothing_else() {
        let (of, paddle) = (sample("paddle_billing.transaction.completed"), signer("paddle_billing").provider);
        let first = request(of, &name(1));
        let again = rendered_again(of, paddle, &first);
        let mut bodies = [&first, &again].map(|request| serde_json::from_slice::<Value>(&request.body).unwrap());
        assert_ne!(bodies[0], bodies[1]);
        for body in &mut bodies {
            body["notification_id"] = Value::Null;
        }
        assert_eq!(bodies[0], bodies[1]);
    }

    #[test]
    fn raw_bodies_are_json_and_most_of_them_change_when_they_are_printed_again() {
        let first = request(sample("stripe.invoice.paid"), &name(1));
        let bodies: Vec<_> = (0..9).map(|variant| raw(&first, variant).unwrap().body).collect();
        let changes = |body: &Vec<u8>| {
            let parsed: Value = serde_json::from_slice(body).unwrap();
            assert_eq!(parsed["id"], "evt_storm0000000100001");
            parsed.to_string().into_bytes() != *body
        };
        assert!(bodies.iter().filter(|body| changes(body)).count() >= 6);
        assert!(bodies.iter().any(|body| body.len() > LONG_BYTES));
        let xml = request(sample("braintree.subscription_charged_successfully"), &name(1));
        assert!(raw(&xml, 0).is_none());
    }

    #[test]
    fn a_forgery_is_refused_by_the_provider_rules_and_the_genuine_request_is_not() {
        use hookonce_protocol::time::EpochSec;
        use hookonce_providers::Received;
        for provider in ["stripe", "github", "paddle_billing"] {
            let signer = signer(provider);
            let of = fixtures::all().iter().find(|sample| sample.provider == provider).unwrap();
            let (keyring, settings) =
                signer.provider.configure(std::slice::from_ref(&signer.secret), Settings::none(), &[]).unwrap();
            let taken = |request: &Request| {
                let headers: Vec<_> =
                    request.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
                let url = "https://127.0.0.1/in";
                let request =
                    hookonce_providers::Request { method: "POST", url, headers: &headers, body: &request.body };
                let now = EpochSec(crate::dev::sender::now_unix());
                let received = signer.provider.receive(&request, &keyring, &settings, None, now);
                matches!(received, Ok(Received::Delivery(_)))
            };
            assert!(taken(&signer.sign(request(of, &name(1))).unwrap()), "{provider}");
            let forgeries = [Scenario::Secret, Scenario::Byte, Scenario::Unsigned, Scenario::Weaker, Scenario::Stale];
            let planned = super::super::scenario::planned(signer.provider, true);
            let is_sent = |scenario| planned.iter().any(|planned| planned.scenario == scenario && planned.is_sent);
            for scenario in forgeries.into_iter().filter(|scenario| is_sent(*scenario)) {
                let tokens = of.tokens(&name(1));
                let forged = signer.forge(scenario, request(of, &name(1)), &tokens, 3).unwrap().unwrap();
                assert!(!taken(&forged), "{provider} {scenario}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_no_part_of_a_token_and_leaves_json() {
        let of = sample("stripe.invoice.paid");
        for seed in 0..200 {
            let tokens = of.tokens(&name(1));
            let forged = signer("stripe").forge(Scenario::Byte, request(of, &name(1)), &tokens, seed).unwrap().unwrap();
            let body: Value = serde_json::from_slice(&forged.body).unwrap();
            assert_eq!(body["id"], "evt_storm0000000100001");
        }
    }
}
