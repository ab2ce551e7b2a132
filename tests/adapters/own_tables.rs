//! What the store makes of every description of a user table.

use hookonce_aws::DynamoStore;
use hookonce_protocol::call::{CancellationReason, Committed, Unavailable};
use hookonce_protocol::place::{ItemRef, KeyAttribute, KeyKind, KeySchema, TableAlias};
use hookonce_protocol::plan::{DomainWrite, Plan};
use hookonce_protocol::write::Change;
use hookonce_runtime::port::Store as _;
use serde_json::{Value, json};

use super::{AMPLE, Case, STORE, answering, claim, denied, means, store_at};
use crate::scripted::{Reaction, ScriptedServer};

fn orders() -> TableAlias {
    TableAlias::parse("orders").unwrap()
}

fn with_orders(store: DynamoStore) -> DynamoStore {
    store.with_tables([(orders(), "prod-orders".to_owned())])
}

/// A table with these attributes in its key and these definitions.
fn table(keys: &[(&str, &str)], definitions: &[(&str, &str)]) -> Reaction {
    let keys = keys.iter().map(|(name, kind)| json!({ "AttributeName": name, "KeyType": kind }));
    let definitions = definitions.iter().map(|(name, kind)| json!({ "AttributeName": name, "AttributeType": kind }));
    let (keys, definitions): (Vec<Value>, Vec<Value>) = (keys.collect(), definitions.collect());
    json!({ "Table": { "KeySchema": keys, "AttributeDefinitions": definitions } }).into()
}

fn key(partition: (&str, KeyKind), sort: Option<(&str, KeyKind)>) -> KeySchema {
    let attribute = |(name, kind): (&str, KeyKind)| KeyAttribute { name: name.to_owned(), kind };
    KeySchema { partition: attribute(partition), sort: sort.map(attribute) }
}

#[tokio::test]
async fn the_key_of_a_table_comes_from_its_description() {
    let schema =
        async |server: &ScriptedServer, total| with_orders(store_at(server, total)).key_schema(orders(), &[]).await;
    let of = |name: &str, answer: Reaction, schema: KeySchema| Case::new(name, answer, Ok(Some(schema)), 1);
    let unknown = |name: &str, answer: Reaction| Case::new(name, answer, Err(Unavailable), 1);
    let cases = vec![
        of("a text", table(&[("a", "HASH")], &[("a", "S")]), key(("a", KeyKind::Text), None)),
        of("a number", table(&[("a", "HASH")], &[("i", "S"), ("a", "N")]), key(("a", KeyKind::Number), None)),
        of(
            "bytes and a text, in any order",
            table(&[("b", "RANGE"), ("a", "HASH")], &[("b", "S"), ("a", "B")]),
            key(("a", KeyKind::Bytes), Some(("b", KeyKind::Text))),
        ),
        unknown("no table", (200, "{}").into()),
        unknown("no key", table(&[], &[("a", "S")])),
        unknown("no partition key", table(&[("a", "RANGE")], &[("a", "S")])),
        unknown("a key that is not defined", table(&[("a", "HASH")], &[("b", "S")])),
        unknown("a key of a type of tomorrow", table(&[("a", "HASH")], &[("a", "BOOL")])),
        // A table with a sort key must not be taken for one without.
        unknown("a sort key that is not defined", table(&[("a", "HASH"), ("b", "RANGE")], &[("a", "S")])),
    ];
    means(STORE, schema, Err(Unavailable), cases).await;
}

/// A key never changes during the life of a table. Whether it can be read may change.
#[tokio::test]
async fn a_key_schema_is_read_until_it_is_known() {
    let server = answering([denied(), table(&[], &[]), table(&[("a", "HASH")], &[("a", "S")])]).await;
    let store = with_orders(store_at(&server, AMPLE));
    for expected in [Err(Unavailable), Err(Unavailable)] {
        assert_eq!(store.key_schema(orders(), &[]).await, expected);
    }
    for _ in 0..2 {
        // A clone knows what the store knows.
        assert_eq!(store.clone().key_schema(orders(), &[]).await, Ok(Some(key(("a", KeyKind::Text), None))));
    }
    assert_eq!(server.requests().len(), 3);
    assert_eq!(store.key_schema(TableAlias::parse("unknown").unwrap(), &[]).await, Ok(None));
    assert_eq!(server.requests().len(), 3, "nothing is asked for a table that the configuration does not have");
}

/// The table may have been created again, which only DynamoDB knows. Until it says so, no event dies of a refused key,
/// and one that is applied already is known as that.
#[tokio::test]
async fn a_refused_key_is_final_only_if_the_table_still_has_it() {
    let own = DomainWrite::update(ItemRef::own(orders(), [("a", "1".into())]), vec![Change::Add("n".into(), 1)]);
    let writes: Vec<_> = [claim()].into_iter().chain(Plan::default().with(own).into_writes()).collect();
    let [same, other] = [table(&[("a", "HASH")], &[("a", "S")]), table(&[("b", "HASH")], &[("b", "S")])];
    let refused = [CancellationReason::None, CancellationReason::Invalid];
    let settled = [CancellationReason::ConditionFailed, CancellationReason::Invalid];
    for (first, described, expected, requests) in [
        ("None", same, Committed::Cancelled(refused.to_vec()), 2),
        ("None", other.clone(), Committed::Denied, 2),
        ("None", denied(), Committed::Denied, 2),
        ("ConditionalCheckFailed", other, Committed::Cancelled(settled.to_vec()), 1),
    ] {
        let code = format!("{STORE}#TransactionCanceledException");
        let cancelled =
            json!({ "__type": code, "CancellationReasons": [{"Code": first}, {"Code": "ValidationError"}] });
        let server = ScriptedServer::start(move |_, request| {
            if request.is_for("DescribeTable") { described.clone() } else { (400, cancelled.to_string()).into() }
        });
        let server = server.await;
        assert_eq!(with_orders(store_at(&server, AMPLE)).commit(&writes).await, expected, "{first}");
        assert_eq!(server.requests().len(), requests);
    }
}
