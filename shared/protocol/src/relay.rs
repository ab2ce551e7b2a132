//! The relay: the only part that sends hints again.
//!
//! A run samples the journal for the arrival rate, queries every shard of the index for due records, and sends within
//! its budget, oldest first. It sends a hint only after a conditional write has moved the record's due time into the
//! future. A crash in between costs one interval and never causes a loop.

use crate::call::{Call, DueEntry, Machine, Reply, Signal, Step, Unavailable, Written};
use crate::item::Value;
use crate::key::RecordKey;
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{Found, Guard, Record, Status, attribute, equals, set};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Change, Clause, Condition, Table, Write};

/// The most index entries that one run reads from one shard.
pub const SHARD_PAGE: usize = 100;

/// The span of the journal that is sampled for the arrival rate.
pub const SAMPLE_SPAN: Millis = Millis::seconds(60);

/// How soon a record is due again after its send failed.
pub const FAILED_SEND_PAUSE: Millis = Millis::seconds(30);

/// How many messages the relay may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The rate that is always allowed, in sends per second.
    pub sends_per_second_min: u64,
    /// The share of the arrival rate that is allowed if that is more, in percent.
    pub arrivals_percent: u64,
    /// How long the budget of one run must last: the period of the schedule.
    pub period: Millis,
}

impl Budget {
    /// The default values: 10 sends per second or 20 % of arrivals, whichever is more, once a minute.
    pub const fn standard() -> Self {
        Self { sends_per_second_min: 10, arrivals_percent: 20, period: Millis::seconds(60) }
    }

    /// How many messages one run may send. `sampled` is the number of arrivals in one of `shards` shards within
    /// [`SAMPLE_SPAN`].
    pub fn sends_max(&self, sampled: u64, shards: u16) -> usize {
        let seconds = u64::try_from(self.period.as_seconds()).unwrap_or(0).max(1);
        let arrivals = sampled.saturating_mul(u64::from(shards)).saturating_mul(seconds) / 60;
        let granted = (arrivals.saturating_mul(self.arrivals_percent) / 100).max(self.sends_per_second_min * seconds);
        usize::try_from(granted).unwrap_or(usize::MAX)
    }
}

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Report {
    /// Due entries found.
    pub due: usize,
    /// Records whose due time this run moved.
    pub rearmed: usize,
    /// Messages that the queue confirmed.
    pub sent: usize,
    /// Messages that the queue did not confirm.
    pub failed: usize,
    /// How long the oldest entry has been due.
    pub oldest_age: Option<Millis>,
    /// The highest number of sends among due records without a handler failure. It shows whether anyone processes what
    /// is sent.
    pub untried_resends: i64,
    /// Shards whose query failed.
    pub shards_unavailable: usize,
    /// More is due than this run looked at, and budget is left, so another run can follow at once.
    pub more: bool,
}

impl Report {
    /// Adds a later run of the same period.
    pub fn add(&mut self, later: &Self) {
        self.due += later.due;
        self.rearmed += later.rearmed;
        self.sent += later.sent;
        self.failed += later.failed;
        self.oldest_age = self.oldest_age.max(later.oldest_age);
        self.untried_resends = self.untried_resends.max(later.untried_resends);
        self.shards_unavailable = self.shards_unavailable.max(later.shards_unavailable);
        self.more = later.more;
    }
}

/// The machine for one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relay {
    timing: Timing,
    budget: Budget,
    spent: usize,
    state: State,
    report: Report,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Sampling,
    Querying { shard: u16, sends_max: usize, entries: Vec<DueEntry> },
    Reading { entries: Vec<DueEntry> },
    Rearming { rearms: Vec<Rearm> },
    Sending { rearms: Vec<Rearm> },
    Repairing,
}

/// One record's new due time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rearm {
    key: RecordKey,
    guard: Guard,
    due_at: EpochMs,
}

impl Relay {
    /// Starts a run. `spent` messages were already sent in this period.
    pub fn start(timing: Timing, budget: Budget, spent: usize, moment: Moment) -> Step<Self, Report> {
        let shard = u16::try_from(moment.entropy % u64::from(timing.shards.max(1))).unwrap_or(0);
        let from = EpochMs(moment.now.0.saturating_sub(SAMPLE_SPAN.0));
        let relay = Self { timing, budget, spent, state: State::Sampling, report: Report::default() };
        Step::call(relay, Call::CountReceived { shard, from, until: moment.now })
    }

    fn call(mut self, state: State, call: Call) -> Step<Self, Report> {
        self.state = state;
        Step::call(self, call)
    }

    fn query(self, shard: u16, sends_max: usize, entries: Vec<DueEntry>, moment: Moment) -> Step<Self, Report> {
        if shard >= self.timing.shards {
            return self.select(sends_max, entries, moment);
        }
        let call = Call::QueryDue { shard, until: moment.now, limit: SHARD_PAGE };
        self.call(State::Querying { shard, sends_max, entries }, call)
    }

    fn queried(
        mut self,
        due: Result<Vec<DueEntry>, Unavailable>,
        shard: u16,
        sends_max: usize,
        mut entries: Vec<DueEntry>,
        moment: Moment,
    ) -> Step<Self, Report> {
        match due {
            Ok(found) => {
                self.report.more |= found.len() >= SHARD_PAGE; // `select` also checks the budget.
                entries.extend(found);
            }
            Err(Unavailable) => self.report.shards_unavailable += 1,
        }
        self.query(shard + 1, sends_max, entries, moment)
    }

    fn select(mut self, sends_max: usize, mut entries: Vec<DueEntry>, moment: Moment) -> Step<Self, Report> {
        entries.sort_by(|a, b| (a.due_at, &a.key).cmp(&(b.due_at, &b.key)));
        self.report.due = entries.len();
        self.report.oldest_age = entries.first().map(|entry| Millis(moment.now.0.saturating_sub(entry.due_at.0)));
        self.report.more &= entries.len() < sends_max;
        entries.truncate(sends_max);
        if entries.is_empty() {
            return Step::done(self.report);
        }
        let keys = entries.iter().map(|entry| entry.key.clone()).collect();
        self.call(State::Reading { entries }, Call::ReadHeads(keys))
    }

    /// The index may be stale and contains only keys, so this reads each record to learn how often it was sent.
    fn rearm(
        mut self,
        entries: &[DueEntry],
        found: Vec<Result<Found, Unavailable>>,
        moment: Moment,
    ) -> Step<Self, Report> {
        let mut unknown_version = false;
        let mut rearms = Vec::new();
        let mut writes = Vec::new();
        for (entry, found) in entries.iter().zip(found) {
            match found {
                Ok(Found::Record(record)) if record.status == Status::Pending => {
                    if record.attempts == 0 {
                        self.report.untried_resends = self.report.untried_resends.max(record.resends);
                    }
                    let interval =
                        moment_for(&record.key, moment).stretched(self.timing.resend_interval(record.resends));
                    let due_at = moment.now.plus(interval);
                    writes.push(rearm_write(&record, entry.due_at, due_at, &self.timing, moment));
                    rearms.push(Rearm { key: record.key.clone(), guard: record.guard(), due_at });
                }
                Ok(Found::Unreadable(_)) => unknown_version = true,
                Ok(Found::Record(_) | Found::Nothing) | Err(Unavailable) => {}
            }
        }
        let step = if writes.is_empty() {
            Step::done(self.report)
        } else {
            self.call(State::Rearming { rearms }, Call::WriteEach(writes))
        };
        if unknown_version { step.signal(Signal::UnknownVersion) } else { step }
    }

    fn send(mut self, rearms: Vec<Rearm>, written: &[Written]) -> Step<Self, Report> {
        let won = |(rearm, written): (Rearm, &Written)| (*written == Written::Applied).then_some(rearm);
        let rearms: Vec<_> = rearms.into_iter().zip(written).filter_map(won).collect();
        self.report.rearmed = rearms.len();
        if rearms.is_empty() {
            return Step::done(self.report);
        }
        let messages = rearms.iter().map(|rearm| Message::Ref { pk: rearm.key.clone() }).collect();
        self.call(State::Sending { rearms }, Call::SendEach(messages))
    }

    fn sent(mut self, rearms: &[Rearm], sent: &[Result<(), Unavailable>], moment: Moment) -> Step<Self, Report> {
        let failed: Vec<_> = rearms.iter().zip(sent).filter(|(_, sent)| sent.is_err()).collect();
        self.report.failed = failed.len();
        self.report.sent = rearms.len() - failed.len();
        if failed.is_empty() {
            return Step::done(self.report);
        }
        let soon = moment.now.plus(FAILED_SEND_PAUSE);
        let writes = failed.into_iter().map(|(rearm, _)| repair_write(rearm, soon)).collect();
        self.call(State::Repairing, Call::WriteEach(writes))
    }
}

/// Gives each record a different stretch from one random draw, so that records that were due together spread out.
fn moment_for(key: &RecordKey, moment: Moment) -> Moment {
    let mixed = moment.entropy.wrapping_add(u64::from(key.shard(u16::MAX)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Moment { entropy: mixed ^ (mixed >> 29), ..moment }
}

/// Moves the due time into the future, counts the coming send and renews the TTL. All before anything is sent.
pub fn rearm_write(record: &Record, observed: EpochMs, due_at: EpochMs, timing: &Timing, moment: Moment) -> Write {
    Write {
        purpose: Purpose::Rearm,
        table: Table::Inbox,
        key: record.key.as_str().to_owned(),
        action: Action::Update(vec![
            set(attribute::DUE_AT, due_at.0),
            Change::Set(attribute::RESENDS.into(), Value::from(record.resends + 1)),
            set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), moment.now).0),
        ]),
        condition: Condition(vec![pending(), equals(attribute::DUE_AT, observed.0)]),
    }
}

fn repair_write(rearm: &Rearm, soon: EpochMs) -> Write {
    Write {
        purpose: Purpose::RepairDueTime,
        table: Table::Inbox,
        key: rearm.key.as_str().to_owned(),
        action: Action::Update(vec![set(attribute::DUE_AT, soon.0)]),
        condition: rearm.guard.condition([equals(attribute::DUE_AT, rearm.due_at.0)]),
    }
}

fn pending() -> Clause {
    equals(attribute::STATUS, Status::Pending.as_str())
}

impl Machine for Relay {
    type Output = Report;

    fn step(mut self, reply: Reply, moment: Moment) -> Step<Self, Report> {
        let state = std::mem::replace(&mut self.state, State::Sampling);
        match state {
            State::Sampling => {
                let granted = self.budget.sends_max(reply.counted().unwrap_or(0), self.timing.shards);
                let sends_max = granted.saturating_sub(self.spent);
                self.query(0, sends_max, Vec::new(), moment)
            }
            State::Querying { shard, sends_max, entries } => {
                self.queried(reply.due(), shard, sends_max, entries, moment)
            }
            State::Reading { entries } => {
                let found = reply.read_heads(entries.len());
                self.rearm(&entries, found, moment)
            }
            State::Rearming { rearms } => {
                let written = reply.written_each(rearms.len());
                self.send(rearms, &written)
            }
            State::Sending { rearms } => {
                let sent = reply.sent_each(rearms.len());
                self.sent(&rearms, &sent, moment)
            }
            State::Repairing => Step::done(self.report),
        }
    }
}
