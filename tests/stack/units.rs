//! The units of `hookonce cost` are those that DynamoDB counts, and its records are as long as records are.

use std::collections::BTreeSet;

use hookonce::bill::{Body, Counted, WriteUnits};
use hookonce_protocol::claim::Claim;
use hookonce_protocol::item::{Item, size_bytes};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::Record;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_providers::{CapturedRequest, Catalog, Contents, Received};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::inbox::body::compress;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::effects::{applied, effects, keyed};
use crate::support::capacity::{Consumed, EMPTY_QUERY, Metered};
use crate::support::samples::{events_folder, invoice_paid, json as sample, vectors};
use crate::support::stack::is_embedded;
use crate::support::{Delivery, Harness};
use crate::tidy::none;

/// What measured lengths may differ by from those that the command assumes.
const NEAR: f64 = 0.02;

/// An invoice of Stripe with so many characters that do not compress well.
fn invoice(noise: usize) -> Delivery {
    let mut body = sample("deliveries/stripe-invoice-paid.json");
    body["id"] = json!(format!("evt_{noise}"));
    body["data"]["object"]["id"] = json!(format!("in_{noise}"));
    let words =
        (0..noise.div_ceil(32)).map(|word| Uuid::from_u128(word as u128 * 0x9e37_79b9_7f4a_7c15_f39c_c060).simple());
    body["noise"] = words.map(|word| word.to_string()).collect::<String>().into();
    Delivery::new("stripe", body.to_string())
}

/// That a length is not as the command assumes it.
fn apart(what: &str, assumed: f64, measured: f64) -> Option<String> {
    let is_apart = (assumed - measured).abs() > NEAR * measured;
    is_apart.then(|| format!("{what} is {measured:.0}, not {assumed}"))
}

/// Units come as numbers with a fraction, and are halves at least.
fn same(left: f64, right: f64) -> bool {
    (left - right).abs() < 0.1
}

fn float(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap())
}

/// The length of the item of this delivery's record.
async fn record_bytes(harness: &Harness, noise: usize) -> f64 {
    let items = harness.stack.scan(Table::Inbox).await;
    let is_it = |item: &&Item| item["pk"].as_text().is_some_and(|key| key.ends_with(&format!("#evt_{noise}")));
    float(size_bytes(items.iter().find(is_it).unwrap()))
}

fn sum(first: WriteUnits, second: WriteUnits) -> WriteUnits {
    WriteUnits {
        inbox: first.inbox + second.inbox,
        due: first.due + second.due,
        journal: first.journal + second.journal,
        domain: first.domain + second.domain,
    }
}

#[tokio::test]
async fn an_event_a_repetition_and_an_effect_consume_what_the_command_counts() {
    let Metered { harness, capacity, .. } = &Metered::new().await;
    let writes = Counted::built_in().plan_writes;
    let mut sizes = Vec::new();
    for noise in [0, 2_000, 6_000, 60_000] {
        harness.deliver(&invoice(noise)).await;
        let (claimed, _) = capacity.take(harness);
        harness.work().await;
        let (worked, read) = capacity.take(harness);
        let bytes = record_bytes(harness, noise).await;
        assert_eq!(sum(claimed, worked), WriteUnits::of_event(bytes, writes), "{bytes} bytes");
        assert_eq!((claimed.due, claimed.journal, claimed.domain), (1.0, 1.0, 0.0));
        assert!(same(read, (bytes / 4_096.0).ceil()), "{bytes} bytes: {read}");
        harness.deliver(&invoice(noise)).await;
        // An answer that says that a condition failed does not say what it took: as much as the item that was found.
        let (mut repeated, _) = capacity.take(harness);
        repeated.inbox *= 2.0;
        assert_eq!(repeated, WriteUnits::of_duplicate(bytes), "{bytes} bytes");
        sizes.push((bytes / 1_024.0).ceil());
    }
    assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "each of another size: {sizes:?}");

    harness.destinations.put("receipts", keyed(24));
    applied(harness, "msg_1", &[]).await;
    let (without, read_without) = capacity.take(harness);
    applied(harness, "msg_2", &["receipts"]).await;
    harness.dispatch().await;
    let (with, read_with) = capacity.take(harness);
    let [effect] = effects(harness).await.try_into().unwrap();
    let bytes = float(size_bytes(&effect.encode()));
    assert_eq!(with, sum(without, WriteUnits::of_effect(bytes)), "{bytes} bytes");
    assert!(same(read_with, read_without + 1.0), "{read_with}");
    let counted = Counted::built_in().effect_record_bytes;
    assert!((0.9 * counted..=counted).contains(&bytes), "{bytes} and not {counted}");
}

/// Some work, what each of its calls consumed, and how many items its transaction writes in the inbox and domain tables.
type Step = (&'static str, Vec<Consumed>, [f64; 2]);

/// What is consumed by deliveries of three lengths, their records, runs of the relay, and an effect.
async fn consumed(Metered { harness, capacity, .. }: &Metered) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut note = |step, items| {
        let mut calls = capacity.take_calls(harness);
        // Some run side by side.
        calls.sort_by_key(|call| format!("{call:?}"));
        steps.push((step, calls, items));
    };
    harness.destinations.put("receipts", keyed(24));
    for noise in [0, 2_000, 6_000] {
        harness.deliver(&invoice(noise)).await;
        note("a delivery", [0.0; 2]);
        harness.lose_hints().await;
        harness.clock.advance(harness.timing.first_resend);
        harness.relay().await;
        note("a relay's run with a due record", [0.0; 2]);
        harness.work().await;
        // Its domain key, a ledger entry and a balance.
        note("a record", [1.0, 3.0]);
        harness.relay().await;
        note("a relay's run with nothing due", [0.0; 2]);
    }
    applied(harness, "msg_1", &["receipts"]).await;
    note("a record with an effect", [2.0, 1.0]);
    harness.dispatch().await;
    note("an effect", [0.0; 2]);
    steps
}

/// What DynamoDB Local 3.1.0 says of this call. In three places it is not what the embedded tables count. A query that
/// finds nothing takes no unit there; AWS documents that a read of nothing takes the least that a read can. Of the items
/// that a transaction writes in one table, which are alike here, it counts a single one; AWS counts each. And in a
/// transaction it counts the entries of an index twice, although they are written after it.
fn of_dynamodb_local(mut call: Consumed, [in_inbox, in_domain]: [f64; 2]) -> Consumed {
    match call.operation {
        EMPTY_QUERY => call.units.clear(),
        "TransactWriteItems" => {
            for (name, units) in &mut call.units {
                *units *= if name.contains('/') { 2.0 } else { 1.0 };
                *units /= if name == "domain" { in_domain } else { in_inbox };
            }
        }
        _ => {}
    }
    call
}

/// `scripts/check counts` and the tests here count with the embedded tables.
#[tokio::test]
async fn the_servers_of_the_run_count_what_the_embedded_tables_count() {
    let mut expected = consumed(&Metered::new().await).await;
    if !is_embedded() {
        for (_, calls, items) in &mut expected {
            *calls = std::mem::take(calls).into_iter().map(|call| of_dynamodb_local(call, *items)).collect();
            calls.sort_by_key(|call| format!("{call:?}"));
        }
    }
    let operations: BTreeSet<_> = expected.iter().flat_map(|step| &step.1).map(|call| call.operation).collect();
    assert_eq!(operations.len(), 7, "{operations:?}");
    assert_eq!(consumed(&Metered::of_the_run().await).await, expected);
}

#[tokio::test]
async fn what_is_stored_beside_a_record_is_as_long_as_the_command_assumes() {
    let harness = Harness::new().await;
    // Ids as long as Stripe's.
    harness.deliver(&invoice_paid("evt_1MhUT6E0b6fckueSlc4GyvIi", "in_1MhUT5E0b6fckueSVIbTwyYR", 4_900)).await;
    harness.work().await;
    let counted = Counted::built_in();
    let domain = harness.stack.scan(Table::Domain).await;
    let key = domain.iter().find(|item| item["pk"].as_text().unwrap().starts_with("#dk#")).unwrap();
    let [inbox] = harness.stack.scan(Table::Inbox).await.try_into().unwrap();
    let projected = |(name, _): &(String, _)| ["pk", "journal_shard", "received_at"].contains(&name.as_str());
    let entry: Item = inbox.into_iter().filter(projected).collect();
    let lengths = [
        apart("domain_key_bytes", counted.domain_key_bytes, float(size_bytes(key))),
        apart("journal_entry_bytes", counted.journal_entry_bytes, float(size_bytes(&entry))),
    ];
    none(&lengths.into_iter().flatten().collect::<Vec<_>>());
}

/// The record of a signed request, at its end. `None` if it is no delivery.
fn record_of(provider: &str, vector: &Value) -> Option<Record> {
    let mut fields = vector.as_object().unwrap().clone();
    fields.insert("provider".to_owned(), provider.into());
    let names = ["provider", "method", "url", "headers", "body_base64", "secrets", "now_unix", "settings", "schemes"];
    fields.retain(|name, _| names.contains(&name.as_str()));
    let captured: CapturedRequest = serde_json::from_value(fields.into()).ok()?;
    let provider = Catalog::built_in().provider(provider).unwrap();
    let (keyring, settings) =
        provider.configure(&captured.secrets, captured.settings.clone(), &captured.schemes).ok()?;
    let received = provider.receive(&captured.request(), &keyring, &settings, captured.tolerance, captured.now);
    let Ok(Received::Delivery(delivery)) = received else { return None };
    let Contents::Single(part) = delivery.contents() else { return None };
    let now = System.moment().now;
    let timing = Timing::standard();
    let claim = Claim {
        pk: delivery.record_key(&EndpointId::parse(provider.id()).unwrap()),
        claim_id: System.claim_id(),
        tenant: None,
        provider: provider.id().to_owned(),
        event_type: part.event_type.clone(),
        received_at: now,
        accept_before: now,
        body: Vec::new(),
        body_sha256: part.sha256,
        headers: delivery.headers().clone(),
        secret_index: 0,
        quarantine_mismatch: false,
    };
    Some(claim.record(&timing, now))
}

#[test]
fn records_are_as_long_as_the_command_assumes() {
    let mut lengths = Vec::new();
    for provider in Catalog::built_in().iter() {
        let records = vectors(provider.id());
        let valid = records.iter().filter(|vector| vector["expected"]["verdict"] == "accepted");
        lengths.extend(
            valid.filter_map(|vector| record_of(provider.id(), vector)).map(|record| size_bytes(&record.encode())),
        );
    }
    assert!(lengths.len() > 200, "{}", lengths.len());
    let mean = float(lengths.iter().sum()) / float(lengths.len());
    let found = apart("record_bytes_beside_body", Counted::built_in().record_bytes_beside_body, mean);
    none(&found.into_iter().collect::<Vec<_>>());
}

/// The bodies of every sample delivery, and of every payload that others published.
fn bodies() -> Vec<Vec<u8>> {
    let files =
        |folder: &str| std::fs::read_dir(events_folder().join(folder)).unwrap().map(|file| file.unwrap().path());
    let deliveries = files("deliveries").map(|path| std::fs::read(path).unwrap());
    let public = files("public").filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let lines = public.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>();
    let body = |line: &str| serde_json::from_str::<Value>(line).unwrap()["body"].to_string().into_bytes();
    deliveries.chain(lines.iter().flat_map(|text| text.lines()).map(body)).collect()
}

/// How much compression leaves of the samples that are about as long, up to three quarters more or less.
#[test]
fn bodies_compress_as_the_command_assumes() {
    let measured: Vec<_> =
        bodies().iter().map(|body| (float(body.len()), float(compress(body).unwrap().len()))).collect();
    let differs = |Body { bytes, compressed }: &Body| {
        let alike: Vec<_> = measured.iter().filter(|(raw, _)| (bytes * 0.75..bytes / 0.75).contains(raw)).collect();
        assert!(alike.len() > 2, "{bytes}: {}", alike.len());
        let share = alike.iter().map(|(raw, stored)| stored / raw).sum::<f64>() / float(alike.len());
        apart(&format!("what is left of {bytes} bytes"), *compressed, bytes * share)
    };
    none(&Counted::built_in().bodies.iter().filter_map(differs).collect::<Vec<_>>());
}
