//! Carries out an operator's order on the records of a key or a filter: first as a dry run, then one by one.

mod again;
mod arguments;
mod each;
mod person;
mod report;
mod result;

use std::pin::pin;

use hookonce_aws::DynamoStore;
use hookonce_protocol::operator::Order;
use hookonce_protocol::trail::Operation;
use hookonce_protocol::write::Table;

use self::arguments::Agreement;
pub(crate) use self::arguments::OrderArguments;
use self::each::{Run, each};
pub(crate) use self::person::{Person, REASON, check_lengths};
use self::report::note_disagreement;
pub(crate) use self::report::{Act, Report, Row, Style, no_way_back};
pub(crate) use self::result::{End, OrderResult};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt;
use crate::records::{Beginnings, Selection, agree_to_scan, note_default_since, whole_keys};
use crate::stack::connection::Connection;

/// Number of index partitions that a dry run reads in parallel.
const READS_AT_ONCE: usize = 8;

/// What a command does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
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

impl Kind {
    /// An operation that accepts no risk and needs no scan.
    pub(crate) const fn of(operation: Operation) -> Self {
        Self { operation, accept_duplicate: false, accept_other_body: false, scan: None }
    }
}

/// What became of an order.
#[derive(Debug)]
pub(crate) enum Carried {
    /// It went through the records.
    Through(Box<Finished>),
    /// The filter does not find so many records as a person agreed to, but so many that can be changed. Nothing was changed.
    Disagreed {
        agreed: usize,
        found: usize,
        /// What is refused, and why.
        refused: Vec<String>,
    },
    /// It was stopped before all records were counted. Nothing was changed.
    StoppedEarly,
}

/// An order that went through its records, or as far as it was let.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) order: Order,
    pub(crate) selection: Selection,
    pub(crate) report: Report,
    pub(crate) end: End,
}

/// Carries out an order, or foresees what it would do if it has no agreement. `stop` ends it between two records.
///
/// # Errors
/// [`Failure`] when the arguments are wrong or the store does not answer, with what was done until then.
pub(crate) async fn carry_out(
    arguments: &OrderArguments,
    kind: Kind,
    stack: &Connection,
    mut report: Report,
    stop: impl Future<Output = ()>,
) -> Result<Carried, (Failure, Option<Box<Finished>>)> {
    let mut stop = pin!(stop);
    let begun = Box::pin(begin(arguments, kind, stack)).await.map_err(|failure| (failure, None))?;
    let Begun { order, selection, store } = begun;
    let run =
        Run { store: &store, order: &order, is_named: arguments.names_records(), limit: arguments.limit, rate: None };
    if let Some(Agreement::Counted(agreed)) = arguments.yes {
        let counting = output::spinner("counting what it would change");
        let mut counted = Report::of(kind.operation, Act::Foresee, Style::Silent);
        let end = Box::pin(each(&run, selection.pages(&store, READS_AT_ONCE), &mut counted, &mut stop)).await;
        counting.finish_and_clear();
        let found = counted.changed();
        if end.map_err(|failure| (failure, None))? == End::Stopped {
            return Ok(Carried::StoppedEarly);
        }
        if found != agreed {
            return Ok(Carried::Disagreed { agreed, found, refused: counted.refused() });
        }
    }
    let acts = arguments.acts();
    let run = Run { rate: arguments.yes.map(|_| arguments.rate), ..run };
    if acts && selection.filter().is_some() && report.shows_progress() {
        let total = selection.total(&store).await.map_err(|failure| (failure, None))?;
        let most = arguments.limit.and_then(|limit| u64::try_from(limit).ok()).unwrap_or(u64::MAX);
        let total = total.min(most);
        report.begin(total);
        // An index also has entries of records that the rest of the filter leaves out.
        report.of = matches!(selection, Selection::Index(_)).then(|| format!("of at most {total}"));
    }
    match (arguments.yes, &selection) {
        (Some(Agreement::Counted(agreed)), _) => report.of = Some(format!("of {agreed}")),
        // A redaction also changes records that hold bytes of those.
        (_, Selection::Keys(keys)) if kind.operation != Operation::Redact => {
            report.of = Some(format!("of {}", keys.len() / 2));
        }
        _ => {}
    }
    // To act on pages that are as fresh as possible, read one at a time.
    let pages = selection.pages(&store, if acts { 1 } else { READS_AT_ONCE });
    let end = Box::pin(each(&run, pages, &mut report, &mut stop)).await;
    report.bar.finish_and_clear();
    match end {
        Ok(end) => Ok(Carried::Through(Box::new(Finished { order, selection, report, end }))),
        Err(failure) => {
            let finished = Finished { order, selection, report, end: End::Stopped };
            Err((failure, Some(Box::new(finished))))
        }
    }
}

/// An order before its first record.
struct Begun {
    order: Order,
    selection: Selection,
    store: DynamoStore,
}

async fn begin(arguments: &OrderArguments, kind: Kind, stack: &Connection) -> Result<Begun, Failure> {
    let order = arguments.order(kind, stack).await?;
    let selection = arguments.selection(kind)?;
    arguments.check_agreement(kind.operation)?;
    if arguments.acts() {
        stack.parts().await?.takes_changes()?;
    }
    let store = stack.whole_store().await?;
    let selection = match selection {
        Selection::Keys(_) => {
            let beginnings = if arguments.acts() { Beginnings::Refused } else { Beginnings::Allowed };
            Selection::Keys(whole_keys(stack, &store, &arguments.named(), beginnings).await?)
        }
        selection @ (Selection::Index(_) | Selection::Table(_)) => selection,
    };
    if let (Selection::Table(_), Some(agreed)) = (&selection, kind.scan) {
        let hint = "pass --scan to agree, or --since to read only what an index lists";
        agree_to_scan(&store, &[Table::Inbox], agreed || arguments.acts(), hint).await?;
    }
    Ok(Begun { order, selection, store })
}

/// Runs a command.
///
/// # Errors
/// [`Failure`] when the arguments are wrong or the store does not answer. Running the command again goes on.
pub(crate) async fn run(arguments: OrderArguments, kind: Kind) -> Result<Exit, Failure> {
    let operation = kind.operation;
    let act = if arguments.acts() { Act::CarryOut } else { Act::Foresee };
    let style = if arguments.json { Style::Json } else { Style::Table };
    let mut report = Report::of(operation, act, style);
    if style == Style::Table && arguments.acts() && !arguments.names_records() && output::is_watched() {
        report.bar = output::bar(operation.as_str(), 0);
    }
    let stack = arguments.target.connect();
    report.lacking = arguments.person.lacking(&stack).filter(|_| act == Act::Foresee);
    let carried = Box::pin(carry_out(&arguments, kind, &stack, report, interrupt::ctrl_c())).await;
    let Finished { order, selection, report, end } = match carried {
        Ok(Carried::Through(finished)) => *finished,
        Ok(Carried::Disagreed { agreed, found, refused }) => {
            note_disagreement(operation, agreed, found, &refused);
            return Ok(Exit::No);
        }
        Ok(Carried::StoppedEarly) => {
            output::note("nothing was changed: stopped before all records were counted");
            return Ok(Exit::No);
        }
        Err((failure, None)) => return Err(failure),
        Err((failure, Some(finished))) => {
            let Finished { order, selection, report, .. } = *finished;
            return Err(report.interrupted(failure, &arguments.again(&order, &selection, &report)));
        }
    };
    let again = arguments.again(&order, &selection, &report);
    let since = selection.filter().and_then(|filter| filter.since);
    if arguments.json {
        output::json_line(&report.summary(end, since));
        if report.changed() > 0 {
            report.lacking.iter().for_each(|sentence| output::note(sentence));
        }
    } else {
        report.print(end, arguments.rate, &again);
        note_default_since(since.filter(|_| arguments.filter.since.is_none()));
    }
    Ok(report.exit(end))
}
