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
use hookonce_protocol::timing::Moment;
use hookonce_providers::{Catalog, ConfigurationError, Keyring, Provider, Settings};
use ipnet::IpNet;

use crate::deadline::Deadline;
use crate::document::{BODY_BYTES_MAX, EndpointDocument, FetchError};
use crate::drive::duration;
use crate::listing::{Listed, Listing};
use crate::per_minute::PerMinute;
use crate::port::{EndpointRead, EndpointSource};

/// How long a document is cached.
pub const CACHE_AGE_MAX: Millis = Millis::seconds(300);

/// How long the absence of a document is cached.
pub const ABSENCE_AGE_MAX: Millis = Millis::seconds(30);

/// After a fetch, how long a failed verification must wait to cause another.
pub const REFRESH_PAUSE: Millis = Millis::seconds(10);

/// How long a delivery waits for a document to be fetched again. Then the cached one is used, and the fetch goes on.
pub const STALE_AFTER: Duration = Duration::from_millis(300);

/// The longest pause before a throttled read is tried again the first time. It doubles with each further time.
const PAUSE_BASE: Millis = Millis(200);

/// The longest of all these pauses. With it, a thousand instances that wait ask five hundred times in a second.
const PAUSE_CAP: Millis = Millis::seconds(4);

/// The shortest pause, so that tries never follow each other at once.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// How many tries there are at least in what is left of the wait.
const LAST_TRIES: u32 = 4;

/// The least time for the last try.
const LAST_TRY_MIN: Duration = Duration::from_millis(200);

/// After a failure without a cached document, how long to wait before fetching again.
pub const FAILURE_PAUSE: Millis = Millis::seconds(1);

/// How many ids per minute are looked up although the index does not list them, because it may be older than they are.
pub const UNLISTED_PER_MINUTE_MAX: usize = 2;

/// How many lookups per minute may find no endpoint while the [index](crate::index) is not known. Anyone can invent
/// ids, and each lookup reads from a source with a limited rate.
pub const ABSENT_PER_MINUTE_MAX: usize = 60;

/// How many endpoints are cached at once, including absent ones. A document has at most 4 KB, so that these take up to
/// 40 MB of the function's memory.
pub const CACHE_ENTRIES_MAX: usize = 10_000;

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
    #[error("tolerance_seconds must be 1 to 3600 and body_bytes_max 1 to {BODY_BYTES_MAX}")]
    OutOfRange,
}

impl Endpoint {
    /// Checks a document against the catalog.
    ///
    /// # Errors
    /// [`EndpointError`] says what is wrong with the document.
    pub fn new(id: EndpointId, document: EndpointDocument, catalog: &'static Catalog) -> Result<Self, EndpointError> {
        let provider = catalog.provider(&document.provider).ok_or(EndpointError::UnknownProvider)?;
        let tolerance_fits = document.tolerance_seconds.is_none_or(|seconds| (1..=3_600).contains(&seconds));
        if !tolerance_fits || !(1..=BODY_BYTES_MAX).contains(&document.body_bytes_max) {
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
    pub fn judges_like(&self, other: &Self) -> bool {
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
    /// The document could not be fetched.
    #[error("fetching the endpoint document failed")]
    Fetch(#[source] FetchError),
    /// The document is not valid.
    #[error("the endpoint document is not valid")]
    Invalid(#[source] EndpointError),
    /// A recent lookup failed, and it is too early for another.
    #[error("a recent lookup of the endpoint failed")]
    JustFailed,
    /// Too many ids in this minute had no endpoint.
    #[error("too many lookups of unknown endpoint ids in this minute")]
    TooManyAbsent,
}

/// A cache of endpoints by id.
#[derive(Debug)]
pub struct Endpoints<S>(Arc<Shared<S>>);

/// What lookups share with refreshes that go on without them.
#[derive(Debug)]
struct Shared<S> {
    source: S,
    catalog: &'static Catalog,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cache: HashMap<EndpointId, Cached>,
    absent: PerMinute<()>,
    unlisted: PerMinute<()>,
    listing: Listing,
}

#[derive(Debug, Clone)]
struct Cached {
    known: Known,
    /// Until then, the source is not asked.
    fresh_until: EpochMs,
    /// When the source was last asked. While it is down, not every delivery must wait for its timeout.
    asked_at: EpochMs,
}

/// What the cache knows about an id.
#[derive(Debug, Clone)]
enum Known {
    Endpoint(Arc<Endpoint>),
    Absent,
    /// The document could not be fetched or is not valid, and no earlier one is cached.
    Failed,
}

impl Known {
    fn answer(self) -> Result<Option<Arc<Endpoint>>, LookupError> {
        match self {
            Self::Endpoint(endpoint) => Ok(Some(endpoint)),
            Self::Absent => Ok(None),
            Self::Failed => Err(LookupError::JustFailed),
        }
    }
}

impl<S: EndpointSource> Endpoints<S> {
    /// Creates an empty cache.
    pub fn new(source: S, catalog: &'static Catalog) -> Self {
        Self(Arc::new(Shared { source, catalog, state: Mutex::default() }))
    }

    /// Looks up an endpoint. If the cached one has expired, fetches it again. If that fails, returns the stale one and
    /// waits [`REFRESH_PAUSE`] before the next fetch. If it takes longer than [`STALE_AFTER`], returns the stale one
    /// while the fetch goes on.
    ///
    /// Where nothing is cached and the source throttles, many instances have started together, and their turn comes:
    /// this then waits until `patience` instead of `deadline`.
    ///
    /// # Errors
    /// [`LookupError`] when the source is unavailable and nothing is cached, when the document is not valid, or when it
    /// is too early to ask again.
    pub async fn get(
        &self,
        id: &EndpointId,
        moment: Moment,
        deadline: Deadline,
        patience: Deadline,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let now = moment.now;
        match self.0.cached(id) {
            Some(cached) if now < cached.fresh_until => cached.known.answer(),
            Some(Cached { known: Known::Endpoint(stale), asked_at, .. }) => {
                if now < asked_at.plus(REFRESH_PAUSE) {
                    Ok(Some(stale))
                } else {
                    self.fetch_again(id, now, stale, deadline.at_most(STALE_AFTER)).await
                }
            }
            Some(_) | None => match self.0.says(id) {
                Listed::Yes => self.0.fetch(id, moment, deadline, patience).await,
                Listed::No if self.0.may_doubt(now) => self.0.fetch(id, moment, deadline, patience).await,
                Listed::No => Ok(None),
                Listed::NoIndex | Listed::Unread if self.0.absent(now) < ABSENT_PER_MINUTE_MAX => {
                    self.0.fetch(id, moment, deadline, patience).await
                }
                Listed::NoIndex | Listed::Unread => Err(LookupError::TooManyAbsent),
            },
        }
    }

    /// Fetches an endpoint again because no cached secret verified a delivery. At most once per [`REFRESH_PAUSE`];
    /// `None` if it is too early. If the fetch fails, returns the cached endpoint.
    pub async fn refresh(&self, id: &EndpointId, now: EpochMs, deadline: Deadline) -> Option<Arc<Endpoint>> {
        match self.0.cached(id)? {
            Cached { known: Known::Endpoint(cached), asked_at, .. } if now >= asked_at.plus(REFRESH_PAUSE) => {
                self.fetch_again(id, now, cached, deadline).await.ok()?
            }
            _ => None,
        }
    }

    /// Fetches a document that is cached. The fetch goes on after the deadline: the next delivery finds its result.
    async fn fetch_again(
        &self,
        id: &EndpointId,
        now: EpochMs,
        stale: Arc<Endpoint>,
        deadline: Deadline,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let fresh_until = self.0.cached(id).map_or(now, |cached| cached.fresh_until);
        let asked = Cached { known: Known::Endpoint(Arc::clone(&stale)), fresh_until, asked_at: now };
        self.0.remember(id, asked);
        let (shared, id, held) = (Arc::clone(&self.0), id.clone(), Arc::clone(&stale));
        let fetch = tokio::spawn(async move {
            let read = shared.read(&id, now).await;
            shared.settle(&id, now, read, Some(held))
        });
        match deadline.within(fetch).await {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(_)) | Err(Unavailable) => Ok(Some(stale)),
        }
    }
}

impl<S: EndpointSource> Shared<S> {
    /// Fetches a document that is not cached.
    async fn fetch(
        &self,
        id: &EndpointId,
        moment: Moment,
        deadline: Deadline,
        patience: Deadline,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let (mut limit, mut pauses) = (deadline, 0);
        loop {
            let read = limit.within(self.read(id, moment.now)).await;
            let read =
                read.unwrap_or_else(|Unavailable| Err(LookupError::Fetch(FetchError::Unavailable(Unavailable.into()))));
            if let Err(LookupError::Fetch(FetchError::Throttled)) = read {
                limit = deadline.or_later(patience);
                let left = limit.left().saturating_sub(LAST_TRY_MIN);
                if !left.is_zero() {
                    tokio::time::sleep(pause(moment, pauses, left)).await;
                    pauses += 1;
                    continue;
                }
            }
            return self.settle(id, moment.now, read, None);
        }
    }

    /// Reads a document from the source, and with it what is missing of the index.
    async fn read(&self, id: &EndpointId, now: EpochMs) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let shards = self.state().listing.wanted(id, now);
        let EndpointRead { document, index } = self.source.fetch(id, &shards).await.map_err(LookupError::Fetch)?;
        self.state().listing.hold(index, now);
        let Some(document) = document.map_err(LookupError::Fetch)? else { return Ok(None) };
        let endpoint = Endpoint::new(id.clone(), document, self.catalog).map_err(LookupError::Invalid)?;
        Ok(Some(Arc::new(endpoint)))
    }

    /// Remembers what a read found. `stale` is the cached endpoint, if any.
    fn settle(
        &self,
        id: &EndpointId,
        now: EpochMs,
        read: Result<Option<Arc<Endpoint>>, LookupError>,
        stale: Option<Arc<Endpoint>>,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let (known, length) = match (&read, stale) {
            (Ok(Some(endpoint)), _) => (Known::Endpoint(Arc::clone(endpoint)), CACHE_AGE_MAX),
            (Ok(None), _) => (Known::Absent, ABSENCE_AGE_MAX),
            (Err(error), Some(stale)) => {
                tracing::warn!(endpoint.id = %id, error = %Report::new(error), "using a stale endpoint document");
                (Known::Endpoint(stale), Millis(0))
            }
            (Err(LookupError::Invalid(_)), None) => (Known::Failed, REFRESH_PAUSE),
            (Err(_), None) => (Known::Failed, FAILURE_PAUSE),
        };
        self.remember(id, Cached { known: known.clone(), fresh_until: now.plus(length), asked_at: now });
        if let Known::Failed = known { read } else { known.answer() }
    }

    fn cached(&self, id: &EndpointId) -> Option<Cached> {
        self.state().cache.get(id).cloned()
    }

    fn says(&self, id: &EndpointId) -> Listed {
        self.state().listing.says(id)
    }

    /// How many lookups in this minute found no endpoint, or failed.
    fn absent(&self, now: EpochMs) -> usize {
        *self.state().absent.count((), now)
    }

    /// Whether one more id may be looked up that the index does not list.
    fn may_doubt(&self, now: EpochMs) -> bool {
        let mut state = self.state();
        let count = state.unlisted.count((), now);
        *count += 1;
        *count <= UNLISTED_PER_MINUTE_MAX
    }

    fn remember(&self, id: &EndpointId, cached: Cached) {
        let mut state = self.state();
        *state.absent.count((), cached.asked_at) += usize::from(!matches!(cached.known, Known::Endpoint(_)));
        let cache = &mut state.cache;
        if cache.len() >= CACHE_ENTRIES_MAX && !cache.contains_key(id) {
            // Anyone can invent endpoint ids, so evict absent endpoints first. Of each kind, evict what was read first:
            // it is the next that would be read again anyway.
            let age = |cached: &Cached| (matches!(cached.known, Known::Endpoint(_)), cached.asked_at);
            let oldest = cache.iter().min_by_key(|(_, cached)| age(cached)).map(|(id, _)| id.clone());
            oldest.and_then(|id| cache.remove(&id));
        }
        cache.insert(id.clone(), cached);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause before a throttled read is tried again, with jitter: instances that start together must not read together
/// again. Each of the pauses takes other bits of the draw. They get shorter towards the end of the wait.
fn pause(moment: Moment, pauses: u32, left: Duration) -> Duration {
    let drawn = Moment { entropy: moment.entropy.rotate_right(pauses.wrapping_mul(11)), ..moment };
    let bound = PAUSE_BASE.0.checked_shl(pauses).unwrap_or(PAUSE_CAP.0).clamp(PAUSE_BASE.0, PAUSE_CAP.0);
    let drawn = PAUSE_MIN + duration(drawn.uniform(Millis(bound)));
    drawn.min((left / LAST_TRIES).max(PAUSE_MIN))
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::timing::Timing;
    use serde_json::{Value, json};

    use super::*;

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
        for (field, most) in [("tolerance_seconds", 3_600), ("body_bytes_max", BODY_BYTES_MAX)] {
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
        let is_alike = |changes: Value| endpoint(&json!({})).unwrap().judges_like(&endpoint(&changes).unwrap());
        assert!(is_alike(json!({ "tenant": "shop", "body_bytes_max": 1 })));
        assert!(!is_alike(json!({ "secrets": ["whsec_another_secret_"] })));
        assert!(!is_alike(json!({ "settings": { "public_url": "https://example.com/hook" } })));
        assert!(!is_alike(json!({ "tolerance_seconds": 1 })));
    }

    #[test]
    fn a_throttled_read_pauses_longer_each_time_up_to_a_cap_and_shorter_towards_the_end() {
        let longest = |pauses: u32, left: Duration| {
            let moment = |entropy| Moment { now: EpochMs(0), entropy };
            let drawn = (0..10_000).map(|entropy: u64| pause(moment(entropy.rotate_left(pauses * 11)), pauses, left));
            let drawn: Vec<_> = drawn.collect();
            assert!(drawn.iter().all(|pause| *pause >= PAUSE_MIN));
            drawn.into_iter().max().unwrap()
        };
        let hour = Duration::from_hours(1);
        for (pauses, bound) in [(0, 200), (1, 400), (4, 3_200), (5, 4_000), (40, 4_000)] {
            assert_eq!(longest(pauses, hour), PAUSE_MIN + Duration::from_millis(bound), "{pauses}");
        }
        assert_eq!(longest(5, Duration::from_secs(4)), Duration::from_secs(1));
        assert_eq!(longest(5, Duration::ZERO), PAUSE_MIN);
    }

    /// Has a document for each id that begins with `known`, and no index.
    struct Source;

    impl EndpointSource for Source {
        async fn fetch(&self, id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
            let known = id.as_str().starts_with("known").then(|| document(&json!({})));
            Ok(EndpointRead { document: Ok(known), index: shards.iter().map(|shard| (*shard, None)).collect() })
        }
    }

    /// Looks up this many ids, one a second.
    async fn look_up(endpoints: &Endpoints<Source>, prefix: &str, count: usize) {
        let deadline = Deadline::of(&Timing::standard());
        for second in 0..i64::try_from(count).unwrap() {
            let moment = Moment { now: EpochMs(second * 1_000), entropy: 0 };
            endpoints.get(&id(&format!("{prefix}-{second}")), moment, deadline, deadline).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_cache_is_limited_and_ids_of_strangers_push_no_endpoint_out() {
        let endpoints = Endpoints::new(Source, Catalog::built_in());
        let cached = |name: &str| endpoints.0.cached(&id(name)).is_some();
        look_up(&endpoints, "known", 1).await;
        look_up(&endpoints, "invented", CACHE_ENTRIES_MAX - 1).await;
        assert!(cached("known-0") && cached("invented-0"), "it is full, and no more");
        look_up(&endpoints, "further", 1).await;
        assert!(cached("known-0") && cached("further-0") && !cached("invented-0"));
        look_up(&endpoints, "known", CACHE_ENTRIES_MAX).await;
        assert!(cached("known-0") && !cached("further-0"));
        look_up(&endpoints, "known", CACHE_ENTRIES_MAX + 1).await;
        let last = format!("known-{CACHE_ENTRIES_MAX}");
        assert!(!cached("known-0") && cached("known-1") && cached(&last), "the oldest makes room, and no other");
        assert_eq!(endpoints.0.state().cache.len(), CACHE_ENTRIES_MAX);
    }
}
