//! Every limit on what an unauthenticated caller sends, with its unit.

/// Longest value of a header that a scheme, a key or a handshake reads, in bytes. The longest in use is a compact JWT.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Most signatures tried for one delivery. `DocuSign` may send one header for each of up to 100 active keys.
pub const SIGNATURES_MAX: usize = 100;

/// Most fields of a form that a scheme reads before it knows the sender.
pub const FORM_FIELDS_MAX: usize = 1_000;

/// Most members of an object, and most elements of an array, that are read of a body before its sender is known.
pub const UNPROVEN_WIDTH_MAX: usize = 1_000;

/// Most secrets one endpoint may hold: the current one, its predecessors and its successor.
pub const SECRETS_MAX: usize = 8;

/// Shortest shared secret, in bytes: 128 bits. A provider that issues shorter ones is an exception in its catalog file.
pub const SECRET_BYTES_MIN: usize = 16;

/// Fewest different bytes of a shared secret. Of 16 random hexadecimal digits, one secret in 30,000 has fewer.
pub const SECRET_DISTINCT_BYTES_MIN: usize = 6;

/// Most that a limit of a signature's age may be, in seconds: a week, longer than any provider with a signed time retries.
/// A delivery's id is known for much longer.
pub const TOLERANCE_SECONDS_MAX: u32 = 7 * 24 * 3_600;

/// Longest `Retry-After` in a catalog file, in seconds: it must lie within the provider's own retries.
pub const RETRY_AFTER_SECONDS_MAX: u32 = 3_600;

/// Deepest nesting of a JSON body. `serde_json` has the same limit in handlers.
pub const JSON_DEPTH_MAX: usize = 127;

/// Longest delivery or event key, in bytes. The key of a longer one is its hash. Keys above 512 bytes are
/// hashed when stored.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// Most events read from one delivery. Meta sends up to 1,000.
pub const EVENTS_MAX: usize = 10_000;

/// Most bytes of all events of one delivery, each with its own copy of what surrounds it.
pub const EXPANDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest value that a handshake echoes, in bytes.
pub const CHALLENGE_BYTES_MAX: usize = 2 * 1024;

/// Most steps of a path in a catalog file.
pub const PATH_SEGMENTS_MAX: usize = 12;
