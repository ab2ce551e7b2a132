//! The clock and the random number generator. Nothing else reads either.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hookonce_protocol::key::ClaimId;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Moment;
use uuid::Uuid;

/// Time and randomness. Tests and simulators have their own.
pub trait Ambient: Send + Sync + 'static {
    /// The current time, with fresh random bits.
    fn moment(&self) -> Moment;

    /// A new, unique claim id.
    fn claim_id(&self) -> ClaimId;
}

/// The system's clock and random number generator.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Ambient for System {
    fn moment(&self) -> Moment {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = EpochMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        // Pauses and samples are spread by it, and nothing is kept secret by it. The keys of a hash map are random bits of
        // the system once for each thread, and others each time.
        Moment { now, entropy: RandomState::new().build_hasher().finish() }
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId(Uuid::new_v4().to_string())
    }
}

impl<A: Ambient> Ambient for std::sync::Arc<A> {
    fn moment(&self) -> Moment {
        (**self).moment()
    }

    fn claim_id(&self) -> ClaimId {
        (**self).claim_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 4_096;

    /// The bounds lie nineteen standard deviations away from the half.
    #[test]
    fn each_random_bit_is_set_half_of_the_time() {
        let mut set = [0_usize; 64];
        for _ in 0..DRAWS {
            let entropy = System.moment().entropy;
            for (place, count) in set.iter_mut().enumerate() {
                *count += usize::from(entropy >> place & 1 == 1);
            }
        }
        let fair = DRAWS * 35 / 100..=DRAWS * 65 / 100;
        let skewed: Vec<_> = set.iter().enumerate().filter(|(_, count)| !fair.contains(count)).collect();
        assert!(skewed.is_empty(), "places and how often they are set in {DRAWS} draws: {skewed:?}");
    }
}
