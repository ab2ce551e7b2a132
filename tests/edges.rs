//! Handshakes, secret rotation, and endpoints that come and go.

use hookonce_protocol::time::Millis;
use hookonce_providers::hashed_bytes;
use hookonce_runtime::endpoint::{ABSENT_PER_MINUTE_MAX, REFRESH_PAUSE, UNLISTED_PER_MINUTE_MAX};
use hookonce_runtime::index::SHARDS;
use hookonce_runtime::listing::INDEX_AGE_MAX;
use hookonce_runtime::port::INDEX_TEXTS_MAX;
use serde_json::{Value, json};

use crate::support::delivery::secret;
use crate::support::logs::Logs;
use crate::support::samples::{bytes, invoice_paid, json as recorded};
use crate::support::{Delivery, Harness, Script, word};

#[tokio::test]
async fn an_old_secret_still_verifies_and_the_record_says_which_one_it_was() {
    let harness = Harness::new().await;
    let logs = Logs::catch("info");
    harness.endpoints.change("stripe", "secrets", json!(["whsec_new_signing_secret", "whsec_old_signing_secret"]));
    harness.deliver(&invoice_paid("evt_new", "in_1", 1).signed_with("whsec_new_signing_secret")).await;
    harness.deliver(&invoice_paid("evt_old", "in_2", 1).signed_with("whsec_old_signing_secret")).await;
    let tables = harness.tables().await;
    assert_eq!(tables.record("#evt_new").secret_index, 0);
    assert_eq!(tables.record("#evt_old").secret_index, 1);
    assert_eq!(harness.metric("old_secret_used"), 1);
    assert_eq!(harness.metric("secret_index"), 1, "0 and 1");
    let said: Vec<Value> = logs.take().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = said.iter().filter(|line| line["message"] == "delivery acknowledged");
    let indices: Vec<_> = said.map(|line| line["secret.index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1]);
    // The record's key does not depend on the secret: the same event under the other secret is the same record.
    let again = invoice_paid("evt_old", "in_2", 1).signed_with("whsec_new_signing_secret");
    assert_eq!(word(&harness.deliver(&again).await), (200, "duplicate".to_owned()));
}

/// Providers sign the URL that they call: it is what the configuration says, or else the gateway, and never the caller.
#[tokio::test]
async fn the_signed_url_is_that_of_the_configuration_or_of_the_gateway() {
    let mut harness = Harness::new().await;
    harness.endpoints.put("square", json!({ "provider": "square", "secrets": [secret("square")] }).to_string());
    let send = |event: &str, domain: &str| {
        let body = json!({ "event_id": event, "type": "payment.created" }).to_string();
        let mut event = Delivery::new("square", body).header("host", "hooks.example.com").event(&harness.clock);
        event["requestContext"]["domainName"] = json!(domain);
        event
    };
    let (signed, other) = ("hooks.example.com", "api.example.net");
    let events = [send("1", signed), send("2", other), send("3", other)];
    let webhook = harness.webhook(&Script::none());
    assert_eq!(webhook.handle(events[0].clone()).await.status_code, 200);
    assert_eq!(word(&webhook.handle(events[1].clone()).await), (401, "signature_mismatch".to_owned()));
    harness.edge.public_url = Some("https://hooks.example.com/".to_owned());
    assert_eq!(harness.webhook(&Script::none()).handle(events[2].clone()).await.status_code, 200);
}

#[tokio::test]
async fn a_path_may_have_a_stage_in_front_and_a_slash_at_its_end() {
    let harness = Harness::new().await;
    for (number, path) in ["/webhooks/stripe", "/webhooks/stripe/", "/prod/webhooks/stripe"].iter().enumerate() {
        let mut event = invoice_paid(&format!("evt_{number}"), "in_1", 1).event(&harness.clock);
        event["rawPath"] = json!(path);
        assert_eq!(harness.webhook(&Script::none()).handle(event).await.status_code, 200, "{path}");
    }
}

/// A list of schemes that was changed counts at once, as a rotated secret does.
#[tokio::test]
async fn a_scheme_that_is_not_taken_has_the_document_fetched_again() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let push = Delivery::new("github", bytes("deliveries/github-push.json"));
    harness.endpoints.change("github", "schemes", json!(["sha1"]));
    let refused = webhook.handle(push.event(&harness.clock)).await;
    assert_eq!(word(&refused), (401, "scheme_not_taken".to_owned()));
    harness.clock.advance(REFRESH_PAUSE);
    harness.endpoints.change("github", "schemes", json!(["sha256"]));
    assert_eq!(word(&webhook.handle(push.event(&harness.clock)).await), (200, "accepted".to_owned()));
}

/// What comes with the new secret counts with it: here the tenant.
#[tokio::test]
async fn a_delivery_that_a_changed_document_verifies_is_kept_as_that_document_says() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str, secret: &str| invoice_paid(event, "in_1", 1).signed_with(secret).event(&harness.clock);
    harness.endpoints.change("stripe", "secrets", json!(["whsec_old_signing_secret"]));
    assert_eq!(webhook.handle(send("evt_1", "whsec_old_signing_secret")).await.status_code, 200);
    harness.endpoints.change("stripe", "secrets", json!(["whsec_new_signing_secret"]));
    harness.endpoints.change("stripe", "tenant", json!("shop"));
    harness.clock.advance(REFRESH_PAUSE);
    assert_eq!(webhook.handle(send("evt_2", "whsec_new_signing_secret")).await.status_code, 200);
    let line = harness.metric_lines().pop().unwrap();
    assert!(line.contains(r#""tenant":"shop""#), "{line}");
    let tables = harness.tables().await;
    let tenant = |event: &str| tables.record(event).tenant.as_ref().map(|tenant| tenant.as_str().to_owned());
    assert_eq!((tenant("#evt_1"), tenant("#evt_2").as_deref()), (None, Some("shop")));
}

/// The document is fetched again, but a body is hashed a second time only if the document changed.
#[test]
fn an_unchanged_document_costs_a_forger_no_second_pass() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let harness = runtime.block_on(Harness::new());
    let webhook = harness.webhook(&Script::none());
    let hashed = |secrets: &[&str]| {
        harness.clock.advance(REFRESH_PAUSE);
        harness.endpoints.change("stripe", "secrets", json!(secrets));
        let forged = invoice_paid("evt_1", "in_1", 1).signed_with("a guess").event(&harness.clock);
        let (answer, bytes) = hashed_bytes(|| runtime.block_on(webhook.handle(forged)));
        assert_eq!(answer.status_code, 401);
        bytes
    };
    let [first, second] = ["whsec_first_signing_secret", "whsec_second_signing_secret"];
    let one_pass = hashed(&[first]);
    assert_eq!(hashed(&[first]), one_pass, "fetched again and unchanged");
    assert_eq!(hashed(&[second]), 2 * one_pass, "fetched again and changed");
    assert_eq!(harness.endpoints.fetches(), 3);
}

#[tokio::test]
async fn a_new_secret_is_found_at_the_first_mismatch_but_not_asked_for_without_end() {
    let harness = Harness::new().await;
    harness.endpoints.change("stripe", "secrets", json!(["whsec_old_signing_secret"]));
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str, secret: &str| invoice_paid(event, "in_1", 1).signed_with(secret).event(&harness.clock);
    assert_eq!(webhook.handle(send("evt_1", "whsec_old_signing_secret")).await.status_code, 200);
    assert_eq!(harness.endpoints.fetches(), 1);

    // The secret is rotated. A function that has just fetched the document waits before it fetches again.
    harness.endpoints.change("stripe", "secrets", json!(["whsec_new_signing_secret", "whsec_old_signing_secret"]));
    harness.clock.advance(Millis::seconds(9));
    assert_eq!(webhook.handle(send("evt_2", "whsec_new_signing_secret")).await.status_code, 401);
    assert_eq!(harness.endpoints.fetches(), 1);
    harness.clock.advance(Millis::seconds(1));
    assert_eq!(webhook.handle(send("evt_2", "whsec_new_signing_secret")).await.status_code, 200);
    assert_eq!(harness.endpoints.fetches(), 2);

    // Any number of forged deliveries causes at most one fetch per pause.
    harness.clock.advance(Millis::seconds(10));
    for _ in 0..20 {
        assert_eq!(webhook.handle(send("evt_3", "a guess")).await.status_code, 401);
    }
    assert_eq!(harness.endpoints.fetches(), 3);
}

#[tokio::test]
async fn a_cached_document_outlives_its_source_which_is_asked_once_in_a_pause() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str, secret: &str| invoice_paid(event, "in_1", 1).signed_with(secret).event(&harness.clock);
    let genuine = secret("stripe");
    assert_eq!(webhook.handle(send("evt_1", genuine)).await.status_code, 200);
    harness.endpoints.set_down(true);
    harness.clock.advance(Millis::seconds(299));
    assert_eq!(webhook.handle(send("evt_2", genuine)).await.status_code, 200);
    assert_eq!(harness.endpoints.fetches(), 1, "served from the cache");
    harness.clock.advance(Millis::seconds(1));
    for index in 0..10 {
        let stale = webhook.handle(send(&format!("evt_{index}"), genuine)).await;
        assert_eq!(stale.status_code, 200, "a stale document is better than none");
        assert_eq!(webhook.handle(send("evt_forged", "a guess")).await.status_code, 401);
    }
    assert_eq!(harness.endpoints.fetches(), 2, "otherwise each delivery would wait for a timeout");
    harness.clock.advance(Millis::seconds(10));
    assert_eq!(webhook.handle(send("evt_last", genuine)).await.status_code, 200);
    assert_eq!(harness.endpoints.fetches(), 3, "it is asked again");
}

#[tokio::test]
async fn an_endpoint_that_was_just_added_is_found_after_its_absence_was_remembered() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = || invoice_paid("evt_1", "in_1", 1).to("late").event(&harness.clock);
    assert_eq!(webhook.handle(send()).await.status_code, 404);
    let secret = secret("stripe");
    harness.endpoints.put("late", json!({ "provider": "stripe", "secrets": [secret] }).to_string());
    assert_eq!(webhook.handle(send()).await.status_code, 404);
    harness.clock.advance(Millis::seconds(30));
    assert_eq!(webhook.handle(send()).await.status_code, 200);
}

#[tokio::test]
async fn a_document_that_cannot_be_used_is_not_asked_for_with_every_delivery() {
    let harness = Harness::new().await;
    harness.endpoints.put("broken", r#"{"provider":"nobody","secrets":["s"]}"#);
    let webhook = harness.webhook(&Script::none());
    let send = |to: &str| invoice_paid("evt_1", "in_1", 1).to(to).event(&harness.clock);
    let logs = Logs::catch("info");
    for _ in 0..5 {
        assert_eq!(webhook.handle(send("broken")).await.status_code, 503);
    }
    assert_eq!(harness.endpoints.fetches(), 1);
    assert_eq!(logs.take().matches("endpoint lookup failed").count(), 1, "once for each read");
    harness.endpoints.set_down(true);
    for _ in 0..5 {
        assert_eq!(webhook.handle(send("stripe")).await.status_code, 503);
    }
    assert_eq!(harness.endpoints.fetches(), 2);
    harness.endpoints.set_down(false);
    harness.clock.advance(Millis::seconds(1));
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200, "the source is asked again soon");
    harness.clock.advance(Millis::seconds(9));
    assert_eq!(webhook.handle(send("broken")).await.status_code, 503);
    assert_eq!(harness.endpoints.fetches(), 4, "a broken document is not fetched again so soon");
}

/// Anyone can invent ids. Known endpoints keep working, and the number of lookups is limited.
#[tokio::test]
async fn ids_that_name_no_endpoint_cost_a_bounded_number_of_reads() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |to: &str| invoice_paid("evt_1", "in_1", 1).to(to).event(&harness.clock);
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200);
    let logs = Logs::catch("info");
    for number in 0..2 * ABSENT_PER_MINUTE_MAX {
        let answer = webhook.handle(send(&format!("invented-{number}"))).await;
        let expected = if number < ABSENT_PER_MINUTE_MAX { (404, false) } else { (503, true) };
        assert_eq!((answer.status_code, answer.headers.contains_key("retry-after")), expected, "{number}");
    }
    assert!(!logs.take().contains("endpoint lookup failed"), "unauthenticated requests fill no log");
    assert_eq!(harness.endpoints.fetches(), 1 + ABSENT_PER_MINUTE_MAX);
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200);
    harness.clock.advance(Millis::minutes(1));
    assert_eq!(webhook.handle(send("invented-x")).await.status_code, 404);
}

/// With an index, ids that nobody has cost no read of their own, and never a known one.
#[tokio::test]
async fn invented_ids_cost_no_read_each_and_harm_no_endpoint_that_the_index_lists() {
    let harness = Harness::new().await;
    harness.endpoints.write_index();
    let webhook = harness.webhook(&Script::none());
    let send = |to: &str| invoice_paid("evt_1", "in_1", 1).to(to).event(&harness.clock);
    for number in 0..1_000 {
        assert_eq!(webhook.handle(send(&format!("invented-{number}"))).await.status_code, 404, "{number}");
    }
    let fetches = harness.endpoints.fetches();
    println!("1,000 invented ids: {fetches} reads");
    // The first reads bring the index, and so does a read of an id that it does not list.
    let least = 1 + UNLISTED_PER_MINUTE_MAX;
    assert!((least..=usize::from(SHARDS).div_ceil(INDEX_TEXTS_MAX) + UNLISTED_PER_MINUTE_MAX).contains(&fetches));
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200, "a known one is read even now");
    assert_eq!(harness.endpoints.fetches(), fetches + 1);
    // What was added after the index was written is found as soon as the minute allows.
    let secret = secret("stripe");
    harness.endpoints.put("late", json!({ "provider": "stripe", "secrets": [secret] }).to_string());
    assert_eq!(webhook.handle(send("late")).await.status_code, 404);
    harness.clock.advance(Millis::minutes(1));
    assert_eq!(webhook.handle(send("late")).await.status_code, 200);
    // An index that is old is read again beside the documents, and one that cannot be read stays in use.
    harness.clock.advance(INDEX_AGE_MAX);
    harness.endpoints.set_down(true);
    for number in 0..100 {
        webhook.handle(send(&format!("more-{number}"))).await;
    }
    harness.endpoints.set_down(false);
    assert_eq!(webhook.handle(send("github")).await.status_code, 401, "found, and judged");
}

#[tokio::test]
async fn messages_of_strangers_fail_alone() {
    let harness = Harness::with(crate::support::counting::counting).await;
    harness.deliver(&crate::support::counting::count("msg_known", "order-1")).await;
    let batch = serde_json::from_value(recorded("sqs/strangers.json")).unwrap();
    let response = Box::pin(harness.worker(&Script::none()).handle(batch, harness.deadline())).await;
    let kept: Vec<_> = response.failures.iter().map(|failure| failure.message_id[7..8].to_owned()).collect();
    // Kept: not JSON, a later version, a later kind, an array. Done: the known record and an unknown one.
    assert_eq!(kept, ["0", "2", "3", "5"]);
    assert_eq!(harness.metric("message_malformed"), 2);
    assert_eq!(harness.metric("unknown_version"), 2);
    assert_eq!(harness.metric("record_absent"), 1);
    assert_eq!(harness.metric("event_applied"), 1);
}

#[tokio::test]
async fn the_schedule_runs_the_relay() {
    let harness = Harness::new().await;
    let report = harness.relay_on(recorded("schedule/every-minute.json"), harness.deadline()).await;
    assert_eq!(report, json!({ "due": 0, "sent": 0, "failed": 0 }));
}
