//! One run of the relay: which calls it may begin.

use std::collections::VecDeque;

use crate::call::{DueEntry, DuePage, DueQuery, DueState, Step, Unavailable};
use crate::relay::Budget;
use crate::relay::chunk::{CHUNK_MAX, Chunk, ChunkReport};
use crate::relay::sample::Sample;
use crate::relay::scan::{DEAD_PAGE, SHARD_PAGE, Scan, Scanned};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};

/// The most pages that one run reads of one shard. Up to that many pages of records of a newer release, which the relay
/// skips, hide no record behind them.
pub const PAGES_MAX: usize = 64;

/// How much time a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// When the process is ended.
    pub deadline: EpochMs,
    /// How long a scan takes at most.
    pub scan_max: Millis,
    /// How long a chunk takes at most, its repair included.
    pub chunk_max: Millis,
}

impl Limits {
    /// The time for so many scans one after the other, for a chunk, and for counting what is DEAD in the end: while the
    /// store is slow, people must see how much has died.
    fn scans_and_chunk(&self, scans: i64) -> Millis {
        Millis(self.scan_max.0.saturating_mul(scans.saturating_add(1)).saturating_add(self.chunk_max.0))
    }
}

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RunReport {
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
    /// The highest number of sends among the records that were never tried, of those that were due and of some of those
    /// that will be. It shows whether anyone processes what is sent.
    pub untried_resends: i64,
    /// How long the same records have waited at most for a handler or a table that is unavailable.
    pub unavailable_for: Option<Millis>,
    /// The most tries of a due record that failed.
    pub failed_tries: i64,
    /// Shards that were not read to their end, because the store did not answer or the time was over.
    pub shards_unavailable: usize,
    /// What is DEAD.
    pub dead: DeadReport,
}

/// The DEAD records of all shards: what waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DeadReport {
    /// How many were counted.
    pub records: usize,
    /// How long ago the oldest of them died.
    pub oldest_age: Option<Millis>,
    /// Shards with more than were counted.
    pub shards_capped: usize,
    /// Shards that were not read, because the store did not answer or the time was over.
    pub shards_unavailable: usize,
}

/// One run. It is a plan, not a machine: the driver asks for what may begin next, and reports what has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    timing: Timing,
    budget: Budget,
    limits: Limits,
    /// Pages to read now, and those that follow full ones.
    pages: VecDeque<DueQuery>,
    next_pages: VecDeque<DueQuery>,
    /// How many rounds of pages were read.
    rounds: usize,
    /// When it began. What falls due later is for another run.
    began: EpochMs,
    /// Records that were sent, and will be again.
    later: Vec<DueEntry>,
    /// Due records that no chunk has taken, oldest first.
    unsent: VecDeque<DueEntry>,
    /// The sends of this run; the least, until arrivals were sampled.
    granted: usize,
    sampled: bool,
    /// Sends that were made, or are left to the chunks under way.
    taken: usize,
    stalled: bool,
    /// Pages of DEAD records that are still to be counted.
    dead_pages: VecDeque<DueQuery>,
    report: RunReport,
}

impl Run {
    /// Begins a run over deliveries, events and envelopes that do not wait for a handler or a table. It reads what is
    /// due now: a record that it re-arms does not come up again.
    pub fn new(timing: Timing, budget: Budget, limits: Limits, moment: Moment) -> Self {
        let dead_pages = pages(DueState::Dead, DEAD_PAGE, &timing, moment);
        Self { dead_pages, ..Self::over(DueState::Pending, timing, budget, limits, moment) }
    }

    /// Begins a run over events that wait without counting, beside the first one, which counts what is DEAD. It has a
    /// budget of its own: a handler that is unavailable for a day holds up no event of another.
    pub fn waiting(timing: Timing, budget: Budget, limits: Limits, moment: Moment) -> Self {
        Self::over(DueState::Waiting, timing, budget, limits, moment).with_backlog()
    }

    /// Begins a run over effects, beside the others, likewise with a budget of its own.
    pub fn effects(timing: Timing, budget: Budget, limits: Limits, moment: Moment) -> Self {
        Self::over(DueState::Effect, timing, budget, limits, moment).with_backlog()
    }

    fn with_backlog(self) -> Self {
        Self { sampled: true, granted: self.budget.backlog_max(), ..self }
    }

    fn over(state: DueState, timing: Timing, budget: Budget, limits: Limits, moment: Moment) -> Self {
        Self {
            timing,
            budget,
            limits,
            pages: pages(state, SHARD_PAGE, &timing, moment),
            next_pages: VecDeque::new(),
            rounds: 1,
            began: moment.now,
            later: Vec::new(),
            unsent: VecDeque::new(),
            granted: budget.sends_max(0),
            sampled: false,
            taken: 0,
            stalled: false,
            dead_pages: VecDeque::new(),
            report: RunReport::default(),
        }
    }

    /// Lets each page go on with what is not due, up to its limit.
    #[must_use]
    pub fn looking_ahead(mut self) -> Self {
        for page in &mut self.pages {
            page.until = EpochMs(i64::MAX);
        }
        self
    }

    fn has_time(&self, moment: Moment, length: Millis) -> bool {
        moment.now.plus(length) <= self.limits.deadline
    }

    /// The next page of this round to read. Pages for which the time does not suffice count as unavailable.
    pub fn next_scan(&mut self, moment: Moment) -> Option<Step<Scan, Scanned>> {
        if !self.has_time(moment, self.limits.scans_and_chunk(1)) {
            self.report.shards_unavailable += self.pages.len();
            self.pages.clear();
        }
        self.pages.pop_front().map(Scan::start)
    }

    /// A page was read.
    pub fn scanned(&mut self, scanned: Scanned) {
        let next = scanned.next();
        let Ok(DuePage { mut entries, .. }) = scanned.page else {
            self.report.shards_unavailable += 1;
            return;
        };
        let later = entries.split_off(entries.partition_point(|entry| entry.due_at <= self.began));
        self.next_pages.extend(next.filter(|_| later.is_empty()));
        // A record that was never sent again is due sooner than this, unless it waits.
        let fresh_until = self.began.plus(self.timing.first_resend);
        let was_sent = |entry: &DueEntry| entry.due_at > fresh_until || scanned.query.state == DueState::Waiting;
        self.later.extend(later.into_iter().filter(was_sent));
        self.report.due += entries.len();
        self.report.oldest_age = self.report.oldest_age.max(age_of_first(self.began, &entries));
        self.unsent.extend(entries);
    }

    /// Orders what was found, oldest first, and samples the arrivals if more is due than the least budget allows.
    pub fn sample(&mut self, moment: Moment) -> Option<Step<Sample, u64>> {
        self.unsent.make_contiguous().sort_by(|a, b| (a.due_at, &a.key).cmp(&(b.due_at, &b.key)));
        let needed = !self.sampled && self.taken + self.unsent.len() > self.granted;
        self.sampled |= needed;
        // One count reads up to two hours of a shard. After it, there must be time for a chunk.
        let count_until = EpochMs(self.limits.deadline.0.saturating_sub(self.limits.scans_and_chunk(2).0));
        needed.then(|| Sample::start(&self.timing, count_until, moment))
    }

    /// The arrivals were sampled.
    pub fn granted(&mut self, arrivals: u64) {
        self.granted = self.budget.sends_max(arrivals);
    }

    /// The next chunk. There is none when nothing waits, the budget is spent, a chunk has stalled, or the time does not
    /// suffice for its repair and for counting what is DEAD.
    pub fn next_chunk(&mut self, moment: Moment) -> Option<Step<Chunk, ChunkReport>> {
        let size = self.unsent.len().min(CHUNK_MAX).min(self.granted.saturating_sub(self.taken));
        if size == 0 || self.stalled || !self.has_time(moment, self.limits.scans_and_chunk(0)) {
            return None;
        }
        self.taken += size;
        Some(Chunk::start(self.unsent.drain(..size).collect(), self.timing))
    }

    /// A chunk has ended. The sends for records that it did not re-arm go back to the budget.
    #[expect(clippy::needless_pass_by_value, reason = "a machine's output, as every driver hands it over")]
    pub fn ended(&mut self, chunk: ChunkReport) {
        self.taken = self.taken.saturating_sub(chunk.entries.saturating_sub(chunk.rearmed));
        self.stalled |= chunk.stalled;
        self.report.rearmed += chunk.rearmed;
        self.report.sent += chunk.sent;
        self.report.failed += chunk.failed;
        self.report.untried_resends = self.report.untried_resends.max(chunk.untried_resends);
        self.report.unavailable_for = self.report.unavailable_for.max(chunk.unavailable_for);
        self.report.failed_tries = self.report.failed_tries.max(chunk.failed_tries);
    }

    /// A look at some of the records that will be due later, once: evenly spread, and others in each run. A quarter of a
    /// chunk costs little, also while many wait.
    pub fn next_look(&mut self, moment: Moment) -> Option<Step<Chunk, ChunkReport>> {
        let later = std::mem::take(&mut self.later);
        if later.is_empty() || !self.has_time(moment, self.limits.scans_and_chunk(0)) {
            return None;
        }
        let stride = later.len().div_ceil(CHUNK_MAX / 4);
        let first = usize::try_from(moment.entropy % u64::try_from(stride).unwrap_or(1)).unwrap_or(0);
        Some(Chunk::look(later.into_iter().skip(first).step_by(stride).collect(), self.timing))
    }

    /// Turns to the pages that follow full ones, once every chunk has ended. Says whether there are any.
    pub fn turn_page(&mut self) -> bool {
        let may_send = self.taken < self.granted || !self.sampled;
        self.pages = std::mem::take(&mut self.next_pages);
        self.rounds += 1;
        may_send && !self.stalled && self.unsent.is_empty() && self.rounds <= PAGES_MAX && !self.pages.is_empty()
    }

    /// The next shard whose DEAD records to count, once nothing is left to send.
    pub fn next_dead_scan(&mut self, moment: Moment) -> Option<Step<Scan, Scanned>> {
        if !self.has_time(moment, self.limits.scan_max) {
            self.report.dead.shards_unavailable += self.dead_pages.len();
            self.dead_pages.clear();
        }
        self.dead_pages.pop_front().map(Scan::start)
    }

    /// The DEAD records of a shard were read. One page is enough for a gauge.
    pub fn dead_scanned(&mut self, scanned: Scanned) {
        let dead = &mut self.report.dead;
        match scanned.page {
            Ok(DuePage { entries, next }) => {
                dead.records += entries.len();
                dead.oldest_age = dead.oldest_age.max(age_of_first(scanned.query.until, &entries));
                dead.shards_capped += usize::from(next.is_some());
            }
            Err(Unavailable) => dead.shards_unavailable += 1,
        }
    }

    /// What happened.
    pub fn report(self) -> RunReport {
        self.report
    }
}

/// The first page of each shard. If the time does not suffice for all shards, others are left out each time.
fn pages(state: DueState, limit: usize, timing: &Timing, moment: Moment) -> VecDeque<DueQuery> {
    let shards = timing.shards.max(1);
    let first = u16::try_from(moment.entropy % u64::from(shards)).unwrap_or(0);
    let query = |shard| DueQuery { state, shard, until: moment.now, after: None, limit };
    (first..shards).chain(0..first).map(query).collect()
}

fn age_of_first(now: EpochMs, entries: &[DueEntry]) -> Option<Millis> {
    entries.first().map(|oldest| Millis(now.0.saturating_sub(oldest.due_at.0)))
}
