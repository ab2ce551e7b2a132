//! Stored payloads: zstd-compressed raw bytes.

use std::io::Read as _;

/// The longest payload that is taken apart again, in bytes. Nothing larger can have been accepted.
pub const BODY_BYTES_MAX: u64 = 6 * 1024 * 1024;

/// Level 3: the library's own default, fast enough for the hot path.
const LEVEL: i32 = 3;

/// A stored payload that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Not compressed as expected.
    #[error("the stored body is not a zstd frame")]
    Unreadable(#[source] std::io::Error),
    /// Larger than anything that was ever accepted.
    #[error("the stored body is longer than {BODY_BYTES_MAX} bytes")]
    TooLong,
}

/// Compresses raw bytes for storage.
///
/// # Errors
/// [`BodyError::Unreadable`] when the compressor fails, which it does only for lack of memory.
pub fn compress(raw: &[u8]) -> Result<Vec<u8>, BodyError> {
    // In one piece: a stream would set up tables for a body of any length, which costs more than a small body itself.
    zstd::bulk::compress(raw, LEVEL).map_err(BodyError::Unreadable)
}

/// The raw bytes of a stored payload.
///
/// # Errors
/// [`BodyError`] when it is not a compressed payload, or longer than any accepted one.
pub fn decompress(stored: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut raw = Vec::new();
    let decoder = zstd::Decoder::new(stored).map_err(BodyError::Unreadable)?;
    decoder.take(BODY_BYTES_MAX + 1).read_to_end(&mut raw).map_err(BodyError::Unreadable)?;
    if raw.len() as u64 > BODY_BYTES_MAX { Err(BodyError::TooLong) } else { Ok(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(raw in proptest::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert_eq!(decompress(&compress(&raw).unwrap()).unwrap(), raw);
        }
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        let bomb = compress(&vec![0_u8; usize::try_from(BODY_BYTES_MAX).unwrap() + 1]).unwrap();
        assert!(bomb.len() < 10_000, "a bomb is small");
        assert!(matches!(decompress(&bomb), Err(BodyError::TooLong)));
    }

    #[test]
    fn garbage_is_refused() {
        assert!(matches!(decompress(b"not zstd"), Err(BodyError::Unreadable(_))));
    }
}
