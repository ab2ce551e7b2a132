//! How much a request makes this crate compute, in bytes that are hashed and bytes that are parsed, and a fault to
//! plant: for tests and benches.

#[cfg(debug_assertions)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static HASHED: Cell<usize> = const { Cell::new(0) };
        static PARSED: Cell<usize> = const { Cell::new(0) };
        static PANICS_AT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Notes that these bytes were hashed.
    pub(crate) fn hashed(bytes: usize) {
        HASHED.set(HASHED.get().saturating_add(bytes));
    }

    /// Notes that these bytes of JSON were parsed.
    pub(crate) fn parsed(bytes: usize) {
        assert!(PANICS_AT.get() != Some(bytes), "a test planted this fault");
        PARSED.set(PARSED.get().saturating_add(bytes));
    }

    /// Lets this thread panic where it parses a text of so many bytes. A test plants this to see what a fault here
    /// harms.
    pub fn panics_at(bytes: Option<usize>) {
        PANICS_AT.set(bytes);
    }

    /// The result of a call, and how many bytes it hashed to judge a request.
    pub fn hashed_bytes<T>(call: impl FnOnce() -> T) -> (T, usize) {
        let before = HASHED.get();
        let result = call();
        (result, HASHED.get().saturating_sub(before))
    }

    /// The result of a call, and how many bytes of JSON it parsed; a byte that is read again counts again.
    pub fn parsed_bytes<T>(call: impl FnOnce() -> T) -> (T, usize) {
        let before = PARSED.get();
        let result = call();
        (result, PARSED.get().saturating_sub(before))
    }
}

/// A release build counts nothing, so no deployed function does.
#[cfg(not(debug_assertions))]
mod counted {
    pub(crate) const fn hashed(_bytes: usize) {}

    pub(crate) const fn parsed(_bytes: usize) {}
}

pub(crate) use counted::{hashed, parsed};
#[cfg(debug_assertions)]
pub use counted::{hashed_bytes, panics_at, parsed_bytes};
