//! Stored payloads: zstd-compressed raw bytes.

use std::cell::RefCell;
use std::io;
use std::thread::LocalKey;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use crate::documents::document::EVENT_BYTES_MAX;

/// A stored payload that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Not a zstd frame of known length.
    #[error("the stored body is not a zstd frame")]
    Unreadable(#[source] std::io::Error),
    /// Longer than any accepted payload, which came in an event.
    #[error("the stored body is longer than {EVENT_BYTES_MAX} bytes")]
    TooLong,
}

thread_local! {
    // Creating one costs more than compressing a small body.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Runs code with this thread's instance, created on first use.
fn with<T, U>(
    slot: &'static LocalKey<RefCell<Option<T>>>,
    make: impl FnOnce() -> io::Result<T>,
    run: impl FnOnce(&mut T) -> io::Result<U>,
) -> Result<U, BodyError> {
    let made = |slot: &mut Option<T>| match slot {
        Some(one) => run(one),
        None => run(slot.insert(make()?)),
    };
    slot.with_borrow_mut(made).map_err(BodyError::Unreadable)
}

/// Compresses raw bytes for storage.
///
/// # Errors
/// [`BodyError::Unreadable`] when the compressor fails, which it does only when memory runs out.
pub fn compress(raw: &[u8]) -> Result<Vec<u8>, BodyError> {
    // Level 3: zstd's default, and fast enough for the hot path. Not as a stream: a stream's tables, sized for any length, cost more than compressing a small body.
    with(&COMPRESSOR, || Compressor::new(3), |compressor| compressor.compress(raw))
}

/// Decompresses a stored payload.
///
/// # Errors
/// [`BodyError`] when it is not a compressed payload, or is longer than any accepted one.
pub fn decompress(stored: &[u8]) -> Result<Vec<u8>, BodyError> {
    // A frame that was compressed in one call records its length.
    let length = zstd_safe::get_frame_content_size(stored).ok().flatten();
    let length = length.ok_or_else(|| BodyError::Unreadable(io::ErrorKind::InvalidData.into()))?;
    let length = usize::try_from(length).ok().filter(|length| *length <= EVENT_BYTES_MAX).ok_or(BodyError::TooLong)?;
    with(&DECOMPRESSOR, Decompressor::new, |decompressor| decompressor.decompress(stored, length))
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
        let bomb = compress(&vec![0_u8; EVENT_BYTES_MAX + 1]).unwrap();
        assert!(bomb.len() < 10_000, "a bomb is small");
        assert!(matches!(decompress(&bomb), Err(BodyError::TooLong)));
    }

    #[test]
    fn garbage_is_refused() {
        assert!(matches!(decompress(b"not zstd"), Err(BodyError::Unreadable(_))));
    }
}
