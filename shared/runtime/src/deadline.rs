//! One deadline for everything that a request waits for.
//!
//! ```text
//! 0 ............................................................. webhook timeout
//! | endpoint, certificate      | claim             | payload or hint | answer |
//!                              ^ LOOKUP_RESERVE    ^ SEND_RESERVE    ^ ANSWER_RESERVE before the end
//! ```
//! A step that ends early leaves its time to the steps after it. A step that hangs ends where the next one needs to
//! begin.

use std::future::Future;
use std::time::Duration;

use hookonce_protocol::call::{Call, Reply, Unavailable, Written};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use tokio::time::{Instant, timeout_at};

use crate::inbox::drive::{Carry, duration};

/// What is left at the end for the answer's way back.
pub const ANSWER_RESERVE: Duration = Duration::from_millis(200);

/// What lookups leave for the claim, and for the payload's message if the claim fails.
pub const LOOKUP_RESERVE: Duration = Duration::from_secs(1);

/// What the claim leaves for the payload's message or the hint.
pub const SEND_RESERVE: Duration = Duration::from_millis(400);

/// The least time in which sending a hint is worth trying. The relay sends a hint that was left out.
pub const HINT_MIN: Duration = Duration::from_millis(50);

/// When an invocation ends, from the deadline that the Runtime API names with it. Lambda names a time; `cargo lambda
/// watch` names a length, 600,000 ms. A deadline that lies in the past when its invocation begins can only be a length.
pub fn end_of_invocation(named: u64, now: EpochMs) -> EpochMs {
    let named = i64::try_from(named).unwrap_or(i64::MAX);
    if named > now.0 { EpochMs(named) } else { now.plus(Millis(named)) }
}

/// When a request must be answered.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline of a request that starts now.
    pub fn of(timing: &Timing) -> Self {
        Self(Instant::now() + duration(timing.webhook_timeout).saturating_sub(ANSWER_RESERVE))
    }

    /// The deadline of a step that leaves this much for the steps after it.
    #[must_use]
    pub fn leaving(self, reserve: Duration) -> Self {
        Self(self.0.checked_sub(reserve).unwrap_or(self.0))
    }

    /// The same deadline, but at most this far away.
    #[must_use]
    pub fn at_most(self, length: Duration) -> Self {
        Self(self.0.min(Instant::now() + length))
    }

    /// What is left.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Waits for a step until the deadline.
    ///
    /// # Errors
    /// [`Unavailable`] when the deadline came first. The step is dropped; it may have been carried out.
    pub async fn within<F: Future>(self, step: F) -> Result<F::Output, Unavailable> {
        timeout_at(self.0, step).await.map_err(|_| Unavailable)
    }
}

/// Carries out the calls of one request until its deadline. A call that did not end in time is "unavailable": it may
/// have been carried out or not.
#[derive(Debug)]
pub(crate) struct UntilDeadline<'a, C> {
    pub(crate) carrier: &'a C,
    pub(crate) deadline: Deadline,
    pub(crate) best_effort: Duration,
}

impl<C: Carry> Carry for UntilDeadline<'_, C> {
    async fn carry(&self, call: Call) -> Reply {
        let carrier = self.carrier;
        match call {
            Call::Send(message) if message.is_hint() && self.deadline.left() < HINT_MIN => {
                Reply::Sent(Err(Unavailable))
            }
            Call::Send(message) => {
                let sent = self.deadline.within(carrier.carry(Call::Send(message))).await;
                sent.unwrap_or(Reply::Sent(Err(Unavailable)))
            }
            Call::WriteBestEffort(write) => {
                let purpose = write.purpose.as_str();
                let soon = self.deadline.at_most(self.best_effort);
                if soon.within(carrier.carry(Call::WriteBestEffort(write))).await.is_err() {
                    tracing::info!(write.purpose = purpose, "a best-effort write was dropped");
                }
                Reply::Done
            }
            Call::Write(write) => {
                let claim = self.deadline.leaving(SEND_RESERVE);
                let written = claim.within(carrier.carry(Call::Write(write))).await;
                written.unwrap_or(Reply::Written(Written::Unavailable))
            }
            // Of the rest, ingress only reads. `Reply::Done` counts as "unavailable".
            call => self.deadline.leaving(SEND_RESERVE).within(carrier.carry(call)).await.unwrap_or(Reply::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hookonce_protocol::key::{EndpointId, RecordKey};
    use hookonce_protocol::message::Message;
    use hookonce_protocol::record::Found;

    use super::*;

    /// Carries out every call, but not at once, and counts them.
    #[derive(Default)]
    struct Carrier(Mutex<usize>);

    impl Carry for Carrier {
        async fn carry(&self, call: Call) -> Reply {
            *self.0.lock().unwrap() += 1;
            tokio::task::yield_now().await;
            match call {
                Call::Send(_) => Reply::Sent(Ok(())),
                _ => Reply::Read(Ok(Found::Nothing)),
            }
        }
    }

    fn key() -> RecordKey {
        RecordKey::delivery(&EndpointId::parse("stripe").unwrap(), "evt_1")
    }

    /// The reply to a call with this much time left, and whether the call was made.
    async fn carried(left: Duration, call: Call) -> (Reply, bool) {
        let carrier = Carrier::default();
        let deadline = Deadline(Instant::now() + left);
        let reply = UntilDeadline { carrier: &carrier, deadline, best_effort: left }.carry(call).await;
        (reply, *carrier.0.lock().unwrap() == 1)
    }

    #[tokio::test]
    async fn a_hint_is_not_tried_when_hardly_any_time_is_left() {
        let hint = || Call::Send(Message::Ref { pk: key() });
        assert_eq!(carried(Duration::from_hours(1), hint()).await, (Reply::Sent(Ok(())), true));
        let short = HINT_MIN.saturating_sub(Duration::from_millis(1));
        assert_eq!(carried(short, hint()).await, (Reply::Sent(Err(Unavailable)), false));
    }

    /// Far from either end: the runtime's clock has ticks of a millisecond.
    #[tokio::test]
    async fn a_read_leaves_the_time_to_send() {
        let found = Reply::Read(Ok(Found::Nothing));
        assert_eq!(carried(Duration::from_hours(1), Call::Read(key())).await, (found, true));
        assert_eq!(carried(SEND_RESERVE / 2, Call::Read(key())).await, (Reply::Done, true));
    }
}
