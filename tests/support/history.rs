//! How a record may change between two observations.

use std::collections::BTreeMap;

use hookonce_protocol::invariant::{illegal_step, violations};
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::Timing;

/// The last state seen of every record, and everything that was wrong so far.
#[derive(Debug, Default)]
pub(crate) struct RecordHistory {
    last: BTreeMap<String, Record>,
    broken: Vec<String>,
}

impl RecordHistory {
    /// Notes the current state of all records.
    pub(crate) fn observe(&mut self, records: &BTreeMap<String, Record>, timing: &Timing) {
        for (key, record) in records {
            for violation in violations(record, timing) {
                self.broken.push(format!("{key}: {violation}"));
            }
            if let Some(before) = self.last.get(key) {
                let (was, is) = (before.status, record.status);
                // Between machines with different clocks it may come nearer by the difference; here there is one clock.
                if (was, is) == (Status::Pending, Status::Pending) && record.expires_at < before.expires_at {
                    self.broken.push(format!("{key}: its expiry came nearer while it waits"));
                }
                self.broken
                    .extend(illegal_step(Some(before), record).map(|wrong| format!("{key}, {was} to {is}: {wrong}")));
            }
        }
        for key in self.last.keys().filter(|key| !records.contains_key(*key)) {
            self.broken.push(format!("{key}: it vanished"));
        }
        self.last.clone_from(records);
    }

    /// Declares that a record will be gone, so that its absence is not reported.
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
