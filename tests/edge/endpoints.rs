//! Handshakes, secret rotation, and endpoints that come and go.

use hookonce_protocol::time::Millis;
use hookonce_providers::hashed_bytes;
use hookonce_runtime::documents::endpoint::REFRESH_PAUSE;
use serde_json::{Value, json};

use crate::support::delivery::secret;
use crate::support::logs::Logs;
use crate::support::samples::{bytes, invoice_paid, json as recorded};
use crate::support::{Delivery, Harness, Script, word};

#[tokio::test]
async fn an_old_secret_still_verifies_and_the_record_keeps_its_index() {
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
    let lines: Vec<Value> = logs.take().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines = lines.iter().filter(|line| line["message"] == "delivery acknowledged");
    let indices: Vec<_> = lines.map(|line| line["secret.index"].as_u64().unwrap()).collect();
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
async fn a_delivery_that_a_changed_document_verifies_gets_its_tenant() {
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
    assert_eq!(harness.endpoints.reads(), 3);
}

#[tokio::test]
async fn a_new_secret_is_found_at_the_first_mismatch_but_not_read_without_end() {
    let harness = Harness::new().await;
    harness.endpoints.change("stripe", "secrets", json!(["whsec_old_signing_secret"]));
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str, secret: &str| invoice_paid(event, "in_1", 1).signed_with(secret).event(&harness.clock);
    assert_eq!(webhook.handle(send("evt_1", "whsec_old_signing_secret")).await.status_code, 200);
    assert_eq!(harness.endpoints.reads(), 1);

    // The secret is rotated. A function that has just fetched the document waits before it fetches again.
    harness.endpoints.change("stripe", "secrets", json!(["whsec_new_signing_secret", "whsec_old_signing_secret"]));
    harness.clock.advance(Millis::seconds(9));
    assert_eq!(webhook.handle(send("evt_2", "whsec_new_signing_secret")).await.status_code, 401);
    assert_eq!(harness.endpoints.reads(), 1);
    harness.clock.advance(Millis::seconds(1));
    assert_eq!(webhook.handle(send("evt_2", "whsec_new_signing_secret")).await.status_code, 200);
    assert_eq!(harness.endpoints.reads(), 2);

    // Any number of forged deliveries causes at most one fetch per pause.
    harness.clock.advance(Millis::seconds(10));
    for _ in 0..20 {
        assert_eq!(webhook.handle(send("evt_3", "a guess")).await.status_code, 401);
    }
    assert_eq!(harness.endpoints.reads(), 3);
}

#[tokio::test]
async fn a_cached_document_outlives_its_source_which_is_read_once_in_a_pause() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str, secret: &str| invoice_paid(event, "in_1", 1).signed_with(secret).event(&harness.clock);
    let genuine = secret("stripe");
    assert_eq!(webhook.handle(send("evt_1", genuine)).await.status_code, 200);
    harness.endpoints.set_down(true);
    harness.clock.advance(Millis::seconds(299));
    assert_eq!(webhook.handle(send("evt_2", genuine)).await.status_code, 200);
    assert_eq!(harness.endpoints.reads(), 1, "served from the cache");
    harness.clock.advance(Millis::seconds(1));
    for index in 0..10 {
        let stale = webhook.handle(send(&format!("evt_{index}"), genuine)).await;
        assert_eq!(stale.status_code, 200, "a stale document is better than none");
        assert_eq!(webhook.handle(send("evt_forged", "a guess")).await.status_code, 401);
    }
    assert_eq!(harness.endpoints.reads(), 2, "otherwise each delivery would wait for a timeout");
    harness.clock.advance(Millis::seconds(10));
    assert_eq!(webhook.handle(send("evt_last", genuine)).await.status_code, 200);
    assert_eq!(harness.endpoints.reads(), 3, "it is asked again");
}

/// That there is no endpoint is not remembered.
#[tokio::test]
async fn an_endpoint_that_was_just_added_takes_deliveries_at_once() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = || invoice_paid("evt_1", "in_1", 1).to("late").event(&harness.clock);
    assert_eq!(webhook.handle(send()).await.status_code, 404);
    let secret = secret("stripe");
    harness.endpoints.put("late", json!({ "provider": "stripe", "secrets": [secret] }));
    assert_eq!(webhook.handle(send()).await.status_code, 200);
}

/// One that is removed is used until its document is read again.
#[tokio::test]
async fn an_endpoint_that_was_removed_ends_when_its_document_is_read_again() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |event: &str| invoice_paid(event, "in_1", 1).event(&harness.clock);
    assert_eq!(webhook.handle(send("evt_1")).await.status_code, 200);
    harness.endpoints.remove("stripe");
    harness.clock.advance(Millis::seconds(299));
    assert_eq!(webhook.handle(send("evt_2")).await.status_code, 200);
    harness.clock.advance(Millis::seconds(1));
    assert_eq!(webhook.handle(send("evt_3")).await.status_code, 404);
}

#[tokio::test]
async fn a_document_that_cannot_be_used_refuses_deliveries_until_it_can() {
    let harness = Harness::new().await;
    harness.endpoints.put("broken", r#"{"provider":"nobody","secrets":["s"]}"#);
    let webhook = harness.webhook(&Script::none());
    let send = |to: &str| invoice_paid("evt_1", "in_1", 1).to(to).event(&harness.clock);
    let logs = Logs::catch("info");
    for _ in 0..2 {
        assert_eq!(word(&webhook.handle(send("broken")).await), (503, "endpoint_unavailable".to_owned()));
    }
    assert_eq!(logs.take().matches("endpoint lookup failed").count(), 2, "somebody must hear of it");
    harness.endpoints.set_down(true);
    assert_eq!(word(&webhook.handle(send("stripe")).await), (503, "endpoint_unavailable".to_owned()));
    harness.endpoints.set_down(false);
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200, "the next delivery asks again");
    harness.endpoints.change("broken", "provider", json!("stripe"));
    harness.endpoints.change("broken", "secrets", json!([secret("stripe")]));
    assert_eq!(webhook.handle(send("broken")).await.status_code, 200);
}

/// A later release may have written a field that limits who may deliver. A process goes on with the document that it
/// has; one that has none accepts nothing.
#[tokio::test]
async fn a_field_of_a_later_release_leaves_the_earlier_document_in_use() {
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |id: &str| invoice_paid(id, id, 1).to("stripe").event(&harness.clock);
    assert_eq!(webhook.handle(send("evt_1")).await.status_code, 200);
    harness.endpoints.change("stripe", "zz_later", json!(true));
    harness.clock.advance(Millis::minutes(10));
    let logs = Logs::catch("info");
    assert_eq!(webhook.handle(send("evt_2")).await.status_code, 200, "it is used until there is another");
    assert!(logs.take().contains("using a stale endpoint document"));
    let another = harness.webhook(&Script::none());
    assert_eq!(word(&another.handle(send("evt_3")).await), (503, "endpoint_unavailable".to_owned()));
}

/// Anyone can invent ids. Each costs one read, and no known endpoint pays for it.
#[tokio::test]
async fn ids_that_name_no_endpoint_cost_one_read_each_and_fill_no_log() {
    const INVENTED: usize = 1_000;
    let harness = Harness::new().await;
    let webhook = harness.webhook(&Script::none());
    let send = |to: &str| invoice_paid("evt_1", "in_1", 1).to(to).event(&harness.clock);
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200);
    let logs = Logs::catch("info");
    for number in 0..INVENTED {
        assert_eq!(webhook.handle(send(&format!("invented-{number}"))).await.status_code, 404, "{number}");
    }
    assert!(!logs.take().contains("endpoint lookup failed"), "unauthenticated requests fill no log");
    assert_eq!(webhook.handle(send("stripe")).await.status_code, 200);
    assert_eq!(harness.endpoints.reads(), 1 + INVENTED, "the known one is still cached");
    assert_eq!(webhook.handle(send("github")).await.status_code, 401, "another is found, and judges");
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
