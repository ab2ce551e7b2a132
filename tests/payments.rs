//! Payments and builds, end to end.

use hookonce_protocol::key::Tenant;
use hookonce_protocol::record::Outcome;
use serde_json::json;

use crate::support::delivery::secret;
use crate::support::samples::{built, charge_refunded, invoice_paid, paid, push, whatsapp};
use crate::support::{Harness, Script, Verdict, word};

const BALANCE: &str = "stripe#balance#cus_SampleCustomer#eur";

#[tokio::test]
async fn two_events_of_one_invoice_are_one_ledger_entry_and_a_duplicate() {
    let harness = Harness::new().await;
    for event in ["evt_1", "evt_2"] {
        assert_eq!(word(&harness.deliver(&invoice_paid(event, "in_1", 4_900)).await), (200, "accepted".to_owned()));
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[paid("in_1")]), Verdict::applied(1));
    assert_eq!(tables.items("#ledger#").count(), 1);
    assert_eq!((tables.number(BALANCE, "minor"), tables.number(BALANCE, "entries")), (4_900, 1));
    assert_eq!(tables.record("#evt_1").outcome, Some(Outcome::Applied));
    assert_eq!(tables.record("#evt_2").outcome, Some(Outcome::Duplicate));
    assert_eq!((harness.metric("event_applied"), harness.metric("event_duplicate")), (1, 1));
}

#[tokio::test]
async fn two_events_of_one_invoice_in_one_batch_are_one_ledger_entry_too() {
    let harness = Harness::new().await;
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    harness.deliver(&invoice_paid("evt_2", "in_1", 4_900)).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[paid("in_1")]), Verdict::applied(1));
    let mut outcomes = ["#evt_1", "#evt_2"].map(|record| tables.record(record).outcome);
    outcomes.sort();
    assert_eq!(outcomes, [Some(Outcome::Applied), Some(Outcome::Duplicate)]);
}

/// The document names the tenant, and the record keeps what it said: facts and items belong to it.
#[tokio::test]
async fn endpoints_of_one_tenant_share_a_fact_and_others_do_not() {
    let harness = Harness::new().await;
    for (endpoint, tenant) in [("eu", Some("acme")), ("us", Some("acme")), ("other", None)] {
        harness.endpoints.put(endpoint, json!({ "provider": "stripe", "secrets": [secret("stripe")] }).to_string());
        if let Some(tenant) = tenant {
            harness.endpoints.change(endpoint, "tenant", tenant.into());
        }
        let event = invoice_paid(&format!("evt_{endpoint}"), "in_1", 4_900).to(endpoint);
        assert_eq!(word(&harness.deliver(&event).await), (200, "accepted".to_owned()));
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert_eq!(tables.record("#evt_eu").outcome, Some(Outcome::Applied));
    assert_eq!(tables.record("#evt_us").outcome, Some(Outcome::Duplicate));
    assert_eq!(tables.record("#evt_other").outcome, Some(Outcome::Applied));
    let balance = |tenant: &str| tables.number(&format!("{tenant}#balance#cus_SampleCustomer#eur"), "minor");
    assert_eq!([balance("acme"), balance("other"), balance("eu"), balance("us")], [4_900, 4_900, 0, 0]);
}

/// What the document says at the claim counts, for the record as for a message that is the only copy of its delivery.
#[tokio::test]
async fn a_record_keeps_the_tenant_of_its_claim() {
    let harness = Harness::new().await;
    harness.endpoints.change("stripe", "tenant", "acme".into());
    harness.endpoints.change("stripe", "on_store_outage", "enqueue".into());
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    let full = harness.deliver_under(&Script::store_outage(), &invoice_paid("evt_2", "in_2", 100)).await.unwrap();
    assert_eq!(word(&full), (200, "accepted".to_owned()));
    harness.endpoints.change("stripe", "tenant", "other".into());
    harness.settle().await;
    let tables = harness.tables().await;
    for (record, fact) in [("#evt_1", "in_1"), ("#evt_2", "in_2")] {
        assert_eq!(tables.record(record).tenant.as_ref().map(Tenant::as_str), Some("acme"));
        let key = format!("#dk#acme#payments#invoice.paid#{fact}");
        assert!(tables.domain.contains_key(&key), "{key} is not in {:?}", tables.domain.keys());
    }
    assert_eq!(tables.number("acme#balance#cus_SampleCustomer#eur", "minor"), 5_000);
}

/// Each event of a batch belongs to the tenant of the delivery that it came in.
#[tokio::test]
async fn the_events_of_a_batch_belong_to_the_tenant_of_its_claim() {
    let harness = Harness::new().await;
    harness.endpoints.change("meta_whatsapp", "tenant", "acme".into());
    harness.deliver(&whatsapp(&["1", "2"])).await;
    harness.endpoints.change("meta_whatsapp", "tenant", "other".into());
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.records.len(), 3, "an envelope and two events");
    for record in tables.records.values() {
        assert_eq!(record.tenant.as_ref().map(Tenant::as_str), Some("acme"), "{}", record.key);
    }
    let facts = |tenant: &str| tables.domain.keys().filter(|key| key.starts_with(&format!("#dk#{tenant}#"))).count();
    assert_eq!([facts("acme"), facts("other"), facts("meta_whatsapp")], [2, 0, 0]);
}

#[tokio::test]
async fn refunds_that_overtake_each_other_leave_the_right_balance() {
    let harness = Harness::new().await;
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    for (event, refunded) in [("evt_4", 3_000), ("evt_2", 1_000), ("evt_3", 2_500)] {
        harness.deliver(&charge_refunded(event, "ch_1", refunded)).await;
    }
    harness.settle().await;
    let tables = harness.tables().await;
    let refund = |total: i64| format!("stripe#payments#charge.refunded#ch_1#{total}");
    let facts = [paid("in_1"), refund(1_000), refund(2_500), refund(3_000)];
    assert_eq!(tables.verdict(&facts), Verdict::applied(4));
    assert_eq!(tables.number(BALANCE, "minor"), 4_900 - 3_000);
}

#[tokio::test]
async fn one_commit_of_one_repository_is_built_once_whatever_the_delivery_is_called() {
    let harness = Harness::new().await;
    harness.deliver(&push("11111111-0000-11f0-8000-000000000001", "aaaa")).await;
    harness.deliver(&push("22222222-0000-11f0-8000-000000000002", "aaaa")).await;
    harness.deliver(&push("33333333-0000-11f0-8000-000000000003", "bbbb")).await;
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict(&[built("aaaa"), built("bbbb")]), Verdict::applied(2));
    assert_eq!(tables.items("#build#").count(), 2);
    assert_eq!(tables.number("github#repository#17273051", "builds"), 2);
}

#[tokio::test]
async fn an_event_that_no_handler_wants_is_settled_as_ignored() {
    let harness = Harness::new().await;
    let delivery =
        crate::support::Delivery::new("slack", crate::support::samples::bytes("deliveries/slack-message.json"));
    assert_eq!(word(&harness.deliver(&delivery).await), (200, "accepted".to_owned()));
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.verdict::<&str>(&[]), Verdict::default());
    assert_eq!(tables.record("#Ev0SAMPLE01").outcome, Some(Outcome::Ignored));
}
