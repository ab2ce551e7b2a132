//! Ledger and balance.

use hookonce_protocol::plan::Snapshot;
use hookonce_worker::handlers::Payments;
use proptest::prelude::*;

use super::{Applied, Domain, event};
use crate::support::samples::{charge_refunded, invoice_paid};

const BALANCE: &str = "stripe#balance#cus_SampleCustomer#eur";

proptest! {
    /// Each refund event carries the total so far. They come in any order, some twice, some never but the last.
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
    use hookonce_runtime::handler::Handler as _;
    let mut again = event(&invoice_paid("evt_1", "in_1", 100));
    let first = Payments.plan(&again, &Snapshot::default()).unwrap();
    again.generation = 1;
    let second = Payments.plan(&again, &Snapshot::default()).unwrap();
    assert_ne!(first.writes[0].key, second.writes[0].key, "another ledger entry");
    assert_eq!(first.writes[1].key, second.writes[1].key, "of the same balance");
}
