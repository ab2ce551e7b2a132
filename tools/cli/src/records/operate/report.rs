//! What a run did to its records, or would do: for people and for programs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hookonce_protocol::operator::Refusal;
use hookonce_protocol::record::{Outcome, Record};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::trail::Operation;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::result::{End, OrderResult};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::looks::Look;
use crate::records::{Page, error_of, shown_key, type_of};

/// The most rows that are printed. All records are counted.
const ROWS_MAX: usize = 50;

/// How records are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Not at all.
    Silent,
    /// Each as a line of JSON, at once.
    Json,
    /// As rows at the end: of a dry run all, of a run that acts what went wrong, and what nobody named.
    Table,
    /// As rows at the end, all of them.
    Rows,
}

/// Whether a run changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// No: it is a dry run.
    Foresee,
    /// Yes.
    CarryOut,
}

/// What a run did to one record, or would do.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) result: OrderResult,
    pub(crate) record: Record,
}

/// The counts of a run, and the rows of its table.
#[derive(Debug)]
pub(crate) struct Report {
    operation: Operation,
    act: Act,
    style: Style,
    /// Of how many records, in words. `None` if they are not counted before.
    pub(super) of: Option<String>,
    /// What to add before the order can be carried out. `None` if nothing is known to be missing.
    pub(super) lacking: Option<&'static str>,
    /// How far the run is.
    pub(crate) bar: ProgressBar,
    /// What is shown of single records.
    pub(crate) rows: Vec<Row>,
    /// Rows that did not fit.
    pub(crate) more_rows: usize,
    /// Entries that were read.
    examined: usize,
    /// Records of another version.
    pub(super) unreadable: usize,
    /// Records that no handler or route wanted, among those that are or would be retried.
    ignored: usize,
    /// Effects that wait, for which no duplicate is accepted.
    pub(super) waiting: usize,
    /// Records that are or would be redacted because they hold bytes of a redacted event.
    along: usize,
    /// Records that hold bytes of a redacted event and keep them.
    holding: usize,
    /// How many effects a force would send again, by destination.
    sent_again: BTreeMap<String, usize>,
    /// How many records each result has.
    results: BTreeMap<OrderResult, usize>,
}

impl Report {
    pub(crate) fn of(operation: Operation, act: Act, style: Style) -> Self {
        Self {
            operation,
            act,
            style,
            of: None,
            lacking: None,
            bar: ProgressBar::hidden(),
            rows: Vec::new(),
            more_rows: 0,
            examined: 0,
            unreadable: 0,
            ignored: 0,
            waiting: 0,
            along: 0,
            holding: 0,
            sent_again: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    fn acts(&self) -> bool {
        self.act == Act::CarryOut
    }

    /// Whether a person is told how far the run is: by the bar on a terminal, or on a page of the console.
    pub(super) fn shows_progress(&self) -> bool {
        match self.style {
            Style::Table => output::is_watched(),
            Style::Rows => true,
            Style::Json | Style::Silent => false,
        }
    }

    /// Begins to show how far the run is, of so many entries.
    pub(super) fn begin(&self, total: u64) {
        self.bar.set_length(total);
        self.bar.reset();
        output::goes_on(&self.bar);
    }

    /// Counts what was read for a page.
    pub(super) fn read(&mut self, page: &Page) {
        self.examined += page.examined;
        self.unreadable += page.unreadable;
        if matches!(self.style, Style::Json | Style::Table) {
            page.note_missing();
        }
    }

    /// How many records have a result with this word.
    fn count(&self, word: &str) -> usize {
        self.results.iter().filter(|(result, _)| result.word() == word).map(|(_, count)| count).sum()
    }

    /// How many records were changed, or would be.
    pub(crate) fn changed(&self) -> usize {
        self.count("would") + self.count("done")
    }

    /// Counts a record and prints it. `along` says that it is redacted only because it holds bytes of a redacted event,
    /// `sends_again` where a force would send its effects again.
    pub(super) fn add(&mut self, record: &Record, result: OrderResult, along: bool, sends_again: &[String]) {
        let changed = result.changes();
        let failed = result.failed();
        *self.results.entry(result).or_default() += 1;
        for destination in sends_again {
            *self.sent_again.entry(destination.clone()).or_default() += 1;
        }
        let ignored = self.operation == Operation::Retry && record.outcome == Some(Outcome::Ignored);
        self.ignored += usize::from(ignored && changed);
        self.along += usize::from(along && changed);
        self.holding += usize::from(along && failed);
        match self.style {
            Style::Json => output::json_line(&self.json(record, result, sends_again)),
            Style::Rows => self.add_row(record, result),
            Style::Table if !self.acts() || failed || along && result == OrderResult::Done => {
                self.add_row(record, result);
            }
            Style::Silent | Style::Table => {}
        }
    }

    /// What failed comes first, so that no number of others leaves it out. Then the newest do, as in `hookonce list`.
    fn add_row(&mut self, record: &Record, result: OrderResult) {
        let order = |result: OrderResult, record: &Record| {
            (!result.failed(), Reverse(record.received_at), record.key.as_str().to_owned())
        };
        let new = order(result, record);
        let place = self.rows.partition_point(|row| order(row.result, &row.record) <= new);
        // A body is not shown, and may be large.
        self.rows.insert(place, Row { result, record: Record { body: None, ..record.clone() } });
        if self.rows.len() > ROWS_MAX {
            self.rows.pop();
            self.more_rows += 1;
        }
    }

    fn table(&self) -> output::Table {
        let mut table = output::table(&["would", "state", "endpoint", "type", "error", "received", "key"]);
        for Row { result, record } in &self.rows {
            table.add_row([
                result.describe(self.operation).into(),
                Look::cell_of(record),
                record.key.parts().0.into(),
                type_of(record).as_ref().into(),
                error_of(record).unwrap_or("-").into(),
                output::local_moment(record.received_at).into(),
                shown_key(&record.key).into(),
            ]);
        }
        table
    }

    /// One record, for programs.
    fn json(&self, record: &Record, result: OrderResult, sends_again: &[String]) -> Value {
        let (endpoint, key) = record.key.parts();
        let refusal = if let OrderResult::Refused(refusal) = result { Some(refusal.to_string()) } else { None };
        json!({
            "endpoint": endpoint,
            "key": key,
            "state": record.state_word(),
            "operation": self.operation.as_str(),
            "result": result.word(),
            "refusal": refusal,
            "sends_again": sends_again,
        })
    }

    /// The counts, for programs.
    pub(super) fn summary(&self, end: End, since: Option<EpochMs>) -> Value {
        json!({ "summary": {
            "operation": self.operation.as_str(),
            "dry_run": !self.acts(),
            "examined": self.examined,
            "would": self.count("would"),
            "done": self.count("done"),
            "done_before": self.count("done_before"),
            "overtaken": self.count("overtaken"),
            "blocked": self.count("blocked"),
            "refused": self.count("refused"),
            "unreadable": self.unreadable,
            "sends_again": self.sent_again,
            "since_ms": since.map(|since| since.0),
            "complete": end == End::Complete,
        }})
    }

    /// Prints the table and the counts, for people.
    pub(super) fn print(&self, end: End, rate: f64, again: &str) {
        if !self.rows.is_empty() {
            output::print(&self.table());
        }
        let more = (self.more_rows > 0).then(|| format!("... and {} more", self.more_rows));
        let parts = [more.into_iter().collect(), self.counts(), self.next(end, rate, again)];
        parts.iter().flatten().for_each(|sentence| output::note(sentence));
    }

    /// What is refused, and why.
    pub(super) fn refused(&self) -> Vec<String> {
        let refused = self.results.iter().filter(|(result, _)| matches!(result, OrderResult::Refused(_)));
        refused.map(|(result, count)| self.of_result(*result, *count)).collect()
    }

    /// What was done, or would be.
    pub(crate) fn counts(&self) -> Vec<String> {
        let mut sentences: Vec<_> =
            self.results.iter().map(|(result, count)| self.of_result(*result, *count)).collect();
        if self.along > 0 {
            sentences.push(format!(
                "{} of these only {} bytes of the events: effects, other bodies under their ids, and deliveries that the \
                 events came in",
                self.along,
                if self.along == 1 { "holds" } else { "hold" }
            ));
        }
        if self.holding > 0 {
            sentences.push(format!(
                "bytes of the events are still in {} above: let what waits end, or discard it, then run the same command again",
                output::number_of(&self.holding, "record")
            ));
        }
        if !self.sent_again.is_empty() {
            let to: Vec<_> = self.sent_again.iter().map(|(to, count)| format!("{to} ({count})")).collect();
            sentences.push(format!(
                "their last commits sent {}; a force sends such effects again, with new keys: {}",
                output::number_of(&self.sent_again.values().sum::<usize>(), "effect"),
                to.join(", ")
            ));
        }
        if self.ignored > 0 {
            sentences.push(format!(
                "{} of these {} IGNORED: today's routes and handlers decide again, and what they still do not want ends as \
                 IGNORED again; `hookonce route explain --endpoint ID --file FILE` shows which route takes an event",
                self.ignored,
                if self.ignored == 1 { "is" } else { "are" }
            ));
        }
        if self.waiting > 0 {
            sentences.push(format!(
                "{} of these {}: a call may be under way, so --accept-duplicate is left out there",
                self.waiting,
                if self.waiting == 1 { "is a PENDING effect" } else { "are PENDING effects" }
            ));
        }
        if self.results.is_empty() {
            sentences.push("no record matches; `hookonce list` with the same filters shows what there is".to_owned());
        }
        if self.unreadable > 0 {
            sentences.push(format!(
                "left out {} of another hookonce version",
                output::number_of(&self.unreadable, "record")
            ));
        }
        sentences
    }

    fn of_result(&self, result: OrderResult, found: usize) -> String {
        let (operation, records) = (self.operation, output::number_of(&found, "record"));
        match result {
            OrderResult::Would => format!("would {operation} {records}"),
            OrderResult::Done => format!("{operation}: {records} done"),
            OrderResult::DoneBefore if operation == Operation::Redact => {
                format!("{records} without a body since an earlier run")
            }
            OrderResult::DoneBefore => format!("{records}: {}", Refusal::ForcedBefore),
            OrderResult::Overtaken => {
                format!("{records} changed after the read: another operator or the worker was first")
            }
            OrderResult::Blocked => format!(
                "{records} not changed: DynamoDB rejected the write, or other transactions conflicted with it; \
                 retry one at a time, with --key"
            ),
            OrderResult::Refused(refusal) => format!("refused {records}: {refusal}"),
        }
    }

    /// What a person does next.
    fn next(&self, end: End, rate: f64, again: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        let runs_again = matches!(self.operation, Operation::Retry | Operation::Force);
        if self.acts() && self.count("done") > 0 && runs_again {
            sentences.push("the relay sends their hints within its budget; watch `hookonce list`".to_owned());
        }
        // A command to go on with stands at the end.
        match (end, self.acts()) {
            (End::Complete, _) => {}
            (End::Limit, true) => {
                sentences.push(format!("there may be more records: --limit was reached. To go on:\n  {again}"));
            }
            (End::Limit, false) => sentences.push("there may be more records: --limit was reached".to_owned()),
            (End::Stopped, true) => {
                let done = self.count("done");
                let done =
                    self.of.as_ref().map_or_else(|| output::number_of(&done, "record"), |of| format!("{done} {of}"));
                sentences.push(format!("stopped: {done} done. To resume; these are skipped:\n  {again}"));
            }
            (End::Stopped, false) => sentences.push("stopped".to_owned()),
        }
        if !self.acts() && self.count("would") > 0 {
            sentences.extend(no_way_back(self.operation).into_iter().chain(self.lacking).map(str::to_owned));
            sentences
                .push(format!("nothing was changed: this was a dry run. Pass --yes to do it, at {rate}/s:\n  {again}"));
        }
        sentences
    }

    /// The failure of a run that did a part of its work.
    pub(crate) fn interrupted(&self, failure: Failure, again: &str) -> Failure {
        let done = self.count("done");
        if done == 0 {
            return failure;
        }
        let hint = format!("{}. Then resume; records that are done are skipped\n  {again}", failure.hint());
        Failure::unavailable(format!("{failure}, after {} done", output::number_of(&done, "record")), hint)
    }

    /// How the command ends.
    pub(super) fn exit(&self, end: End) -> Exit {
        let failed = self.count("refused") + self.count("overtaken") + self.count("blocked");
        if self.results.is_empty() || failed > 0 || end == End::Stopped { Exit::No } else { Exit::Done }
    }
}

/// Notes that the records are no longer those that a person agreed to.
pub(super) fn note_disagreement(operation: Operation, agreed: usize, found: usize, refused: &[String]) {
    output::note(&format!(
        "nothing was changed: you agreed to {operation} {}, and the filter finds {found} now that can be. Run it without --yes \
         to see them",
        output::number_of(&agreed, "record")
    ));
    for sentence in refused {
        output::note(sentence);
    }
}

/// What nobody can take back, before it is done.
pub(crate) const fn no_way_back(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Discard => Some("there is no way back: a discarded record never runs again"),
        Operation::Redact => Some("there is no way back: an erased body cannot be read or replayed by anybody"),
        Operation::Force => Some("there is no way back: what is applied once more stays so"),
        Operation::Doubt => Some("what ends so runs again only if a person accepts that it may be carried out twice"),
        Operation::Retry => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::scale::dead;

    #[test]
    fn what_failed_comes_first_and_then_the_newest_however_many_were_done_before() {
        let received = |at| EpochMs(i64::try_from(at).unwrap());
        let mut report = Report::of(Operation::Retry, Act::CarryOut, Style::Rows);
        // Partitions are read in any order.
        for index in (0..ROWS_MAX + 2).map(|at| at * 5 % (ROWS_MAX + 2)) {
            let result = if index > 1 { OrderResult::Done } else { OrderResult::Blocked };
            report.add(&Record { received_at: received(index), ..dead(index) }, result, false, &[]);
        }
        let rows: Vec<_> = report.rows.iter().map(|row| row.record.received_at).collect();
        let expected = [1, 0].into_iter().chain((4..ROWS_MAX + 2).rev()).map(received);
        assert_eq!((rows, report.more_rows), (expected.collect(), 2));
    }
}
