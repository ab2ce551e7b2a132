//! Maintenance: relay runs and dead letters.

use futures::stream::{FuturesUnordered, StreamExt as _};
use hookonce_protocol::call::{Machine, Signal, Step};
use hookonce_protocol::dead_letter::{self, DeadLetter};
use hookonce_protocol::message::{Message, MessageError};
use hookonce_protocol::relay::{Budget, CHUNK_MAX, Limits, Run, RunReport};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use tracing::Instrument as _;

use crate::ambient::Ambient;
use crate::inbox::drive::{Driven, StoreAndQueue, WRITES_IN_FLIGHT_MAX, drive, drive_with};
use crate::inbox::message_key::MessageKeys;
use crate::inbox::process::span;
use crate::port::{Queue, READ_ROUNDS_MAX, Store};

/// The most shards that are read at once.
pub const SCANS_IN_FLIGHT_MAX: usize = 32;

/// The most chunks of one list that are under way at once. So many can at most be re-armed when a queue fails.
pub const CHUNKS_IN_FLIGHT_MAX: usize = 4;

/// How a run hands out its next machine.
type Next<M> = fn(&mut Run, Moment) -> Option<Step<M, <M as Machine>::Output>>;

/// What one run of the relay did.
#[derive(Debug)]
pub struct Runs {
    /// To deliveries, events and envelopes that do not wait. It counts what is DEAD of every kind.
    pub events: Driven<RunReport>,
    /// To events that wait without counting.
    pub waiting: Driven<RunReport>,
    /// To effects.
    pub effects: Driven<RunReport>,
}

/// The parts that the relay needs.
#[derive(Debug)]
pub struct RelayParts<S, Q, A> {
    /// The tables.
    pub store: S,
    /// The queue.
    pub queue: Q,
    /// What verifies dead letters with a payload.
    pub keys: MessageKeys,
    /// Time and randomness.
    pub ambient: A,
    /// The protocol's durations.
    pub timing: Timing,
    /// How much the relay may send.
    pub budget: Budget,
    /// How long one call to the store or the queue takes at most, retries included.
    pub call_max: Millis,
}

impl<S: Store, Q: Queue, A: Ambient> RelayParts<S, Q, A> {
    /// Sends due records within the budget of one period, counts the DEAD ones, and ends before the deadline.
    ///
    /// Events, events that wait and effects have a budget each, and are sent side by side: a backlog of one leaves the
    /// others their time. An unavailable handler holds up no event of another, and an unavailable destination no event
    /// at all.
    pub async fn run(&self, deadline: EpochMs) -> Runs {
        let (limits, moment) = (self.limits(deadline), self.ambient.moment());
        let events = Run::new(self.timing, self.budget, limits, moment).looking_ahead();
        let waiting = Run::waiting(self.timing, self.budget, limits, moment).looking_ahead();
        let effects = Run::effects(self.timing, self.budget, limits, moment).looking_ahead();
        let (events, waiting, effects) = futures::join!(self.one(events), self.one(waiting), self.one(effects));
        Runs { events, waiting, effects }
    }

    async fn one(&self, mut run: Run) -> Driven<RunReport> {
        let signals = self.send_due(&mut run).await;
        self.side_by_side(&mut run, 1, Run::next_look, Run::ended).await;
        self.side_by_side(&mut run, SCANS_IN_FLIGHT_MAX, Run::next_dead_scan, Run::dead_scanned).await;
        Driven { output: run.report(), signals }
    }

    async fn send_due(&self, run: &mut Run) -> Vec<Signal> {
        let mut signals = Vec::new();
        loop {
            signals.extend(self.side_by_side(run, SCANS_IN_FLIGHT_MAX, Run::next_scan, Run::scanned).await);
            if let Some(first) = run.sample(self.ambient.moment()) {
                run.granted(drive(first, &self.remote(), &self.ambient).await.output);
            }
            signals.extend(self.side_by_side(run, CHUNKS_IN_FLIGHT_MAX, Run::next_chunk, Run::ended).await);
            if !run.turn_page() {
                return signals;
            }
        }
    }

    /// Drives machines as long as the run has another one, up to this many at once.
    async fn side_by_side<M: Machine>(
        &self,
        run: &mut Run,
        in_flight_max: usize,
        next: Next<M>,
        ended: fn(&mut Run, M::Output),
    ) -> Vec<Signal> {
        let (remote, mut signals) = (self.remote(), Vec::new());
        let mut in_flight = FuturesUnordered::new();
        loop {
            while in_flight.len() < in_flight_max
                && let Some(first) = next(run, self.ambient.moment())
            {
                in_flight.push(drive(first, &remote, &self.ambient));
            }
            let Some(driven) = in_flight.next().await else { return signals };
            signals.extend(driven.signals);
            ended(run, driven.output);
        }
    }

    fn limits(&self, deadline: EpochMs) -> Limits {
        // The most that a chunk makes one after the other: it reads, re-arms, sends and repairs.
        let calls = READ_ROUNDS_MAX + 2 * CHUNK_MAX.div_ceil(WRITES_IN_FLIGHT_MAX) + 1;
        let calls = i64::try_from(calls).unwrap_or(i64::MAX);
        Limits { deadline, scan_max: self.call_max, chunk_max: Millis(self.call_max.0.saturating_mul(calls)) }
    }

    /// Whether a dead letter that is taken now is settled before the deadline, however slow the store is.
    pub fn may_bury(&self, deadline: EpochMs) -> bool {
        // Four calls at most, one after the other: it reads the message key, claims, keeps another body, and settles the
        // record that won.
        self.ambient.moment().now.plus(Millis(self.call_max.0.saturating_mul(4))) <= deadline
    }

    /// Settles one dead letter, given when it was sent. Signals are told at once.
    pub async fn settle_dead_letter(
        &self,
        body: &str,
        sent_at: Option<EpochMs>,
        on_signal: &(impl Fn(&Signal) + Sync),
    ) -> Driven<dead_letter::DeadLetterOutcome> {
        let message = self.keys.decode(std::iter::once(body)).await.pop().unwrap_or(Err(MessageError::Malformed));
        let span = span(message.as_ref().ok().map(Message::record_key));
        let first = DeadLetter::start(message, sent_at, self.timing, self.ambient.moment());
        drive_with(first, &self.remote(), &self.ambient, on_signal).instrument(span).await
    }

    fn remote(&self) -> StoreAndQueue<'_, S, Q> {
        StoreAndQueue { store: &self.store, queue: &self.queue }
    }
}
