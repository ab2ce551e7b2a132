//! The example from the documentation of the `Handler` trait, run by the real worker.

use hookonce_protocol::call::Written;
use hookonce_protocol::operator;
use hookonce_protocol::record::{Outcome, Status};
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::handlers::Handlers;
use serde_json::json;

use crate::support::delivery::secret;
use crate::support::{Delivery, Harness, Verdict};

#[expect(unreachable_pub, reason = "as a user would write it")]
#[path = "../../shared/runtime/doc/handler.rs"]
mod documented;

fn signed(id: &str, contract: &str) -> Delivery {
    let body = json!({ "type": "contract.signed", "contract": contract, "customer": "cus_1" });
    Delivery::new("standard_webhooks", body.to_string()).header("webhook-id", id)
}

/// Both endpoints of two tenants report a contract of the same id, and an operator forces its effect for each record of
/// one.
#[tokio::test]
async fn the_documented_handler_survives_forced_replays_and_mixes_no_endpoints() {
    let harness = Harness::with(|| Handlers::new().with(documented::Contracts)).await;
    let other = json!({ "provider": "standard_webhooks", "secrets": [secret("standard_webhooks")] });
    harness.endpoints.put("tenant-b", other.to_string());
    for id in ["msg_1", "msg_2"] {
        harness.deliver(&signed(id, "c_1")).await;
        harness.deliver(&signed(id, "c_1").to("tenant-b")).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert_eq!(tables.record("standard_webhooks#msg_2").outcome, Some(Outcome::Duplicate));
    for id in ["standard_webhooks#msg_1", "standard_webhooks#msg_2", "standard_webhooks#msg_1"] {
        let tables = harness.tables().await;
        let write = operator::force(tables.record(id), &harness.timing, harness.clock.moment()).unwrap();
        assert_eq!(harness.operate(&write).await, Written::Applied, "{id}");
        harness.relay().await;
        harness.settle().await;
        let tables = harness.tables().await;
        let record = tables.record(id);
        let ended = (record.status, record.outcome, record.last_error.as_deref());
        assert_eq!(ended, (Status::Processed, Some(Outcome::Applied), None), "{id}");
    }
    let tables = harness.tables().await;
    let (fact, other) = ("standard_webhooks#contracts#c_1", "tenant-b#contracts#c_1");
    assert_eq!(tables.verdict(&[fact, fact, fact, fact, other]), Verdict::applied(5));
    assert_eq!(tables.number("standard_webhooks#customer#cus_1", "contracts"), 4);
    assert_eq!(tables.number("tenant-b#customer#cus_1", "contracts"), 1);
    assert_eq!(tables.items("#contract#").count(), 5, "each effect has its own item");
}
