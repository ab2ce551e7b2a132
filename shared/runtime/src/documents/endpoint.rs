//! Endpoints: documents that are checked against the catalog and cached.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use error_reporter::Report;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::limits::TOLERANCE_SECONDS_MAX;
use hookonce_providers::{Catalog, ConfigurationError, Keyring, Provider, Settings};
use ipnet::IpNet;

use crate::deadline::Deadline;
use crate::documents::document::{BODY_BYTES_MAX, EndpointDocument};
use crate::documents::fault::DocumentFault;
use crate::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};

/// How long a document is cached. After that it is read again, and used as long as that fails.
pub const CACHE_AGE_MAX: Millis = Millis::seconds(300);

/// After a read of a cached document, how long it is not read again: not by a delivery that no secret fits, and not
/// while the source is down.
pub const REFRESH_PAUSE: Millis = Millis::seconds(10);

/// How long a delivery waits for a document to be read again. Then the cached one is used, and the read goes on.
pub const STALE_AFTER: Duration = Duration::from_millis(300);

/// How many endpoints are cached at once. A document has at most 8 KB, so that these take up to 80 MB of the function's
/// memory. Only what exists is cached: strangers who invent ids push nothing out.
const CACHE_ENTRIES_MAX: usize = 10_000;

/// A configured endpoint, ready to verify requests.
#[derive(Debug)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// The tenant that its document names.
    pub tenant: Option<Tenant>,
    /// The provider that calls it.
    pub provider: &'static Provider,
    /// The secrets.
    pub keyring: Keyring,
    /// Other settings that the scheme needs.
    pub settings: Settings,
    /// What to do while the store is down.
    pub on_store_outage: OnStoreOutage,
    /// What to do with another body under a known id.
    pub on_body_mismatch: OnBodyMismatch,
    /// The endpoint's own timestamp tolerance, if set.
    pub tolerance: Option<Millis>,
    /// The longest raw body, in bytes.
    pub body_bytes_max: usize,
    source_ranges: Vec<IpNet>,
}

/// Why a document is not a valid endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The catalog does not have this provider.
    #[error("the catalog has no provider with this id")]
    UnknownProvider,
    /// The secrets or settings are invalid for this provider.
    #[error("the secrets or settings are invalid for this provider")]
    Configuration(#[source] ConfigurationError),
    /// A number is out of range.
    #[error("tolerance_seconds must be 1 to {TOLERANCE_SECONDS_MAX} and body_bytes_max 1 to {BODY_BYTES_MAX}")]
    OutOfRange,
}

impl Endpoint {
    /// Checks a document against the catalog.
    ///
    /// # Errors
    /// [`EndpointError`] says what is wrong with the document.
    pub fn new(id: EndpointId, document: EndpointDocument, catalog: &'static Catalog) -> Result<Self, EndpointError> {
        let provider = catalog.provider(&document.provider).ok_or(EndpointError::UnknownProvider)?;
        let tolerance_fits = |seconds| (1..=i64::from(TOLERANCE_SECONDS_MAX)).contains(&seconds);
        if !document.tolerance_seconds.is_none_or(tolerance_fits)
            || !(1..=BODY_BYTES_MAX).contains(&document.body_bytes_max)
        {
            return Err(EndpointError::OutOfRange);
        }
        let (keyring, settings) = provider
            .configure(&document.secrets, Settings::from(document.settings), &document.schemes)
            .map_err(EndpointError::Configuration)?;
        let on_body_mismatch = document.on_body_mismatch.unwrap_or_else(|| on_body_mismatch_default(provider));
        Ok(Self {
            id,
            tenant: document.tenant,
            provider,
            keyring,
            settings,
            on_store_outage: document.on_store_outage,
            on_body_mismatch,
            tolerance: document.tolerance_seconds.map(Millis::seconds),
            body_bytes_max: document.body_bytes_max,
            source_ranges: document.source_ranges,
        })
    }

    /// Whether the other document judges every request as this one does.
    pub fn verifies_same(&self, other: &Self) -> bool {
        // The key ring names its provider.
        self.keyring == other.keyring && self.settings == other.settings && self.tolerance == other.tolerance
    }

    /// Whether this address may deliver. An unknown address may only if any address may.
    pub fn allows_source(&self, address: Option<IpAddr>) -> bool {
        self.source_ranges.is_empty()
            || address.is_some_and(|address| self.source_ranges.iter().any(|range| range.contains(&address)))
    }
}

/// What happens to another body under a known id, if the document does not say it. Two kinds of provider get
/// quarantine, so that a person decides. If the signature covers the key but not the whole body, whoever holds one
/// delivery can write another body. If one id may come for several events, the second body may be another fact.
/// Elsewhere the provider has serialized a retry again.
pub fn on_body_mismatch_default(provider: &Provider) -> OnBodyMismatch {
    if provider.leaves_body_free() || provider.ids_repeat() {
        OnBodyMismatch::Quarantine
    } else {
        OnBodyMismatch::Duplicate
    }
}

/// Why an endpoint lookup failed.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The document could not be read, or not in time.
    #[error("the endpoint document could not be read")]
    Unavailable(#[source] DocumentsUnavailable),
    /// The document is no endpoint document.
    #[error("the endpoint document is not valid")]
    Malformed(#[source] DocumentFault),
    /// The document does not fit the catalog.
    #[error("the endpoint document is not valid")]
    Invalid(#[source] EndpointError),
}

/// A cache of endpoints by id.
#[derive(Debug)]
pub struct Endpoints(Arc<Shared>);

/// What lookups share with reads that go on without them.
#[derive(Debug)]
struct Shared {
    source: Arc<dyn DocumentSource>,
    catalog: &'static Catalog,
    cache: Mutex<HashMap<EndpointId, Cached>>,
}

#[derive(Debug, Clone)]
struct Cached {
    endpoint: Arc<Endpoint>,
    /// Until then, the source is not asked.
    fresh_until: EpochMs,
    /// When the source was last asked. While it is down, not every delivery must wait for its timeout.
    read_at: EpochMs,
}

impl Endpoints {
    /// Creates an empty cache.
    pub fn new(source: Arc<dyn DocumentSource>, catalog: &'static Catalog) -> Self {
        Self(Arc::new(Shared { source, catalog, cache: Mutex::default() }))
    }

    /// Looks up an endpoint. If the cached one has expired, reads it again. If that fails, returns the stale one and
    /// waits [`REFRESH_PAUSE`] before the next read. If it takes longer than [`STALE_AFTER`], returns the stale one
    /// while the read goes on.
    ///
    /// That there is no endpoint is not cached: a new one takes deliveries at once, and an invented id costs one read.
    ///
    /// # Errors
    /// [`LookupError`] when nothing is cached, and the source is unavailable or the document is not valid.
    pub async fn get(
        &self,
        id: &EndpointId,
        now: EpochMs,
        deadline: Deadline,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        match self.0.cached(id) {
            Some(cached) if now < cached.fresh_until || now < cached.read_at.plus(REFRESH_PAUSE) => {
                Ok(Some(cached.endpoint))
            }
            Some(stale) => Ok(self.read_again(id, now, stale, deadline.at_most(STALE_AFTER)).await),
            None => {
                let read = deadline.within(self.0.read(id)).await;
                let late = |Unavailable| Err(LookupError::Unavailable(DocumentsUnavailable(Unavailable.into())));
                let found = read.unwrap_or_else(late)?;
                if let Some(endpoint) = &found {
                    self.0.remember(endpoint, now);
                }
                Ok(found)
            }
        }
    }

    /// Reads an endpoint again because no cached secret verified a delivery. At most once per [`REFRESH_PAUSE`]; `None`
    /// if it is too early, or there is no such endpoint. If the read fails, returns the cached endpoint.
    pub async fn refresh(&self, id: &EndpointId, now: EpochMs, deadline: Deadline) -> Option<Arc<Endpoint>> {
        let cached = self.0.cached(id).filter(|cached| now >= cached.read_at.plus(REFRESH_PAUSE))?;
        self.read_again(id, now, cached, deadline).await
    }

    /// Reads a document that is cached. The read goes on after the deadline: the next delivery finds its result.
    async fn read_again(
        &self,
        id: &EndpointId,
        now: EpochMs,
        stale: Cached,
        deadline: Deadline,
    ) -> Option<Arc<Endpoint>> {
        let Cached { endpoint, .. } = stale.clone();
        self.0.cache().insert(id.clone(), Cached { read_at: now, ..stale });
        let (shared, id, held) = (Arc::clone(&self.0), id.clone(), Arc::clone(&endpoint));
        let read = tokio::spawn(async move {
            match shared.read(&id).await {
                Ok(Some(endpoint)) => {
                    shared.remember(&endpoint, now);
                    Some(endpoint)
                }
                Ok(None) => {
                    shared.cache().remove(&id);
                    None
                }
                Err(error) => {
                    tracing::warn!(endpoint.id = %id, error = %Report::new(&error), "using a stale endpoint document");
                    Some(held)
                }
            }
        });
        match deadline.within(read).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(Unavailable) => Some(endpoint),
        }
    }
}

impl Shared {
    async fn read(&self, id: &EndpointId) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let text = self.source.read(DocumentKind::Endpoint, id.as_str()).await.map_err(LookupError::Unavailable)?;
        let Some(text) = text else { return Ok(None) };
        let document = EndpointDocument::parse(&text).map_err(LookupError::Malformed)?;
        let endpoint = Endpoint::new(id.clone(), document, self.catalog).map_err(LookupError::Invalid)?;
        Ok(Some(Arc::new(endpoint)))
    }

    fn cached(&self, id: &EndpointId) -> Option<Cached> {
        self.cache().get(id).cloned()
    }

    fn remember(&self, endpoint: &Arc<Endpoint>, now: EpochMs) {
        let mut cache = self.cache();
        if cache.len() >= CACHE_ENTRIES_MAX && !cache.contains_key(&endpoint.id) {
            // What was read first is the next that would be read again anyway. To look through all takes about 0.1 ms, and
            // nobody causes that by invented ids, as only endpoints that exist are here.
            let oldest = cache.iter().min_by_key(|(_, cached)| cached.read_at).map(|(id, _)| id.clone());
            oldest.and_then(|id| cache.remove(&id));
        }
        let cached = Cached { endpoint: Arc::clone(endpoint), fresh_until: now.plus(CACHE_AGE_MAX), read_at: now };
        cache.insert(endpoint.id.clone(), cached);
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<EndpointId, Cached>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hookonce_protocol::timing::Timing;
    use serde_json::{Value, json};

    use super::*;
    use crate::documents::Answering;

    fn id(text: &str) -> EndpointId {
        EndpointId::parse(text).unwrap()
    }

    fn document(changes: &Value) -> EndpointDocument {
        let mut document = json!({ "provider": "stripe", "secrets": ["whsec_a_signing_secret"] });
        document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        EndpointDocument::parse(&document.to_string()).unwrap()
    }

    fn endpoint(changes: &Value) -> Result<Endpoint, EndpointError> {
        Endpoint::new(id("stripe"), document(changes), Catalog::built_in())
    }

    #[test]
    fn a_number_out_of_range_is_refused() {
        for (field, most) in [("tolerance_seconds", TOLERANCE_SECONDS_MAX as usize), ("body_bytes_max", BODY_BYTES_MAX)]
        {
            let is_refused = |number| match endpoint(&json!({ field: number })) {
                Ok(_) => false,
                Err(EndpointError::OutOfRange) => true,
                Err(error) => panic!("{field} {number}: {error}"),
            };
            assert_eq!([0, 1, most, most + 1].map(is_refused), [true, false, false, true], "{field}");
        }
    }

    #[test]
    fn a_document_judges_like_another_until_a_secret_a_setting_or_the_tolerance_changes() {
        let is_alike = |changes: Value| endpoint(&json!({})).unwrap().verifies_same(&endpoint(&changes).unwrap());
        assert!(is_alike(json!({ "tenant": "shop", "body_bytes_max": 1 })));
        assert!(!is_alike(json!({ "secrets": ["whsec_another_secret_"] })));
        assert!(!is_alike(json!({ "settings": { "public_url": "https://example.com/hook" } })));
        assert!(!is_alike(json!({ "tolerance_seconds": 1 })));
    }

    /// A source with a document for each id that begins with `known`, and how often it was read.
    fn source() -> (Arc<AtomicUsize>, Arc<dyn DocumentSource>) {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let answer = move |_, id: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            let known = r#"{"provider":"stripe","secrets":["whsec_a_signing_secret"]}"#;
            Ok(id.starts_with("known").then(|| known.to_owned()))
        };
        (reads, Arc::new(Answering { answer, is_local: false }))
    }

    /// Looks up this many ids, one a second.
    async fn look_up(endpoints: &Endpoints, prefix: &str, count: usize) {
        for second in 0..i64::try_from(count).unwrap() {
            let (now, deadline) = (EpochMs(second * 1_000), Deadline::of(&Timing::standard()));
            endpoints.get(&id(&format!("{prefix}-{second}")), now, deadline).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_invented_id_costs_one_read_and_harms_no_endpoint() {
        let (reads, source) = source();
        let endpoints = Endpoints::new(source, Catalog::built_in());
        let cached = |name: &str| endpoints.0.cached(&id(name)).is_some();
        look_up(&endpoints, "known", 1).await;
        look_up(&endpoints, "invented", 10).await;
        look_up(&endpoints, "known", 1).await;
        assert_eq!((endpoints.0.cache().len(), reads.load(Ordering::Relaxed)), (1, 11));
        look_up(&endpoints, "known", CACHE_ENTRIES_MAX).await;
        assert!(cached("known-0"), "it is full, and no more");
        look_up(&endpoints, "known", CACHE_ENTRIES_MAX + 1).await;
        let last = format!("known-{CACHE_ENTRIES_MAX}");
        assert!(!cached("known-0") && cached("known-1") && cached(&last), "the oldest makes room, and no other");
        assert_eq!(endpoints.0.cache().len(), CACHE_ENTRIES_MAX);
    }
}
