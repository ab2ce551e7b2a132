//! Keys that must never collide.

use std::collections::BTreeMap;

use hookonce_protocol::item::{PARTITION_KEY, fields};
use hookonce_protocol::key::{
    AppliedFact, ClaimId, DOMAIN_KEY_PREFIX, DomainKey, EndpointId, ITEM_KEY_BYTES_MAX, ItemKey, PARTS_BYTES_MAX,
    RECORD, RecordKey, RecordKind, Tenant,
};
use hookonce_protocol::plan::{EVENT_VERSION, Event};
use hookonce_protocol::time::EpochMs;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What a key is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Delivery(String, String),
    Event(String, String),
    Envelope(String, [u8; 32]),
    Alternate(Box<Named>),
}

impl Named {
    fn key(&self) -> RecordKey {
        let endpoint = |id: &str| EndpointId::parse(id).unwrap();
        match self {
            Self::Delivery(at, id) => RecordKey::delivery(&endpoint(at), id),
            Self::Event(at, id) => RecordKey::event(&endpoint(at), id),
            Self::Envelope(at, sha256) => RecordKey::envelope(&endpoint(at), sha256),
            Self::Alternate(of) => of.key().alternate(),
        }
    }
}

/// Ids that a sender would choose to collide with another key.
fn id() -> impl Strategy<Value = String> {
    let plain = ["ev", "en", "alt", "ev#a", "en#a", "alt#1", "a#alt#1", "%", "%23", "#in#a#r#g1", "é", " "];
    let hash = "01".repeat(32);
    let hashed = ["", "en#", "h#", "%h"].map(|before| format!("{before}{hash}"));
    let long = [0, 1, 2].map(|more| "x".repeat(PARTS_BYTES_MAX + more));
    let all: Vec<_> = plain.map(str::to_owned).into_iter().chain(hashed).chain(long).collect();
    prop_oneof!["[a-c#]{1,4}", select(all)]
}

/// One of these.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(texts).prop_map(str::to_owned)
}

fn sha256() -> impl Strategy<Value = [u8; 32]> {
    (0_u8..3).prop_map(|byte| [byte; 32])
}

fn named() -> impl Strategy<Value = Named> {
    let endpoint = || one_of(&["a", "a-b", "b", "in", "h"]);
    let plain = prop_oneof![
        (endpoint(), id()).prop_map(|(at, id)| Named::Delivery(at, id)),
        (endpoint(), id()).prop_map(|(at, id)| Named::Event(at, id)),
        (endpoint(), sha256()).prop_map(|(at, sha256)| Named::Envelope(at, sha256)),
    ];
    prop_oneof![
        3 => plain.clone(),
        1 => plain.prop_map(|of| Named::Alternate(Box::new(of))),
    ]
}

/// One effect: what its keys are made of. The first generation does not depend on the record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effect {
    tenant: &'static str,
    name: &'static str,
    parts: Vec<String>,
    named_by: NamedBy,
    /// Record and generation of a forced one.
    forced: Option<(String, i64)>,
}

/// How its fact is named.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedBy {
    Handler,
    Type(String),
    AnyType,
}

impl Effect {
    fn fact(&self) -> DomainKey {
        match &self.named_by {
            NamedBy::Handler => DomainKey::of(&self.parts),
            NamedBy::Type(event_type) => DomainKey::of_type(event_type, &self.parts),
            NamedBy::AnyType => DomainKey::across_types(&self.parts),
        }
    }

    fn event(&self) -> Event {
        // Endpoints of one tenant share its keys.
        let endpoint = EndpointId::parse("at").unwrap();
        let (id, generation) = self.forced.clone().unwrap_or_default();
        Event {
            version: EVENT_VERSION,
            record: RecordKey::delivery(&endpoint, &id),
            endpoint,
            tenant: Tenant::parse(self.tenant).unwrap(),
            provider: String::new(),
            key: id,
            event_type: String::new(),
            received_at: EpochMs(0),
            generation,
            headers: BTreeMap::new(),
            body: Vec::new(),
        }
    }
}

fn effect() -> impl Strategy<Value = Effect> {
    let (tenant, name) = (select(vec!["a", "b", "dk"]), select(vec!["h", "h#a", "in"]));
    let part = || prop_oneof![3 => "[a#%]{0,2}", 1 => one_of(&["in", "r", "g1"]), 1 => id()];
    let forced = proptest::option::weighted(0.25, (part(), 1_i64..3));
    // A handler may name its fact as a route does: by the type and a value, or by the value alone.
    let parts = prop_oneof![vec(part(), 1..4), vec(one_of(&["a", "b"]), 1..3)];
    let named_by = prop_oneof![
        4 => Just(NamedBy::Handler),
        2 => prop_oneof!["[a#%]{0,2}", Just("a".to_owned())].prop_map(NamedBy::Type),
        2 => Just(NamedBy::AnyType),
    ];
    let all = (tenant, name, parts, named_by, forced);
    all.prop_map(|(tenant, name, parts, named_by, forced)| Effect { tenant, name, parts, named_by, forced })
}

#[test]
fn an_alternate_key_is_of_the_kind_of_its_plain_key() {
    let endpoint = EndpointId::parse("e").unwrap();
    for id in ["ev", "en", "fx", "alt", "a", "ev#a", "1"] {
        let (delivery, event) = (RecordKey::delivery(&endpoint, id), RecordKey::event(&endpoint, id));
        for (plain, kind) in [(delivery, RecordKind::Delivery), (event, RecordKind::Event)] {
            assert_eq!([plain.kind(), plain.alternate().kind()], [kind; 2], "{plain}");
        }
    }
    let envelope = RecordKey::envelope(&endpoint, &[2; 32]);
    assert_eq!(envelope.alternate().kind(), RecordKind::Envelope);
}

proptest! {
    #[test]
    fn two_names_never_meet_in_one_key(names in vec(named(), 2..24)) {
        let mut by_key: BTreeMap<RecordKey, Named> = BTreeMap::new();
        for name in names {
            let known = by_key.entry(name.key()).or_insert_with(|| name.clone());
            prop_assert_eq!(known.clone(), name);
        }
    }

    #[test]
    fn a_key_is_parsed_back_to_what_it_stands_for(name in named(), shards in 1_u16..64) {
        let key = name.key();
        prop_assert_eq!(RecordKey::parse(key.as_str()), Some(key.clone()));
        let plain = if let Named::Alternate(of) = &name { of } else { &name };
        let (endpoint, kind) = match plain {
            Named::Delivery(at, _) => (at, RecordKind::Delivery),
            Named::Event(at, _) => (at, RecordKind::Event),
            Named::Envelope(at, _) => (at, RecordKind::Envelope),
            Named::Alternate(..) => unreachable!("an alternate key belongs to a plain one"),
        };
        prop_assert_eq!((key.parts().0, key.kind()), (endpoint.as_str(), kind));
        prop_assert!(key.as_str().len() <= 2_048, "a partition key holds 2,048 bytes");
        prop_assert!(key.shard(shards) < shards);
        prop_assert_eq!(name.key().shard(shards), key.shard(shards));
    }

    /// Only handlers and operators decide about a key. Nothing that a provider sends makes two effects share one.
    #[test]
    fn two_effects_never_meet_in_one_key(effects in vec(effect(), 2..24)) {
        let (mut facts, mut items) = (BTreeMap::new(), BTreeMap::new());
        for effect in effects {
            let event = effect.event();
            let fact = effect.fact();
            if fact.is_named() {
                let key = fact.item(&event.tenant, effect.name, &event.record, event.generation);
                prop_assert!(key.starts_with(DOMAIN_KEY_PREFIX) && key.len() <= ITEM_KEY_BYTES_MAX);
                let (record, first) = (event.record.as_str(), fact.item(&event.tenant, effect.name, &event.record, 0));
                let item = fields([(PARTITION_KEY, key.as_str().into()), (RECORD, record.into())]);
                let fact = first.strip_prefix(DOMAIN_KEY_PREFIX).unwrap();
                let expected = AppliedFact { fact, record, generation: event.generation };
                prop_assert_eq!(AppliedFact::of(&item), Some(expected));
                let known = facts.entry(key).or_insert_with(|| effect.clone());
                prop_assert_eq!(known.clone(), effect.clone());
            }
            let key = ItemKey::from(event.once(effect.name, &effect.parts));
            let is_of = |tenant: &str| ItemKey::names(&Tenant::parse(tenant).unwrap(), key.as_str());
            prop_assert!(is_of(effect.tenant), "{}", key);
            prop_assert!(!["a", "b", "dk"].iter().any(|other| *other != effect.tenant && is_of(other)), "{}", key);
            let effect = Effect { named_by: NamedBy::Handler, ..effect };
            let known = items.entry(key).or_insert_with(|| effect.clone());
            prop_assert_eq!(known.clone(), effect);
        }
    }
}

#[test]
fn keys_are_readable_and_a_fact_with_an_empty_part_has_no_name() {
    let effect = Effect {
        tenant: "a",
        name: "ledger",
        parts: vec!["in_1".to_owned()],
        named_by: NamedBy::Handler,
        forced: None,
    };
    let forced = Effect { forced: Some(("evt_1".to_owned(), 2)), ..effect.clone() };
    let fact = DomainKey::of(["invoice.paid", "in_1"]);
    let stored = |fact: &DomainKey, effect: &Effect| {
        let event = effect.event();
        fact.item(&event.tenant, "payments", &event.record, event.generation)
    };
    assert_eq!(stored(&fact, &forced), "#dk#a#payments#invoice.paid#in_1##in#at#evt_1#g2");
    for (fact, key) in [
        (DomainKey::of_type("invoice.paid", ["in_1"]), "#dk#a#payments#%type#invoice.paid#in_1"),
        (DomainKey::across_types(["in_1"]), "#dk#a#payments#%fact#in_1"),
    ] {
        assert_eq!(stored(&fact, &effect), key);
    }
    assert!(!DomainKey::of_type("invoice.paid", [""]).is_named() && !DomainKey::across_types([""]).is_named());
    assert!(fact.is_named() && !DomainKey::of(["invoice.paid", ""]).is_named());
}

#[test]
fn only_plain_endpoint_ids_are_endpoint_ids() {
    for good in ["a", "stripe-main", "tenant_1", &"x".repeat(64)] {
        assert!(EndpointId::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "A", "a b", "a#b", "a/b", "..", "a.json", "é", &"x".repeat(65)] {
        assert!(EndpointId::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn what_is_no_key_is_not_parsed() {
    for bad in ["", "in#", "in#a", "in#a#", "in##x", "in#A#x", "out#a#x", "dk#a#x", "a"] {
        assert_eq!(RecordKey::parse(bad), None, "{bad}");
    }
}

#[test]
fn the_claim_of_a_child_is_the_same_on_every_run_and_another_for_every_envelope() {
    let key = |id: &str| Named::Event("a".to_owned(), id.to_owned()).key();
    let envelope = |byte: u8| Named::Envelope("a".to_owned(), [byte; 32]).key();
    let of =
        |byte, claim: &str, event: &str| ClaimId::of_child(&envelope(byte), &ClaimId(claim.to_owned()), &key(event));
    assert_eq!(of(1, "c", "e"), of(1, "c", "e"));
    let others = [of(1, "c", "e"), of(2, "c", "e"), of(1, "d", "e"), of(1, "c", "f")];
    assert_eq!(others.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
}

#[test]
fn shards_are_used_evenly() {
    let mut used = [0_usize; 16];
    for index in 0..16_000 {
        let key = Named::Delivery("a".to_owned(), format!("evt_{index}")).key();
        used[usize::from(key.shard(16))] += 1;
    }
    assert!(used.iter().all(|count| (850..1_150).contains(count)), "{used:?}");
}
