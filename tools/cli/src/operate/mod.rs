//! Carries out an operator's order on the records of a key or a filter: first as a dry run, then one by one.

mod again;
mod arguments;
mod each;
mod person;
mod report;
mod result;

use hookonce_protocol::trail::Operation;
use hookonce_protocol::write::Table;

use self::arguments::Agreement;
pub(crate) use self::arguments::OrderArguments;
use self::each::{Run, each};
pub(crate) use self::person::{Person, REASON, check_lengths};
use self::report::{Report, Style, note_disagreement};
use self::result::End;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::{Selection, agree_to_scan, note_default_since};

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

/// Runs a command.
///
/// # Errors
/// [`Failure`] when the arguments are wrong or the store does not answer. Running the command again goes on.
pub(crate) async fn run(arguments: OrderArguments, kind: Kind) -> Result<Exit, Failure> {
    let (operation, acts) = (kind.operation, arguments.acts());
    let stack = arguments.target.connect();
    let order = &arguments.order(kind, &stack).await?;
    let selection = arguments.selection(kind)?;
    arguments.check_agreement(operation)?;
    let store = &stack.whole_store().await?;
    let mut total = None;
    if let (Selection::Table(_), Some(agreed)) = (&selection, kind.scan) {
        let hint = "pass --scan to agree, or --since to read only what an index lists";
        total = Some(agree_to_scan(store, &[Table::Inbox], agreed || acts, hint).await?);
    }
    let run = Run { store, order, is_named: arguments.names_records(), limit: arguments.limit, rate: None };
    if let Some(Agreement::Counted(agreed)) = arguments.yes {
        let counting = output::spinner("counting what it would change");
        let mut counted = Report::of(operation, false, Style::Silent);
        let end = Box::pin(each(&run, selection.pages(store, READS_AT_ONCE), &mut counted)).await;
        counting.finish_and_clear();
        let found = counted.changed();
        if end? == End::Stopped || found != agreed {
            note_disagreement(operation, agreed, found);
            return Ok(Exit::No);
        }
    }
    let run = Run { rate: arguments.yes.map(|_| arguments.rate), ..run };
    let mut report = Report::of(operation, acts, if arguments.json { Style::Json } else { Style::Table });
    if acts && !arguments.json && selection.filter().is_some() && output::is_watched() {
        let total = match total {
            Some(total) => total,
            None => selection.total(store).await?,
        };
        report.bar = output::bar(operation.as_str(), total);
    }
    // To act on pages that are as fresh as possible, read one at a time.
    let pages = selection.pages(store, if acts { 1 } else { READS_AT_ONCE });
    let end = Box::pin(each(&run, pages, &mut report)).await;
    report.bar.finish_and_clear();
    let again = arguments.again(order, &selection, &report);
    let end = end.map_err(|failure| report.interrupted(failure, &again))?;
    let since = selection.filter().and_then(|filter| filter.since);
    if arguments.json {
        output::json_line(&report.summary(end, since));
    } else {
        report.print(end, arguments.rate, &again);
        note_default_since(since.filter(|_| arguments.filter.since.is_none()));
    }
    Ok(report.exit(end))
}
