//! Ledger and balance.

use hookonce_examples::Payments;
use proptest::prelude::*;

use super::{Domain, event};
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
            domain.apply(&Payments, event);
        }
        let refunded = totals.iter().max().unwrap();
        prop_assert_eq!(domain.number(BALANCE, "minor"), paid - refunded);
        let entries = domain.items.iter().filter(|(key, _)| key.contains("#ledger#"));
        let sum: i64 = entries.clone().filter_map(|(_, item)| item["minor"].as_i64()).sum();
        prop_assert_eq!(sum, paid - refunded, "the entries add up to the balance");
        prop_assert_eq!(domain.number(BALANCE, "entries"), i64::try_from(entries.count()).unwrap());
    }
}
