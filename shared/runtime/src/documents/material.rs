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

use crate::deadline::Deadline;
use crate::documents::per_minute::PerMinute;
use crate::port::MaterialSource;

/// How long a certificate or key is used before it is fetched again.
pub const MATERIAL_AGE_MAX: Millis = Millis::hours(6);

/// How long it may be used at most, if fetching it again fails.
pub const STALE_AGE_MAX: Millis = Millis::hours(24);

/// The longest pause after failed fetches of a name that never verified a delivery.
pub const FAILURE_PAUSE_MAX: Millis = Millis::minutes(5);

/// How many certificates and keys are cached at once.
pub const MATERIALS_MAX: usize = 64;

/// How many fetches of unproven names one endpoint may cause per minute. Anyone who knows its URL can cause them. The
/// limit is per endpoint, so others are not affected, and a name that verified a delivery does not count.
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
    unproven: PerMinute<EndpointId>,
    visits: PerMinute<EndpointId>,
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
    /// How often in a row fetching it failed.
    failures: u32,
    /// Whether it has verified a delivery. Only the provider can make that happen.
    proven: bool,
}

impl Kept {
    /// How long to wait after one more failure: ten seconds. For a name that never verified a delivery, the pause doubles
    /// with each failure.
    fn pause(&self) -> Millis {
        let doublings = if self.proven { 0 } else { self.failures.min(16) };
        Millis((Millis::seconds(10).0 << doublings).min(FAILURE_PAUSE_MAX.0))
    }

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
        deadline: Deadline,
    ) -> Result<Material, Unavailable> {
        let kept = self.state().kept.get(needed.cache_key()).cloned();
        let proven = kept.as_ref().is_some_and(|kept| kept.proven);
        match kept {
            Some(kept) if now < kept.again_at => kept.usable(now),
            kept if proven || may(&mut self.state().unproven, endpoint, now) => {
                self.fetch(needed, now, deadline, kept).await.usable(now)
            }
            kept => kept.ok_or(Unavailable)?.usable(now),
        }
    }

    /// Notes that what was fetched has verified a delivery. From now on, fetching it again takes nothing from the limit
    /// that unauthenticated callers can use up, and nothing that they name pushes it out of the cache.
    pub fn proven(&self, needed: &MaterialNeeded) {
        if let Some(kept) = self.state().kept.get_mut(needed.cache_key()) {
            kept.proven = true;
        }
    }

    /// Whether the certificate or key has ever verified a delivery. Unauthenticated callers choose the names of the
    /// others.
    pub fn is_proven(&self, needed: &MaterialNeeded) -> bool {
        self.state().kept.get(needed.cache_key()).is_some_and(|kept| kept.proven)
    }

    /// Visits a URL once, to confirm a subscription.
    ///
    /// # Errors
    /// [`Unavailable`] when the response is not a success, or there are too many fetches in this minute.
    pub async fn visit(
        &self,
        endpoint: &EndpointId,
        url: &str,
        now: EpochMs,
        deadline: Deadline,
    ) -> Result<(), Unavailable> {
        if !may(&mut self.state().visits, endpoint, now) {
            return Err(Unavailable);
        }
        deadline.at_most(FETCH_MAX).within(self.source.fetch(url, None)).await?.map(|_| ())
    }

    async fn fetch(&self, needed: &MaterialNeeded, now: EpochMs, deadline: Deadline, kept: Option<Kept>) -> Kept {
        let fetch = self.source.fetch(needed.url(), needed.post_body());
        let fetched = deadline.at_most(FETCH_MAX).within(fetch).await.flatten();
        let proven = kept.as_ref().is_some_and(|kept| kept.proven);
        let kept = if let Ok(body) = fetched {
            Kept {
                material: Some(Material::new(needed, body)),
                usable_until: now.plus(STALE_AGE_MAX),
                again_at: now.plus(MATERIAL_AGE_MAX),
                failures: 0,
                proven,
            }
        } else {
            let none = Kept { material: None, usable_until: now, again_at: now, failures: 0, proven };
            let kept = kept.unwrap_or(none);
            Kept { again_at: now.plus(kept.pause()), failures: kept.failures.saturating_add(1), ..kept }
        };
        self.remember(needed.cache_key(), kept.clone());
        kept
    }

    fn remember(&self, name: &str, kept: Kept) {
        let mut state = self.state();
        // Evict first what a forger can add: names that fail, then names that verified nothing.
        let evictions: [fn(&Kept) -> bool; 3] =
            [|kept| kept.material.is_some() || kept.proven, |kept| kept.proven, |_| false];
        for stays in evictions {
            if state.kept.len() >= MATERIALS_MAX && !state.kept.contains_key(name) {
                state.kept.retain(|_, kept| stays(kept));
            }
        }
        state.kept.insert(name.to_owned(), kept);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one more fetch for an endpoint, and says whether it is within the limit.
fn may(counts: &mut PerMinute<EndpointId>, endpoint: &EndpointId, now: EpochMs) -> bool {
    let count = counts.count(endpoint.clone(), now);
    *count += 1;
    *count <= FETCHES_PER_MINUTE_MAX
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::timing::Timing;

    use super::*;

    const NOW: EpochMs = EpochMs(0);

    /// Answers every visit.
    #[derive(Debug)]
    struct Anybody;

    impl MaterialSource for Anybody {
        async fn fetch(&self, _url: &str, _post_body: Option<&str>) -> Result<Vec<u8>, Unavailable> {
            Ok(Vec::new())
        }
    }

    /// A cache that holds as many names as it can, `proven` of them, and `failed`; the others verified nothing.
    fn full(proven: usize, failed: usize) -> Materials<Anybody> {
        let materials = Materials::new(Anybody);
        for number in 0..MATERIALS_MAX {
            let word = if number < proven { "proven" } else { "unproven" };
            let is_failed = number >= MATERIALS_MAX - failed;
            materials.remember(&format!("{word}-{number}"), kept(number < proven, is_failed));
        }
        assert_eq!(materials.state().kept.len(), MATERIALS_MAX);
        materials
    }

    fn kept(proven: bool, is_failed: bool) -> Kept {
        let material =
            (!is_failed).then(|| Material::new(&MaterialNeeded::get("https://a.example".to_owned()), Vec::new()));
        Kept { material, usable_until: NOW, again_at: NOW, failures: u32::from(is_failed), proven }
    }

    #[test]
    fn what_strangers_name_leaves_the_full_cache_first() {
        for (proven, failed, left) in [(10, 20, MATERIALS_MAX - 20), (10, 0, 10), (MATERIALS_MAX, 0, 0)] {
            let materials = full(proven, failed);
            materials.remember("proven-0", kept(proven > 0, false));
            assert_eq!(materials.state().kept.len(), MATERIALS_MAX, "a name that is there needs no place");
            materials.remember("another", kept(false, true));
            let names: Vec<_> = materials.state().kept.keys().cloned().collect();
            assert_eq!(names.len(), left + 1, "{proven} proven, {failed} failed");
            let stayed = names.iter().filter(|name| name.starts_with("proven")).count();
            assert_eq!(stayed, proven.min(left), "{proven} proven, {failed} failed");
        }
    }

    #[tokio::test]
    async fn strangers_cause_only_so_many_visits_in_a_minute_at_each_endpoint() {
        let materials = Materials::new(Anybody);
        let deadline = Deadline::of(&Timing::standard());
        let visit = async |endpoint: &str, now| {
            let endpoint = EndpointId::parse(endpoint).unwrap();
            materials.visit(&endpoint, "https://a.example", now, deadline).await
        };
        for _ in 0..FETCHES_PER_MINUTE_MAX {
            assert_eq!(visit("topic", NOW).await, Ok(()));
        }
        assert_eq!(visit("topic", NOW).await, Err(Unavailable));
        assert_eq!(visit("other", NOW).await, Ok(()));
        assert_eq!(visit("topic", NOW.plus(Millis::minutes(1))).await, Ok(()));
    }
}
