//! Where two bodies under one id differ: the paths, and never a value.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::inbox::body;

/// How many paths are named.
const PATHS_MAX: usize = 10;

/// Longer bodies are not compared: this is on the way of an answer.
const COMPARED_BYTES_MAX: usize = 256 * 1024;

/// The paths at which two compressed JSON payloads differ, such as `$.attempt, $.data.at`, the first ten of them. Empty
/// where one is no JSON, or long.
pub(crate) fn paths(first: &[u8], other: &[u8]) -> String {
    let read = |stored: &[u8]| {
        let raw = (stored.len() <= COMPARED_BYTES_MAX).then(|| body::decompress(stored).ok()).flatten()?;
        (raw.len() <= COMPARED_BYTES_MAX).then(|| serde_json::from_slice::<Value>(&raw).ok()).flatten()
    };
    let (Some(first), Some(other)) = (read(first), read(other)) else { return String::new() };
    let mut found = BTreeSet::new();
    compare(&first, &other, "$", &mut found);
    found.into_iter().collect::<Vec<_>>().join(", ")
}

fn compare(first: &Value, other: &Value, path: &str, found: &mut BTreeSet<String>) {
    if found.len() == PATHS_MAX || first == other {
        return;
    }
    match (first, other) {
        (Value::Object(first), Value::Object(other)) => {
            let names: BTreeSet<_> = first.keys().chain(other.keys()).collect();
            for name in names {
                let [first, other] = [first, other].map(|members| members.get(name).unwrap_or(&Value::Null));
                compare(first, other, &format!("{path}.{}", shown(name)), found);
            }
        }
        (Value::Array(first), Value::Array(other)) if first.len() == other.len() => {
            let pairs = first.iter().zip(other).enumerate();
            pairs.for_each(|(index, (first, other))| compare(first, other, &format!("{path}[{index}]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// A name that looks like one, with two digits at most, as in `line_2`. Another one may be a value: an id or an address.
fn shown(name: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    if (1..=40).contains(&name.len()) && digits <= 2 && name.bytes().all(is_name) { name } else { "*" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differ(first: &Value, other: &Value) -> String {
        let stored = |value: &Value| body::compress(value.to_string().as_bytes()).unwrap();
        paths(&stored(first), &stored(other))
    }

    #[test]
    fn the_paths_of_what_differs_are_named_and_no_value() {
        let first = json!({ "id": 1, "attempt": 1, "data": { "at": "x", "list": [{ "n": 1 }, 2] }, "a@b.c": 1, "cus_123": 1, "gone_2": 1 });
        let other = json!({ "id": 1, "attempt": 2, "data": { "at": "y", "list": [{ "n": 2 }, 2] }, "a@b.c": 2, "cus_123": 2, "new": [] });
        assert_eq!(differ(&first, &other), "$.*, $.attempt, $.data.at, $.data.list[0].n, $.gone_2, $.new");
        assert_eq!(differ(&json!([1]), &json!([1, 2])), "$");
        assert_eq!(differ(&json!({ "a": 1 }), &json!({ "a": 1 })), "", "written in another way");
    }

    #[test]
    fn what_is_no_json_or_long_has_no_paths_and_many_paths_are_cut() {
        let stored = |text: &str| body::compress(text.as_bytes()).unwrap();
        assert_eq!(paths(&stored("a=1"), &stored("a=2")), "");
        assert_eq!(paths(b"no payload", &stored("{}")), "");
        let long = json!({ "text": "x".repeat(COMPARED_BYTES_MAX) });
        assert_eq!(differ(&long, &json!({})), "");
        let many = |value: i64| json!(vec![value; 50]);
        assert_eq!(differ(&many(1), &many(2)).split(", ").count(), PATHS_MAX);
    }
}
