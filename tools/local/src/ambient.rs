//! The clock and the identifiers of the emulated services.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// The clock and the generator of identifiers.
///
/// They are passed in, so that a test can fix both and compare whole events.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use hookonce_local::ambient::Ambient;
///
/// let fixed = Ambient::new(|| UNIX_EPOCH + Duration::from_secs(1), uuid::Uuid::nil);
/// assert_eq!(fixed.unix_millis(), 1_000);
/// ```
#[derive(Clone)]
pub struct Ambient {
    now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    identifier: Arc<dyn Fn() -> Uuid + Send + Sync>,
}

impl Ambient {
    /// Takes the time from `now` and identifiers from `identifier`, which must never repeat one.
    pub fn new(
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
        identifier: impl Fn() -> Uuid + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), identifier: Arc::new(identifier) }
    }

    /// The present time.
    pub fn now(&self) -> SystemTime {
        (self.now)()
    }

    /// The present time in milliseconds since the Unix epoch; zero before it.
    pub fn unix_millis(&self) -> u64 {
        unix_millis(self.now())
    }

    /// A fresh identifier.
    pub fn identifier(&self) -> Uuid {
        (self.identifier)()
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ambient").finish_non_exhaustive()
    }
}

/// Milliseconds since the Unix epoch; zero before it.
pub(crate) fn unix_millis(at: SystemTime) -> u64 {
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
