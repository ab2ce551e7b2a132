//! The relay's policy under an outage of the workers: does it make the backlog worse?
//!
//! A simulation of rates, not of faults: deliveries keep coming, nothing is worked on for a while, and the relay
//! re-sends what falls due within the protocol's own schedule ([`Timing::resend_interval`]) and budget ([`Budget`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hookonce_protocol::relay::Budget;
use hookonce_protocol::timing::Timing;

/// Events that the workers can apply per second.
pub const CAPACITY: u64 = 150;
/// Deliveries per second at a load of 67 %. The spare capacity needs twice the outage for what arrived meanwhile.
pub const ARRIVALS: u64 = 100;
/// Deliveries per second at a load of 60 %. There it needs one and a half times the outage.
pub const FEWER_ARRIVALS: u64 = 90;
/// What a hint for a settled record costs, in tenths of an event.
const DUPLICATE_TENTHS: u64 = 2;
/// Between two runs of the relay, in seconds.
const PERIOD: u64 = 60;

/// The result of an outage.
#[derive(Debug, Clone, Copy)]
pub struct AfterOutage {
    /// Sends for each record that arrived until the backlog was gone.
    pub sends_per_record: f64,
    /// The longest queue.
    pub peak: usize,
    /// How long after its end the backlog was gone, in seconds; `None` if it was not within six outages.
    pub drained: Option<u64>,
    outage: u64,
    arrivals: u64,
}

impl AfterOutage {
    /// How much longer the drain took than without a single duplicate.
    pub fn stretch(&self) -> f64 {
        self.drained_over(self.outage * self.arrivals / (CAPACITY - self.arrivals))
    }

    /// How many outages the drain took.
    pub fn outages(&self) -> f64 {
        self.drained_over(self.outage)
    }

    fn drained_over(&self, seconds: u64) -> f64 {
        self.drained.map_or(f64::INFINITY, |drained| ratio(drained, seconds))
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    f64::from(u32::try_from(a).unwrap_or(u32::MAX)) / f64::from(u32::try_from(b.max(1)).unwrap_or(u32::MAX))
}

#[derive(Default)]
struct Backlog {
    done: Vec<bool>,
    resends: Vec<u8>,
    queue: VecDeque<u32>,
    /// Records by when they fall due, in seconds.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    sends: u64,
}

impl Backlog {
    fn arrive(&mut self, arrivals: u64, now: u64, first_resend: u64) {
        for _ in 0..arrivals {
            let record = u32::try_from(self.done.len()).expect("fewer than 2^32 records");
            self.done.push(false);
            self.resends.push(0);
            self.queue.push_back(record);
            self.due.push(Reverse((now + first_resend, record)));
            self.sends += 1;
        }
    }

    fn work(&mut self, credit: &mut u64) {
        while let Some(record) = self.queue.front().map(|record| *record as usize) {
            let cost = if self.done[record] { DUPLICATE_TENTHS } else { 10 };
            if *credit < cost {
                return;
            }
            *credit -= cost;
            self.done[record] = true;
            self.queue.pop_front();
        }
        *credit = 0; // An idle second cannot be saved.
    }

    fn relay(&mut self, now: u64, timing: &Timing, budget: usize) {
        let mut left = budget;
        while left > 0 && self.due.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, record))) = self.due.pop() else { return };
            if self.done[record as usize] {
                continue;
            }
            let interval = timing.resend_interval(i64::from(self.resends[record as usize])).as_seconds();
            self.resends[record as usize] += 1;
            self.due.push(Reverse((now + u64::try_from(interval).unwrap_or(0), record)));
            self.queue.push_back(record);
            self.sends += 1;
            left -= 1;
        }
    }
}

/// Simulates an outage of the workers, in seconds, while this many deliveries arrive per second. Without a budget, the
/// relay sends everything that is due.
pub fn after_outage(outage: u64, arrivals: u64, budget: Option<Budget>) -> AfterOutage {
    let timing = Timing::standard();
    let first_resend = u64::try_from(timing.first_resend.as_seconds()).unwrap_or(0);
    let granted = budget.map_or(usize::MAX, |budget| budget.sends_max(arrivals * PERIOD));
    let mut backlog = Backlog::default();
    let (mut peak, mut credit, mut drained) = (0, 0, None);
    for now in 0..outage * 6 {
        backlog.arrive(arrivals, now, first_resend);
        if now.is_multiple_of(PERIOD) {
            backlog.relay(now, &timing, granted);
        }
        if now >= outage {
            credit += CAPACITY * 10;
            backlog.work(&mut credit);
            if backlog.queue.is_empty() {
                drained = Some(now - outage);
                break;
            }
        }
        peak = peak.max(backlog.queue.len());
    }
    let records = u64::try_from(backlog.done.len()).unwrap_or(u64::MAX);
    AfterOutage { sends_per_record: ratio(backlog.sends, records), peak, drained, outage, arrivals }
}
