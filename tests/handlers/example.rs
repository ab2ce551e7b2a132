//! The example from the documentation of the `Handler` trait, run by the real worker.

use hookonce_protocol::call::Written;
use hookonce_protocol::operator;
use hookonce_protocol::record::{Outcome, Status};
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::handler::Handlers;
use serde_json::json;

use crate::support::{Delivery, Harness, Verdict};

#[expect(unreachable_pub, reason = "as a user would write it")]
#[path = "../../shared/runtime/doc/handler.rs"]
mod documented;

const ENDPOINTS: [&str; 2] = ["standard_webhooks", "tenant-b"];

fn signed(id: &str, contract: &str) -> Delivery {
    let body = json!({ "type": "contract.signed", "contract": contract, "customer": "cus_1" });
    Delivery::new("standard_webhooks", body.to_string()).header("webhook-id", id)
}

fn fact(endpoint: &str, contract: &str) -> String {
    format!("{endpoint}#contracts#{contract}")
}

async fn harness() -> Harness {
    let harness = Harness::with(|| Handlers::new().with(documented::Contracts)).await;
    let secret = crate::support::delivery::secret("standard_webhooks");
    harness.endpoints.put(ENDPOINTS[1], json!({ "provider": "standard_webhooks", "secrets": [secret] }).to_string());
    harness
}

#[tokio::test]
async fn the_documented_handler_applies_one_fact_at_each_endpoint() {
    let harness = harness().await;
    for endpoint in ENDPOINTS {
        harness.deliver(&signed("msg_1", "c_1").to(endpoint)).await;
        harness.deliver(&signed("msg_2", "c_1").to(endpoint)).await;
        // An id that looks like the key of a forced replay is still an id.
        harness.deliver(&signed("msg_3", "c_1##in#tenant-b#msg_1#g1").to(endpoint)).await;
    }
    harness.settle().await;
    let tables = harness.tables().await;
    let facts = ENDPOINTS.map(|endpoint| {
        assert_eq!(tables.number(&format!("{endpoint}#customer#cus_1"), "contracts"), 2, "{endpoint}");
        [fact(endpoint, "c_1"), fact(endpoint, "c_1%23%23in%23tenant-b%23msg_1%23g1")]
    });
    assert_eq!(tables.verdict(&facts.concat()), Verdict::applied(4));
}

/// Both records name one fact, and an operator forces its effect for each.
#[tokio::test]
async fn the_documented_handler_survives_forced_replays() {
    let harness = harness().await;
    for id in ["msg_1", "msg_2"] {
        harness.deliver(&signed(id, "c_1")).await;
        harness.settle().await;
    }
    let tables = harness.tables().await;
    assert_eq!(tables.record("#msg_2").outcome, Some(Outcome::Duplicate));
    for id in ["#msg_1", "#msg_2", "#msg_1"] {
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
    let fact = fact("standard_webhooks", "c_1");
    assert_eq!(tables.verdict(&[&fact, &fact, &fact, &fact]), Verdict::applied(4));
    assert_eq!(tables.number("standard_webhooks#customer#cus_1", "contracts"), 4);
    assert_eq!(tables.items("#contract#").count(), 4, "each effect has its own item");
}
