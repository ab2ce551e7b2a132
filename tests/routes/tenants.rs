//! To whom the records, facts and items of an event belong.

use hookonce_protocol::key::Tenant;
use hookonce_protocol::record::Outcome;
use serde_json::json;

use crate::support::delivery::secret;
use crate::support::samples::{invoice_paid, messaged, paid, whatsapp};
use crate::support::{Harness, Script, Verdict, word};

/// The document names the tenant: facts and items belong to it. One id at several endpoints is a delivery at each.
#[tokio::test]
async fn endpoints_of_one_tenant_share_a_fact_and_others_do_not() {
    let harness = Harness::new().await;
    for (endpoint, tenant) in [("eu", Some("acme")), ("us", Some("acme")), ("other", None)] {
        harness.endpoints.put(endpoint, json!({ "provider": "stripe", "secrets": [secret("stripe")] }).to_string());
        if let Some(tenant) = tenant {
            harness.endpoints.change(endpoint, "tenant", tenant.into());
        }
        let event = invoice_paid("evt_1", "in_1", 4_900).to(endpoint);
        assert_eq!(word(&harness.deliver(&event).await), (200, "accepted".to_owned()));
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert_eq!(tables.record("in#eu#evt_1").outcome, Some(Outcome::Applied));
    assert_eq!(tables.record("in#us#evt_1").outcome, Some(Outcome::Duplicate));
    assert_eq!(tables.record("in#other#evt_1").outcome, Some(Outcome::Applied));
    let balance = |tenant: &str| tables.number(&format!("{tenant}#balance#cus_SampleCustomer#eur"), "minor");
    assert_eq!([balance("acme"), balance("other"), balance("eu"), balance("us")], [4_900, 4_900, 0, 0]);
}

/// What the document says at the claim counts: for the record, for a message that is the only copy of its delivery, and
/// for each event of a batch.
#[tokio::test]
async fn a_record_keeps_the_tenant_of_its_claim() {
    let harness = Harness::new().await;
    let belongs_to = |tenant: &str| {
        for endpoint in ["stripe", "meta_whatsapp"] {
            harness.endpoints.change(endpoint, "tenant", tenant.into());
        }
    };
    belongs_to("acme");
    harness.endpoints.change("stripe", "on_store_outage", "enqueue".into());
    harness.deliver(&invoice_paid("evt_1", "in_1", 4_900)).await;
    let full = harness.deliver_under(&Script::store_outage(), &invoice_paid("evt_2", "in_2", 100)).await.unwrap();
    assert_eq!(word(&full), (200, "accepted".to_owned()));
    harness.deliver(&whatsapp(&["1", "2"])).await;
    belongs_to("other");
    harness.settle().await;
    let tables = harness.tables().await;
    assert_eq!(tables.records.len(), 5, "two events, and a batch with its two events");
    for record in tables.records.values() {
        assert_eq!(record.tenant.as_ref().map(Tenant::as_str), Some("acme"), "{}", record.key);
    }
    let facts = [paid("in_1"), paid("in_2"), messaged("1"), messaged("2")];
    let facts = facts.map(|fact| fact.replace("stripe#", "acme#").replace("meta_whatsapp#", "acme#"));
    assert_eq!(tables.verdict(&facts), Verdict::applied(4));
    assert_eq!(tables.number("acme#balance#cus_SampleCustomer#eur", "minor"), 5_000);
}
