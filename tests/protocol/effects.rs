//! What the tables say of effects.

use hookonce_protocol::invariant::{Counted, surplus_effects};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};

fn item(key: &str, fields: &[(&str, i64)]) -> Item {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
    fields.chain([(PARTITION_KEY.to_owned(), Value::from(key))]).collect()
}

#[test]
fn an_effect_that_was_applied_twice_shows_in_its_counter() {
    let counted = [
        Counted { counter: "#balance#", attribute: "entries", trace: "#ledger#", by_domain_key: false },
        Counted { counter: "#status#", attribute: "changes", trace: "#read#", by_domain_key: true },
    ];
    let surplus = |entries: i64, changes: i64| {
        let items = [
            item("s#ledger#a", &[]),
            item("s#balance#x", &[("entries", entries)]),
            item("#dk#s#ledger#a", &[]),
            item("s#status#x", &[("changes", changes)]),
            item("#dk#s#read#a", &[]),
            item("#dk#s#read#b", &[]),
        ];
        surplus_effects(&items.iter().collect::<Vec<_>>(), &counted)
    };
    assert_eq!((surplus(1, 2), surplus(2, 2), surplus(3, 4), surplus(0, 1)), (0, 1, 4, 0));
}
