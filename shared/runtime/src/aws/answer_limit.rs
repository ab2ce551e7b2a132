//! Refuses an answer of the SDK's by its length, before it becomes values: these may take a hundred times as much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use thiserror::Error;

/// An answer has more bytes than its caller takes.
#[derive(Debug, Error)]
#[error("the answer is too long")]
pub(super) struct AnswerTooLong;

/// The most bytes that the answer of one call may have, and whether it had more.
#[derive(Debug, Clone)]
pub(super) struct AnswerLimit {
    bytes_max: u64,
    exceeded: Arc<AtomicBool>,
}

impl AnswerLimit {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, exceeded: Arc::default() }
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

impl Intercept for AnswerLimit {
    fn name(&self) -> &'static str {
        "AnswerLimit"
    }

    /// An answer that does not say its length may have any.
    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let length = context.response().headers().get("content-length");
        if length.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length <= self.bytes_max) {
            return Ok(());
        }
        self.exceeded.store(true, Ordering::Relaxed);
        Err(AnswerTooLong.into())
    }
}
