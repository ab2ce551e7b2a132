//! The message key: what the webhook function seals messages with that carry a payload, and what the worker and the
//! relay verify them with. Each process reads it once. The webhook function makes it when there is none.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use error_reporter::Report;
use hookonce_protocol::message::{MESSAGE_KEY_BYTES, Message, MessageError, MessageKey};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::documents::{DocumentKind, DocumentSource, DocumentsUnavailable, MESSAGE_KEY_ID};

/// After a read that brought no key, how long the source is not asked again.
pub const KEY_PAUSE: Duration = Duration::from_secs(1);

/// Why there is no message key.
#[derive(Debug, thiserror::Error)]
pub enum MessageKeyError {
    /// The source did not answer, or refused the read or the write.
    #[error("the message key could not be read or made")]
    Unavailable(#[source] DocumentsUnavailable),
    /// No webhook function has made it yet.
    #[error("there is no message key; the webhook function makes it before it seals the first message")]
    Absent,
    /// What is stored is not a key.
    #[error("the message key is not the base64 of 32 bytes; remove it, and the webhook function makes another")]
    Invalid,
    /// The operating system has no random numbers.
    #[error("no message key can be made without random numbers")]
    NoRandomness(#[source] Box<dyn Error + Send + Sync>),
}

/// The message key of this process, read when it is first needed. Clones share it.
#[derive(Clone)]
pub struct MessageKeys(Arc<Shared>);

struct Shared {
    source: Option<Arc<dyn DocumentSource>>,
    makes_it: bool,
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
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        Self::of(Some(source), false, OnceLock::new())
    }

    /// Reads the key from this source, and makes it if there is none.
    pub fn making(source: Arc<dyn DocumentSource>) -> Self {
        Self::of(Some(source), true, OnceLock::new())
    }

    /// This key.
    pub fn fixed(key: MessageKey) -> Self {
        Self::of(None, false, OnceLock::from(key))
    }

    /// No key, for what neither makes nor takes a message with a payload.
    pub fn none() -> Self {
        Self::of(None, false, OnceLock::new())
    }

    fn of(source: Option<Arc<dyn DocumentSource>>, makes_it: bool, key: OnceLock<MessageKey>) -> Self {
        Self(Arc::new(Shared { source, makes_it, key, failed_at: Mutex::default() }))
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
        let source = self.0.source.as_deref()?;
        let mut failed_at = self.0.failed_at.lock().await;
        if self.known().is_some() || failed_at.is_some_and(|at| at.elapsed() < KEY_PAUSE) {
            return self.known();
        }
        let found = match read(source).await {
            Err(MessageKeyError::Absent) if self.0.makes_it => make(source).await,
            found => found,
        };
        match found {
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

async fn read(source: &dyn DocumentSource) -> Result<MessageKey, MessageKeyError> {
    let text = source.read(DocumentKind::Key, MESSAGE_KEY_ID).await.map_err(MessageKeyError::Unavailable)?;
    MessageKey::parse(&text.ok_or(MessageKeyError::Absent)?).ok_or(MessageKeyError::Invalid)
}

/// Stores a new key unless another process was first, and reads the one that is stored: all processes need the same.
async fn make(source: &dyn DocumentSource) -> Result<MessageKey, MessageKeyError> {
    let mut bytes = [0; MESSAGE_KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| MessageKeyError::NoRandomness(error.to_string().into()))?;
    let text = MessageKey::new(bytes).to_text();
    source.create(DocumentKind::Key, MESSAGE_KEY_ID, &text).await.map_err(MessageKeyError::Unavailable)?;
    read(source).await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    /// Answers from the second read on, counts reads, and keeps what is written first.
    #[derive(Debug, Default)]
    struct Source {
        reads: AtomicUsize,
        text: StdMutex<Option<String>>,
    }

    impl DocumentSource for Source {
        fn read<'a>(
            &'a self,
            kind: DocumentKind,
            id: &'a str,
        ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
            assert_eq!((kind, id), (DocumentKind::Key, MESSAGE_KEY_ID));
            let answer = match self.reads.fetch_add(1, Ordering::Relaxed) {
                0 => Err(DocumentsUnavailable("nobody is there".into())),
                _ => Ok(self.text.lock().unwrap().clone()),
            };
            std::future::ready(answer).boxed()
        }

        fn create<'a>(
            &'a self,
            _: DocumentKind,
            _: &'a str,
            text: &'a str,
        ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
            self.text.lock().unwrap().get_or_insert_with(|| text.to_owned());
            std::future::ready(Ok(())).boxed()
        }

        fn is_local(&self) -> bool {
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_read_once_and_a_failed_read_repeated_after_a_pause() {
        let source = Arc::new(Source::default());
        let keys = MessageKeys::new(Arc::clone(&source) as _);
        for (count, found) in [(1, false), (2, false), (3, true)] {
            if found {
                source.text.lock().unwrap().replace(MessageKey::new([7; 32]).to_text());
            }
            for _ in 0..3 {
                assert_eq!((keys.get().await.is_some(), keys.known().is_some()), (found, found));
            }
            assert_eq!(source.reads.load(Ordering::Relaxed), count);
            tokio::time::advance(KEY_PAUSE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_processes_that_make_a_key_both_use_the_first() {
        let source = Arc::new(Source::default());
        source.reads.store(1, Ordering::Relaxed);
        let made = futures::future::join_all([(); 2].map(|()| {
            let keys = MessageKeys::making(Arc::clone(&source) as _);
            async move { keys.get().await.unwrap().to_text() }
        }));
        let made = made.await;
        assert_eq!((made[0].as_str(), Some(&made[0])), (made[1].as_str(), source.text.lock().unwrap().as_ref()));
        // What is no key stays: nobody replaces what others may have sealed with.
        *source.text.lock().unwrap() = Some(made[0][4..].to_owned());
        assert!(MessageKeys::making(Arc::clone(&source) as _).get().await.is_none());
    }
}
