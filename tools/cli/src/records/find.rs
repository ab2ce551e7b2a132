//! Records by what a person types of their keys.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{Found, Record};
use hookonce_runtime::port::Store as _;

use super::exact::{candidates, candidates_at, find, readable};
use super::filter::{Filter, Kind};
use super::stream::{READS_AT_ONCE, Read, select};
use crate::failure::Failure;
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::target::store_unavailable;

/// The records of these keys, without their bodies.
///
/// # Errors
/// [`Failure`] when the store does not answer.
pub(crate) async fn states(
    store: &DynamoStore,
    keys: Vec<RecordKey>,
) -> Result<Vec<(RecordKey, Option<Record>)>, Failure> {
    let found = store.read_heads(&keys).await;
    let record = |found: Result<Found, Unavailable>| match found.map_err(|_| store_unavailable())? {
        Found::Record(record) => Ok(Some(*record)),
        Found::Nothing | Found::Unreadable(_) => Ok(None),
    };
    keys.into_iter().zip(found).map(|(key, found)| Ok((key, record(found)?))).collect()
}

/// What a key that a person typed names.
#[derive(Debug)]
pub(crate) enum Named {
    /// The record with this key.
    Whole(Box<Record>),
    /// The one record whose key begins so.
    Beginning(Box<Record>),
    /// None.
    Missing,
}

/// The most keys that are looked at for one that begins with a text: fifty reads as large as they may be.
const KEYS_LOOKED_AT_MAX: usize = 50_000;

/// The most records that a text may name before it is refused.
const CANDIDATES_MAX: usize = 8;

/// How many keys one read returns at most.
const KEYS_AT_ONCE: usize = 1_000;

/// What stands for the middle of a key that is shown shortened.
const GAP: char = '…';

/// How many characters of the digest in an effect's key are shown.
const DIGEST_SHOWN: usize = 8;

/// The key as a terminal shows it: that of an effect without most of its digest. [`find_named`] takes it back.
pub(crate) fn shown_key(key: &RecordKey) -> String {
    let own = key.parts().1;
    if output::is_terminal() { shortened(own) } else { own.to_owned() }
}

fn shortened(own: &str) -> String {
    let parts = own.strip_prefix("fx#").and_then(|rest| rest.split_once('#'));
    match parts.and_then(|(digest, name)| Some((digest.get(..DIGEST_SHOWN)?, name))) {
        Some((digest, name)) => format!("fx#{digest}{GAP}#{name}"),
        None => own.to_owned(),
    }
}

/// Whether a key is one that a person may mean with a text: it begins so, or is what [`shown_key`] shortened to it.
fn is_meant(own: &str, text: &str) -> bool {
    let own = own.strip_prefix("ev#").filter(|_| !text.starts_with("ev#")).unwrap_or(own);
    let mut parts = text.split(GAP);
    let Some(mut rest) = parts.next().and_then(|begin| own.strip_prefix(begin)) else { return false };
    let Some(end) = parts.next_back() else { return true };
    for middle in parts {
        let Some((_, after)) = rest.split_once(middle) else { return false };
        rest = after;
    }
    rest.ends_with(end)
}

/// Finds the record that a person named: by its key, or else by a text with which one key of the last 24 hours begins.
///
/// # Errors
/// [`Failure`] when several begin so, it is no endpoint's id, or the store does not answer.
async fn find_named(store: &DynamoStore, endpoint: &str, key: &str) -> Result<Named, Failure> {
    if let Some(record) = find(store, endpoint, key).await? {
        return Ok(Named::Whole(Box::new(record)));
    }
    let mut filter = Filter::default();
    filter.endpoint = Some(endpoint.to_owned());
    begun(store, filter, key).await
}

/// The same without an endpoint: the key is looked for at each.
///
/// # Errors
/// [`Failure`] when several endpoints have it, or the store does not answer.
async fn find_anywhere(store: &DynamoStore, endpoints: &[EndpointId], key: &str) -> Result<Named, Failure> {
    let found = states(store, candidates_everywhere(endpoints, key)).await?;
    let found: BTreeSet<_> = found.into_iter().filter_map(|(key, record)| record.map(|_| key)).collect();
    match one_of(found, key)? {
        Some(key) => Ok(read(store, &key).await?.map_or(Named::Missing, |record| Named::Whole(Box::new(record)))),
        None => begun(store, Filter::default(), key).await,
    }
}

/// Finds the record that a person named in words: an endpoint and a key, or a key alone.
///
/// # Errors
/// [`Failure`] when the words name several records, or the store does not answer.
pub(crate) async fn find_words(stack: &Connection, store: &DynamoStore, words: &[String]) -> Result<Named, Failure> {
    match words {
        [endpoint, key] => find_named(store, endpoint, key).await,
        [key] => find_anywhere(store, &endpoints(stack).await?, key).await,
        _ => Ok(Named::Missing),
    }
}

/// Whether a command that named a record by the beginning of its key may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginnings {
    /// It changes nothing.
    Allowed,
    /// Another record than the one that was meant may have the only such key by now.
    Refused,
}

/// The whole keys of the records that a person named, each as an endpoint and a key in turn. What names none stays as it
/// is.
///
/// # Errors
/// [`Failure`] when words name several records, are a beginning where none is allowed, or the store does not answer.
pub(crate) async fn whole_keys(
    stack: &Connection,
    store: &DynamoStore,
    named: &[Vec<String>],
    beginnings: Beginnings,
) -> Result<Vec<String>, Failure> {
    let mut keys = Vec::new();
    for words in named {
        let found = find_words(stack, store, words).await?;
        if let (Named::Beginning(record), Beginnings::Refused) = (&found, beginnings) {
            let (endpoint, key) = record.key.parts();
            return Err(Failure::usage(
                format!("{} is the beginning of a key; to change a record, name it whole", words.concat()),
                format!("it is {endpoint} {key}; run it without --yes first, which prints the whole command"),
            ));
        }
        match found {
            Named::Whole(record) | Named::Beginning(record) => {
                let (endpoint, key) = record.key.parts();
                keys.extend([endpoint.to_owned(), key.to_owned()]);
            }
            Named::Missing if words.len() == 1 => {
                return Err(Failure::usage(
                    format!("no endpoint has a record {}", words.concat()),
                    "take the endpoint and the key as `hookonce list` prints them",
                ));
            }
            Named::Missing => keys.extend(words.iter().cloned()),
        }
    }
    Ok(keys)
}

/// The keys that a record may have which a person named so.
///
/// # Errors
/// [`Failure`] when a word is no endpoint's id, or the endpoints cannot be read.
pub(crate) async fn candidates_of_words(stack: &Connection, words: &[String]) -> Result<Vec<RecordKey>, Failure> {
    match words {
        [endpoint, key] => candidates(endpoint, key),
        [key] => Ok(candidates_everywhere(&endpoints(stack).await?, key)),
        _ => Ok(Vec::new()),
    }
}

/// The ids of all endpoints.
///
/// # Errors
/// [`Failure`] when they cannot be read.
pub(crate) async fn endpoints(stack: &Connection) -> Result<Vec<EndpointId>, Failure> {
    Ok(stack.all_documents().await?.into_keys().collect())
}

fn candidates_everywhere(endpoints: &[EndpointId], key: &str) -> Vec<RecordKey> {
    endpoints.iter().flat_map(|endpoint| candidates_at(endpoint, key)).collect()
}

/// The one key of these. It is a failure if there are more.
fn one_of(found: BTreeSet<RecordKey>, text: &str) -> Result<Option<RecordKey>, Failure> {
    if found.len() < 2 {
        return Ok(found.into_iter().next());
    }
    let named = |key: &RecordKey| format!("{} {}", key.parts().0, output::quoted(key.parts().1));
    let mut lines: Vec<_> = found.iter().take(CANDIDATES_MAX).map(named).collect();
    if found.len() > CANDIDATES_MAX {
        lines.push("...".to_owned());
    }
    Err(Failure::usage(
        format!("{text} may be one of several records"),
        format!("name one of them with more of its key:\n    {}", lines.join("\n    ")),
    ))
}

/// The record whose key a text begins.
async fn begun(store: &DynamoStore, mut filter: Filter, text: &str) -> Result<Named, Failure> {
    if text.is_empty() {
        return Ok(Named::Missing);
    }
    let found = if text.starts_with("fx#") {
        filter.kind = Some(Kind::Effect);
        effects_meant(store, &filter, text).await?
    } else {
        keys_meant(store, &filter, text).await?
    };
    let Some(key) = one_of(found, text)? else { return Ok(Named::Missing) };
    Ok(read(store, &key).await?.map_or(Named::Missing, |record| Named::Beginning(Box::new(record))))
}

/// A record with its body.
async fn read(store: &DynamoStore, key: &RecordKey) -> Result<Option<Record>, Failure> {
    let found = store.read_each(std::slice::from_ref(key)).await.pop();
    found.map_or(Ok(None), readable)
}

/// The keys of the journal that a text begins. No record is read.
async fn keys_meant(store: &DynamoStore, filter: &Filter, text: &str) -> Result<BTreeSet<RecordKey>, Failure> {
    let (mut meant, mut looked_at) = (BTreeSet::new(), 0);
    let mut reads = futures::stream::iter(filter.queries().into_iter().flatten())
        .map(|query| {
            let pages = futures::stream::try_unfold(Some((query, None)), move |at| async move {
                let Some((query, from)) = at else { return Ok(None) };
                let page = store.index_page(&query, from, KEYS_AT_ONCE).await.map_err(|_| store_unavailable())?;
                let next = page.next.clone().map(|next| (query, Some(next)));
                Ok::<_, Failure>(Some((page, next)))
            });
            Box::pin(pages)
        })
        .flatten_unordered(READS_AT_ONCE);
    while let Some(page) = reads.next().await.transpose()? {
        looked_at += page.entries.len();
        let of_endpoint = |key: &&RecordKey| filter.endpoint.as_deref().is_none_or(|it| it == key.parts().0);
        meant.extend(page.keys().filter(|key| of_endpoint(&key) && is_meant(key.parts().1, text)));
        if meant.len() > CANDIDATES_MAX || looked_at > KEYS_LOOKED_AT_MAX {
            break;
        }
    }
    Ok(meant)
}

/// The effects of the last 24 hours that a text means, and those that wait or died.
async fn effects_meant(store: &DynamoStore, filter: &Filter, text: &str) -> Result<BTreeSet<RecordKey>, Failure> {
    let (mut meant, mut looked_at) = (BTreeSet::new(), 0);
    let mut pages = pin!(select(store, filter, READS_AT_ONCE, Read::Heads));
    while let Some(page) = pages.next().await.transpose()? {
        looked_at += page.examined;
        let keys = page.records.into_iter().map(|record| record.key);
        meant.extend(keys.filter(|key| is_meant(key.parts().1, text)));
        if meant.len() > CANDIDATES_MAX || looked_at > KEYS_LOOKED_AT_MAX {
            break;
        }
    }
    Ok(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_key_still_names_its_record() {
        let own = format!("fx#{}#forward:crm", "2e40813a".repeat(8));
        assert_eq!(shortened(&own), "fx#2e40813a…#forward:crm");
        for text in [&shortened(&own), "fx#2e408", &own, "fx#2e40813a…#forw…"] {
            assert!(is_meant(&own, text), "{text}");
        }
        for text in ["fx#2e40813b…#forward:crm", "fx#2e40813a…#forward:erp", "2e4", "fx#2e40813a…forward:crm#"] {
            assert!(!is_meant(&own, text), "{text}");
        }
        assert!(is_meant("ev#wamid.1", "wamid") && is_meant("ev#wamid.1", "ev#wam") && !is_meant("evt_1", "vt"));
        assert_eq!(shortened("evt_1"), "evt_1");
    }
}
