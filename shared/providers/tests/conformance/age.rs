//! Every signed time has a limit, which follows from what the facts say of retries, and it holds to the second.

use hookonce_protocol::time::{EpochSec, Millis};
use hookonce_providers::limits::TOLERANCE_SECONDS_MAX;
use hookonce_providers::{CapturedRequest, Catalog, Extent, Provider, Received, Refusal, TimeOnRetry};

use crate::support::{NOW, SIGNATURES, SMALL, provider, receive, sign, valid, without_headers};

/// The names of a provider's schemes. A single one has none.
fn schemes(provider: &Provider) -> Vec<String> {
    let written = serde_json::to_value(provider).unwrap();
    let schemes = written["scheme"].as_array().unwrap().iter();
    schemes.map(|scheme| scheme["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What becomes of a delivery that this scheme signed so many seconds ago.
fn judged(captured: &CapturedRequest, scheme: &str, age: i64, tolerance: Option<Millis>) -> Option<Refusal> {
    let schemes = if scheme.is_empty() { Vec::new() } else { vec![scheme.to_owned()] };
    let bare = without_headers(captured, &SIGNATURES);
    let signed = sign(&CapturedRequest { schemes: schemes.clone(), now: EpochSec(NOW.0 - age), ..bare }).unwrap();
    let provider = provider(&captured.provider);
    let secrets = signed.secrets.get(..1).unwrap();
    let (keyring, settings) = provider.configure(secrets, signed.settings.clone(), &schemes).unwrap();
    match provider.receive(&signed.request(), &keyring, &settings, tolerance, NOW) {
        Ok(Received::Delivery(_)) => None,
        Ok(other) => panic!("{}: {other:?}", provider.id()),
        Err(refusal) => Some(refusal),
    }
}

#[test]
fn a_signed_time_is_taken_to_the_second_of_its_limit_and_not_beyond() {
    let late = Some(Refusal::TimestampOutOfRange);
    let mut timed = Vec::new();
    for provider in Catalog::built_in().iter().filter(|provider| provider.can_sign()) {
        let (id, captured) = (provider.id(), valid(provider.id()));
        for scheme in schemes(provider) {
            // Long before everything that could be a limit.
            let age = 5 * 365 * 86_400;
            if judged(captured, &scheme, age, None).is_none() {
                assert_eq!(judged(captured, &scheme, -age, None), None, "{id} {scheme}");
                continue;
            }
            timed.push(format!("{id} {scheme}").trim_end().to_owned());
            // A token of LiveKit is valid for 5 minutes, and 10 s more for clocks.
            let (oldest, newest) =
                provider.age_limit().map_or((309, 10), |limit| (limit.as_seconds(), limit.as_seconds().min(300)));
            for (age, refusal) in [(oldest, None), (oldest + 1, late), (-newest, None), (-newest - 1, late), (0, None)]
            {
                assert_eq!(judged(captured, &scheme, age, None), refusal, "{id} {scheme}: {age} s");
            }
            if provider.age_limit().is_some() {
                for (age, refusal) in [(9, None), (10, late)] {
                    let own = Some(Millis::seconds(9));
                    assert_eq!(judged(captured, &scheme, age, own), refusal, "{id} {scheme}: its own limit");
                }
            }
        }
    }
    assert_eq!(
        timed.join(", "),
        "anthropic, bigcommerce, brex, calendly, clerk, contentful, elevenlabs, gitlab signing-token, hubspot v3, linear, \
         livekit, mailgun, mux, openai, paddle_billing, recall standard, recall svix, replicate, resend, retell, sanity, \
         slack, standard_webhooks, stripe, svix svix, svix standard, twitch_eventsub, vonage, workos, zendesk, zoom"
    );
}

/// Also from those that nobody else can sign for: the delivery is older because it is judged later.
#[test]
fn a_delivery_is_taken_until_its_limit_from_every_provider_that_signs_a_time() {
    let mut timed = 0;
    for provider in Catalog::built_in().iter() {
        let (id, facts, captured) = (provider.id(), provider.facts(), valid(provider.id()));
        // The sample of SNS was published 10 s before it came.
        let signed_at = captured.now.0 - if id == "aws_sns" { 10 } else { 0 };
        let later = |seconds| {
            let now = EpochSec(signed_at + seconds);
            receive(provider, &CapturedRequest { now, ..captured.clone() }).err()
        };
        if facts.time_on_retry == TimeOnRetry::None {
            assert_eq!(later(5 * 365 * 86_400), None, "{id}: its facts say that no time is signed");
            continue;
        }
        timed += 1;
        let oldest = provider.age_limit().map_or(309, Millis::as_seconds);
        assert_eq!(later(oldest), None, "{id}");
        assert_eq!(later(oldest + 1), Some(Refusal::TimestampOutOfRange), "{id}");
    }
    assert_eq!(timed, 35);
}

#[test]
fn what_is_signed_shows_whether_a_retry_can_have_another_time() {
    for provider in Catalog::built_in().iter() {
        let (id, facts) = (provider.id(), provider.facts());
        if provider.coverage().time == Extent::Yes {
            assert_ne!(facts.time_on_retry, TimeOnRetry::None, "{id}");
        }
        let limit = provider.age_limit().map_or(0, Millis::as_seconds);
        assert!(limit <= i64::from(TOLERANCE_SECONDS_MAX), "{id}: an endpoint cannot set its provider's own limit");
    }
}

/// The field that a file is refused at.
fn refused(text: &str) -> Option<String> {
    Catalog::parse([("acme.toml", text)]).err().map(|error| error.field)
}

#[test]
fn a_limit_that_does_not_follow_from_the_facts_is_refused() {
    let limit = "tolerance_seconds = 300";
    for (on_retry, hours, seconds, from, field) in [
        ("new", "", 300, "", None),
        ("new", "", 5, "", Some("scheme[0]")),
        ("new", "", 301, "", Some("scheme[0]")),
        ("new", "", 600, "x", None),
        ("new", "", 300, "x", Some("scheme[0]")),
        ("same", "retry_hours_max = 24", 25 * 3_600, "", None),
        ("same", "retry_hours_max = 24", 25 * 3_600 - 1, "", Some("scheme[0]")),
        ("same", "retry_hours_max = 24", 25 * 3_600 + 1, "", Some("scheme[0]")),
        ("same", "retry_hours_max = 24", 25 * 3_600 + 1, "x", None),
        ("unknown", "retry_hours_max = 24", 300, "x", Some("scheme[0]")),
        ("unknown", "retry_hours_max = 0", 3_600, "", None),
        ("unknown", "", 73 * 3_600, "", None),
        ("unknown", "", 300, "", Some("scheme[0]")),
        ("none", "", 300, "", Some("facts.time_on_retry")),
        ("often", "", 300, "", Some("file")),
        ("new", "", 604_801, "x", Some("scheme[0].timestamp.tolerance_seconds")),
    ] {
        let from = if from.is_empty() { String::new() } else { format!("time_limit_from = \"{from}\"") };
        let facts = format!("time_on_retry = \"{on_retry}\"\n{hours}\n{from}");
        let text = SMALL.replacen("time_on_retry = \"new\"", &facts, 1).replacen(
            limit,
            &format!("tolerance_seconds = {seconds}"),
            1,
        );
        assert_eq!(refused(&text).as_deref(), field, "{on_retry} {hours} {seconds} {from}");
    }
    // Neither can be left out, and what is not signed has no time.
    assert_eq!(refused(&SMALL.replacen(&format!(", {limit}"), "", 1)).as_deref(), Some("file"));
    assert_eq!(refused(&SMALL.replacen("time_on_retry = \"new\"\n", "", 1)).as_deref(), Some("file"));
    let untimed = SMALL.replacen("{ts}.{body}", "{body}", 1).replacen("timestamp = ", "# ", 1);
    assert_eq!(refused(&untimed).as_deref(), Some("facts.time_on_retry"));
    // A time that is signed only as a part of the body counts, too.
    let in_body = SMALL.replacen("{ts}.{body}", "{body}", 1).replacen("pair:t", "json:$.sent_at", 1).replacen(
        limit,
        "tolerance_seconds = 60",
        1,
    );
    assert_eq!(refused(&in_body).as_deref(), Some("scheme[0]"));
}
