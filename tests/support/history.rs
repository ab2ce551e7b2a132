//! What may become of a record between two looks at it.

use std::collections::BTreeMap;

use hookonce_protocol::invariant::violations;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::Timing;

/// Remembers every record as it was last seen, and everything that was wrong since.
#[derive(Debug, Default)]
pub(crate) struct RecordHistory {
    last: BTreeMap<String, Record>,
    broken: Vec<String>,
}

impl RecordHistory {
    /// Takes note of all records as they are now.
    pub(crate) fn observe(&mut self, records: &BTreeMap<String, Record>, timing: &Timing) {
        for (key, record) in records {
            for violation in violations(record, timing) {
                self.broken.push(format!("{key}: {violation}"));
            }
            if let Some(before) = self.last.get(key) {
                let wrong = step(before, record).into_iter().map(|wrong| format!("{key}: {wrong}"));
                self.broken.extend(wrong);
            }
        }
        for key in self.last.keys().filter(|key| !records.contains_key(*key)) {
            self.broken.push(format!("{key}: it vanished"));
        }
        self.last.clone_from(records);
    }

    /// Says that a record will not be there any more, so that its absence is no surprise.
    pub(crate) fn forget(&mut self, key: &str) {
        self.last.remove(key);
    }

    /// Everything that was wrong so far, each once.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut broken = self.broken.clone();
        broken.sort();
        broken.dedup();
        broken
    }
}

/// What is wrong with this step of a record.
fn step(before: &Record, now: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    if before.claim_id != now.claim_id {
        wrong.push("its claim changed although it existed".to_owned());
    }
    let forced = now.generation == before.generation + 1 && before.status == Status::Processed;
    if now.generation != before.generation && !forced {
        wrong.push(format!("its generation went from {} to {}", before.generation, now.generation));
    }
    if !is_edge(before, now) {
        wrong.push(format!("it went from {} to {}", before.status, now.status));
    }
    if before.status == Status::Processed && now.status == Status::Processed && before.outcome != now.outcome && !forced
    {
        wrong.push("its outcome changed".to_owned());
    }
    let waiting = before.status == Status::Pending && now.status == Status::Pending;
    if waiting && now.expires_at < before.expires_at {
        wrong.push("its expiry came nearer while it waits".to_owned());
    }
    wrong
}

/// The edges of the state machine, and staying where it is.
fn is_edge(before: &Record, now: &Record) -> bool {
    match (before.status, now.status) {
        (Status::Pending, Status::Pending | Status::Processed | Status::Dead)
        | (Status::Dead, Status::Dead | Status::Pending | Status::Discarded)
        | (Status::Processed, Status::Processed)
        | (Status::Discarded, Status::Discarded) => true,
        (Status::Processed, Status::Pending) => now.generation == before.generation + 1,
        (Status::Pending, Status::Discarded)
        | (Status::Processed, Status::Dead | Status::Discarded)
        | (Status::Dead, Status::Processed)
        | (Status::Discarded, Status::Pending | Status::Processed | Status::Dead) => false,
    }
}
