//! `hookonce audit`: checks the protocol's invariants on all records of a live stack.
//!
//! It reads both tables once, at a rate, and holds eight bytes for each domain key. Whatever looks wrong is read again,
//! consistently, because records change while it reads.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use clap::Args;
use hookonce_aws::{DynamoStore, ScanPage};
use hookonce_protocol::invariant::{RecordViolation, violations};
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::key::{AppliedFact, DOMAIN_KEY_PREFIX, RECORD, RecordKey, RecordKind};
use hookonce_protocol::record::{Due, Found, Outcome, Record, Status, attribute};
use hookonce_protocol::relay::FAILED_SEND_PAUSE;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::port::Store as _;
use serde_json::json;
use tokio::time::Instant;

use crate::failure::{Exit, Failure};
use crate::output::{self, interrupt};
use crate::records::agree_to_scan;
use crate::stack::target::{Target, store_unavailable};

/// Number of items in one page.
const PAGE: usize = 500;

/// Number of items read per second unless a person names another.
const RATE: u32 = 1_000;

/// How long before its expiry a domain key or the record of an effect may be gone.
const EXPIRY_MARGIN: Millis = Millis::days(3);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Maximum number of items read per second.
    #[arg(long, value_name = "N", default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Continue after this record; an audit that was stopped prints it.
    #[arg(long, value_name = "RECORD")]
    after: Option<String>,
    /// Confirm a full scan of both tables.
    #[arg(long)]
    scan: bool,
    /// Print JSON, one line for each violation and one for the summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// What an audit finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Violation {
    /// A3 to A6: about the record alone.
    Record(RecordViolation),
    /// A3: it says APPLIED, and no domain key stands for it.
    DomainKeyMissing,
    /// A4: a domain key says that it was applied, and it says otherwise.
    DomainKeyStands,
    /// P6: its commit names an effect whose record is gone before its time.
    EffectRecordMissing,
    /// A7: not a record of this version.
    Unreadable,
    /// A9: due for long.
    Overdue,
    /// A10: sent more often than its age allows.
    ResentTooOften,
}

impl Violation {
    /// The invariant's name, and the section of docs/trust/audit.md.
    const fn section(self) -> (&'static str, &'static str) {
        match self {
            Self::Record(RecordViolation::BodyMissing) => ("A4", "body-missing"),
            Self::Record(RecordViolation::BodyKept) => ("A1", "body-kept"),
            Self::Record(RecordViolation::Expiry) => ("A5", "expiry"),
            Self::Record(RecordViolation::ExpiresEarly) => ("A5", "expires-early"),
            Self::Record(RecordViolation::DueEntry) => ("A6", "due-entry"),
            Self::Record(RecordViolation::Pause) => ("A8", "pause"),
            Self::Record(RecordViolation::OutcomeMissing) => ("A3", "outcome-missing"),
            Self::Record(RecordViolation::ReasonMissing) => ("A4", "reason-missing"),
            Self::Record(RecordViolation::NegativeCounter) => ("A8", "negative-counter"),
            Self::DomainKeyMissing => ("A3", "domain-key-missing"),
            Self::DomainKeyStands => ("A4", "domain-key-stands"),
            Self::EffectRecordMissing => ("P6", "effect-record-missing"),
            Self::Unreadable => ("A7", "unreadable"),
            Self::Overdue => ("A9", "overdue"),
            Self::ResentTooOften => ("A10", "resent-too-often"),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let store = arguments.target.connect().whole_store().await?;
    let hint = "pass --scan to agree; --rate N reads N items a second";
    let items = agree_to_scan(&store, &[Table::Inbox, Table::Domain], arguments.scan, hint).await?;
    let takes = output::length(Duration::from_secs(items / u64::from(arguments.rate)));
    output::note(&format!("at {} a second, it takes about {takes}", output::number_of(&arguments.rate, "item")));
    let mut audit = Audit {
        store: &store,
        timing: Timing::standard(),
        started: System.moment().now,
        domain_keys: DomainKeys::default(),
        rate: arguments.rate,
        bar: if arguments.json { indicatif::ProgressBar::hidden() } else { output::bar("audit", items) },
        json: arguments.json,
        records: 0,
        found: 0,
    };
    let mut last = arguments.after.clone();
    let end = tokio::select! {
        end = audit.all(&mut last) => end,
        () = interrupt::ctrl_c() => Ok(false),
    };
    audit.conclude(end, last.as_deref())
}

/// The domain keys in the table, eight bytes for each: a hash of the record and the generation that applied it.
#[derive(Default)]
struct DomainKeys {
    hasher: RandomState,
    known: HashSet<u64>,
}

impl DomainKeys {
    fn add(&mut self, item: &Item) {
        let hash = |applied: AppliedFact<'_>| self.hasher.hash_one((applied.record, applied.generation));
        self.known.extend(AppliedFact::of(item).map(hash));
    }

    fn stand(&self, record: &Record) -> bool {
        self.known.contains(&self.hasher.hash_one((record.key.as_str(), record.generation)))
    }
}

struct Audit<'a> {
    store: &'a DynamoStore,
    timing: Timing,
    started: EpochMs,
    domain_keys: DomainKeys,
    rate: u32,
    bar: indicatif::ProgressBar,
    json: bool,
    records: usize,
    found: usize,
}

impl Audit<'_> {
    /// Reads everything, the inbox after `last`. Keeps `last` at the last record that was checked.
    async fn all(&mut self, last: &mut Option<String>) -> Result<bool, Failure> {
        let mut after = None;
        loop {
            let page = self.page(Table::Domain, DOMAIN_KEY_PREFIX, &[RECORD], after.as_deref()).await?;
            page.items.iter().for_each(|item| self.domain_keys.add(item));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = self.page(Table::Inbox, "", &attribute::HEAD, last.as_deref()).await?;
            self.check(&page.items).await?;
            let Some(next) = page.next else { return Ok(true) };
            *last = Some(next);
        }
    }

    async fn page(
        &self,
        table: Table,
        prefix: &str,
        attributes: &[&str],
        after: Option<&str>,
    ) -> Result<ScanPage, Failure> {
        let page =
            self.store.scan_page(table, prefix, attributes, after, PAGE).await.map_err(|_| store_unavailable())?;
        let (began, pause) = (Instant::now(), Duration::from_secs(1) / self.rate);
        // The bar goes on with the rate, not in leaps of a page.
        for item in 1..=u32::try_from(page.read).unwrap_or(u32::MAX) {
            tokio::time::sleep_until(began + pause * item).await;
            self.bar.inc(1);
        }
        Ok(page)
    }

    /// Keeps to the rate after so many items.
    async fn rest(&self, items: usize) {
        let pause = Duration::from_secs(1) / self.rate;
        tokio::time::sleep(pause.saturating_mul(u32::try_from(items).unwrap_or(u32::MAX))).await;
    }

    async fn check(&mut self, items: &[Item]) -> Result<(), Failure> {
        self.records += items.len();
        let (mut suspects, mut senders) = (Vec::new(), Vec::new());
        for item in items {
            let found = Found::from_item(Some(item));
            if let Found::Record(record) = &found {
                senders.extend(Some(record).filter(|record| self.must_have_effects(record)).cloned());
            }
            match found {
                // The body is not read: it is looked for where it is needed.
                Found::Record(record) if record.status == Status::Pending || record.status == Status::Dead => {
                    suspects.push(record.key);
                }
                Found::Record(record) if self.of(&record).is_empty() => {}
                Found::Record(record) => suspects.push(record.key),
                Found::Nothing | Found::Unreadable(_) => {
                    let key = item.get(PARTITION_KEY).and_then(Value::as_text).unwrap_or_default();
                    self.report(key, Violation::Unreadable);
                }
            }
        }
        for keys in suspects.chunks(25) {
            self.rest(keys.len()).await;
            for (key, found) in keys.iter().zip(self.store.read_each(keys).await) {
                match found.map_err(|_| store_unavailable())? {
                    Found::Record(record) => {
                        for violation in self.of(&record) {
                            self.report(key.as_str(), violation);
                        }
                    }
                    Found::Unreadable(_) => self.report(key.as_str(), Violation::Unreadable),
                    // It expired in between.
                    Found::Nothing => {}
                }
            }
        }
        for sender in senders {
            self.check_effects(&sender).await?;
        }
        Ok(())
    }

    /// Looks for the records of an event's effects. They were written with the record that names them.
    async fn check_effects(&mut self, event: &Record) -> Result<(), Failure> {
        let effects = event.effect_keys();
        self.rest(effects.len()).await;
        let mut is_missing = false;
        for found in self.store.read_heads(&effects).await {
            match found.map_err(|_| store_unavailable())? {
                Found::Nothing => is_missing = true,
                // It is read on its own, too.
                Found::Record(_) | Found::Unreadable(_) => {}
            }
        }
        if is_missing {
            self.report(event.key.as_str(), Violation::EffectRecordMissing);
        }
        Ok(())
    }

    /// All violations of a record that was read whole. Without its body, BODY_MISSING is among them.
    fn of(&self, record: &Record) -> Vec<Violation> {
        let mut found: Vec<_> = violations(record, &self.timing).into_iter().map(Violation::Record).collect();
        let stands = self.domain_keys.stand(record);
        let applied = record.status == Status::Processed && record.outcome == Some(Outcome::Applied);
        if applied && !stands && self.is_certain(record) {
            found.push(Violation::DomainKeyMissing);
        }
        // For these, the protocol itself does not know whether they were applied.
        let unknown = record.accept_duplicate || record.outcome_unknown();
        if stands && !applied && !unknown {
            found.push(Violation::DomainKeyStands);
        }
        let is_overdue = |due: &Due| due.at.0 < self.started.0 - crate::stack::status::OVERDUE.0;
        if record.status == Status::Pending && record.due.as_ref().is_some_and(is_overdue) {
            found.push(Violation::Overdue);
        }
        if record.resends > resends_max(record, System.moment().now, &self.timing) {
            found.push(Violation::ResentTooOften);
        }
        found
    }

    /// Whether the domain key of an applied record must be among those that were read: it is older than this audit, and
    /// has not expired.
    fn is_certain(&self, record: &Record) -> bool {
        let Some(at) = record.processed_at else { return true };
        at.0 < self.started.0 - self.timing.clock_skew_max.0 && self.is_kept(at.plus(self.timing.effect_retention))
    }

    /// Whether the effects that a record names must have records: they have not expired.
    fn must_have_effects(&self, record: &Record) -> bool {
        let expiry = |at| self.timing.expiry(RecordKind::Effect, at).as_millis();
        !record.effects.is_empty() && record.processed_at.is_none_or(|at| self.is_kept(expiry(at)))
    }

    fn is_kept(&self, expires_at: EpochMs) -> bool {
        self.started.0 < expires_at.0 - EXPIRY_MARGIN.0
    }

    fn report(&mut self, key: &str, violation: Violation) {
        self.found += 1;
        let (invariant, section) = violation.section();
        let shown = RecordKey::parse(key);
        let (endpoint, key) = shown.as_ref().map_or(("-", key), RecordKey::parts);
        let page = format!("docs/trust/audit.md#{section}");
        if self.json {
            let row = json!({ "endpoint": endpoint, "key": key, "invariant": invariant, "violation": section });
            output::json_line(&row);
        } else {
            self.bar.suspend(|| output::line(&format!("{invariant:<4} {section:<21} {endpoint} {key}  {page}")));
        }
    }

    fn conclude(self, end: Result<bool, Failure>, last: Option<&str>) -> Result<Exit, Failure> {
        self.bar.finish_and_clear();
        let complete = matches!(end, Ok(true));
        if self.json {
            let after = last.filter(|_| !complete);
            output::json_line(&json!({ "summary": {
                "records": self.records, "domain_keys": self.domain_keys.known.len(), "violations": self.found,
                "complete": complete, "after": after,
            }}));
        } else {
            output::note(&format!(
                "{} and {} checked: {}",
                output::number_of(&self.records, "record"),
                output::number_of(&self.domain_keys.known.len(), "domain key"),
                output::number_of(&self.found, "violation")
            ));
        }
        if !complete {
            let rate = self.rate;
            output::note("stopped before the end. To go on, which reads the domain keys again:");
            output::note(&match last.and_then(output::word) {
                Some(last) => format!("  hookonce audit --scan --rate {rate} --after {last}"),
                None => format!("  hookonce audit --scan --rate {rate}"),
            });
        }
        let complete = end?;
        Ok(if complete && self.found == 0 { Exit::Done } else { Exit::No })
    }
}

/// The most sends by the relay that a record's time as PENDING allows. Failed sends, failures of its handler and dead
/// letters shorten the relay's intervals. But two sends are at least the pause after a failed send apart. Only the hint
/// of its ingress and each of its dead letters may bring one more.
fn resends_max(record: &Record, now: EpochMs, timing: &Timing) -> i64 {
    let until = match record.status {
        Status::Pending => Some(now),
        Status::Processed => record.processed_at,
        Status::Dead | Status::Discarded => record.dead_at,
    };
    let age = until.unwrap_or(now).plus(timing.clock_skew_max).0.saturating_sub(record.received_at.0);
    (age.max(0) / FAILED_SEND_PAUSE.0).saturating_add(record.dead_letters).saturating_add(2)
}
