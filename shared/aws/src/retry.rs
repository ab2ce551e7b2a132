//! How long a call may take, and how often it is tried.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use hookonce_protocol::time::Millis;

use hookonce_runtime::inbox::drive::duration;

/// Attempts of one call, including the first.
pub const ATTEMPTS_MAX: u32 = 3;

/// The largest pause before the first retry.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Timeouts for a client whose calls may take `total`, including retries. The SDK sets none by default, except for
/// connecting, which counts as part of an attempt.
pub fn timeouts(total: Millis) -> TimeoutConfig {
    let total = duration(total);
    TimeoutConfig::builder().operation_attempt_timeout(total / 2).operation_timeout(total).build()
}

/// Retries with a short first pause, because a webhook sender is waiting.
pub fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX).with_initial_backoff(FIRST_BACKOFF)
}
