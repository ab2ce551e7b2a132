//! The key by which a callee knows a repeat.

use std::fmt::Write as _;

use crate::key::{ClaimId, RecordKey, digest_of};

/// The key that every repeat of an effect's call carries: a UUID of version 8. It never changes, unless an operator
/// brings a refused effect back, which starts the next key epoch.
pub fn idempotency_key(effect: &RecordKey, claim: &ClaimId, generation: i64, key_epoch: i64) -> String {
    let digest = digest_of([effect.as_str(), &claim.0, &generation.to_string(), &key_epoch.to_string()]);
    let mut text = String::with_capacity(36);
    for (index, byte) in digest.into_iter().take(16).enumerate() {
        let byte = match index {
            6 => (byte & 0x0f) | 0x80,
            8 => (byte & 0x3f) | 0x80,
            _ => byte,
        };
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
