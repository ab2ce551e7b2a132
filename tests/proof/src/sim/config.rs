//! The configuration of a day, drawn from its seed.

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;

use super::callee::CalleeRates;
use super::destination::{Conditions, DESTINATIONS, Edit, Edited};
use super::fault::{Outage, Rates, Side, SimFault};
use super::restore::Rewind;
use super::rng::Rng;

/// The length of a day, in milliseconds.
pub const DAY: i64 = 86_400_000;

/// A minute, in milliseconds.
pub const MINUTE: i64 = 60_000;

/// An hour, in milliseconds.
pub const HOUR: i64 = 60 * MINUTE;

/// An endpoint's choices.
#[derive(Debug, Clone, Copy)]
pub struct Choices {
    /// While the store is down.
    pub on_store_outage: OnStoreOutage,
    /// When an id comes with another body.
    pub on_body_mismatch: OnBodyMismatch,
    /// When the provider begins to sign with the next secret, in milliseconds of the day.
    pub rotates_at: i64,
}

/// A day's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The durations; they satisfy every inequality of the start-up check.
    pub timing: Timing,
    /// One entry per provider.
    pub endpoints: [Choices; 4],
    /// How many deliveries there are, in days that draw their own.
    pub deliveries: usize,
    /// How often calls go wrong.
    pub rates: Rates,
    /// Spans in which a side refuses everything.
    pub outages: Vec<Outage>,
    /// Receives after which a message goes to the dead-letter queue.
    pub receives_max: Option<u32>,
    /// Messages in one batch.
    pub batch_max: usize,
    /// Batches that run at once.
    pub workers: usize,
    /// How far behind the index may be, in milliseconds.
    pub index_lag_max: i64,
    /// How long an entry may stay in the index after its record left it, in milliseconds.
    pub lingers: i64,
    /// How far a clock may be off the true time, in milliseconds.
    pub clock_off_max: i64,
    /// Deliveries for which an instance of the webhook function starts, in ten thousand. It reads the endpoint's
    /// document first, from a table, and answers 503 if that fails.
    pub cold_starts: u32,
    /// From when to when both releases run, in milliseconds of the day; the next one only, from then on.
    pub rollout: Option<(i64, i64)>,
    /// From when to when no route wants any event, in milliseconds of the day.
    pub unrouted: Option<(i64, i64)>,
    /// Whether plans have effects, and events are forwarded.
    pub effects: bool,
    /// Calls that a handler in another language does not take, in ten thousand. On a day with effects it plans the
    /// events of some endpoints; `None` without it.
    pub remote_busy: Option<u32>,
    /// Processes that find this handler slow, in ten thousand.
    pub remote_slow: u32,
    /// What the documents of the destinations say.
    pub conditions: Conditions,
    /// How those documents are edited.
    pub edits: Vec<Edit>,
    /// How the third parties answer.
    pub callee_rates: CalleeRates,
    /// Calls of the dispatcher after which its process sleeps for longer than it may live, in ten thousand.
    pub freezes: u32,
    /// Between two actions of the operator, in milliseconds, on average. `None` without an operator.
    pub operator_every: Option<i64>,
    /// How many records an operator acts on at once, each several times.
    pub operators: usize,
    /// Writes to a record just before which others interfere, in ten thousand.
    pub interference: u32,
    /// Between two sweeps of the TTL, in milliseconds.
    pub sweep_every: i64,
    /// Expired items that a sweep removes, in ten thousand.
    pub swept: u32,
    /// From when to when the relay does not run, in milliseconds of the day.
    pub relay_down: Option<(i64, i64)>,
    /// From when to when no worker is started, in milliseconds of the day. The relay goes on.
    pub worker_paused: Option<(i64, i64)>,
    /// From when to when no dispatcher is started, in milliseconds of the day.
    pub dispatcher_paused: Option<(i64, i64)>,
    /// Until when the handler fails for the facts of [`LATER`](super::handler::LATER), in milliseconds of the day.
    pub fails_until: i64,
    /// From when to when no dead letters are consumed, in milliseconds of the day.
    pub dead_letters_kept: Option<(i64, i64)>,
    /// At the end, they go back to the queue.
    pub redriven: bool,
    /// A table that is restored.
    pub rewind: Option<Rewind>,
    /// Writes of the relay before which its process stands still for longer than a record is kept, in ten thousand.
    pub stalls: u32,
    /// Calls that take seconds, in ten thousand.
    pub slow: u32,
    /// All deliveries arrive within this many milliseconds.
    pub span: i64,
    /// Messages that are lost, received twice, or stay although they were deleted, each in ten thousand.
    pub queue_trouble: u32,
    /// Answers to several requests at once that leave one out, in ten thousand.
    pub partial: u32,
    /// Runs of a handler that fail, in ten thousand.
    pub handler_fails: u32,
    /// Every call takes the same time, and every choice is the first: for scripts.
    pub steady: bool,
    /// When the faults end, in milliseconds.
    pub length: i64,
}

impl Config {
    /// A day on which nothing goes wrong by itself.
    pub fn calm() -> Self {
        let choices = Choices {
            on_store_outage: OnStoreOutage::Reject,
            on_body_mismatch: OnBodyMismatch::Duplicate,
            rotates_at: i64::MAX,
        };
        Self {
            timing: Timing { shards: 1, ..Timing::standard() },
            endpoints: [choices; 4],
            deliveries: 0,
            rates: Rates::default(),
            outages: Vec::new(),
            receives_max: Some(100),
            batch_max: 10,
            workers: 2,
            index_lag_max: 0,
            lingers: 0,
            clock_off_max: 0,
            cold_starts: 0,
            rollout: None,
            unrouted: None,
            effects: false,
            remote_busy: None,
            remote_slow: 0,
            conditions: Conditions::CALM,
            edits: Vec::new(),
            callee_rates: CalleeRates::default(),
            freezes: 0,
            operator_every: None,
            operators: 1,
            interference: 0,
            sweep_every: HOUR,
            swept: 10_000,
            relay_down: None,
            worker_paused: None,
            dispatcher_paused: None,
            fails_until: 0,
            dead_letters_kept: None,
            redriven: false,
            rewind: None,
            stalls: 0,
            slow: 0,
            span: MINUTE,
            queue_trouble: 0,
            partial: 0,
            handler_fails: 0,
            steady: true,
            length: MINUTE,
        }
    }

    /// The day of a seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let timing = draw_timing(rng);
        let choices = |rng: &mut Rng| Choices {
            on_store_outage: rng.pick(&[OnStoreOutage::Reject, OnStoreOutage::Enqueue]),
            on_body_mismatch: rng.pick(&[OnBodyMismatch::Duplicate, OnBodyMismatch::Quarantine]),
            rotates_at: if rng.chance(3_000) { rng.between(0, DAY) } else { i64::MAX },
        };
        let from = rng.between(0, DAY);
        let many = rng.chance(400);
        let mut day = Self {
            timing,
            endpoints: std::array::from_fn(|_| choices(rng)),
            deliveries: 50 + rng.below(if many { 451 } else { 41 }),
            rates: draw_rates(rng),
            outages: draw_outages(rng),
            receives_max: Some(rng.pick(&[1, 2, 4, 8, 20, 100])),
            batch_max: rng.pick(&[1, 3, 10]),
            workers: rng.pick(&[1, 2, 5]),
            index_lag_max: rng.pick(&[0, 2_000, 120_000]),
            clock_off_max: if rng.chance(5_000) { timing.clock_skew_max.0 / 2 } else { 0 },
            cold_starts: 0,
            rollout: rng.chance(2_500).then(|| (from, from + rng.between(MINUTE, HOUR))),
            unrouted: rng.chance(1_500).then(|| (from, from + rng.between(MINUTE, 2 * HOUR))),
            effects: rng.chance(7_500),
            remote_busy: draw_remote(rng),
            remote_slow: rng.pick(&[0, 0, 2_000, 9_000]),
            conditions: Conditions::draw(rng),
            edits: draw_edits(rng),
            callee_rates: draw_callee_rates(rng),
            freezes: rng.pick(&[0, 0, 0, 500]),
            operator_every: rng.chance(6_000).then(|| rng.between(10 * MINUTE, 2 * HOUR)),
            sweep_every: rng.between(MINUTE, HOUR),
            redriven: rng.chance(5_000),
            slow: 30,
            span: DAY - MINUTE,
            queue_trouble: rng.pick(&[0, 100, 500]),
            partial: rng.pick(&[0, 0, 300]),
            handler_fails: rng.pick(&[0, 200, 1_500]),
            steady: false,
            length: DAY,
            lingers: 0,
            operators: 1,
            interference: 0,
            swept: 10_000,
            relay_down: None,
            worker_paused: draw_pause(rng, &timing),
            dispatcher_paused: draw_pause(rng, &timing),
            fails_until: 0,
            dead_letters_kept: None,
            rewind: None,
            stalls: 0,
        };
        if rng.chance(1_500) {
            day.crowd(rng);
        }
        if timing.delivery_retention.0 < DAY && rng.chance(2_000) {
            day.stretch(rng);
        }
        day
    }

    /// Everything arrives within minutes, slowly and several times, and operators act on it, so that actions collide.
    fn crowd(&mut self, rng: &mut Rng) {
        self.span = rng.between(10 * MINUTE, HOUR);
        self.length = self.span + 2 * HOUR;
        self.operator_every = Some(rng.between(15_000, 3 * MINUTE));
        self.operators = 1 + rng.below(3);
        self.interference = rng.pick(&[0, 100, 1_000]);
        self.queue_trouble = rng.pick(&[500, 2_000]);
        self.slow = rng.pick(&[300, 2_000]);
        self.handler_fails = rng.pick(&[1_500, 4_000]);
        self.timing.attempts_max = rng.pick(&[1, 1, 2, self.timing.attempts_max]);
        self.receives_max = Some(rng.pick(&[1, 2, 4]));
        for outage in &mut self.outages {
            outage.from %= self.span;
            outage.until = outage.from + rng.between(1_000, 20 * MINUTE);
        }
        for edit in &mut self.edits {
            edit.from %= self.span;
        }
        if self.rollout.is_some() {
            self.rollout = Some((self.span / 2, self.span / 2 + 30 * MINUTE));
        }
    }

    /// Things wait until a horizon is over: the index, dead letters, one run of the relay, all of them.
    fn stretch(&mut self, rng: &mut Rng) {
        let from = rng.between(0, self.span / 2);
        let horizon = self.timing.delivery_retention.0;
        self.operator_every = Some(rng.between(MINUTE, 20 * MINUTE));
        self.interference = rng.pick(&[0, 1_000]);
        match rng.below(10) {
            0..2 => self.lingers = 2 * horizon,
            2..4 => {
                self.dead_letters_kept = Some((from, from + rng.between(horizon / 2, 2 * horizon)));
                self.receives_max = Some(1);
                self.queue_trouble = 2_000;
                let down = from + rng.between(0, horizon / 2);
                self.outages.push(Outage { side: Side::Store, from: down, until: down + 20 * MINUTE });
                self.endpoints.iter_mut().for_each(|one| one.on_store_outage = OnStoreOutage::Enqueue);
            }
            4..7 => {
                // What waits in the dead-letter queue comes back older than anything may be, and the TTL is near.
                let until = from + self.timing.commit_age_max.0 + rng.between(horizon / 2, horizon);
                self.relay_down = Some((from, until));
                self.dead_letters_kept = Some((from, until));
                self.redriven = true;
                self.receives_max = Some(1);
                self.handler_fails = 4_000;
                self.interference = 3_000;
                self.swept = 50;
            }
            7 => {
                // One relay run pauses between its re-arm and its repair; the others do its work meanwhile.
                self.outages.push(Outage { side: Side::Queue, from, until: from + 20 * MINUTE });
                self.partial = 3_000;
                self.stalls = 1_000;
            }
            _ => {
                let until = from + rng.between(horizon, 2 * horizon);
                self.relay_down = Some((from, until));
                self.outages.push(Outage { side: Side::Queue, from: until, until: until + 20 * MINUTE });
                self.queue_trouble = 3_000;
                self.slow = 2_000;
                self.sweep_every = 5_000;
                self.swept = 50;
            }
        }
    }
}

fn draw_rates(rng: &mut Rng) -> Rates {
    let rate = |most: i64| u32::try_from(if rng.chance(6_000) { rng.between(0, most) } else { 0 }).unwrap_or(0);
    let [refused, reply_lost, late, crash, conflict, repeated, invalid] = [400, 400, 300, 500, 400, 400, 100].map(rate);
    [
        (refused, &[SimFault::Refused]),
        (reply_lost, &[SimFault::ReplyLost]),
        (late, &[SimFault::Late]),
        (repeated, &[SimFault::Repeated]),
        (invalid, &[SimFault::Invalid]),
        (crash, &[SimFault::CrashBefore, SimFault::CrashAfter, SimFault::CrashDuring]),
        (conflict, &[SimFault::Conflict]),
    ]
}

fn draw_outages(rng: &mut Rng) -> Vec<Outage> {
    let count = rng.below(3);
    let outage = |_| {
        let from = rng.between(0, DAY);
        Outage {
            side: rng.pick(&[Side::Store, Side::Store, Side::Queue]),
            from,
            until: from + rng.between(1_000, 40 * MINUTE),
        }
    };
    let mut outages: Vec<_> = (0..count).map(outage).collect();
    if rng.chance(4_000) {
        let from = rng.between(0, DAY);
        let side = rng.pick(&[Side::Callee, Side::Callee, Side::Documents]);
        outages.push(Outage { side, from, until: from + rng.between(MINUTE, 8 * HOUR) });
    }
    if rng.chance(4_000) {
        let from = rng.between(0, DAY);
        outages.push(Outage { side: Side::Handler, from, until: from + rng.between(MINUTE, 12 * HOUR) });
    }
    outages
}

/// Somebody pauses a function for minutes or hours, and resumes it long before the queue forgets a message: one that
/// carries its payload is the only copy.
fn draw_pause(rng: &mut Rng, timing: &Timing) -> Option<(i64, i64)> {
    let (from, longest) = (rng.between(0, DAY), (timing.queue_retention.0 / 2).min(10 * HOUR));
    rng.chance(1_000).then(|| (from, from + rng.between(10 * MINUTE, longest)))
}

fn draw_edits(rng: &mut Rng) -> Vec<Edit> {
    let count = rng.pick(&[0, 0, 1, 3]);
    let edit = |_| {
        let from = rng.between(0, DAY);
        let edited =
            rng.pick(&[Edited::Gone, Edited::Faulty, Edited::Moved, Edited::Reclassed(1), Edited::Reclassed(2)]);
        let until = if rng.chance(5_000) { i64::MAX } else { from + rng.between(MINUTE, 6 * HOUR) };
        Edit { destination: rng.below(DESTINATIONS.len()), from, until, edited }
    };
    (0..count).map(edit).collect()
}

fn draw_remote(rng: &mut Rng) -> Option<u32> {
    let (there, refuses) = (rng.chance(5_000), rng.pick(&[0, 200, 2_000]));
    there.then_some(refuses)
}

fn draw_callee_rates(rng: &mut Rng) -> CalleeRates {
    let mut rate = |choices: &[u32]| rng.pick(choices);
    CalleeRates {
        fails_before: rate(&[0, 300, 5_000]),
        fails_after: rate(&[0, 300, 2_500]),
        busy: rate(&[0, 300, 2_000]),
        refuses: rate(&[0, 200, 1_000]),
        vague: rate(&[0, 0, 300]),
    }
}

/// Durations within the start-up inequalities: those the project ships with, or ones under which every horizon lies
/// within the day.
fn draw_timing(rng: &mut Rng) -> Timing {
    let shards = rng.pick(&[1, 2, 4]);
    let standard = Timing {
        shards,
        attempts_max: rng.between(2, 12),
        backoff_base: Millis(rng.between(500, 20_000)),
        backoff_cap: Millis(rng.between(60_000, 6 * HOUR)),
        first_resend: Millis(rng.between(62_500, 300_000)),
        resend_interval_max: Millis(rng.between(300_000, 6 * HOUR)),
        uncounted_wait_max: Millis(rng.pick(&[10 * MINUTE, 2 * HOUR, 24 * HOUR])),
        ..Timing::standard()
    };
    if rng.chance(5_000) {
        return standard;
    }
    let provider_window = rng.between(HOUR, 2 * HOUR);
    let queue_retention = 2 * HOUR;
    let accept_age_max = queue_retention + rng.between(MINUTE, HOUR);
    let delivery_retention = provider_window.max(accept_age_max) + rng.between(5 * MINUTE, HOUR);
    let commit_age_max = rng.between(2 * HOUR, 6 * HOUR);
    let effect_retention = provider_window + commit_age_max + rng.between(MINUTE, HOUR);
    let resend_interval_max = rng.between(60_000, delivery_retention / 96 - 1);
    let key_margin = rng.between(2 * MINUTE, 30 * MINUTE);
    let uncounted_wait_max = rng.between(MINUTE, delivery_retention / standard.attempts_max - 1);
    let effects_visibility_timeout = rng.between(288_000, 400_000);
    let backoff_cap = rng.between(20_000, 20 * MINUTE);
    let pause = (backoff_cap + effects_visibility_timeout).max(resend_interval_max);
    Timing {
        clock_skew_max: Millis(5_000),
        zombie_age_max: Millis(MINUTE),
        provider_window: Millis(provider_window),
        worker_timeout: Millis(10_000),
        visibility_timeout: Millis(rng.between(60_000, 120_000)),
        queue_retention: Millis(queue_retention),
        dead_letter_retention: Millis(12 * HOUR),
        first_resend: Millis(rng.between(12_500, 60_000)),
        resend_interval_max: Millis(resend_interval_max),
        accept_age_max: Millis(accept_age_max),
        commit_age_max: Millis(commit_age_max),
        delivery_retention: Millis(delivery_retention),
        effect_retention: Millis(effect_retention),
        uncounted_wait_max: Millis(uncounted_wait_max),
        dispatcher_timeout: Millis(48_000),
        effects_visibility_timeout: Millis(effects_visibility_timeout),
        key_margin: Millis(key_margin),
        effect_age_max: Millis(rng.between(key_margin + 1, effect_retention - pause - pause / 4 - 10_001)),
        backoff_cap: Millis(backoff_cap),
        ..standard
    }
}
