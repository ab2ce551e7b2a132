//! One BatchGetItem over several tables: its request, and which of its keys the answer is about.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemOutput;
use aws_sdk_dynamodb::types::builders::KeysAndAttributesBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use hookonce_protocol::item::{Item, PARTITION_KEY};
use hookonce_protocol::place::Key;
use hookonce_protocol::write::Table;

use super::render::{from_attributes, key_of};

/// Items by table and key. DynamoDB refuses a request that lists a key twice.
pub(super) type Wanted = BTreeSet<(Table, Key)>;

/// What was read: `None` for an item that does not exist.
pub(super) type Read = BTreeMap<(Table, Key), Option<Item>>;

/// The request for these items, strongly consistent. If `attributes` is not empty, it reads only those and the key.
pub(super) fn request<'a>(
    wanted: &Wanted,
    attributes: &[&str],
    name: impl Fn(Table) -> &'a str,
) -> Option<HashMap<String, KeysAndAttributes>> {
    let mut keys: BTreeMap<Table, Vec<_>> = BTreeMap::new();
    for (table, key) in wanted {
        keys.entry(*table).or_default().push(key_of(key));
    }
    let of_table = |(table, keys)| {
        let request = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true);
        Some((name(table).to_owned(), projected(request, attributes).build().ok()?))
    };
    keys.into_iter().map(of_table).collect()
}

/// Limits a read to the key and these attributes. Without attributes, it reads everything.
fn projected(request: KeysAndAttributesBuilder, attributes: &[&str]) -> KeysAndAttributesBuilder {
    if attributes.is_empty() {
        return request;
    }
    let named =
        |request: KeysAndAttributesBuilder, name: &&str| request.expression_attribute_names(format!("#{name}"), *name);
    let names: Vec<_> = std::iter::once(&PARTITION_KEY).chain(attributes).map(|name| format!("#{name}")).collect();
    let request = std::iter::once(&PARTITION_KEY).chain(attributes).fold(request, named);
    request.projection_expression(names.join(", "))
}

/// Takes what the answer says out of `wanted`, and returns what is left: keys that DynamoDB had no capacity for.
pub(super) fn answered<'a>(
    wanted: Wanted,
    mut output: BatchGetItemOutput,
    read: &mut Read,
    name: impl Fn(Table) -> &'a str,
) -> Wanted {
    // All keys of a table have the same attributes, so any of them shows where an item's key stands.
    let examples: BTreeMap<Table, Key> = wanted.iter().map(|(table, key)| (*table, key.clone())).collect();
    let (mut items, mut left) = (HashMap::new(), Wanted::new());
    for (table, example) in &examples {
        let found = output.responses.as_mut().and_then(|tables| tables.remove(name(*table)));
        for item in found.into_iter().flatten() {
            items.insert((*table, key_in(&item, example)), item);
        }
        let unprocessed = output.unprocessed_keys().and_then(|tables| tables.get(name(*table)));
        left.extend(
            unprocessed.into_iter().flat_map(KeysAndAttributes::keys).map(|key| (*table, key_in(key, example))),
        );
    }
    let (left, done): (Wanted, Wanted) = wanted.into_iter().partition(|place| left.contains(place));
    for place in done {
        let item = items.remove(&place).map(from_attributes);
        read.insert(place, item);
    }
    left
}

/// The key of an item, which has the same attributes as the example.
fn key_in(item: &HashMap<String, AttributeValue>, example: &Key) -> Key {
    match example.attributes() {
        None => item.get(PARTITION_KEY).and_then(|key| key.as_s().ok()).map_or("", String::as_str).into(),
        Some(attributes) => {
            let own = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            let key: HashMap<_, _> = attributes.keys().filter_map(own).collect();
            Key::of(from_attributes(key))
        }
    }
}
