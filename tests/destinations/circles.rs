//! Events that cause each other by their effects: a circle ends.

use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::record::Record;
use hookonce_protocol::worker::HOPS;
use hookonce_runtime::destinations::{Caller as _, HOPS_MAX, HttpCaller};
use serde_json::json;

use super::calls::at;
use super::{MOMENT, delivery};
use crate::support::Harness;
use crate::support::counting::count;
use crate::support::receiver::{Receiver, Reply};

/// The record of an event that comes with these headers.
async fn stored(harness: &Harness, id: &str, hops: &[&str]) -> Record {
    let event = hops.iter().fold(count(id, id), |event, hops| event.header(HOPS, hops));
    assert_eq!(harness.deliver(&event).await.status_code, 200);
    harness.tables().await.record(&format!("#{id}")).clone()
}

#[tokio::test]
async fn every_provider_keeps_how_many_hops_an_event_has_made() {
    let harness = Harness::new().await;
    for (id, hops, expected) in [
        ("none", &[][..], None),
        ("three", &["3"], Some("3")),
        ("large", &["256"], Some("255")),
        ("text", &["many"], Some("255")),
        ("several", &["1", "2"], Some("255")),
        ("joined", &["1, 2"], Some("255")),
    ] {
        let record = stored(&harness, id, hops).await;
        assert_eq!(record.headers.get(HOPS).map(String::as_str), expected, "{id}");
    }
}

/// The effect of each event goes to the endpoint that it came from.
#[tokio::test]
async fn a_circle_ends() {
    let harness = Harness::new().await;
    let receiver = Receiver::start(Reply::status(200, "", "")).await;
    let (destination, caller) = (at(&receiver.url(""), &json!({})), HttpCaller::on_loopback());
    let mut hops = None;
    for round in 0..=HOPS_MAX {
        let record = stored(&harness, &format!("msg_{round}"), hops.as_deref().as_slice()).await;
        let made = record.headers.get(HOPS).map_or(0, |hops| hops.parse().unwrap());
        let called = caller.call(&destination, &OutboundCall { hops: made, ..delivery() }, MOMENT).await;
        let expected =
            if round < HOPS_MAX { Called::Done { status: Some(200) } } else { Called::Refused { status: None } };
        assert_eq!(called, expected, "{round}");
        hops = receiver.requests().pop().unwrap().header(HOPS).map(str::to_owned);
    }
    assert_eq!(receiver.connections(), usize::from(HOPS_MAX));
}
