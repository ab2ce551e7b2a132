//! The message key: what the webhook function seals messages with that carry a payload, and what the worker and the
//! relay verify them with. Each process reads it once.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_protocol::message::{Message, MessageError, MessageKey};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// After a read that brought no key, how long the source is not asked again.
pub const KEY_PAUSE: Duration = Duration::from_secs(1);

/// Why there is no message key.
#[derive(Debug, thiserror::Error)]
pub enum MessageKeyError {
    /// The source did not answer, or refused the read.
    #[error("the message key could not be read")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// Nobody has made it.
    #[error("there is no message key; `hookonce doctor` says how to make it")]
    Absent,
    /// What is stored is not a key.
    #[error("the message key is not the base64 of 32 bytes; `hookonce doctor` says how to make another")]
    Invalid,
}

impl MessageKeyError {
    /// The key that a stored text holds.
    ///
    /// # Errors
    /// [`MessageKeyError`] when there is none.
    pub fn or_key(text: Option<&str>) -> Result<MessageKey, Self> {
        MessageKey::parse(text.ok_or(Self::Absent)?).ok_or(Self::Invalid)
    }
}

/// Where the message key is kept.
pub trait MessageKeySource: Send + Sync + 'static {
    /// Reads the key.
    ///
    /// # Errors
    /// [`MessageKeyError`] says why there is none.
    fn message_key(&self) -> BoxFuture<'_, Result<MessageKey, MessageKeyError>>;
}

/// The message key of this process, read when it is first needed. Clones share it.
#[derive(Clone)]
pub struct MessageKeys(Arc<Shared>);

struct Shared {
    source: Option<Box<dyn MessageKeySource>>,
    key: OnceLock<MessageKey>,
    /// When a read last brought no key. Locked while one is under way, so that there is one at a time.
    failed_at: Mutex<Option<Instant>>,
}

impl fmt::Debug for MessageKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageKeys").field("known", &self.0.key.get().is_some()).finish_non_exhaustive()
    }
}

impl MessageKeys {
    /// Reads the key from this source.
    pub fn new(source: impl MessageKeySource) -> Self {
        Self::of(Some(Box::new(source)), OnceLock::new())
    }

    /// This key.
    pub fn fixed(key: MessageKey) -> Self {
        Self::of(None, OnceLock::from(key))
    }

    /// No key, for what neither makes nor takes a message with a payload.
    pub fn none() -> Self {
        Self::of(None, OnceLock::new())
    }

    fn of(source: Option<Box<dyn MessageKeySource>>, key: OnceLock<MessageKey>) -> Self {
        Self(Arc::new(Shared { source, key, failed_at: Mutex::default() }))
    }

    /// The key, if it has been read.
    pub fn known(&self) -> Option<MessageKey> {
        self.0.key.get().cloned()
    }

    /// The key. Reads it if it is not known, but not within [`KEY_PAUSE`] of a read that brought none.
    pub async fn get(&self) -> Option<MessageKey> {
        if let Some(known) = self.known() {
            return Some(known);
        }
        let source = self.0.source.as_ref()?;
        let mut failed_at = self.0.failed_at.lock().await;
        if self.known().is_some() || failed_at.is_some_and(|at| at.elapsed() < KEY_PAUSE) {
            return self.known();
        }
        match source.message_key().await {
            Ok(key) => Some(self.0.key.get_or_init(|| key).clone()),
            Err(error) => {
                tracing::error!(error = %Report::new(&error), "no message with a payload can be made or taken");
                *failed_at = Some(Instant::now());
                None
            }
        }
    }

    /// Decodes texts. Reads the key if one of them needs it.
    pub(crate) async fn decode<'a>(
        &self,
        texts: impl Iterator<Item = &'a str> + Clone + Send,
    ) -> Vec<Result<Message, MessageError>> {
        let each = |key: Option<MessageKey>| -> Vec<_> {
            texts.clone().map(|text| Message::decode(text, key.as_ref())).collect()
        };
        let decoded = each(self.known());
        if decoded.contains(&Err(MessageError::Unverified))
            && let Some(key) = self.get().await
        {
            return each(Some(key));
        }
        decoded
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;

    /// Has a key from the third read on, and counts its reads.
    #[derive(Default)]
    struct Source(Arc<AtomicUsize>);

    impl MessageKeySource for Source {
        fn message_key(&self) -> BoxFuture<'_, Result<MessageKey, MessageKeyError>> {
            let key = match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Err(MessageKeyError::Unavailable("nobody is there".into())),
                1 => Err(MessageKeyError::Absent),
                _ => Ok(MessageKey::new([7; 32])),
            };
            std::future::ready(key).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_read_once_and_a_failed_read_repeated_after_a_pause() {
        let reads = Arc::default();
        let keys = MessageKeys::new(Source(Arc::clone(&reads)));
        for (count, found) in [(1, false), (2, false), (3, true)] {
            for _ in 0..3 {
                assert_eq!((keys.get().await.is_some(), keys.known().is_some()), (found, found));
            }
            assert_eq!(reads.load(Ordering::Relaxed), count);
            tokio::time::advance(KEY_PAUSE).await;
        }
    }

    #[test]
    fn what_is_stored_is_the_base64_of_32_bytes() {
        let text = MessageKey::new([7; 32]).to_text();
        for (text, is_key) in [(text.as_str(), true), (&format!("{text}\n"), true), (&text[4..], false), ("", false)] {
            assert_eq!(MessageKeyError::or_key(Some(text)).is_ok(), is_key, "{text}");
        }
        assert!(matches!(MessageKeyError::or_key(None), Err(MessageKeyError::Absent)));
    }
}
