//! What every stack consists of.

use serde::{Deserialize, Serialize};

/// What every stack consists of. A running one writes it into a file, a deployed one has it as outputs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StackParts {
    /// The release of hookonce.
    pub(crate) version: String,
    /// The table of records.
    pub(crate) inbox_table: String,
    /// The table of business data.
    pub(crate) domain_table: String,
    /// The queue of hints. It names its dead-letter queue, which all have.
    pub(crate) queue_url: String,
    /// The queue of hints of events whose handler is slow.
    pub(crate) slow_queue_url: String,
    /// The queue of hints of effects.
    pub(crate) effects_queue_url: String,
}
