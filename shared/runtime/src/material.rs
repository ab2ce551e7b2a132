//! Certificates and public keys of providers: fetched when a scheme asks for them, and cached.
//!
//! The scheme first checks that the host is one of the provider's. This module limits the number, duration and size of
//! the fetches, because a forger can make a scheme ask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::{Material, MaterialNeeded};

use crate::per_minute::PerMinute;
use crate::port::MaterialSource;

/// How long a certificate or key is used before it is fetched again.
pub const MATERIAL_AGE_MAX: Millis = Millis::hours(6);

/// How long it may be used at most, if fetching it again fails.
pub const STALE_AGE_MAX: Millis = Millis::hours(24);

/// How long to wait after a failed fetch.
pub const FAILURE_PAUSE: Millis = Millis::seconds(10);

/// How many certificates and keys are cached at once.
pub const MATERIALS_MAX: usize = 64;

/// How many fetches per minute one endpoint may cause. Anyone who knows its URL can cause them; the limit is per
/// endpoint, so others are not affected.
pub const FETCHES_PER_MINUTE_MAX: usize = 60;

/// How long one fetch may take. It is short, because a sender is waiting.
pub const FETCH_MAX: Duration = Duration::from_millis(1_500);

/// A cache of certificates and keys by name.
#[derive(Debug)]
pub struct Materials<M> {
    source: M,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<String, Kept>,
    fetches: PerMinute<EndpointId>,
}

/// The cached result for one name.
#[derive(Debug, Clone)]
struct Kept {
    /// The last one fetched.
    material: Option<Material>,
    /// Until when it may be used.
    usable_until: EpochMs,
    /// When to fetch it again.
    again_at: EpochMs,
}

impl Kept {
    fn usable(self, now: EpochMs) -> Result<Material, Unavailable> {
        self.material.filter(|_| now < self.usable_until).ok_or(Unavailable)
    }
}

impl<M: MaterialSource> Materials<M> {
    /// Creates an empty cache.
    pub fn new(source: M) -> Self {
        Self { source, state: Mutex::new(State::default()) }
    }

    /// Returns the certificate or key that an endpoint's scheme asked for. If fetching it again fails, the cached one
    /// stays in use for longer.
    ///
    /// # Errors
    /// [`Unavailable`] when neither a fetch nor the cache provides it.
    pub async fn get(
        &self,
        endpoint: &EndpointId,
        needed: &MaterialNeeded,
        now: EpochMs,
    ) -> Result<Material, Unavailable> {
        let kept = self.state().kept.get(needed.cache_key()).cloned();
        match kept {
            Some(kept) if now < kept.again_at => kept.usable(now),
            kept if self.may_fetch(endpoint, now) => self.fetch(needed, now, kept).await.usable(now),
            kept => kept.ok_or(Unavailable)?.usable(now),
        }
    }

    /// Visits a URL once, to confirm a subscription.
    ///
    /// # Errors
    /// [`Unavailable`] when the response is not a success, or there are too many fetches in this minute.
    pub async fn visit(&self, endpoint: &EndpointId, url: &str, now: EpochMs) -> Result<(), Unavailable> {
        if !self.may_fetch(endpoint, now) {
            return Err(Unavailable);
        }
        let visited = tokio::time::timeout(FETCH_MAX, self.source.fetch(url, None)).await;
        visited.map_err(|_| Unavailable)?.map(|_| ())
    }

    async fn fetch(&self, needed: &MaterialNeeded, now: EpochMs, kept: Option<Kept>) -> Kept {
        let fetched = tokio::time::timeout(FETCH_MAX, self.source.fetch(needed.url(), needed.post_body())).await;
        let kept = match (fetched.map_err(|_| Unavailable).flatten(), kept) {
            (Ok(body), _) => Kept {
                material: Some(Material::new(needed, body)),
                usable_until: now.plus(STALE_AGE_MAX),
                again_at: now.plus(MATERIAL_AGE_MAX),
            },
            (Err(Unavailable), Some(kept)) => Kept { again_at: now.plus(FAILURE_PAUSE), ..kept },
            (Err(Unavailable), None) => Kept { material: None, usable_until: now, again_at: now.plus(FAILURE_PAUSE) },
        };
        self.remember(needed.cache_key(), kept.clone());
        kept
    }

    fn remember(&self, name: &str, kept: Kept) {
        let mut state = self.state();
        if state.kept.len() >= MATERIALS_MAX && !state.kept.contains_key(name) {
            // Evict failures first. A forger can name addresses that fail, and must not push out certificates in use.
            state.kept.retain(|_, kept| kept.material.is_some());
            if state.kept.len() >= MATERIALS_MAX {
                state.kept.clear();
            }
        }
        state.kept.insert(name.to_owned(), kept);
    }

    fn may_fetch(&self, endpoint: &EndpointId, now: EpochMs) -> bool {
        let mut state = self.state();
        let fetches = state.fetches.count(endpoint.clone(), now);
        *fetches += 1;
        *fetches <= FETCHES_PER_MINUTE_MAX
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
