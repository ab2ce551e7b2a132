//! The memory that the messages of a batch share for what they hold beside their bodies: the events of envelopes, and
//! what handlers read and answer.

use std::sync::{Arc, Mutex, PoisonError};

use hookonce_protocol::item::{Value, block_bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most KiB that the messages of a batch hold at once. Each KiB is there several times: in the machine, in its
/// writes and in the requests. A message that needs more has all of it, alone.
const ROOM_KIB: u32 = 32 * 1024;

/// The memory of one batch.
#[derive(Debug, Clone)]
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_KIB as usize)))
    }
}

/// What one message holds of the room, until it ends or holds something else.
#[derive(Debug)]
pub struct Share {
    room: Room,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Share {
    /// A message that holds nothing yet.
    pub fn of(room: &Room) -> Self {
        Self { room: room.clone(), held: Mutex::new(None) }
    }

    /// Holds so many bytes if they are left, and nothing if they are not.
    pub(crate) fn try_hold(&self, bytes: usize) -> bool {
        self.release();
        let all = Arc::clone(&self.room.0);
        all.try_acquire_many_owned(kib(bytes)).map(|permit| self.set(Some(permit))).is_ok()
    }

    /// Waits for so many bytes. Whoever waits holds nothing: those that wait would fill the memory together.
    pub(crate) async fn hold(&self, bytes: usize) {
        self.release();
        let all = Arc::clone(&self.room.0);
        self.set(all.acquire_many_owned(kib(bytes)).await.ok());
    }

    /// Holds nothing more.
    pub(crate) fn release(&self) {
        self.set(None);
    }

    fn set(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1_024)).unwrap_or(ROOM_KIB).min(ROOM_KIB)
}

/// About the memory that JSON takes once it is values, in bytes: its text, and what its objects and elements take.
pub(crate) fn json_memory(json: &[u8]) -> usize {
    let (mut bytes, mut in_text, mut escaped) = (json.len(), false, false);
    for byte in json {
        match byte {
            b'"' if !escaped => in_text = !in_text,
            b'{' if !in_text => bytes += block_bytes::<Value>(),
            b',' if !in_text => bytes += size_of::<Value>(),
            _ => {}
        }
        escaped = *byte == b'\\' && !escaped;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_takes_no_room() {
        let object = json_memory(b"{}") - 2;
        assert_eq!(json_memory(br#"{"{,\"{,": "\\"}"#), object + 16);
        assert_eq!(json_memory(br#"[{"a": {}}, 1]"#), 14 + 2 * object + size_of::<Value>());
    }

    #[tokio::test(start_paused = true)]
    async fn who_needs_more_than_there_is_waits_until_it_is_alone() {
        let room = Room::default();
        let [one, other, large] = [&room; 3].map(Share::of);
        one.hold(1_024 * 1_024).await;
        assert!(other.try_hold(1_024));
        let waits =
            async |share: &Share| tokio::time::timeout(std::time::Duration::from_secs(1), share.hold(usize::MAX)).await;
        assert!(waits(&large).await.is_err());
        drop(one);
        other.release();
        assert!(waits(&large).await.is_ok());
        assert!(!other.try_hold(1));
        assert!(large.try_hold(1), "it gives back what it held");
        assert!(other.try_hold(1));
    }
}
