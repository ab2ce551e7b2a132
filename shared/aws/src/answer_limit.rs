//! Refuses an answer of the SDK's by its length, before it becomes values: these may take a hundred times as much
//! memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use thiserror::Error;

/// The answers of a read have more bytes than its caller takes, up to the one that was refused.
#[derive(Debug, Error)]
#[error("the answers have {0} bytes, too many for their caller")]
pub(super) struct AnswerTooLong(pub(super) u64);

/// The most bytes that the answers of a read may have together. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct AnswerLimit(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    max: u64,
    counted: AtomicU64,
    /// The length of the last answer that is not counted. An error has none.
    last: AtomicU64,
}

impl AnswerLimit {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self(Arc::new(Bytes { max: bytes_max, counted: 0.into(), last: 0.into() }))
    }

    /// Counts the last answer, which has become values.
    pub(super) fn count(&self) {
        let Bytes { counted, last, .. } = &*self.0;
        counted.fetch_add(last.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// How long the answers are together, if that is too long.
    pub(super) fn exceeded(&self) -> Option<AnswerTooLong> {
        let Bytes { max, counted, last } = &*self.0;
        let all = counted.load(Ordering::Relaxed).saturating_add(last.load(Ordering::Relaxed));
        (all > *max).then_some(AnswerTooLong(all))
    }
}

impl Intercept for AnswerLimit {
    fn name(&self) -> &'static str {
        "AnswerLimit"
    }

    /// An answer that does not say its length may have any, so it is refused, too. Errors are short, and the SDK must see
    /// them.
    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let length = match response.headers().get("content-length") {
            _ if !response.status().is_success() => 0,
            length => length.ok_or("it has no length")?.parse()?,
        };
        self.0.last.store(length, Ordering::Relaxed);
        self.exceeded().map_or(Ok(()), |too_long| Err(too_long.into()))
    }
}
