//! A few due records: read, re-armed, sent and repaired together.

use std::collections::BTreeSet;

use crate::call::{Call, DueEntry, Machine, Reply, Signal, Step, Unavailable, Written};
use crate::code::Code;
use crate::key::RecordKey;
use crate::message::Message;
use crate::purpose::Purpose;
use crate::record::{Found, Guard, Record, Status, attribute, equals, set};
use crate::time::{EpochMs, Millis};
use crate::timing::{Moment, Timing};
use crate::write::{Action, Change, Clause, Condition, Table, Write};

/// The most records in one chunk.
pub const CHUNK_MAX: usize = 100;

/// How soon a record is due again after its send failed.
pub const FAILED_SEND_PAUSE: Millis = Millis::seconds(30);

/// The report of one chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ChunkReport {
    /// Its records.
    pub entries: usize,
    /// Records whose due time it moved.
    pub rearmed: usize,
    /// Messages that the queue confirmed.
    pub sent: usize,
    /// Messages that the queue did not confirm.
    pub failed: usize,
    /// The highest number of sends among its records that were never tried, before the one that each now waits for. It
    /// shows whether anyone processes what is sent.
    pub untried_resends: i64,
    /// How long its records have waited at most for a handler or a table that is unavailable.
    pub unavailable_for: Option<Millis>,
    /// The most tries of a due record that failed.
    pub failed_tries: i64,
    /// More than half of its reads, writes or sends failed, so another chunk would most likely fail, too. A failure of
    /// one record does not hold up the others.
    pub stalled: bool,
}

/// The machine for one chunk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chunk {
    timing: Timing,
    state: State,
    report: ChunkReport,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Looking { records: usize },
    Reading { records: usize },
    Rearming { rearms: Vec<Rearm> },
    Sending { rearms: Vec<Rearm>, unsure: Vec<Rearm> },
    Repairing,
}

/// One record's new due time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rearm {
    key: RecordKey,
    guard: Guard,
    due_at: EpochMs,
}

impl ChunkReport {
    /// Notes what a PENDING record has waited for, given its sends before the one that it waits for.
    fn see(&mut self, record: &Record, resends: i64, moment: Moment) {
        match record.waits_since {
            // It was tried. An unavailable handler has an alarm of its own.
            Some(since) => {
                let away = [Code::HandlerUnavailable, Code::TableUnavailable].map(Code::as_str);
                if record.last_error.as_deref().is_some_and(|error| away.contains(&error)) {
                    self.unavailable_for = self.unavailable_for.max(Some(Millis(moment.now.0.saturating_sub(since.0))));
                }
            }
            None if failed_tries(record) == 0 => self.untried_resends = self.untried_resends.max(resends),
            None => {}
        }
    }
}

impl Chunk {
    /// Starts on up to [`CHUNK_MAX`] due records.
    pub fn start(entries: Vec<DueEntry>, timing: Timing) -> Step<Self, ChunkReport> {
        let report = ChunkReport { entries: entries.len(), ..ChunkReport::default() };
        // A stale index may show a record at two due times. It is re-armed once, from the due time that is read.
        let keys: BTreeSet<_> = entries.into_iter().map(|entry| entry.key).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        Step::call(Self { timing, state: State::Reading { records: keys.len() }, report }, Call::ReadHeads(keys))
    }

    /// Only looks at records that were sent and are not due again. So it is known at each moment whether any waits.
    pub fn look(entries: Vec<DueEntry>, timing: Timing) -> Step<Self, ChunkReport> {
        let keys: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
        let state = State::Looking { records: keys.len() };
        Step::call(Self { timing, state, report: ChunkReport::default() }, Call::ReadHeads(keys))
    }

    fn call(self, state: State, call: Call) -> Step<Self, ChunkReport> {
        Step::call(Self { state, ..self }, call)
    }

    /// The index may be stale and contains only keys, so this takes from each record whether it is due, and how often
    /// it was sent.
    fn rearm(mut self, found: Vec<Result<Found, Unavailable>>, moment: Moment) -> Step<Self, ChunkReport> {
        self.report.stalled |= most(found.iter().filter(|found| found.is_err()).count(), found.len());
        let mut unknown_version = false;
        let mut rearms = Vec::new();
        let mut writes = Vec::new();
        for found in found {
            match found {
                Ok(Found::Record(record)) if record.status == Status::Pending => {
                    let Some(observed) = record.due.as_ref().map(|due| due.at).filter(|at| *at <= moment.now) else {
                        continue;
                    };
                    self.report.failed_tries = self.report.failed_tries.max(failed_tries(&record));
                    self.report.see(&record, record.resends, moment);
                    let interval =
                        moment_for(&record.key, moment).stretched(self.timing.resend_interval(record.resends));
                    let due_at = moment.now.plus(interval);
                    writes.push(rearm_write(&record, observed, due_at, &self.timing, moment));
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

    fn send(mut self, rearms: Vec<Rearm>, written: &[Written], moment: Moment) -> Step<Self, ChunkReport> {
        let unknown = written.iter().filter(|written| **written == Written::Unavailable).count();
        self.report.stalled |= most(unknown, self.report.entries);
        let invalid = written.contains(&Written::Invalid);
        let (mut won, mut unsure) = (Vec::new(), Vec::new());
        for (rearm, written) in rearms.into_iter().zip(written) {
            match written {
                Written::Applied => won.push(rearm),
                Written::Unavailable | Written::TransactionConflict => unsure.push(rearm),
                Written::ConditionFailed(_) | Written::Invalid => {}
            }
        }
        self.report.rearmed = won.len();
        let step = if won.is_empty() {
            self.repair(unsure.iter(), moment)
        } else {
            let messages = won.iter().map(|rearm| Message::Ref { pk: rearm.key.clone() }).collect();
            self.call(State::Sending { rearms: won, unsure }, Call::SendEach(messages))
        };
        if invalid { step.signal(Signal::WriteInvalid) } else { step }
    }

    fn sent(
        mut self,
        rearms: &[Rearm],
        unsure: &[Rearm],
        sent: &[Result<(), Unavailable>],
        moment: Moment,
    ) -> Step<Self, ChunkReport> {
        let failed: Vec<_> =
            rearms.iter().zip(sent).filter(|(_, sent)| sent.is_err()).map(|(rearm, _)| rearm).collect();
        self.report.failed = failed.len();
        self.report.sent = rearms.len() - failed.len();
        self.report.stalled |= most(failed.len(), self.report.entries);
        self.repair(failed.into_iter().chain(unsure), moment)
    }

    /// Makes records due soon whose due time was moved, or may have been, and whose hint was not sent. A due time that
    /// was not moved stays: the write names the new one.
    fn repair<'a>(self, rearms: impl Iterator<Item = &'a Rearm>, moment: Moment) -> Step<Self, ChunkReport> {
        let soon = moment.now.plus(FAILED_SEND_PAUSE);
        let writes: Vec<_> = rearms.map(|rearm| repair_write(rearm, soon)).collect();
        if writes.is_empty() {
            return Step::done(self.report);
        }
        self.call(State::Repairing, Call::WriteEach(writes))
    }
}

/// Whether more than half failed.
const fn most(failed: usize, of: usize) -> bool {
    failed * 2 > of
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
        key: record.key.as_str().into(),
        action: Action::Update(vec![
            set(attribute::DUE_AT, due_at.0),
            Change::Set(attribute::RESENDS.into(), (record.resends + 1).into()),
            set(attribute::EXPIRES_AT, timing.expiry(record.key.kind(), moment.now).0),
        ]),
        condition: Condition(vec![pending(), equals(attribute::DUE_AT, observed.0)]),
    }
}

fn repair_write(rearm: &Rearm, soon: EpochMs) -> Write {
    Write {
        purpose: Purpose::RepairDueTime,
        table: Table::Inbox,
        key: rearm.key.as_str().into(),
        action: Action::Update(vec![set(attribute::DUE_AT, soon.0)]),
        condition: rearm.guard.condition([equals(attribute::DUE_AT, rearm.due_at.0)]),
    }
}

fn pending() -> Clause {
    equals(attribute::STATUS, Status::Pending.as_str())
}

/// How often a record was tried, and nothing came of it. A call whose process died counts once.
fn failed_tries(record: &Record) -> i64 {
    let called =
        record.effect.as_ref().map_or(0, |effect| effect.not_done.max(i64::from(effect.first_call_at.is_some())));
    record.attempts.saturating_add(called)
}

impl Machine for Chunk {
    type Output = ChunkReport;

    fn step(mut self, reply: Reply, moment: Moment) -> Step<Self, ChunkReport> {
        let state = std::mem::replace(&mut self.state, State::Repairing);
        match state {
            State::Looking { records } => {
                for found in reply.read_heads(records) {
                    if let Ok(Found::Record(record)) = found
                        && record.status == Status::Pending
                    {
                        // The latest send may still be answered.
                        self.report.see(&record, record.resends - 1, moment);
                    }
                }
                Step::done(self.report)
            }
            State::Reading { records } => {
                let found = reply.read_heads(records);
                self.rearm(found, moment)
            }
            State::Rearming { rearms } => {
                let written = reply.written_each(rearms.len());
                self.send(rearms, &written, moment)
            }
            State::Sending { rearms, unsure } => {
                let sent = reply.sent_each(rearms.len());
                self.sent(&rearms, &unsure, &sent, moment)
            }
            State::Repairing => Step::done(self.report),
        }
    }
}
