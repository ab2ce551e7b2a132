//! The attribute names of a record. They are whole words, because the person on call reads them in a console.

#![allow(missing_docs, reason = "the names say what they hold; `Record` documents each")]
pub const SCHEMA_VERSION: &str = "schema_version";
pub const STATUS: &str = "status";
pub const CLAIM_ID: &str = "claim_id";
pub const GENERATION: &str = "generation";
pub const TENANT: &str = "tenant";
pub const PROVIDER: &str = "provider";
pub const EVENT_TYPE: &str = "event_type";
pub const BODY: &str = "body";
pub const BODY_SHA256: &str = "body_sha256";
pub const HEADERS: &str = "headers";
pub const SECRET_INDEX: &str = "secret_index";
pub const RECEIVED_AT: &str = "received_at";
pub const JOURNAL_SHARD: &str = "journal_shard";
pub const DUE_SHARD: &str = "due_shard";
pub const DUE_AT: &str = "due_at";
pub const ATTEMPTS: &str = "attempts";
pub const RESENDS: &str = "resends";
pub const RETRIES: &str = "retries";
pub const DEAD_LETTERS: &str = "dead_letters";
pub const DEAD_LETTER_AT: &str = "dead_letter_at";
pub const WAITS_SINCE: &str = "waits_since";
pub const NOT_BEFORE: &str = "not_before";
pub const PARENT: &str = "parent";
// The TTL attribute of both tables. Business items share the domain table, so no business word may be its name.
pub const EXPIRES_AT: &str = "hookonce_expires_at";
pub const OUTCOME: &str = "outcome";
pub const LAST_ERROR: &str = "last_error";
pub const FAILURES: &str = "failures";
pub const DEAD_REASON: &str = "dead_reason";
pub const DUPLICATE_COUNT: &str = "duplicate_count";
pub const LAST_SEEN_AT: &str = "last_seen_at";
pub const LAST_SEEN_BY: &str = "last_seen_by";
pub const PROCESSED_AT: &str = "processed_at";
pub const DEAD_AT: &str = "dead_at";
pub const DISCARDED_AT: &str = "discarded_at";
pub const ACCEPT_DUPLICATE: &str = "accept_duplicate";
pub const QUARANTINE_MISMATCH: &str = "quarantine_mismatch";
pub const EFFECTS: &str = "effects";
pub const EARLIER_EFFECTS: &str = "earlier_effects";
pub const EFFECT: &str = "effect";
pub const DESTINATION: &str = "destination";
pub const METHOD: &str = "method";
pub const PATH: &str = "path";
pub const CONTENT_TYPE: &str = "content_type";
pub const PASS: &str = "pass";
pub const PASS_AT: &str = "pass_at";
pub const FIRST_CALL_AT: &str = "first_call_at";
pub const CALLEE: &str = "callee";
pub const NOT_DONE: &str = "not_done";
pub const KEY_EPOCH: &str = "key_epoch";
pub const RETRIED_AT: &str = "retried_at";
pub const CALLS: &str = "calls";
pub const DURATION_MS: &str = "duration_ms";

/// The head of a record: all attributes except the key and the body.
pub const HEAD: [&str; 51] = [
    SCHEMA_VERSION,
    STATUS,
    CLAIM_ID,
    GENERATION,
    TENANT,
    PROVIDER,
    EVENT_TYPE,
    BODY_SHA256,
    HEADERS,
    SECRET_INDEX,
    RECEIVED_AT,
    JOURNAL_SHARD,
    DUE_SHARD,
    DUE_AT,
    ATTEMPTS,
    RESENDS,
    RETRIES,
    DEAD_LETTERS,
    DEAD_LETTER_AT,
    WAITS_SINCE,
    NOT_BEFORE,
    PARENT,
    EXPIRES_AT,
    OUTCOME,
    LAST_ERROR,
    FAILURES,
    DEAD_REASON,
    DUPLICATE_COUNT,
    LAST_SEEN_AT,
    LAST_SEEN_BY,
    PROCESSED_AT,
    DEAD_AT,
    DISCARDED_AT,
    ACCEPT_DUPLICATE,
    QUARANTINE_MISMATCH,
    EFFECTS,
    EARLIER_EFFECTS,
    EFFECT,
    DESTINATION,
    METHOD,
    PATH,
    CONTENT_TYPE,
    PASS,
    PASS_AT,
    FIRST_CALL_AT,
    CALLEE,
    NOT_DONE,
    KEY_EPOCH,
    RETRIED_AT,
    CALLS,
    DURATION_MS,
];
