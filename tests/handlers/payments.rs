//! Ledger and balance.

use hookonce_protocol::plan::Event;
use hookonce_worker::handlers::Payments;
use proptest::prelude::*;

use super::{Applied, Domain, event};
use crate::support::samples::{charge_refunded, invoice_paid};

const BALANCE: &str = "stripe#balance#cus_SampleCustomer#eur";

proptest! {
    /// Each refund event carries the total so far. They arrive in any order, some twice; only the last one must arrive.
    #[test]
    fn refunds_in_any_order_leave_the_balance_at_the_largest_total(
        totals in proptest::collection::vec(1_i64..5_000, 1..12),
        paid in 5_000_i64..10_000,
        paid_at in 0_usize..12,
    ) {
        let mut domain = Domain::default();
        let mut events: Vec<_> = totals
            .iter()
            .enumerate()
            .map(|(index, total)| event(&charge_refunded(&format!("evt_r{index}"), "ch_1", *total)))
            .collect();
        events.insert(paid_at.min(events.len()), event(&invoice_paid("evt_p", "in_1", paid)));
        for event in &events {
            let applied = domain.apply(&Payments, event);
            prop_assert!(matches!(applied, Applied::Once | Applied::Duplicate), "{:?}", applied);
        }
        let refunded = totals.iter().max().unwrap();
        prop_assert_eq!(domain.number(BALANCE, "minor"), paid - refunded);
        let entries = domain.items.iter().filter(|(key, _)| key.contains("#ledger#"));
        let sum: i64 = entries.clone().filter_map(|(_, item)| item["minor"].as_i64()).sum();
        prop_assert_eq!(sum, paid - refunded, "the entries add up to the balance");
        prop_assert_eq!(domain.number(BALANCE, "entries"), i64::try_from(entries.count()).unwrap());
    }
}

#[test]
fn one_invoice_is_one_fact_under_any_number_of_event_ids() {
    let mut domain = Domain::default();
    let results = ["evt_1", "evt_2", "evt_1"].map(|id| domain.apply(&Payments, &event(&invoice_paid(id, "in_1", 100))));
    assert_eq!(results, [Applied::Once, Applied::Duplicate, Applied::Duplicate]);
    assert_eq!(domain.number(BALANCE, "minor"), 100);
    assert_eq!(domain.apply(&Payments, &event(&invoice_paid("evt_3", "in_2", 50))), Applied::Once);
    assert_eq!((domain.number(BALANCE, "minor"), domain.number(BALANCE, "entries")), (150, 2));
}

#[test]
fn endpoints_never_share_an_item() {
    let mut domain = Domain::default();
    for endpoint in ["tenant-a", "tenant-b"] {
        let delivery = invoice_paid("evt_1", "in_1", 100).to(endpoint);
        assert_eq!(domain.apply(&Payments, &event(&delivery)), Applied::Once, "{endpoint}");
    }
    assert_eq!(domain.number("tenant-a#balance#cus_SampleCustomer#eur", "minor"), 100);
    assert_eq!(domain.number("tenant-b#balance#cus_SampleCustomer#eur", "minor"), 100);
}

#[test]
fn an_amount_below_zero_and_a_body_of_another_form_can_never_be_applied() {
    let mut domain = Domain::default();
    for (delivery, code) in [
        (invoice_paid("evt_1", "in_1", -1), "AMOUNT_NEGATIVE"),
        (charge_refunded("evt_2", "ch_1", -1), "AMOUNT_NEGATIVE"),
    ] {
        let Applied::Failed(error) = domain.apply(&Payments, &event(&delivery)) else { panic!("applied") };
        assert_eq!((error.code, error.retryable), (code, false));
    }
    let mut unreadable = event(&invoice_paid("evt_3", "in_3", 1));
    unreadable.body = br#"{"data":{"object":{"id":"in_3","amount_paid":"4,900"}}}"#.to_vec();
    let Applied::Failed(error) = domain.apply(&Payments, &unreadable) else { panic!("applied") };
    assert_eq!((error.code, error.retryable), ("INVOICE_UNREADABLE", false));
    assert!(domain.items.is_empty());
}

#[test]
fn a_forced_replay_has_items_of_its_own() {
    let mut domain = Domain::default();
    // Two events of one fact; each is forced once.
    for (id, generation) in [("evt_1", 0), ("evt_1", 1), ("evt_2", 1)] {
        let forced = Event { generation, ..event(&invoice_paid(id, "in_1", 100)) };
        assert_eq!(domain.apply(&Payments, &forced), Applied::Once, "{id} in generation {generation}");
    }
    assert_eq!((domain.number(BALANCE, "minor"), domain.number(BALANCE, "entries")), (300, 3));
    assert_eq!(domain.items.keys().filter(|key| key.contains("#ledger#")).count(), 3);
}
