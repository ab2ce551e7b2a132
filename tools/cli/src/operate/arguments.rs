//! Carries out an operator's order on the records of a key or a filter: first as a dry run, then one by one.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures::{Stream, StreamExt as _};
use hookonce_protocol::effect::EffectName;
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::operator::{Operated, Order, Refusal};
use hookonce_protocol::record::{Found, Outcome, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::trail::{Operation, Trail};
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::aws::DynamoStore;
use hookonce_runtime::operate::{operate, trails};
use hookonce_runtime::port::Store as _;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior};

use crate::again;
use crate::agreement::Agreement;
use crate::connection::Connection;
use crate::failure::{Exit, Failure};
use crate::order_result::{End, OrderResult, Tally, summary, tell, tell_disagreement};
use crate::output;
use crate::select::{
    Filter, Page, Read, State, agree_to_scan, count, error_of, find, scan, select, states, tell_default,
};
use crate::target::{Target, store_unavailable};

/// The most rows that a dry run prints. It counts all of them.
const ROWS_MAX: usize = 50;

/// Number of records that are read at once, with their bodies, because they hold bytes of an event that is redacted.
const OTHERS_AT_ONCE: usize = 25;

/// Number of index partitions that a dry run reads in parallel.
const READS_AT_ONCE: usize = 8;

/// The longest name and the longest reason, in bytes.
const BY_BYTES_MAX: usize = 256;
const REASON_BYTES_MAX: usize = 512;

/// The arguments of every command that changes records.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    /// One record, as `list` prints it. May be repeated.
    #[arg(long, num_args = 2, value_names = ["ENDPOINT", "KEY"], conflicts_with = "Filter")]
    key: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of records to change.
    #[arg(long)]
    limit: Option<usize>,
    /// Reason for the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Your name for the audit trail [default: your AWS identity, or USER on a local stack].
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The variable USER, for `by`.
    #[arg(long, env = "USER", hide = true)]
    user: Option<String>,
    /// Maximum number of records per second.
    #[arg(long, value_name = "N/s", value_parser = parse_rate, default_value = "10/s")]
    rate: f64,
    /// Do it. Without this, the command only prints what it would do. Where there is no way back and a filter names
    /// the records, with the number that the dry run printed.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "")]
    yes: Option<Agreement>,
    /// Print JSON, one line for each record and one for the summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Checks what goes into an audit trail.
///
/// # Errors
/// [`Failure::Usage`] when a text is too long.
pub(crate) fn check_lengths(by: &str, reason: &str) -> Result<(), Failure> {
    for (name, text, bytes_max) in [("--by", by, BY_BYTES_MAX), ("--reason", reason, REASON_BYTES_MAX)] {
        if text.len() > bytes_max {
            return Err(Failure::usage(format!("{name} is longer than {bytes_max} bytes"), "shorten it"));
        }
    }
    Ok(())
}

/// Parses `10/s` or `10`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix("/s").unwrap_or(text).parse().ok();
    number
        .filter(|rate| (0.01..=1_000.0).contains(rate))
        .ok_or_else(|| "it must be a number of records per second from 0.01 to 1000, such as 10/s".to_owned())
}

impl OrderArguments {
    /// Whether it does anything.
    fn acts(&self) -> bool {
        self.yes.is_some()
    }

    /// Whether only the number that a dry run printed is an agreement: what was done cannot be taken back, and the
    /// person did not name the records one by one.
    fn needs_count(&self, operation: Operation) -> bool {
        self.key.is_empty() && operation != Operation::Retry
    }

    /// Checks the form of the agreement, before anything is read.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it lacks the number.
    fn check_agreement(&self, operation: Operation) -> Result<(), Failure> {
        if self.yes != Some(Agreement::Plain) || !self.needs_count(operation) {
            return Ok(());
        }
        Err(Failure::usage(
            format!("{operation} of all records that a filter finds needs their number: --yes COUNT"),
            "run it without --yes first: it changes nothing, and prints the whole command with the number",
        ))
    }

    /// The order, checked.
    async fn order(&self, kind: OrderKind, stack: &Connection) -> Result<Order, Failure> {
        let OrderKind { operation, accept_duplicate, accept_other_body, .. } = kind;
        let text = |text: &Option<String>| text.as_deref().map(str::trim).unwrap_or_default().to_owned();
        let by = match &self.by {
            None if self.acts() => Box::pin(stack.caller()).await?.or_else(|| self.user.clone()),
            by => by.clone(),
        };
        let order = Order { operation, accept_duplicate, accept_other_body, by: text(&by), reason: text(&self.reason) };
        if self.acts() && order.by.is_empty() {
            return Err(Failure::usage("the audit trail needs your name", "pass --by NAME, or set USER"));
        }
        if self.acts() && order.needs_reason() && ["", again::REASON].contains(&order.reason.as_str()) {
            return Err(Failure::usage(
                "this needs a reason for the audit trail",
                "pass --reason with a short text, such as --reason \"applied to the wrong account\"",
            ));
        }
        check_lengths(&order.by, &order.reason)?;
        Ok(order)
    }

    /// The filter, with the one state that the operation is about unless another is asked for.
    fn filter(&self, operation: Operation) -> Result<Filter, Failure> {
        if self.filter.is_empty() {
            return Err(Failure::usage(
                "no record is named",
                "pass --key ENDPOINT KEY, or a filter, such as --state DEAD for all dead records",
            ));
        }
        let mut filter = self.filter.clone();
        let usual = match operation {
            Operation::Retry | Operation::Discard => Some(State::Status(Status::Dead)),
            // A DUPLICATE reports a fact that another record applied. To force both would apply it twice more.
            Operation::Force => Some(State::Outcome(Outcome::Applied)),
            Operation::Doubt => Some(State::Status(Status::Pending)),
            Operation::Redact => None,
        };
        filter.state = filter.state.or(usual);
        Ok(filter)
    }
}

/// What a command does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrderKind {
    /// To each record.
    pub(crate) operation: Operation,
    /// Whether an effect may be applied twice.
    pub(crate) accept_duplicate: bool,
    /// Whether a quarantined body may run.
    pub(crate) accept_other_body: bool,
    /// Whether to read the whole table if no time is named. `None` to read only what an index lists, `Some(false)` to
    /// ask first.
    pub(crate) scan: Option<bool>,
}

/// Runs a command.
///
/// # Errors
/// [`Failure`] when the arguments are wrong or the store does not answer. Running the command again goes on.
pub(crate) async fn run(arguments: OrderArguments, kind: OrderKind) -> Result<Exit, Failure> {
    let stack = arguments.target.connect()?;
    let order = arguments.order(kind, &stack).await?;
    let filter = if arguments.key.is_empty() { Some(arguments.filter(kind.operation)?) } else { None };
    filter.as_ref().map_or(Ok(()), Filter::check)?;
    arguments.check_agreement(kind.operation)?;
    // A scan reads records of every age.
    let scan_agreed = kind.scan.filter(|_| filter.as_ref().is_some_and(|filter| filter.since.is_none()));
    let is_default = scan_agreed.is_none() && filter.as_ref().and_then(Filter::default_since).is_some();
    let filter = filter.map(|filter| if scan_agreed.is_some() { filter } else { filter.fixed() });
    let times = filter.as_ref().map_or([None; 3], |filter| [filter.since, filter.until, filter.ended_until]);
    let store = stack.whole_store().await?;
    let run = |mode| Run {
        store: &store,
        order: &order,
        timing: Timing::standard(),
        arguments: &arguments,
        mode,
        bar: ProgressBar::hidden(),
        clock: interval(arguments.rate),
        table: output::table(&["would", "state", "endpoint", "type", "error", "received", "key"]),
        tally: Tally::default(),
        seen: BTreeSet::new(),
        along: false,
        told: 0,
        since: times[0].filter(|_| is_default),
        times,
    };
    let source = Source { store: &store, filter: filter.as_ref(), is_scan: scan_agreed.is_some() };
    let mut items = None;
    if let Some(agreed) = scan_agreed {
        let hint = "pass --scan to agree, or --since to read only what an index lists";
        items = Some(agree_to_scan(&store, &[Table::Inbox], agreed || arguments.acts(), hint).await?);
    }
    if let Some(Agreement::Counted(agreed)) = arguments.yes {
        let counting = output::spinner("counting what it would change");
        let mut counted = run(Mode::Count);
        let end = Box::pin(counted.read_all(&source)).await;
        counting.finish_and_clear();
        let found = counted.tally.of("would");
        if end? == End::Stopped || found != agreed {
            tell_disagreement(kind.operation, agreed, found);
            return Ok(Exit::No);
        }
    }
    let mut run = run(if arguments.acts() { Mode::Act } else { Mode::Foresee });
    if let (true, Some(filter)) = (arguments.acts() && !arguments.json && output::is_watched(), &filter) {
        let length = if let Some(items) = items { items } else { count(&store, filter).await? };
        run.bar = output::bar(kind.operation.as_str(), length);
    }
    let end = Box::pin(run.read_all(&source)).await?;
    Ok(run.conclude(end))
}

/// Where the records of an order are read.
struct Source<'a> {
    store: &'a DynamoStore,
    /// `None` if they are named by `--key`.
    filter: Option<&'a Filter>,
    is_scan: bool,
}

/// What a run does with the records that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Counts those that it would change, and prints nothing.
    Count,
    /// Prints what it would do.
    Foresee,
    /// Does it.
    Act,
}

/// The records named by `--key`.
async fn named(store: &DynamoStore, keys: &[String], mode: Mode) -> Result<Page, Failure> {
    let mut page = Page::default();
    for pair in keys.chunks(2) {
        let [endpoint, key] = pair else { continue };
        match find(store, endpoint, key).await? {
            Some(record) => page.records.push(record),
            None if mode == Mode::Count => {}
            None => output::note(&format!("endpoint {endpoint} has no record {key}")),
        }
        page.examined += 1;
    }
    Ok(page)
}

fn interval(rate: f64) -> Interval {
    let mut interval = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

struct Run<'a> {
    store: &'a DynamoStore,
    order: &'a Order,
    timing: Timing,
    arguments: &'a OrderArguments,
    mode: Mode,
    bar: ProgressBar,
    clock: Interval,
    table: output::Table,
    tally: Tally,
    /// Records that a later page may list again: PENDING ones that this run retried, because their place in the index
    /// is new, and effects, batches and other bodies that it redacted, because their events lead to them, too.
    seen: BTreeSet<RecordKey>,
    /// Whether the current record is redacted only because it holds bytes of a redacted event.
    along: bool,
    /// How many rows a person is to see.
    told: usize,
    /// Since when the journal is read although nobody named a time.
    since: Option<EpochMs>,
    /// The times of the filter.
    times: [Option<EpochMs>; 3],
}

impl Run<'_> {
    /// Reads all records of the order, and does with each what its mode says.
    async fn read_all(&mut self, source: &Source<'_>) -> Result<End, Failure> {
        let Source { store, filter, is_scan } = *source;
        let Some(filter) = filter else {
            let page = named(store, &self.arguments.key, self.mode).await?;
            return self.all(pin!(futures::stream::iter([Ok(page)]))).await;
        };
        if is_scan {
            return self.all(pin!(scan(store, filter))).await;
        }
        // To act on pages that are as fresh as possible, read one at a time.
        let at_once = if self.mode == Mode::Act { 1 } else { READS_AT_ONCE };
        self.all(pin!(select(store, filter, at_once, Read::Whole))).await
    }

    async fn all(
        &mut self,
        mut pages: std::pin::Pin<&mut impl Stream<Item = Result<Page, Failure>>>,
    ) -> Result<End, Failure> {
        let mut stop = pin!(tokio::signal::ctrl_c());
        let mut end = End::Complete;
        'pages: loop {
            let page = tokio::select! {
                page = pages.next() => page,
                _ = &mut stop => {
                    end = End::Stopped;
                    break;
                }
            };
            let Some(page) = page.transpose().map_err(|failure| self.interrupted(failure))? else { break };
            self.tally.examined += page.examined;
            self.tally.unreadable += page.unreadable;
            let records = page.records.into_iter().filter(|record| self.concerns(record)).collect();
            for (record, trail) in self.with_trails(records).await? {
                // After the event: from then on, no force gives it further effects.
                let others = self.others_to_redact(&record).await.map_err(|failure| self.interrupted(failure))?;
                let others = others.into_iter().map(|other| (other, Trail::default(), true));
                for (record, trail, along) in std::iter::once((record, trail, false)).chain(others) {
                    let is_shared = along || may_come_along(&record);
                    let redacts = is_shared && self.order.operation == Operation::Redact;
                    if redacts && !self.seen.insert(record.key.clone()) {
                        continue;
                    }
                    self.along = along;
                    if let Some(early) = self.one(&record, &trail, &mut stop).await? {
                        end = early;
                        break 'pages;
                    }
                }
            }
            self.bar.inc(u64::try_from(page.examined).unwrap_or(0));
        }
        self.bar.finish_and_clear();
        Ok(end)
    }

    /// The command that goes on, or does what a dry run foresaw, with so many records left. Where a limit hides how
    /// many are left, it is the dry run.
    fn again(&self, left: usize) -> String {
        let hides_rest = self.mode == Mode::Act && self.arguments.limit.is_some();
        let agreement = if self.arguments.needs_count(self.order.operation) {
            (!hides_rest).then_some(Agreement::Counted(left))
        } else {
            Some(Agreement::Plain)
        };
        let lacks_reason = self.order.needs_reason() && self.arguments.reason.is_none();
        again::again(std::env::args_os().skip(1), self.times, lacks_reason, agreement)
    }

    /// The command that goes on after a run that ended early.
    fn go_on(&self) -> String {
        let agreed = match self.arguments.yes {
            Some(Agreement::Counted(agreed)) => agreed,
            Some(Agreement::Plain) | None => 0,
        };
        self.again(agreed.saturating_sub(self.tally.of("done")))
    }

    /// Does one record, or says why the run ends before it.
    async fn one(
        &mut self,
        record: &Record,
        trail: &Trail,
        stop: &mut (impl Future<Output = std::io::Result<()>> + Unpin),
    ) -> Result<Option<End>, Failure> {
        let changed = self.tally.of("would") + self.tally.of("done");
        if self.arguments.limit.is_some_and(|limit| changed >= limit) {
            return Ok(Some(End::Limit));
        }
        if self.mode != Mode::Act {
            self.foresee(record, trail).await?;
            return Ok(None);
        }
        // Ctrl-C ends the run between two records, never within one.
        tokio::select! {
            biased;
            _ = stop => return Ok(Some(End::Stopped)),
            _ = self.clock.tick() => {}
        }
        self.act(record).await?;
        Ok(None)
    }

    /// What else holds bytes of an event that is redacted: another body that came under its id, its effects and those
    /// of that other body, of earlier generations, too, and what it came in, as long as that has a body.
    async fn others_to_redact(&mut self, event: &Record) -> Result<Vec<Record>, Failure> {
        let mut others = Vec::new();
        if self.order.operation != Operation::Redact {
            return Ok(others);
        }
        let mut keys = effects_of_all_generations(event);
        // The parent of an effect is its event, which a person who redacts one effect did not name.
        if event.effect.is_none() {
            keys.extend([Some(event.key.alternate()), event.parent.clone()].into_iter().flatten());
        }
        while !keys.is_empty() {
            let chunk = keys.split_off(keys.len().saturating_sub(OTHERS_AT_ONCE));
            let chunk: Vec<_> = chunk.into_iter().filter(|key| !self.seen.contains(key)).collect();
            for found in self.store.read_each(&chunk).await {
                match found.map_err(|_| store_unavailable())? {
                    // A closed batch has no body.
                    Found::Record(other) if other.outcome == Some(Outcome::FannedOut) && other.body.is_none() => {}
                    Found::Record(other) => {
                        if other.key == event.key.alternate() {
                            keys.extend(effects_of_all_generations(&other));
                        }
                        others.push(*other);
                    }
                    Found::Unreadable(_) => self.tally.unreadable += 1,
                    Found::Nothing => {}
                }
            }
        }
        Ok(others)
    }

    /// Whether the order is about a record that passes the filter. A doubt leaves out what nobody can run without
    /// accepting a duplicate, unless it is named.
    fn concerns(&self, record: &Record) -> bool {
        let is_named = !self.arguments.key.is_empty();
        let is_meant = is_named || self.order.operation != Operation::Doubt || record.is_doubtable();
        !self.seen.contains(&record.key) && is_meant
    }

    /// A dry run looks at the trails itself. An order reads each when it is carried out.
    async fn with_trails(&self, records: Vec<Record>) -> Result<Vec<(Record, Trail)>, Failure> {
        let trails = if self.mode == Mode::Act || self.order.operation != Operation::Force {
            vec![Trail::default(); records.len()]
        } else {
            let records: Vec<_> = records.iter().collect();
            trails(self.store, &records).await.ok_or_else(store_unavailable)?
        };
        Ok(records.into_iter().zip(trails).collect())
    }

    async fn foresee(&mut self, record: &Record, trail: &Trail) -> Result<(), Failure> {
        let write = self.order.write(record, trail, &self.timing, System.moment());
        let mut result =
            write.map_or_else(|refusal| OrderResult::of(refusal, self.order.operation), |_| OrderResult::Would);
        let mut destinations = Vec::new();
        if result == OrderResult::Would && self.order.operation == Operation::Force {
            let effects = states(self.store, record.effect_keys()).await?;
            if effects.iter().filter_map(|(_, effect)| effect.as_ref()).any(Record::may_run) {
                result = OrderResult::Refused(Refusal::EffectOpen);
            } else {
                destinations = record
                    .effects
                    .iter()
                    .zip(&effects)
                    .map(|(name, (_, effect))| goes_to(name, effect.as_ref()))
                    .collect();
            }
        }
        for destination in &destinations {
            *self.tally.sent_again.entry(destination.clone()).or_default() += 1;
        }
        self.count(record, result, &destinations);
        Ok(())
    }

    async fn act(&mut self, record: &Record) -> Result<(), Failure> {
        let result = match operate(self.store, record, self.order, &self.timing, &System).await {
            Operated::Done => OrderResult::Done,
            Operated::Overtaken => OrderResult::Overtaken,
            Operated::Blocked => OrderResult::Blocked,
            Operated::Refused(refusal) => OrderResult::of(refusal, self.order.operation),
            Operated::Unavailable => return Err(self.interrupted(store_unavailable())),
        };
        if result == OrderResult::Done && record.status == Status::Pending {
            self.seen.insert(record.key.clone());
        }
        self.count(record, result, &[]);
        Ok(())
    }

    /// Counts a record and prints it: in a dry run all, later only what went wrong, and what nobody named.
    fn count(&mut self, record: &Record, result: OrderResult, sent_again: &[String]) {
        *self.tally.results.entry(result).or_default() += 1;
        let retried =
            self.order.operation == Operation::Retry && matches!(result, OrderResult::Would | OrderResult::Done);
        self.tally.ignored += usize::from(retried && record.outcome == Some(Outcome::Ignored));
        self.tally.along += usize::from(self.along && matches!(result, OrderResult::Would | OrderResult::Done));
        self.tally.holding += usize::from(
            self.along && matches!(result, OrderResult::Refused(_) | OrderResult::Overtaken | OrderResult::Blocked),
        );
        if self.mode == Mode::Count {
            return;
        }
        if self.arguments.json {
            output::json_line(&row(record, self.order.operation, result, sent_again));
            return;
        }
        let failed = matches!(result, OrderResult::Refused(_) | OrderResult::Overtaken | OrderResult::Blocked);
        let is_told = self.mode == Mode::Foresee || failed || self.along && result == OrderResult::Done;
        self.told += usize::from(is_told);
        if !is_told || self.table.row_count() >= ROWS_MAX {
            return;
        }
        let (endpoint, key) = record.key.parts();
        self.table.add_row([
            if result == OrderResult::Would {
                self.order.operation.as_str()
            } else {
                result.describe(self.order.operation)
            },
            record.state_word(),
            endpoint,
            &record.event_type,
            error_of(record).unwrap_or("-"),
            &output::local_time(record.received_at),
            key,
        ]);
    }

    /// The failure of a run that did a part of its work.
    fn interrupted(&self, failure: Failure) -> Failure {
        let done = self.tally.of("done");
        if done == 0 {
            return failure;
        }
        let hint = format!("{}. Then resume; records that are done are skipped\n  {}", failure.hint(), self.go_on());
        Failure::unavailable(format!("{failure}, after {done} record(s) were done"), hint)
    }

    fn conclude(self, end: End) -> Exit {
        let again = if self.mode == Mode::Act { self.go_on() } else { self.again(self.tally.of("would")) };
        let Self { arguments, order, tally, table, told, since, .. } = self;
        let total: usize = tally.results.values().sum();
        let failed = tally.of("refused") + tally.of("overtaken") + tally.of("blocked");
        let exit = if total == 0 || failed > 0 || end == End::Stopped { Exit::No } else { Exit::Done };
        if arguments.json {
            output::json_line(&summary(
                order.operation,
                arguments.acts(),
                &tally,
                end,
                since.or(arguments.filter.since),
            ));
            return exit;
        }
        let rows = table.row_count();
        if rows > 0 {
            output::print(&table);
        }
        if told > rows {
            output::note(&format!("... and {} more", told - rows));
        }
        tell(order.operation, (arguments.acts(), arguments.rate), &tally, end, &again);
        tell_default(since);
        exit
    }
}

/// Whether a redaction of another record may reach this one, too.
fn may_come_along(record: &Record) -> bool {
    record.effect.is_some() || record.key.kind() == RecordKind::Envelope || record.key.is_alternate()
}

/// The keys of the effects that commits of an event created.
fn effects_of_all_generations(event: &Record) -> Vec<RecordKey> {
    [event.effect_keys(), event.earlier_effect_keys()].concat()
}

/// One record, for programs.
fn row(record: &Record, operation: Operation, result: OrderResult, sent_again: &[String]) -> Value {
    let (endpoint, key) = record.key.parts();
    let refusal = if let OrderResult::Refused(refusal) = result { Some(refusal.to_string()) } else { None };
    json!({
        "endpoint": endpoint,
        "key": key,
        "state": record.state_word(),
        "operation": operation.as_str(),
        "result": result.word(),
        "refusal": refusal,
        "sends_again": sent_again,
    })
}

/// Where an effect of the last commit went. If the effect has expired, only its name is known.
fn goes_to(name: &EffectName, effect: Option<&Record>) -> String {
    let part = effect.and_then(|effect| effect.effect.as_ref());
    part.map_or_else(|| format!("({name}, which has expired)"), |part| part.destination.to_string())
}
