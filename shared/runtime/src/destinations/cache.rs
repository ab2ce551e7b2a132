//! The destinations that a process has looked up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use error_reporter::Report;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::DESTINATION_LOOKUP_MAX;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::checked::Destination;
use super::document::{DestinationDocument, DestinationError};
use crate::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};
use crate::inbox::drive::duration;

/// How long a destination is cached: how late a changed secret or address is noticed.
pub const CACHE_AGE_MAX: Millis = Millis::seconds(60);

/// How long a cached destination is used while the source does not answer. After that its effects wait: a destination
/// that was taken away must not be called for ever.
pub const STALE_AGE_MAX: Millis = Millis::minutes(15);

/// How long a failed lookup is cached: there is no such destination, its document is not valid, or the source did not
/// answer.
pub const REFUSED_AGE_MAX: Millis = Millis::seconds(10);

/// Why a destination cannot be used now. Its effects wait.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DestinationLookupError {
    /// There is none.
    #[error("there is no such destination")]
    Absent,
    /// Its document is not valid.
    #[error("the destination document is not valid")]
    Invalid(#[source] DestinationError),
    /// The source did not answer, and nothing is cached that may still be used.
    #[error("the source of destination documents is unavailable")]
    Unavailable,
}

/// Why a read brought no destination.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("the destination document could not be read")]
    Unavailable(#[source] DocumentsUnavailable),
    #[error("the destination document is not valid")]
    Invalid(#[source] DestinationError),
}

/// A cache of destinations by id.
#[derive(Debug)]
pub struct Destinations {
    source: Arc<dyn DocumentSource>,
    slots: Mutex<HashMap<DestinationId, Arc<AsyncMutex<Slot>>>>,
}

/// What is known of one destination. Its lock is held while the source is asked, so that one lookup serves all.
#[derive(Debug, Default)]
struct Slot {
    found: Option<(Arc<Destination>, EpochMs)>,
    /// The answer until then, if it is not `found`.
    error: Option<DestinationLookupError>,
    next_read_at: Option<EpochMs>,
}

impl Destinations {
    /// Creates an empty cache.
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        Self { source, slots: Mutex::default() }
    }

    /// Looks up a destination.
    ///
    /// # Errors
    /// [`DestinationLookupError`] says why its effects must wait.
    pub async fn get(&self, id: &DestinationId, now: EpochMs) -> Result<Arc<Destination>, DestinationLookupError> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(id.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        if slot.next_read_at.is_none_or(|next_read_at| now >= next_read_at) {
            let read = timeout(duration(DESTINATION_LOOKUP_MAX), self.read(id)).await;
            let late = |elapsed| Err(ReadError::Unavailable(DocumentsUnavailable(Box::new(elapsed))));
            slot.learn(id, read.unwrap_or_else(late), now);
        }
        slot.answer(now)
    }

    async fn read(&self, id: &DestinationId) -> Result<Option<Destination>, ReadError> {
        let text = self.source.read(DocumentKind::Destination, id.as_str()).await.map_err(ReadError::Unavailable)?;
        let Some(text) = text else { return Ok(None) };
        let document = DestinationDocument::parse(&text).map_err(ReadError::Invalid)?;
        Destination::new(id.clone(), &document).map(Some).map_err(ReadError::Invalid)
    }
}

impl Slot {
    fn learn(&mut self, id: &DestinationId, read: Result<Option<Destination>, ReadError>, now: EpochMs) {
        let error = match read {
            Ok(Some(destination)) => {
                *self = Self {
                    found: Some((Arc::new(destination), now)),
                    error: None,
                    next_read_at: Some(now.plus(CACHE_AGE_MAX)),
                };
                return;
            }
            Ok(None) => DestinationLookupError::Absent,
            Err(ReadError::Invalid(error)) => DestinationLookupError::Invalid(error),
            Err(error @ ReadError::Unavailable(_)) => {
                tracing::warn!(destination.id = %id, error = %Report::new(&error), "reading a destination failed");
                self.next_read_at = Some(now.plus(REFUSED_AGE_MAX));
                return;
            }
        };
        tracing::error!(destination.id = %id, error = %Report::new(&error), "a destination cannot be used; its effects wait");
        *self = Self { found: None, error: Some(error), next_read_at: Some(now.plus(REFUSED_AGE_MAX)) };
    }

    fn answer(&self, now: EpochMs) -> Result<Arc<Destination>, DestinationLookupError> {
        match (&self.found, &self.error) {
            (Some((destination, at)), _) if now < at.plus(STALE_AGE_MAX) => Ok(Arc::clone(destination)),
            (None, Some(error)) => Err(error.clone()),
            (Some(_) | None, _) => Err(DestinationLookupError::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::documents::Answering;

    const GOOD: &str = r#"{"kind": "http", "url": "https://api.example.com", "class": "at_least_once"}"#;

    /// Destinations whose source gives these answers and then none, and how often it was read.
    fn scripted(answers: &[Option<&'static str>]) -> (Arc<AtomicUsize>, Destinations) {
        let reads = Arc::new(AtomicUsize::new(0));
        let (counted, answers) = (Arc::clone(&reads), answers.to_vec());
        let answer = move |kind, _: &str| {
            assert_eq!(kind, DocumentKind::Destination);
            let answer = answers.get(counted.fetch_add(1, Ordering::Relaxed));
            let answer = answer.ok_or_else(|| DocumentsUnavailable("nobody is there".into()))?;
            Ok(answer.map(ToOwned::to_owned))
        };
        (reads, Destinations::new(Arc::new(Answering { answer, is_local: false })))
    }

    fn id() -> DestinationId {
        DestinationId::parse("receipts").unwrap()
    }

    #[tokio::test]
    async fn concurrent_lookups_read_once() {
        let (reads, destinations) = scripted(&[Some(GOOD)]);
        let (id, now) = (id(), EpochMs(0));
        let found = futures::future::join_all((0..10).map(|_| destinations.get(&id, now))).await;
        assert!(found.iter().all(Result::is_ok));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_cached_destination_outlives_its_source_for_a_bounded_time() {
        let (reads, destinations) = scripted(&[Some(GOOD)]);
        for (at, used) in
            [(Millis(0), true), (CACHE_AGE_MAX, true), (Millis(STALE_AGE_MAX.0 - 1), true), (STALE_AGE_MAX, false)]
        {
            assert_eq!(destinations.get(&id(), EpochMs(at.0)).await.is_ok(), used, "{at:?}");
        }
        assert!(reads.load(Ordering::Relaxed) > 1);
    }

    #[tokio::test]
    async fn a_destination_that_is_gone_or_broken_is_not_used() {
        for then in [None, Some("{}"), Some(r#"{"kind": "http"}"#)] {
            let (reads, destinations) = scripted(&[Some(GOOD), then, Some(GOOD)]);
            let get = async |at: Millis| destinations.get(&id(), EpochMs(at.0)).await;
            assert!(get(Millis(0)).await.is_ok());
            assert!(get(Millis(CACHE_AGE_MAX.0 - 1)).await.is_ok());
            assert!(matches!(
                get(CACHE_AGE_MAX).await,
                Err(DestinationLookupError::Absent | DestinationLookupError::Invalid(_))
            ));
            // It is not asked about each time.
            assert!(get(Millis(CACHE_AGE_MAX.0 + 1)).await.is_err());
            assert_eq!(reads.load(Ordering::Relaxed), 2);
            assert!(get(Millis(CACHE_AGE_MAX.0 + REFUSED_AGE_MAX.0)).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_source_that_never_answered_is_read_again_after_each_pause() {
        let (reads, destinations) = scripted(&[]);
        for at in [0, 1, REFUSED_AGE_MAX.0 - 1, REFUSED_AGE_MAX.0] {
            assert!(matches!(destinations.get(&id(), EpochMs(at)).await, Err(DestinationLookupError::Unavailable)));
        }
        assert_eq!(reads.load(Ordering::Relaxed), 2);
    }
}
