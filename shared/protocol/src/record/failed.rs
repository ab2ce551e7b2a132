//! What a record keeps of the attempts that failed, for people. No machine acts on it.

use crate::item::{Value, fields};
use crate::time::EpochMs;

/// How many of them are kept, and how many calls of an effect. With the longest code, they take less than half of what an item has reserved for later
/// updates.
pub const FAILURES_KEPT: usize = 10;

pub(super) const AT: &str = "at";
const CODE: &str = "code";

/// One attempt that failed and was counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FailedAttempt {
    /// When it was counted.
    pub at: EpochMs,
    /// The code of its failure.
    pub code: String,
}

pub(super) fn encode_failures(failures: &[FailedAttempt]) -> Value {
    let one =
        |failed: &FailedAttempt| Value::Map(fields([(AT, failed.at.0.into()), (CODE, failed.code.as_str().into())]));
    Value::List(failures.iter().map(one).collect())
}

pub(super) fn decode_failures(value: &Value) -> Option<Vec<FailedAttempt>> {
    let Value::List(failures) = value else { return None };
    let one = |failed: &Value| {
        let Value::Map(failed) = failed else { return None };
        let at = EpochMs(failed.get(AT)?.as_i64()?);
        Some(FailedAttempt { at, code: failed.get(CODE)?.as_text()?.to_owned() })
    };
    failures.iter().map(one).collect()
}
