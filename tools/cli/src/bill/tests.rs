//! The arithmetic of a bill.

use super::{Bill, Body, Counted, Design, Item, Load, Price, Prices, Tier, WriteUnits};

fn price(tiers: &[(f64, f64)], free: f64) -> Price {
    let tiers = tiers.iter().map(|(from, dollars)| Tier { from: *from, dollars: *dollars }).collect();
    Price { per: 10.0, tiers, free, sources: Vec::new(), read: String::new() }
}

fn load(events: f64) -> Load {
    Load { events, duplicates: 0.5, effects: 2.0, refused: 0.0, body_bytes: 2_048.0 }
}

/// The same to a hundredth of a cent.
fn same(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-4
}

#[test]
fn each_unit_has_the_price_of_its_tier_and_the_first_ones_are_free() {
    let tiered = price(&[(0.0, 10.0), (100.0, 5.0), (200.0, 1.0)], 50.0);
    for (units, list, after_free) in
        [(0.0, 0.0, 0.0), (50.0, 50.0, 0.0), (100.0, 100.0, 50.0), (150.0, 125.0, 75.0), (300.0, 160.0, 110.0)]
    {
        assert!(same(tiered.list(units), list), "{units}: {}", tiered.list(units));
        assert!(same(tiered.after_free(units), after_free), "{units}: {}", tiered.after_free(units));
    }
    let flat = price(&[(0.0, 2.0)], 0.0);
    assert!(same(flat.list(5.0), 1.0) && same(flat.after_free(5.0), 1.0));
}

#[test]
fn every_kind_of_unit_has_a_price_with_a_source_and_a_day() {
    let prices: Prices = serde_json::from_str(include_str!("prices.json")).unwrap();
    for item in Item::OWN.into_iter().chain([Item::BusEvents, Item::DurableOperations]) {
        let price = &prices.prices[&item];
        let starts: Vec<_> = price.tiers.iter().map(|tier| tier.from).collect();
        assert!(starts.first() == Some(&0.0) && starts.is_sorted_by(|a, b| a < b), "{item:?}");
        assert!(price.per > 0.0 && price.tiers.iter().all(|tier| tier.dollars > 0.0), "{item:?}");
        assert!(!price.sources.is_empty() && price.sources.iter().all(|it| it.starts_with("https://")), "{item:?}");
        assert!(price.read.parse::<jiff::civil::Date>().is_ok(), "{item:?}: {}", price.read);
    }
    assert_eq!(prices.prices.len(), Item::OWN.len() + 2);
    let free = |item| prices.prices[&item].free;
    assert!(same(free(Item::Invocations), 1e6) && same(free(Item::AlarmMetrics), 10.0));
}

#[test]
fn a_larger_record_takes_more_units_where_its_size_counts() {
    let of = |bytes| WriteUnits::of_event(bytes, 2.0);
    assert_eq!(of(1_024.0), WriteUnits { inbox: 3.0, due: 2.0, journal: 1.0, domain: 6.0 });
    assert_eq!(of(1_025.0), WriteUnits { inbox: 6.0, due: 2.0, journal: 1.0, domain: 6.0 });
    assert!(same(of(1_025.0).total(), 15.0) && same(WriteUnits::of_event(1.0, 0.0).total(), 8.0));
    assert!(same(WriteUnits::of_duplicate(1_025.0).total(), 4.0));
    assert!(same(WriteUnits::of_effect(1.0).total(), 6.0) && same(WriteUnits::of_effect(1_025.0).total(), 10.0));
}

#[test]
fn a_body_compresses_like_samples_of_its_length() {
    let bodies = [(100.0, 80.0), (300.0, 120.0)].map(|(bytes, compressed)| Body { bytes, compressed });
    let counted = Counted { record_bytes_beside_body: 7.0, bodies: bodies.into(), ..Counted::default() };
    for (bytes, record) in [(0.0, 7.0), (50.0, 47.0), (100.0, 87.0), (200.0, 127.0), (300.0, 127.0), (1_000.0, 407.0)] {
        assert!(same(counted.record_bytes(bytes), record), "{bytes}: {}", counted.record_bytes(bytes));
    }
}

#[test]
fn a_month_adds_up_what_its_deliveries_events_and_effects_take() {
    let counted: Counted = serde_json::from_str(include_str!("counted.json")).unwrap();
    assert_eq!(counted, *Counted::built_in());
    let (busy, rest) = (load(1_000.0).usage(&counted), Load::AT_REST.usage(&counted));
    let more = |item| busy.of(item) - rest.of(item);
    let record = counted.record_bytes(2_048.0);
    let writes = WriteUnits::of_event(record, 2.0).total() + 0.5 * WriteUnits::of_duplicate(record).total() + 2.0 * 6.0;
    assert!(same(more(Item::WriteUnits), 1_000.0 * writes));
    // The record, and the record of each effect.
    assert!(same(more(Item::ReadUnits), 3_000.0));
    assert!(same(more(Item::GatewayRequests), 1_500.0));
    // A duplicate sends nothing. A message is sent, received and deleted.
    assert!(same(more(Item::QueueRequests), 9_000.0) && same(more(Item::GroupedRequests), 9_000.0));
    assert!(same(more(Item::Invocations), 1_500.0 + 1_000.0 + 2_000.0));
    assert!(same(more(Item::GbSeconds), 1_500.0 * 0.015 + 1_000.0 * 0.015 + 2_000.0 * 0.05));
    assert!(same(more(Item::CustomMetrics), 7.0) && same(more(Item::AlarmMetrics), 0.0));
    // 35 days of records with their entries in the journal, 95 of facts and effects.
    let item = |bytes: f64| bytes + 100.0;
    let longer = item(counted.domain_key_bytes) + 2.0 * item(counted.effect_record_bytes);
    let backup = 1_000.0 * (item(record) * 35.0 + longer * 95.0) / 30.0;
    assert!(same(more(Item::BackupBytes), backup));
    assert!(same(more(Item::StoredBytes), backup + 1_000.0 * item(counted.journal_entry_bytes) * 35.0 / 30.0));
    let refused = Load { refused: 1_000.0, ..Load::AT_REST }.usage(&counted);
    assert!(same(refused.of(Item::GatewayRequests), 1_000.0) && same(refused.of(Item::WriteUnits), 0.0));
}

#[test]
fn the_gateway_counts_a_request_for_each_512_kilobytes() {
    let counted = Counted::built_in();
    for (body_bytes, requests) in [(0.0, 1.0), (2_048.0, 1.0), (524_288.0, 1.0), (524_289.0, 2.0), (5_000_000.0, 10.0)]
    {
        let load = Load { duplicates: 0.0, body_bytes, ..load(1_000.0) };
        assert!(same(load.usage(counted).of(Item::GatewayRequests), 1_000.0 * requests), "{body_bytes}");
        let designs = Design::all(&load, counted);
        assert!(designs.iter().all(|it| same(it.usage.of(Item::GatewayRequests), 1_000.0 * requests)), "{body_bytes}");
    }
}

#[test]
fn a_bill_is_the_sum_of_its_lines_and_no_dearer_after_the_free_tiers() {
    let (counted, prices) = (Counted::built_in(), Prices::built_in());
    let bills = [0.0, 1e4, 1e6, 1e8].map(|events| Bill::of(&load(events), counted, prices));
    for bill in &bills {
        assert_eq!(bill.lines.iter().map(|line| line.item).collect::<Vec<_>>(), Item::OWN);
        assert!(bill.lines.iter().all(|line| line.after_free <= line.list));
        assert!(same(bill.list(), bill.lines.iter().map(|line| line.list).sum()));
    }
    assert!(bills.is_sorted_by(|less, more| less.list() < more.list()));
}

#[test]
fn each_design_takes_what_it_calls() {
    let (counted, prices) = (Counted::built_in(), Prices::built_in());
    let designs = Design::all(&Load { duplicates: 0.0, effects: 0.0, ..load(1e6) }, counted);
    let of = |name: &str| designs.iter().find(|design| design.name.contains(name)).unwrap();
    // A record before and after, and two writes of the code.
    assert!(same(of("Powertools in").usage.of(Item::WriteUnits), 4e6));
    assert!(same(of("put, send").usage.of(Item::WriteUnits), 5e6), "three units for what is not compressed");
    assert!(same(of("EventBridge").usage.of(Item::BusEvents), 1e6));
    assert!(same(of("durable").usage.of(Item::DurableOperations), 3e6));
    let requests = of("queue").usage.of(Item::QueueRequests);
    assert!(requests > 3e6);
    let long = Design::all(&Load { duplicates: 0.0, effects: 0.0, body_bytes: 70_000.0, ..load(1e6) }, counted);
    let long = long.iter().find(|design| design.name.contains("queue")).unwrap();
    assert!(same(long.usage.of(Item::QueueRequests), requests + 2e6), "two for each send, and for each receive");
    let sum: f64 =
        of("Powertools in").usage.items().map(|item| prices.of(item, of("Powertools in").usage.of(item)).0).sum();
    assert!(same(of("Powertools in").list(prices).unwrap(), sum) && sum > 3.0);
    let rest = Design::all(&Load::AT_REST, counted);
    assert!(rest.iter().all(|design| same(design.list(prices).unwrap(), 0.0)));
}

#[test]
fn a_design_that_cannot_keep_a_body_has_no_price() {
    let (counted, prices) = (Counted::built_in(), Prices::built_in());
    for (body_bytes, unpriced) in [
        (409_000.0, &[][..]),
        (409_600.0, &["put, send, and a worker"]),
        (1_048_576.0, &["put, send, and a worker"]),
        (1_048_577.0, &["a queue, then Powertools", "put, send, and a worker", "verify, then EventBridge"]),
    ] {
        let designs = Design::all(&Load { body_bytes, ..load(1e6) }, counted);
        let dashes: Vec<_> = designs.iter().filter(|it| it.list(prices).is_none()).map(|it| it.name).collect();
        assert_eq!(dashes, unpriced, "{body_bytes}");
    }
}
