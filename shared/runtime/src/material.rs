//! Certificates and public keys of providers: fetched when a scheme asks for them, and kept.
//!
//! The scheme has checked the host against the provider's own before it asks; here the number of fetches, their time and
//! their size are bounded, because a forger can make a scheme ask.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hookonce_protocol::call::Unavailable;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::{Material, MaterialNeeded};

use crate::port::MaterialSource;

/// How long a certificate or key is used before it is fetched again.
pub const MATERIAL_AGE_MAX: Millis = Millis::hours(6);

/// How soon after a failed fetch the same is fetched again.
pub const FAILURE_PAUSE: Millis = Millis::seconds(10);

/// How many certificates and keys are kept at once.
pub const MATERIALS_MAX: usize = 64;

/// How many fetches one minute may see.
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
    minute: i64,
    fetches: usize,
}

#[derive(Debug, Clone)]
struct Kept {
    material: Option<Material>,
    at: EpochMs,
}

impl<M: MaterialSource> Materials<M> {
    /// Nothing kept yet.
    pub fn new(source: M) -> Self {
        Self { source, state: Mutex::new(State::default()) }
    }

    /// What a scheme asked for.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be had now.
    pub async fn get(&self, needed: &MaterialNeeded, now: EpochMs) -> Result<Material, Unavailable> {
        match self.kept(needed.cache_key(), now) {
            Some(kept) => kept.material.ok_or(Unavailable),
            None if self.may_fetch(now) => self.fetch(needed, now).await,
            None => Err(Unavailable),
        }
    }

    /// Visits an address once, to confirm a subscription.
    ///
    /// # Errors
    /// [`Unavailable`] when it did not answer with success.
    pub async fn visit(&self, url: &str, now: EpochMs) -> Result<(), Unavailable> {
        if !self.may_fetch(now) {
            return Err(Unavailable);
        }
        let visited = tokio::time::timeout(FETCH_MAX, self.source.fetch(url, None)).await;
        visited.map_err(|_| Unavailable)?.map(|_| ())
    }

    async fn fetch(&self, needed: &MaterialNeeded, now: EpochMs) -> Result<Material, Unavailable> {
        let fetched = tokio::time::timeout(FETCH_MAX, self.source.fetch(needed.url(), needed.post_body())).await;
        let material = fetched.map_err(|_| Unavailable).flatten().map(|body| Material::new(needed, body));
        let kept = Kept { material: material.clone().ok(), at: now };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.kept.len() >= MATERIALS_MAX && !state.kept.contains_key(needed.cache_key()) {
            // Failures go first: a forger can name addresses that fail, and must not push out the certificates in use.
            state.kept.retain(|_, kept| kept.material.is_some());
            if state.kept.len() >= MATERIALS_MAX {
                state.kept.clear();
            }
        }
        state.kept.insert(needed.cache_key().to_owned(), kept);
        material
    }

    fn kept(&self, name: &str, now: EpochMs) -> Option<Kept> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = state.kept.get(name)?;
        let age_max = if kept.material.is_some() { MATERIAL_AGE_MAX } else { FAILURE_PAUSE };
        (now < kept.at.plus(age_max)).then(|| kept.clone())
    }

    fn may_fetch(&self, now: EpochMs) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now.0.div_euclid(60_000);
        if state.minute != minute {
            state.minute = minute;
            state.fetches = 0;
        }
        state.fetches += 1;
        state.fetches <= FETCHES_PER_MINUTE_MAX
    }
}
