//! A standard queue in memory: as much of SQS as the protocol depends on.

use hookonce_protocol::time::Millis;

/// A queue and its dead-letter queue.
#[derive(Debug)]
pub struct QueuePair {
    /// The queue.
    pub queue: FakeQueue,
    /// The dead-letter queue.
    pub dead_letters: FakeQueue,
}

/// How a queue is set up.
#[derive(Debug, Clone, Copy)]
pub struct QueueShape {
    /// How long a received message stays hidden.
    pub visibility_timeout: Millis,
    /// How long a message is kept.
    pub retention: Millis,
    /// How often a message may be received; the next time it goes to the dead-letter queue. `None` without such a
    /// queue.
    pub receives_max: Option<u32>,
}

/// A message as its receiver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The handle of this receipt.
    pub handle: u64,
    /// The text.
    pub body: String,
    /// How often it was received, this time included.
    pub receives: u32,
    /// When it was first sent.
    pub sent_at: i64,
}

/// A message, with its latest receipt. The handle is 0 before the first.
#[derive(Debug)]
struct Stored {
    receipt: Receipt,
    visible_at: i64,
}

/// A queue. `dead` holds what was received too often, until someone takes it.
#[derive(Debug)]
pub struct FakeQueue {
    shape: QueueShape,
    messages: Vec<Stored>,
    handles: u64,
    dead: Vec<(String, i64)>,
}

impl FakeQueue {
    /// An empty queue.
    pub const fn new(shape: QueueShape) -> Self {
        Self { shape, messages: Vec::new(), handles: 0, dead: Vec::new() }
    }

    /// Takes a message in. `sent_at` is when it was first sent: a dead letter keeps its age.
    pub fn send(&mut self, body: String, sent_at: i64, now: i64) {
        let receipt = Receipt { handle: 0, body, receives: 0, sent_at };
        self.messages.push(Stored { receipt, visible_at: now });
    }

    /// Returns up to `limit` visible messages; `choose` picks each out of this many.
    pub fn receive(&mut self, now: i64, limit: usize, mut choose: impl FnMut(usize) -> usize) -> Vec<Receipt> {
        self.forget(now);
        let mut receipts = Vec::new();
        while receipts.len() < limit {
            let visible: Vec<usize> =
                (0..self.messages.len()).filter(|at| self.messages[*at].visible_at <= now).collect();
            if visible.is_empty() {
                break;
            }
            let at = visible[choose(visible.len()) % visible.len()];
            if self.shape.receives_max.is_some_and(|max| self.messages[at].receipt.receives >= max) {
                let Receipt { body, sent_at, .. } = self.messages.remove(at).receipt;
                self.dead.push((body, sent_at));
                continue;
            }
            self.handles += 1;
            let Stored { receipt, visible_at } = &mut self.messages[at];
            receipt.receives += 1;
            receipt.handle = self.handles;
            *visible_at = now.saturating_add(self.shape.visibility_timeout.0);
            receipts.push(receipt.clone());
        }
        receipts
    }

    /// Deletes the message of a receipt, if that receipt is its latest.
    pub fn delete(&mut self, handle: u64) {
        self.messages.retain(|message| message.receipt.handle != handle || handle == 0);
    }

    /// Hides the message of a receipt for this long from now on, if that receipt is its latest.
    pub fn hide(&mut self, handle: u64, length: Millis, now: i64) {
        for message in self.messages.iter_mut().filter(|message| message.receipt.handle == handle && handle != 0) {
            message.visible_at = now.saturating_add(length.0);
        }
    }

    /// Loses a message. It must be one that the protocol can afford to lose.
    pub fn lose(&mut self, expendable: impl Fn(&str) -> bool) {
        let at = self.messages.iter().position(|message| expendable(&message.receipt.body));
        if let Some(at) = at {
            self.messages.remove(at);
        }
    }

    fn forget(&mut self, now: i64) {
        let retention = self.shape.retention.0;
        self.messages.retain(|message| message.receipt.sent_at.saturating_add(retention) > now);
    }

    /// Takes the messages that were received too often, and when they were first sent.
    pub fn take_dead(&mut self) -> Vec<(String, i64)> {
        std::mem::take(&mut self.dead)
    }

    /// When the next message can be received.
    pub fn next_visible(&self) -> Option<i64> {
        self.messages.iter().map(|message| message.visible_at).min()
    }

    /// Messages in the queue, hidden ones included.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// No message, hidden ones included.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
