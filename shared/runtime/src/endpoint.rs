//! Endpoints: their documents checked against the catalog and cached.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage, Rules};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::{Catalog, Keyring, KeyringError, Provider, Settings};
use ipnet::IpNet;

use crate::document::{BODY_BYTES_MAX, EndpointDocument, FetchError};
use crate::per_minute::PerMinute;
use crate::port::EndpointSource;

/// How long a document is used before it is fetched again.
pub const CACHE_AGE_MAX: Millis = Millis::seconds(300);

/// How long the absence of a document is remembered.
pub const ABSENCE_AGE_MAX: Millis = Millis::seconds(30);

/// How soon after one fetch a failed verification may cause another.
pub const REFRESH_PAUSE: Millis = Millis::seconds(10);

/// How soon after a failure a document of which nothing is known is asked for again.
pub const FAILURE_PAUSE: Millis = Millis::seconds(1);

/// How many ids one minute may show to name no endpoint. Anyone can invent ids, and each costs a read of a source that
/// answers only so many.
pub const ABSENT_PER_MINUTE_MAX: usize = 60;

/// How many endpoints are remembered at once, absent ones included.
pub const CACHE_ENTRIES_MAX: usize = 1_000;

/// The endpoint's choices that the protocol depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    on_store_outage: OnStoreOutage,
    on_body_mismatch: OnBodyMismatch,
}

impl Policy {
    /// As the protocol's rules.
    pub fn rules(self, message_bytes_max: usize) -> Rules {
        Rules { on_store_outage: self.on_store_outage, on_body_mismatch: self.on_body_mismatch, message_bytes_max }
    }

    /// Whether another body under a known id is kept apart.
    pub fn quarantines(self) -> bool {
        self.on_body_mismatch == OnBodyMismatch::Quarantine
    }
}

/// One configured receiver, ready to verify.
#[derive(Debug)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Who calls it.
    pub provider: &'static Provider,
    /// Its secrets.
    pub keyring: Keyring,
    /// What else the scheme needs.
    pub settings: Settings,
    /// Its choices.
    pub policy: Policy,
    /// Its own tolerance, if it has one.
    pub tolerance: Option<Millis>,
    /// The longest raw body.
    pub body_bytes_max: usize,
    source_ranges: Vec<IpNet>,
}

/// A document that cannot become an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No such provider.
    #[error("the catalog has no provider of this id")]
    UnknownProvider,
    /// The secrets are unusable.
    #[error("the secrets cannot be used with this provider")]
    Keyring(#[source] KeyringError),
    /// A number outside its range.
    #[error("tolerance_seconds must be 1 to 3600 and body_bytes_max 1 to {BODY_BYTES_MAX}")]
    OutOfRange,
}

impl Endpoint {
    /// Checks a document against the catalog.
    ///
    /// # Errors
    /// [`EndpointError`] names what is wrong with it.
    pub fn new(id: EndpointId, document: EndpointDocument, catalog: &'static Catalog) -> Result<Self, EndpointError> {
        let provider = catalog.provider(&document.provider).ok_or(EndpointError::UnknownProvider)?;
        let tolerance_fits = document.tolerance_seconds.is_none_or(|seconds| (1..=3_600).contains(&seconds));
        if !tolerance_fits || !(1..=BODY_BYTES_MAX).contains(&document.body_bytes_max) {
            return Err(EndpointError::OutOfRange);
        }
        Ok(Self {
            id,
            provider,
            keyring: provider.keyring(&document.secrets).map_err(EndpointError::Keyring)?,
            settings: Settings::from(document.settings),
            policy: Policy { on_store_outage: document.on_store_outage, on_body_mismatch: document.on_body_mismatch },
            tolerance: document.tolerance_seconds.map(Millis::seconds),
            body_bytes_max: document.body_bytes_max,
            source_ranges: document.source_ranges,
        })
    }

    /// Whether this address may deliver. An unknown address may only where any may.
    pub fn allows_source(&self, address: Option<IpAddr>) -> bool {
        self.source_ranges.is_empty()
            || address.is_some_and(|address| self.source_ranges.iter().any(|range| range.contains(&address)))
    }
}

/// Why an endpoint could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Its document could not be fetched.
    #[error("the endpoint's document could not be had")]
    Fetch(#[source] FetchError),
    /// Its document is not an endpoint's.
    #[error("the endpoint's document is not valid")]
    Invalid(#[source] EndpointError),
    /// It was one of the others a moment ago.
    #[error("the endpoint's document could not be had a moment ago")]
    JustFailed,
    /// Too many ids named no endpoint within this minute.
    #[error("too many ids of unknown endpoints")]
    TooManyAbsent,
}

/// Endpoints by id, cached.
#[derive(Debug)]
pub struct Endpoints<S> {
    source: S,
    catalog: &'static Catalog,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cache: HashMap<EndpointId, Cached>,
    absent: PerMinute<()>,
}

#[derive(Debug, Clone)]
struct Cached {
    known: Known,
    /// Until when it is used without asking.
    fresh_until: EpochMs,
    /// When the source was last asked. One that is down must not cost every delivery its time-out.
    asked_at: EpochMs,
}

/// What is known of an id.
#[derive(Debug, Clone)]
enum Known {
    Endpoint(Arc<Endpoint>),
    Absent,
    /// The document could not be had, or is not valid, and no earlier one is known.
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
    /// Nothing cached yet.
    pub fn new(source: S, catalog: &'static Catalog) -> Self {
        Self { source, catalog, state: Mutex::default() }
    }

    /// The endpoint, from the cache while that is fresh. A stale one is used while the source does not answer, which is
    /// then asked at most once per [`REFRESH_PAUSE`].
    ///
    /// # Errors
    /// [`LookupError`] when the source does not answer and nothing is cached, the document is not valid, or it may not be
    /// asked for now.
    pub async fn get(&self, id: &EndpointId, now: EpochMs) -> Result<Option<Arc<Endpoint>>, LookupError> {
        match self.cached(id) {
            Some(cached) if now < cached.fresh_until => cached.known.answer(),
            Some(Cached { known: Known::Endpoint(stale), asked_at, .. }) => {
                if now < asked_at.plus(REFRESH_PAUSE) {
                    Ok(Some(stale))
                } else {
                    self.fetch(id, now, Some(stale)).await
                }
            }
            Some(_) | None if self.may_ask(now) => self.fetch(id, now, None).await,
            Some(_) | None => Err(LookupError::TooManyAbsent),
        }
    }

    /// The endpoint fetched anew, for a delivery that no cached secret matches: at most once per [`REFRESH_PAUSE`].
    /// `None` when it is too early. The one that is cached when the document cannot be had.
    pub async fn refresh(&self, id: &EndpointId, now: EpochMs) -> Option<Arc<Endpoint>> {
        match self.cached(id)? {
            Cached { known: Known::Endpoint(cached), asked_at, .. } if now >= asked_at.plus(REFRESH_PAUSE) => {
                self.fetch(id, now, Some(cached)).await.ok()?
            }
            _ => None,
        }
    }

    /// Asks the source. `stale` is the endpoint as it was known.
    async fn fetch(
        &self,
        id: &EndpointId,
        now: EpochMs,
        stale: Option<Arc<Endpoint>>,
    ) -> Result<Option<Arc<Endpoint>>, LookupError> {
        let fetched = match self.source.fetch(id).await {
            Ok(None) => Ok(None),
            Ok(Some(document)) => {
                Endpoint::new(id.clone(), document, self.catalog).map(Arc::new).map(Some).map_err(LookupError::Invalid)
            }
            Err(error) => Err(LookupError::Fetch(error)),
        };
        let (known, length) = match (&fetched, stale) {
            (Ok(Some(endpoint)), _) => (Known::Endpoint(Arc::clone(endpoint)), CACHE_AGE_MAX),
            (Ok(None), _) => (Known::Absent, ABSENCE_AGE_MAX),
            (Err(error), Some(stale)) => {
                tracing::warn!(endpoint.id = %id, error = %crate::telemetry::chain(error), "using a stale endpoint document");
                (Known::Endpoint(stale), Millis(0))
            }
            (Err(LookupError::Invalid(_)), None) => (Known::Failed, REFRESH_PAUSE),
            (Err(_), None) => (Known::Failed, FAILURE_PAUSE),
        };
        self.remember(id, Cached { known: known.clone(), fresh_until: now.plus(length), asked_at: now });
        if let Known::Failed = known { fetched } else { known.answer() }
    }

    fn cached(&self, id: &EndpointId) -> Option<Cached> {
        self.state().cache.get(id).cloned()
    }

    /// Whether an id of which nothing is known may be asked for.
    fn may_ask(&self, now: EpochMs) -> bool {
        *self.state().absent.count((), now) < ABSENT_PER_MINUTE_MAX
    }

    fn remember(&self, id: &EndpointId, cached: Cached) {
        let mut state = self.state();
        *state.absent.count((), cached.asked_at) += usize::from(matches!(cached.known, Known::Absent));
        let cache = &mut state.cache;
        if cache.len() >= CACHE_ENTRIES_MAX && !cache.contains_key(id) {
            // Callers can invent endpoint ids, so absent ones are the first to go.
            cache.retain(|_, cached| matches!(cached.known, Known::Endpoint(_)));
            if cache.len() >= CACHE_ENTRIES_MAX {
                cache.clear();
            }
        }
        cache.insert(id.clone(), cached);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
