//! What a later release may write: another word, another type, one attribute more or less. This release must not read it
//! as something else. Whatever it does not understand it leaves alone, so that the later release finds it.

use std::collections::BTreeMap;

use hookonce_protocol::item::Value;

use super::forms::{Form, all};

/// One change of one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// A word that this release does not know, in place of a text.
    Word,
    /// A number for a text, a text for anything else.
    Type,
    /// Nothing.
    Missing,
    /// One field more, in a map.
    More,
}

use Change::{Missing, More, Type, Word};

/// A place, and what may stand there although it is not as this release writes it. `*` at the end of a place stands for
/// the rest of its name.
struct Exception {
    form: &'static str,
    changes: &'static [Change],
    places: &'static [&'static str],
    /// Why it does no harm.
    because: &'static str,
}

const RECORDS: &str = "delivery event envelope effect";

const EXCEPTIONS: &[Exception] = &[
    Exception {
        form: RECORDS,
        changes: &[Missing],
        places: &[
            "accept_duplicate",
            "body",
            "callee",
            "calls",
            "calls[].status",
            "calls[].unsent",
            "dead_at",
            "dead_letter*",
            "dead_reason",
            "discarded_at",
            "duplicate_count",
            "duration_ms",
            "earlier_effects",
            "effects",
            "failures",
            "first_call_at",
            "headers.*",
            "hookonce_expires_at",
            "key_epoch",
            "last_error",
            "last_seen_*",
            "not_before",
            "not_done",
            "outcome",
            "parent",
            "processed_at",
            "quarantine_mismatch",
            "retried_at",
            "retries",
            "tenant",
            "waits_since",
        ],
        because: "it is not there before it happens, or where it is none; the rules of `audit` want it where it must be",
    },
    Exception {
        form: RECORDS,
        changes: &[Word],
        places: &[
            "callee",
            "claim_id",
            "content_type",
            "event_type",
            "failures[].code",
            "headers.*",
            "journal_shard",
            "last_error",
            "last_seen_by",
            "pass",
            "path",
        ],
        because: "a text of providers, plans and people, or a drawn id: no rule has a list of such words",
    },
    Exception {
        form: RECORDS,
        changes: &[Missing],
        places: &["due_*"],
        because: "an item with half of the entry is in no index, and `audit` says so",
    },
    Exception {
        form: RECORDS,
        changes: &[Word],
        places: &["provider"],
        because: "a provider that this catalog lacks: its events are tried again, and in the end are DEAD with their payload",
    },
    Exception {
        form: RECORDS,
        changes: &[More],
        places: &["", "headers", "calls[]", "failures[]"],
        because: "a later release may add attributes: updates name what they change, so the rest stays as it is",
    },
    Exception {
        form: "fact",
        changes: &[Word, Type, Missing, More],
        places: &["*"],
        because: "no rule but that it is there: what stands under its key was applied, whatever the item says",
    },
    Exception {
        form: "first seen",
        changes: &[Word, Type, Missing, More],
        places: &["*"],
        because: "a count of suspected replays; nothing depends on it",
    },
    Exception {
        form: "trail",
        changes: &[Word],
        places: &["entries[]*"],
        because: "texts of people, drawn ids, and states for people to read",
    },
    Exception {
        form: "trail",
        changes: &[Word, Type, Missing],
        places: &["pk", "record", "hookonce_expires_at"],
        because: "the record's key, which the entry that is added writes again",
    },
    Exception {
        form: "hint",
        changes: &[More],
        places: &[""],
        because: "a hint decides nothing: what it names is read",
    },
    Exception { form: "slow hint", changes: &[More], places: &[""], because: "a hint decides nothing" },
    Exception {
        form: "slow hint",
        changes: &[Word],
        places: &["handler"],
        because: "the event is routed again; this name only tells that it was moved",
    },
    Exception {
        form: "claim",
        changes: &[Word],
        places: &["claim_id", "event_type", "headers.*", "provider"],
        because: "as in the record that is made of it",
    },
    Exception {
        form: "claim",
        changes: &[Missing, More],
        places: &["headers*", "tenant"],
        because: "headers are names of the provider's, and most endpoints name no tenant",
    },
    Exception {
        form: "endpoint",
        changes: &[Missing],
        places: &[
            "body_bytes_max",
            "expect_every",
            "on_body_mismatch",
            "on_store_outage",
            "settings",
            "source_ranges",
            "tenant",
            "tolerance_seconds",
        ],
        because: "a document need not say it: docs/run/deploy.md has what then holds",
    },
    Exception {
        form: "endpoint",
        changes: &[Word],
        places: &["expect_every"],
        because: "no function reads it, and no delivery is refused for its sake; `endpoint check` and `doctor` refuse it",
    },
    Exception {
        form: "destination",
        changes: &[Missing],
        places: &[
            "account",
            "allow_private",
            "content_type",
            "done_statuses",
            "give_up_after_hours",
            "headers*",
            "in_flight_max",
            "key_header",
            "not_done_statuses",
            "retry_statuses",
            "success_json",
            "timeout_ms",
        ],
        because: "a document need not say it: docs/use/destinations.md has what then holds",
    },
    Exception {
        form: "destination",
        changes: &[Word, Type, More],
        places: &["account", "headers*", "key_header", "success_json.equals"],
        because: "headers, accounts and answers are the callee's",
    },
    Exception {
        form: "routes",
        changes: &[Missing],
        places: &[
            "routes[].across_types",
            "routes[].destinations",
            "routes[].endpoints",
            "routes[].forward",
            "routes[].types",
            "routes[].when",
        ],
        because: "a route need not say it: docs/use/routes.md has what then holds",
    },
    Exception {
        form: "routes",
        changes: &[Word, Type],
        places: &[
            "routes[].endpoints[]",
            "routes[].handler.builtin",
            "routes[].name",
            "routes[].types[]",
            "routes[].when.*",
        ],
        because: "patterns and names of people; the events of a handler that this worker lacks wait",
    },
];

fn is_excepted(exception: &Exception, form: &str, change: Change, place: &str) -> bool {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => place.starts_with(start),
        None => place == *pattern,
    };
    let is_of = exception.form == form || exception.form == RECORDS && RECORDS.split(' ').any(|it| it == form);
    is_of && exception.changes.contains(&change) && exception.places.iter().any(fits)
}

/// Every tree that differs from this one in one place, with the place. Elements of a list have the place of the list.
fn changed(tree: &Value, place: &str) -> Vec<(String, Change, Value)> {
    let here = |change, value| (place.to_owned(), change, value);
    let word = Value::from("ZZ_LATER");
    let mut all = match tree {
        Value::Text(_) => vec![here(Word, word), here(Type, Value::from(7))],
        Value::Number(_) | Value::Flag(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => vec![here(Type, word)],
        Value::TextSet(_) | Value::NumberSet(_) | Value::BytesSet(_) | Value::Null(_) => panic!("no form has it"),
    };
    match tree {
        Value::Map(fields) => {
            for (name, value) in fields {
                let inner = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                let mut without = fields.clone();
                without.remove(name);
                all.push((inner.clone(), Missing, Value::Map(without)));
                for (place, change, value) in changed(value, &inner) {
                    let mut with = fields.clone();
                    with.insert(name.clone(), value);
                    all.push((place, change, Value::Map(with)));
                }
            }
            let mut more = fields.clone();
            more.insert("zz_later".to_owned(), Value::from("ZZ_LATER"));
            all.push(here(More, Value::Map(more)));
        }
        Value::List(list) => {
            for (index, value) in list.iter().enumerate() {
                for (place, change, value) in changed(value, &format!("{place}[]")) {
                    let mut with = list.clone();
                    with[index] = value;
                    all.push((place, change, Value::List(with)));
                }
            }
        }
        _ => {}
    }
    all
}

/// Each change is refused, or it is an exception; and each exception is one.
#[test]
fn what_a_later_release_writes_is_left_alone_or_does_no_harm() {
    let mut used = vec![false; EXCEPTIONS.len()];
    let mut wrong = Vec::new();
    for Form { name, whole, is_read } in all() {
        assert!(is_read(&whole), "{name} is read as it is");
        let mut verdicts = BTreeMap::new();
        for (place, change, tree) in changed(&whole, "") {
            *verdicts.entry((place, change)).or_insert(false) |= is_read(&tree);
        }
        for ((place, change), is_read) in verdicts {
            let excepting = |exception: &Exception| is_excepted(exception, name, change, &place);
            match (is_read, EXCEPTIONS.iter().position(excepting)) {
                (true, None) => wrong.push(format!("{name}: {change:?} at `{place}` is read")),
                (true, Some(index)) => used[index] = true,
                (false, _) => {}
            }
        }
    }
    for (exception, used) in EXCEPTIONS.iter().zip(used) {
        if !used || exception.because.is_empty() {
            wrong.push(format!("the exception {:?} of {} is none", exception.places, exception.form));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
