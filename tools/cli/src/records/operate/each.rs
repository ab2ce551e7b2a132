//! Carries out an order on each record of a stream, or foresees what it would do.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use hookonce_aws::DynamoStore;
use hookonce_protocol::effect::EffectName;
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::operator::{Operated, Order, Refusal, redacted_with};
use hookonce_protocol::record::{Found, Outcome, Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::trail::{Operation, Trail};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::inbox::operate::{operate, trails};
use hookonce_runtime::port::Store as _;
use tokio::time::{Interval, MissedTickBehavior};

use super::report::Report;
use super::result::{End, OrderResult};
use crate::failure::Failure;
use crate::records::{Page, states};
use crate::stack::target::store_unavailable;

/// Number of records that are read at once, with their bodies, because they hold bytes of an event that is redacted.
const OTHERS_AT_ONCE: usize = 25;

/// An order on many records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// Where they are.
    pub(super) store: &'a DynamoStore,
    /// What is done to each.
    pub(super) order: &'a Order,
    /// Whether a person named them one by one.
    pub(super) is_named: bool,
    /// The most that are changed.
    pub(super) limit: Option<usize>,
    /// The most that are changed in a second. `None` to foresee what would be done.
    pub(super) rate: Option<f64>,
}

/// Goes through the records, and reports each. `stop` ends it between two records, never within one.
///
/// # Errors
/// [`Failure`] when the store does not answer. The report holds what was done until then.
pub(super) async fn each(
    run: &Run<'_>,
    mut pages: impl Stream<Item = Result<Page, Failure>> + Unpin,
    report: &mut Report,
    stop: &mut (impl Future<Output = ()> + Unpin),
) -> Result<End, Failure> {
    let mut clock = run.rate.map(interval);
    // Records that a later page may list again: PENDING ones that this run retried, because their place in the index is
    // new, and what it redacted with an event, because other events lead to it, too.
    let mut seen = BTreeSet::new();
    loop {
        let page = tokio::select! {
            page = pages.next() => page,
            () = &mut *stop => return Ok(End::Stopped),
        };
        let Some(page) = page.transpose()? else { return Ok(End::Complete) };
        report.read(&page);
        let examined = page.examined;
        let records: Vec<_> = page.records.into_iter().filter(|record| run.concerns(record, &seen)).collect();
        for (record, trail) in run.with_trails(records).await? {
            // After the event: from then on, no force gives it further effects.
            let others = run.redacted_with(&record, &seen, report).await?;
            let others = others.into_iter().map(|other| (other, Trail::default(), true));
            for (record, trail, along) in std::iter::once((record, trail, false)).chain(others) {
                if run.may_meet_again(&record, along) && !seen.insert(record.key.clone()) {
                    continue;
                }
                if run.limit.is_some_and(|limit| report.changed() >= limit) {
                    return Ok(End::Limit);
                }
                let (result, sends_again) = match &mut clock {
                    None => run.foresee(&record, &trail).await?,
                    Some(clock) => {
                        tokio::select! {
                            biased;
                            () = &mut *stop => return Ok(End::Stopped),
                            _ = clock.tick() => {}
                        }
                        (run.act(&record).await?, Vec::new())
                    }
                };
                if result == OrderResult::Done && record.status == Status::Pending {
                    seen.insert(record.key.clone());
                }
                report.waiting += usize::from(result.changes() && run.accepts_nothing(&record));
                report.add(&record, result, along, &sends_again);
                if run.limit.is_some() {
                    report.bar.set_position(u64::try_from(report.changed()).unwrap_or(0));
                }
            }
        }
        if run.limit.is_none() {
            report.bar.inc(u64::try_from(examined).unwrap_or(0));
        }
    }
}

fn interval(rate: f64) -> Interval {
    let mut interval = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Run<'_> {
    /// Whether the order is about a record that passes the filter. A doubt leaves out what nobody can run without
    /// accepting a duplicate, unless it is named.
    fn concerns(&self, record: &Record, seen: &BTreeSet<RecordKey>) -> bool {
        let is_meant = self.is_named || self.order.operation != Operation::Doubt || record.is_doubtable();
        is_meant && !seen.contains(&record.key)
    }

    /// Whether another record may lead to this one, too.
    fn may_meet_again(&self, record: &Record, along: bool) -> bool {
        let is_shared =
            record.effect.is_some() || record.key.kind() == RecordKind::Envelope || record.key.is_alternate();
        self.order.operation == Operation::Redact && (along || is_shared)
    }

    /// A dry run looks at the trails itself. An order reads each when it is carried out.
    async fn with_trails(&self, records: Vec<Record>) -> Result<Vec<(Record, Trail)>, Failure> {
        let trails = if self.rate.is_some() || self.order.operation != Operation::Force {
            vec![Trail::default(); records.len()]
        } else {
            trails(self.store, &records.iter().collect::<Vec<_>>()).await.ok_or_else(store_unavailable)?
        };
        Ok(records.into_iter().zip(trails).collect())
    }

    /// The other records that are redacted with an event.
    async fn redacted_with(
        &self,
        event: &Record,
        seen: &BTreeSet<RecordKey>,
        report: &mut Report,
    ) -> Result<Vec<Record>, Failure> {
        let mut others = Vec::new();
        if self.order.operation != Operation::Redact {
            return Ok(others);
        }
        let mut keys = redacted_with(event, event);
        while !keys.is_empty() {
            let mut chunk = keys.split_off(keys.len().saturating_sub(OTHERS_AT_ONCE));
            chunk.retain(|key| !seen.contains(key));
            for found in self.store.read_each(&chunk).await {
                match found.map_err(|_| store_unavailable())? {
                    // A closed batch has no body.
                    Found::Record(other) if other.outcome == Some(Outcome::FannedOut) && other.body.is_none() => {}
                    Found::Record(other) => {
                        keys.extend(redacted_with(event, &other));
                        others.push(*other);
                    }
                    Found::Unreadable(_) => report.unreadable += 1,
                    Found::Nothing => {}
                }
            }
        }
        Ok(others)
    }

    /// The order on one record. An effect that waits may be in its call, as after an order whose answer was lost. A duplicate
    /// that is accepted would let another call begin beside that one.
    fn order_on(&self, record: &Record) -> Order {
        let accepts = self.order.accept_duplicate && !self.accepts_nothing(record);
        Order { accept_duplicate: accepts, ..self.order.clone() }
    }

    /// Whether the person accepts a duplicate, and none is accepted for this record.
    fn accepts_nothing(&self, record: &Record) -> bool {
        self.order.accept_duplicate && record.effect.is_some() && record.status == Status::Pending
    }

    /// What the order would do with a record, and to which destinations it would send effects again.
    async fn foresee(&self, record: &Record, trail: &Trail) -> Result<(OrderResult, Vec<String>), Failure> {
        let operation = self.order.operation;
        if let Err(refusal) = self.order_on(record).write(record, trail, &Timing::standard(), System.moment()) {
            return Ok((OrderResult::of(refusal, operation), Vec::new()));
        }
        if operation != Operation::Force {
            return Ok((OrderResult::Would, Vec::new()));
        }
        let effects = states(self.store, record.effect_keys()).await?;
        if effects.iter().filter_map(|(_, effect)| effect.as_ref()).any(Record::may_run) {
            return Ok((OrderResult::Refused(Refusal::EffectOpen), Vec::new()));
        }
        let effects = record.effects.iter().zip(&effects);
        Ok((OrderResult::Would, effects.map(|(name, (_, effect))| goes_to(name, effect.as_ref())).collect()))
    }

    /// Carries out the order on a record.
    async fn act(&self, record: &Record) -> Result<OrderResult, Failure> {
        let operated = operate(self.store, record, &self.order_on(record), &Timing::standard(), &System).await;
        Ok(match operated {
            Operated::Done => OrderResult::Done,
            Operated::Overtaken => OrderResult::Overtaken,
            Operated::Blocked => OrderResult::Blocked,
            Operated::Refused(refusal) => OrderResult::of(refusal, self.order.operation),
            Operated::Unavailable => return Err(store_unavailable()),
        })
    }
}

/// Where an effect of the last commit went. If the effect has expired, only its name is known.
fn goes_to(name: &EffectName, effect: Option<&Record>) -> String {
    let part = effect.and_then(|effect| effect.effect.as_ref());
    part.map_or_else(|| format!("({name}, which has expired)"), |part| part.destination.to_string())
}
