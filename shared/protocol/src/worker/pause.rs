//! How a record waits: its message is hidden in the queue, or the relay sends it again.

use super::{Done, Settled};
use crate::record::{Record, attribute, set};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};
use crate::write::Change;

/// The longest time that a message is hidden. For a longer back-off, the message is acknowledged and the relay takes
/// over after the back-off.
pub const VISIBILITY_MAX: Millis = Millis::seconds(900);

/// The longest time that a message is hidden while its record waits without counting. A handler may be unavailable for
/// a day, for any number of events, and SQS hides only so many messages.
pub const WAITING_VISIBILITY_MAX: Millis = Millis::seconds(60);

/// A pause of a record. Where a due time is written, it and the message must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pause {
    length: Millis,
    is_hidden: bool,
}

impl Pause {
    pub(crate) fn new(length: Millis) -> Self {
        Self { length, is_hidden: length <= VISIBILITY_MAX }
    }

    /// The pause of an event that waits uncounted for a handler, a table or others' changes.
    pub(crate) fn uncounted(length: Millis) -> Self {
        Self { length, is_hidden: length <= WAITING_VISIBILITY_MAX }
    }

    /// When the relay sends the record. A hidden message returns first, and the relay is the fallback if it does not.
    pub(crate) fn due_at(self, now: EpochMs, visibility_timeout: Millis) -> EpochMs {
        let end = now.plus(self.length);
        if self.is_hidden { end.plus(visibility_timeout) } else { end }
    }

    /// Notes in the record until when nobody tries it again.
    pub(crate) fn note(self, now: EpochMs) -> Change {
        set(attribute::NOT_BEFORE, now.plus(self.length).0)
    }

    /// When the record is worked on again at the latest, as a rule.
    pub(crate) fn ends_at(self, now: EpochMs) -> EpochMs {
        let end = now.plus(self.length);
        // The relay runs every minute, so it sends the record two minutes after its due time, as a rule.
        if self.is_hidden { end } else { end.plus(Millis::minutes(2)) }
    }

    pub(crate) fn settled(self) -> Settled {
        if self.is_hidden { Settled::Retry(self.length) } else { Settled::Ack(Done::Deferred) }
    }
}

/// What becomes of a hint that comes before the pause of its record is over. `None` if it does not.
///
/// The relay sends a hint whenever a record falls due, so a record may have several. Each of them would otherwise try
/// the record at its own pace, and together they would use up all attempts within seconds. A copy is acknowledged: the
/// hint that the pause hid comes back, or the relay sends one. A hint that comes a little too early may be just that
/// one, by another clock, so it is hidden for the rest.
pub(crate) fn early(record: &Record, timing: &Timing, moment: Moment) -> Option<Settled> {
    let left = Millis(record.not_before?.0.saturating_sub(moment.now.0));
    if left <= Millis(0) {
        None
    } else if left <= timing.clock_skew_max {
        Some(Settled::Retry(left))
    } else {
        Some(Settled::Ack(Done::Deferred))
    }
}
