//! The headers of a delivery that are stored: an allow-list that never has a signature.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::time::EpochSec;
use hookonce_protocol::worker::HOPS;
use sha2::{Digest, Sha256};

use crate::provider::{Provider, SchemeEntry};
use crate::request::Request;
use crate::scheme::proof::Authentic;
use crate::source::{REQUEST_SHA256, SIGNED_AT, Source};
use crate::template::TextTemplate;

/// Parts of the names of headers and query parameters that hold credentials or signatures.
pub const CREDENTIAL_WORDS: [&str; 10] =
    ["auth", "cookie", "credential", "hmac", "key", "pass", "proof", "secret", "sig", "token"];

/// Whether a header or a query parameter of this name is likely to hold a credential. The one answer for what is
/// stored, what a capture keeps, and what may stand on a command line.
pub fn names_a_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
}

impl Provider {
    /// Keeps the headers that a stored delivery is read by, those that its catalog file names, and the count of hops.
    ///
    /// A header that decides the key or the event type and comes with different values is left out: the delivery is
    /// authentic and is kept, and which of them the provider wrote cannot be known. A header that only another scheme
    /// of this provider covers is left out, too, because anyone who replays a request could add it.
    pub(crate) fn kept_headers(
        &self,
        request: &Request<'_>,
        proof: &Authentic,
        now: EpochSec,
    ) -> BTreeMap<String, String> {
        let mut own = BTreeSet::new();
        let mut others = BTreeSet::new();
        for (index, entry) in self.schemes.iter().enumerate() {
            let deciding = self.deciding_headers(entry);
            if index == proof.scheme_index() { own.extend(deciding) } else { others.extend(deciding) }
        }
        let mut kept = BTreeMap::new();
        for name in &own {
            let value = match *name {
                SIGNED_AT => proof.signed_at().map(|at| at.to_string()),
                REQUEST_SHA256 => Some(request_sha256(request, now)),
                name => request.agreed_header(name).map(str::to_owned),
            };
            kept.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        for name in self.keep.iter().map(String::as_str).filter(|name| !own.contains(name) && !others.contains(name)) {
            let values: Vec<&str> =
                request.header_values(name).filter_map(|value| std::str::from_utf8(value).ok()).collect();
            if !values.is_empty() {
                kept.insert(name.to_owned(), values.join(", "));
            }
        }
        kept.extend(hops(request).map(|hops| (HOPS.to_owned(), hops.to_string())));
        kept
    }

    /// The headers that give the key and the event type of a delivery.
    pub(crate) fn deciding_headers<'a>(&'a self, entry: &'a SchemeEntry) -> BTreeSet<&'a str> {
        let items = self.item_rules.iter();
        let keys = self.keys_of(entry).iter().chain(items.clone().flat_map(|rule| &rule.key));
        let events = self.events_of(entry).iter().chain(items.flat_map(|rule| &rule.event));
        let sources = keys.flat_map(|rule| &rule.0).chain(events.flat_map(TextTemplate::sources));
        sources.filter_map(Source::header).collect()
    }
}

/// How many events in a row led to this one by their effects, if the request says so. A count that cannot be read is
/// taken for the highest, so that a circle of events ends.
fn hops(request: &Request<'_>) -> Option<u8> {
    request.header_values(HOPS).next()?;
    let hops = request.agreed_header(HOPS).and_then(|text| text.parse().ok());
    Some(hops.unwrap_or(u8::MAX))
}

/// A hash of the whole request and the second of its arrival. A gateway adds a trace id to each request, so even equal
/// pings in one second differ.
fn request_sha256(request: &Request<'_>, now: EpochSec) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(request.url.as_bytes());
    add(request.body);
    for (name, value) in request.headers {
        add(name.to_ascii_lowercase().as_bytes());
        add(value);
    }
    add(&now.0.to_be_bytes());
    hex::encode(hash.finalize())
}
