//! Certificates and public keys of providers: fetched when a scheme asks for them, and kept.
//!
//! The scheme has checked the host against the provider's own before it asks; here the number of fetches, their time and
//! their size are bounded, because a forger can make a scheme ask.

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

/// How long one is used at most, while it cannot be fetched again.
pub const STALE_AGE_MAX: Millis = Millis::hours(24);

/// How soon after a failed fetch the same is fetched again.
pub const FAILURE_PAUSE: Millis = Millis::seconds(10);

/// How many certificates and keys are kept at once.
pub const MATERIALS_MAX: usize = 64;

/// How many fetches one minute may see on behalf of one endpoint: whoever knows its address can make it ask, and takes
/// nothing from the others.
pub const FETCHES_PER_MINUTE_MAX: usize = 60;

/// How long one fetch may take: a sender is waiting.
pub const FETCH_MAX: Duration = Duration::from_millis(1_500);

/// Certificates and keys by name, cached.
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

/// What came of the fetches of one name.
#[derive(Debug, Clone)]
struct Kept {
    /// The last that was had.
    material: Option<Material>,
    /// Until when that may be used.
    usable_until: EpochMs,
    /// When to fetch again.
    again_at: EpochMs,
}

impl Kept {
    fn usable(self, now: EpochMs) -> Result<Material, Unavailable> {
        self.material.filter(|_| now < self.usable_until).ok_or(Unavailable)
    }
}

impl<M: MaterialSource> Materials<M> {
    /// Nothing kept yet.
    pub fn new(source: M) -> Self {
        Self { source, state: Mutex::new(State::default()) }
    }

    /// What the scheme of an endpoint asked for. One that is kept is used for longer while it cannot be fetched again.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be had now.
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

    /// Visits an address once, to confirm a subscription.
    ///
    /// # Errors
    /// [`Unavailable`] when it did not answer with success.
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
            // Failures go first: a forger can name addresses that fail, and must not push out the certificates in use.
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
