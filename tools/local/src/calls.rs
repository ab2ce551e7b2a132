//! Counts the function's calls through the SDK, by operation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;

/// How often each operation was sent, with retries. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct CallCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl CallCounts {
    /// The counts so far, by operation.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often one operation was sent so far.
    pub fn of(&self, operation: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(operation).copied().unwrap_or(0)
    }
}

impl Intercept for CallCounts {
    fn name(&self) -> &'static str {
        "CallCounts"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(metadata) = bag.load::<Metadata>() {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(metadata.name().to_owned()).or_default() += 1;
        }
        Ok(())
    }
}
