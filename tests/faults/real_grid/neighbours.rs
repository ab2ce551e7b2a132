//! A batch of messages with what one tenant can do to the others of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use hookonce_protocol::call::Written;
use hookonce_protocol::claim::Claim;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Outcome, Record};
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::inbox::body::compress;
use hookonce_runtime::port::{Queue as _, Store as _};

use super::cluster::Cluster;
use super::fault_plan::{FaultPlan, Role};
use super::functions::Functions;
use super::handler::Handler;
use super::{Runner, binaries};
use crate::support::fixtures::{a_claim, a_record};
use crate::support::samples::{invoice_paid, noise, whatsapp_message, whatsapp_of};

/// What the worker may have: a quarter of what is deployed, so that a quarter of the deliveries shows what all would
/// do.
const WORKER_KIB: u32 = 128 * 1024;

/// Deliveries of the tenant, with bodies of this many bytes: together more than the worker may have.
const DELIVERIES: usize = 400;
const BODY_BYTES: usize = 380_000;

/// Deliveries of others: with the tenant's, one batch.
const OTHERS: usize = 9;

/// Somebody who may sign for an endpoint sends the largest deliveries, and then a small batch with all of their ids.
/// The worker meets all these records at once.
#[tokio::test]
async fn a_batch_that_names_many_large_records_takes_no_neighbour_down() {
    let runner = Runner::new(binaries()).await;
    // In a process without a limit there is only to see whether it works.
    let deliveries = if runner.binaries.is_some() { DELIVERIES } else { 20 };
    let batch = whatsapp_of((0..deliveries).map(|id| whatsapp_message(&id.to_string())).collect());
    let endpoint = EndpointId::parse("meta_whatsapp").unwrap();
    let events = Catalog::built_in().provider(endpoint.as_str()).unwrap().split(&batch.body, &BTreeMap::new());
    let keys: Vec<_> = events.iter().map(|event| event.key.record_key(&endpoint)).collect();
    assert_eq!(keys.len(), deliveries);
    let (store, body) = (runner.stack.store(), noise(BODY_BYTES));
    for keys in keys.chunks(10) {
        let large = |key: &RecordKey| claim_write(&Record { body: Some(body.clone()), ..a_record(key.as_str()) });
        let writes: Vec<_> = keys.iter().map(large).collect();
        let written = join_all(writes.iter().map(|write| store.write(write))).await;
        assert!(written.iter().all(|written| *written == Written::Applied));
    }

    let plan = Arc::new(FaultPlan::new(None, &[]));
    let handler = Handler::start(&plan).await;
    let binaries = runner.binaries.as_deref();
    let functions = Functions::new(&runner.stack, binaries, Some(WORKER_KIB), &handler, &plan).await;
    let cluster = Cluster::new(&runner.stack, &plan, functions);
    let (now, whole) = (System.moment().now, RecordKey::envelope(&endpoint, &[9; 32]));
    let (provider, body) = (endpoint.to_string(), compress(&batch.body).unwrap());
    let claim = Claim { provider, body, received_at: now, ..a_claim(whole.as_str()) };
    assert_eq!(store.write(&claim_write(&claim.record(&Timing::standard(), now))).await, Written::Applied);
    runner.stack.queue().send(&Message::Ref { pk: whole.clone() }).await.unwrap();
    let others: Vec<_> = (0..OTHERS).map(|number| format!("evt_{number}")).collect();
    for id in &others {
        cluster.arrive(Role::Webhook, &invoice_paid(id, id, 1)).await;
    }
    cluster.work(1).await;

    let stripe = EndpointId::parse("stripe").unwrap();
    let mut ended: Vec<_> = others.iter().map(|id| RecordKey::delivery(&stripe, id)).collect();
    let parent = store.read_heads(&keys[..1]).await;
    assert!(matches!(&parent[0], Ok(Found::Record(first)) if first.parent.is_none()), "it was there before");
    ended.push(whole);
    let outcomes = store.read_heads(&ended).await.into_iter().map(|found| match found {
        Ok(Found::Record(record)) => record.outcome,
        other => panic!("{other:?}"),
    });
    let expected = [vec![Some(Outcome::Applied); OTHERS], vec![Some(Outcome::FannedOut)]].concat();
    assert_eq!(outcomes.collect::<Vec<_>>(), expected, "one batch ends all of them");
}
