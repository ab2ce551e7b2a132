//! A CDN in front of the gateway: what proves that a request came through it, and whom it names as the caller.

use hookonce_runtime::config::{EdgeConfig, proof_hash};
use hookonce_webhook::answer::Denial;
use hookonce_webhook::edge::{PROOF_HEADER, admit};
use hookonce_webhook::gateway::Inbound;
use serde_json::json;

use crate::support::samples::invoice_paid;
use crate::support::{Harness, Script, word};

const OLD: &str = "the-proof-of-last-month-0123456789";
const NEW: &str = "the-proof-of-this-month-0123456789";

fn edge(header: Option<&str>) -> EdgeConfig {
    EdgeConfig {
        public_url: None,
        proof_hashes: [NEW, OLD].map(|proof| proof_hash(proof.as_bytes())).to_vec(),
        client_address_header: header.map(str::to_owned),
    }
}

fn inbound(headers: &[(&str, &str)]) -> Inbound {
    Inbound {
        method: "POST".to_owned(),
        path: "/webhooks/stripe".to_owned(),
        query: String::new(),
        called: None,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect(),
        body: Vec::new(),
        source: Some([192, 0, 2, 1].into()),
        request_id: String::new(),
    }
}

#[test]
fn either_proof_is_enough_and_goes_no_further() {
    for proof in [OLD, NEW] {
        let mut request = inbound(&[(PROOF_HEADER, proof), ("x-other", "1")]);
        assert_eq!(admit(&edge(None), &mut request), Ok(()), "{proof}");
        assert_eq!(request.headers.len(), 1);
        assert_eq!(request.source, Some([192, 0, 2, 1].into()), "without a header's name it is the gateway's word");
    }
}

#[test]
fn what_did_not_come_through_the_edge_is_refused() {
    let refused = Err(Denial::NotThroughEdge);
    for headers in [
        &[][..],
        &[(PROOF_HEADER, "")],
        &[(PROOF_HEADER, &NEW[1..])],
        &[(PROOF_HEADER, NEW), (PROOF_HEADER, NEW)],
        &[(PROOF_HEADER, "the-proof-of-this-month-0123456789,the-proof-of-this-month-0123456789")],
        &[("x-origin-proofs", NEW)],
        &[(PROOF_HEADER, "ac10b59d109f7f15c44cab690154ff1d2011a56e481936a2675dcbd0357a21c4")],
    ] {
        assert_eq!(admit(&edge(None), &mut inbound(headers)), refused, "{headers:?}");
    }
    assert_eq!(admit(&EdgeConfig::direct(), &mut inbound(&[])), Ok(()), "nothing stands in front");
}

#[test]
fn the_caller_is_the_address_from_the_edge() {
    let source = |value: &[(&str, &str)]| {
        let mut request = inbound(&[&[(PROOF_HEADER, NEW)], value].concat());
        admit(&edge(Some("x-client")), &mut request).unwrap();
        request.source.map(|address| address.to_string())
    };
    for (value, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:46532", "203.0.113.9"),
        ("2001:db8:0:0:8:800:200c:417a", "2001:db8::8:800:200c:417a"),
        ("2001:db8:0:0:8:800:200c:417a:46532", "2001:db8::8:800:200c:417a"),
        ("[2001:db8::1]:46532", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        // Without brackets a port of up to four digits is a group like others: whoever sends addresses shortened must
        // not add it.
        ("2001:db8::5:4653", "2001:db8::5:4653"),
    ] {
        assert_eq!(source(&[("x-client", value)]).as_deref(), Some(expected), "{value}");
    }
    assert_eq!(source(&[]), None, "an address that is not known is none, not the CDN's");
    let shortened = ["2001:db8::5:46532", "2001:db8:1:2:3:4:5::65535"];
    for none in [&["203.0.113.9, 198.51.100.1", "me", ":443", "1:2:3:4:5:6:7:8:99999"][..], &shortened].concat() {
        assert_eq!(source(&[("x-client", none)]), None, "{none}");
    }
    assert_eq!(source(&[("x-client", "203.0.113.9"), ("x-client", "203.0.113.9")]), None);
}

/// Whoever calls the gateway past the CDN costs no read, and learns nothing about endpoints.
#[tokio::test]
async fn past_the_edge_no_endpoint_is_looked_up() {
    let mut harness = Harness::new().await;
    harness.edge = edge(Some("x-client"));
    harness.endpoints.change("stripe", "source_ranges", json!(["203.0.113.0/24"]));
    let genuine = invoice_paid("evt_1", "in_1", 100);
    for delivery in [genuine.clone(), genuine.clone().to("nobody"), genuine.clone().header(PROOF_HEADER, "guessed")] {
        assert_eq!(word(&harness.deliver(&delivery).await), (403, "not_through_edge".to_owned()));
    }
    assert_eq!(harness.endpoints.reads(), 0);
    let refused = |line: &String| line.contains("not_through_edge") && line.contains("\"request_id\":\"");
    assert_eq!(harness.metric_lines().iter().filter(|line| refused(line)).count(), 3);
    let through = |client: &str| genuine.clone().header(PROOF_HEADER, NEW).header("x-client", client);
    assert_eq!(word(&harness.deliver(&through("198.51.100.7")).await), (403, "source_not_allowed".to_owned()));
    let script = Script::recording();
    let accepted = harness.deliver_under(&script, &through("203.0.113.7:443")).await.unwrap();
    assert_eq!(word(&accepted), (200, "accepted".to_owned()));
    for record in harness.tables().await.records.values() {
        assert!(!record.headers.contains_key(PROOF_HEADER), "the proof goes no further");
    }
}
