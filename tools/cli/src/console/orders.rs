//! Orders on records: a dry run first, whose page holds the agreement to just this order, then the run itself, by the
//! code of the commands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use hookonce_protocol::trail::Operation;
use hookonce_runtime::config::environment;
use indicatif::ProgressBar;
use maud::{Markup, html};
use serde_json::json;
use tokio::sync::{Notify, SetOnce};
use tokio::task::JoinError;
use uuid::Uuid;

use super::filter::Typed;
use super::layout::{
    Html, Tab, Trouble, code, count, machine, machine_link, page, sentence, state_of, thousands, time,
};
use super::{Served, Session, Site, href};
use crate::failure::Failure;
use crate::output;
use crate::records::looks::Look;
use crate::records::operate::{
    self, Act, Carried, End, Finished, Kind, OrderArguments, OrderResult, Report, Row, Style, no_way_back,
};
use crate::records::{error_of, type_of};
use crate::stack::meter::{Cost, metered};

/// How many orders are remembered.
const RUNS_MAX: usize = 20;

/// The fields with which an order begins again. Where it goes on, only what had ended before it is left.
const AGAIN: [&str; 9] = ["state", "endpoint", "type", "error", "kind", "destination", "since", "until", "key"];

/// The risks that a person may accept for one record, each named as the flag of `replay`, and what it means.
const RISKS: [(&str, &str); 2] = [
    (
        "accept-duplicate",
        "What it does may be done already, and then it is done twice: ask the callee, or look at the data, before you replay.",
    ),
    (
        "accept-other-body",
        "Another body came under the same id, and either may be forged: compare both before you replay.",
    ),
];

/// An order: what is done, and to which records.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    operation: Operation,
    /// The endpoint and the key of one record, or the fields of a filter.
    fields: BTreeMap<String, String>,
}

/// The operations that a page offers, with the words that people read.
fn words(operation: Operation) -> (&'static str, &'static str) {
    match operation {
        Operation::Retry => ("Replay", "replayed"),
        Operation::Force => ("Apply once more", "applied once more"),
        Operation::Discard => ("Discard", "discarded"),
        Operation::Doubt => ("Doubt", "doubted"),
        Operation::Redact => ("Redact", "redacted"),
    }
}

impl Order {
    /// # Errors
    /// [`Failure::Usage`] when it is none that a page offers.
    fn of(fields: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let operation = match fields.get("operation").map(String::as_str) {
            Some("retry") => Operation::Retry,
            Some("force") => Operation::Force,
            Some("discard") => Operation::Discard,
            _ => return Err(Failure::usage("no page offers such an order", "begin at a record")),
        };
        let mut order: BTreeMap<_, _> =
            Typed::of(fields).pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        if fields.get("key").is_some_and(String::is_empty) {
            return Err(Failure::usage("no record has an empty key", "begin at a record"));
        }
        order.extend(fields.get("key").map(|key| ("key".to_owned(), key.clone())));
        let accepted = RISKS.iter().filter(|(risk, _)| order.contains_key("key") && fields.contains_key(*risk));
        let accepted: Vec<_> = accepted.map(|(risk, _)| ((*risk).to_owned(), "1".to_owned())).collect();
        order.extend(accepted);
        let until = fields.get("ended-until").filter(|until| !until.is_empty());
        order.extend(until.map(|until| ("ended-until".to_owned(), until.clone())));
        Ok(Self { operation, fields: order })
    }

    fn kind(&self) -> Kind {
        let accepts = |risk: &str| self.fields.contains_key(risk);
        Kind {
            accept_duplicate: accepts("accept-duplicate"),
            accept_other_body: accepts("accept-other-body"),
            ..Kind::of(self.operation)
        }
    }

    /// The words of the command.
    fn words(&self) -> Vec<String> {
        let field = |name: &str| self.fields.get(name).cloned().unwrap_or_default();
        if self.fields.contains_key("key") {
            return vec!["--key".to_owned(), field("endpoint"), field("key")];
        }
        self.fields.iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }

    /// The order as one text, with the number of records and that of the dry run: what an agreement is to.
    fn text(&self, agreed: &str, dry_run: &str) -> String {
        json!([self.operation.as_str(), self.fields, agreed, dry_run]).to_string()
    }

    /// The same records, with the times that the dry run fixed.
    fn fixed(&self, finished: &Finished) -> Self {
        let mut fixed = self.clone();
        if let Some(filter) = finished.selection.filter() {
            let times = [("since", filter.since), ("until", filter.until), ("ended-until", filter.ended_until)];
            let known = times.into_iter().filter_map(|(name, at)| Some((name.to_owned(), output::moment(at?))));
            fixed.fields.extend(known);
        }
        fixed
    }

    /// The page of its dry run.
    fn href(&self) -> href::Href {
        let start = href::page("orders/new").with("operation", self.operation.as_str());
        let given = |name: &&'static str| Some((*name, self.fields.get(*name)?));
        AGAIN
            .iter()
            .chain(RISKS.iter().map(|(risk, _)| risk))
            .filter_map(given)
            .fold(start, |href, (name, value)| href.with(name, value))
    }

    /// The page of the dry run of what is left. What ended since was done already, as with the command that goes on.
    fn rest(&self) -> href::Href {
        let until = self.fields.get("ended-until");
        until.map_or_else(|| self.href(), |until| self.href().with("ended-until", until))
    }
}

/// An order that was given, and what became of it.
#[derive(Debug)]
struct Running {
    number: u64,
    order: Order,
    bar: ProgressBar,
    stop: Notify,
    ended: SetOnce<Result<Carried, Failure>>,
}

/// The orders of this run of the console.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// How many orders were given.
    count: u64,
    /// The latest of them, in their order.
    latest: VecDeque<Arc<Running>>,
    /// The dry runs whose orders were given: a form that is sent twice is one order.
    dry_runs: BTreeSet<String>,
}

impl Runs {
    fn find(&self, number: &str) -> Option<Arc<Running>> {
        let number = number.parse::<u64>().ok()?;
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.latest.iter().find(|run| run.number == number).cloned()
    }

    /// The orders that have not ended yet: one at most.
    fn running(&self) -> Vec<Arc<Running>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.latest.iter().filter(|run| run.ended.get().is_none()).cloned().collect()
    }

    /// Stops the order that has not ended yet between two records, and says how far it came.
    pub(super) async fn end(&self) {
        for run in self.running() {
            run.stop.notify_one();
            let title = match run.ended.wait().await {
                Ok(carried) => title(words(run.order.operation).0, carried),
                Err(failure) => failure.to_string(),
            };
            output::note(&format!("order {} of the console: {title}", run.number));
        }
    }

    /// Takes an order in, unless another one is running, or that of this dry run was given before.
    fn begin(&self, order: &Order, dry_run: &str) -> Result<Arc<Running>, Failure> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.dry_runs.contains(dry_run) {
            return Err(Failure::usage("this order was given before", "begin with another dry run"));
        }
        if let Some(running) = runs.latest.iter().find(|run| run.ended.get().is_none()) {
            let what = format!("order {} is still running", running.number);
            return Err(Failure::usage(what, "stop it, or wait for its end: the page of all records leads to it"));
        }
        runs.dry_runs.insert(dry_run.to_owned());
        runs.count += 1;
        let running = Arc::new(Running {
            number: runs.count,
            order: order.clone(),
            bar: ProgressBar::hidden(),
            stop: Notify::new(),
            ended: SetOnce::new(),
        });
        runs.latest.push_back(Arc::clone(&running));
        if runs.latest.len() > RUNS_MAX {
            runs.latest.pop_front();
        }
        Ok(running)
    }
}

/// A form came without the token of its page.
pub(super) fn not_of_a_page() -> Failure {
    Failure::usage("this form is none that a page of this console holds", "load the page again")
}

/// What the token of the form agrees to that stops an order.
fn stopping(number: u64) -> String {
    json!(["stop", number]).to_string()
}

/// What a button says that begins an order to so many records, where that is known.
pub(super) fn offer(verb: &str, number: Option<u64>) -> String {
    number.map_or_else(|| format!("{verb}…"), |number| format!("{verb} {}…", thousands(number)))
}

/// What a page shows that may change nothing.
fn refuse_changes(site: &Site) -> Option<Response> {
    let hint = "End the console and start it with --allow-changes, or use the commands.";
    let trouble = || Trouble::forbidden("this console only shows the stack", hint);
    (!site.may_change()).then(|| trouble().page(site, Tab::Records))
}

/// The page of a dry run.
pub(super) async fn new(
    State(Served { site, session }): State<Served>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    if let Some(refusal) = refuse_changes(&site) {
        return refusal;
    }
    let foreseen = async {
        let order = Order::of(&query)?;
        let arguments = OrderArguments::of_words(order.words())?;
        let report = Report::of(order.operation, Act::Foresee, Style::Rows);
        let never = std::future::pending();
        let carried = Box::pin(operate::carry_out(&arguments, order.kind(), &site.connection, report, never)).await;
        match carried.map_err(|(failure, _)| failure)? {
            Carried::Through(finished) => Ok((order, finished)),
            // A dry run agrees to nothing.
            Carried::Disagreed { .. } | Carried::StoppedEarly => {
                Err(Failure::usage("no such order", "begin at a record"))
            }
        }
    };
    let (foreseen, cost) = metered(Box::pin(foreseen)).await;
    match foreseen {
        Ok((order, finished)) => {
            let fixed = order.fixed(&finished);
            let found = finished.report.changed();
            let name = Uuid::new_v4().simple().to_string();
            let token = session.agreement(&fixed.text(&found.to_string(), &name));
            let person = site.connection.local().map(|_| environment().get("USER").cloned().unwrap_or_default());
            let content = dry_run(&fixed, &finished.report, found, (&name, &token), person.as_deref());
            page(&site, Tab::Records, "Dry run", cost, &content).into_response()
        }
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
    }
}

/// The page of what an order would do, with the name of this dry run and the agreement to its order. `person` is the name
/// that is asked for where nobody signs in.
fn dry_run(order: &Order, report: &Report, found: usize, (name, token): (&str, &str), person: Option<&str>) -> Markup {
    let (verb, done) = words(order.operation);
    let number = u64::try_from(found).unwrap_or(0);
    let records = count(number, "record", "records");
    html! {
        h1 { "Dry run: " (records) " would be " (done) }
        // The title says the first of these.
        @for line in report.counts().iter().filter(|line| !line.starts_with("would ")) { p.note { (code(&sentence(&here(line)))) } }
        @if found > 0 {
            form.order method="post" action=(href::page("orders")) {
                input type="hidden" name="operation" value=(order.operation.as_str());
                @for (name, value) in &order.fields { input type="hidden" name=(name) value=(value); }
                input type="hidden" name="agreed" value=(found);
                input type="hidden" name="dry-run" value=(name);
                input type="hidden" name="token" value=(token);
                @if let Some(warning) = no_way_back(order.operation) { p.fault { (sentence(warning)) } }
                @for (risk, warning) in RISKS { @if order.fields.contains_key(risk) { p.fault { (warning) } } }
                label {
                    span.small { "Reason, for the audit trail" } " "
                    input name="reason" maxlength="512" required;
                }
                @if let Some(person) = person {
                    label {
                        span.small { "Your name, for the audit trail" } " "
                        input name="by" maxlength="256" value=(person) required;
                    }
                }
                div.acts { button.primary { (verb) ": " (records) } " " a.button href=(href::page("records")) { "Change nothing" } }
            }
        }
        @if !order.fields.contains_key("key") {
            p.small.note { "An order says how many records it changes, so this page read every record that the filter finds." }
        }
        (rows(order.operation, report, "State"))
    }
}

/// The records, with their states from before the order.
fn rows(operation: Operation, report: &Report, state: &str) -> Markup {
    let are_alike = report.rows.iter().all(|row| row.result == OrderResult::Would);
    html! {
        @if !report.rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Records" {
                table {
                    thead { tr { @if !are_alike { th { "Result" } } th { (state) } th.hide { "Endpoint" } th.hide { "Type" } th.hide { "Received" } th { "Key" } } }
                    tbody {
                        @for Row { result, record } in &report.rows {
                            @let (endpoint, key) = record.key.parts();
                            tr {
                                @if !are_alike { td { (result.describe(operation)) } }
                                td { (state_of(Look::of(record), error_of(record).unwrap_or(""))) }
                                td.hide { (machine(endpoint)) }
                                td.code.hide { (machine(&type_of(record))) }
                                td.hide { (time(record.received_at)) }
                                td { (machine_link(&href::record(&record.key), key)) }
                            }
                        }
                    }
                }
            }
        }
        @if report.more_rows > 0 { p.note { "And " (report.more_rows) " more." } }
    }
}

/// What the command line says, where a record's page has a button in place of a flag.
fn here(line: &str) -> String {
    line.replace("then pass --accept-duplicate", "then open the record, which has a button for that").replace(
        "then name this record with --key and pass --accept-other-body",
        "then open the record, which has a button for that",
    )
}

/// Gives the order that a dry run showed.
pub(super) async fn give(
    State(Served { site, session }): State<Served>,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    if let Some(refusal) = refuse_changes(&site) {
        return refusal;
    }
    let given = || {
        let order = Order::of(&fields)?;
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        if !session.agrees(field("token"), &order.text(field("agreed"), field("dry-run"))) {
            return Err(Failure::usage("this is not the order that a dry run showed", "begin with a dry run"));
        }
        let [reason, by] = ["reason", "by"].map(|name| field(name).trim());
        if reason.is_empty() || site.connection.local().is_some() && by.is_empty() {
            return Err(Failure::usage("an order says who gives it, and why", "go back, and fill in both"));
        }
        let agreement = [format!("--yes={}", field("agreed")), format!("--reason={reason}")];
        let by = Some(by).filter(|by| !by.is_empty()).map(|by| format!("--by={by}"));
        let arguments = OrderArguments::of_words(order.words().into_iter().chain(agreement).chain(by))?;
        Ok((site.runs.begin(&order, field("dry-run"))?, arguments))
    };
    let (running, arguments) = match given() {
        Ok(given) => given,
        Err(failure) => return Trouble::from(failure).page(&site, Tab::Records),
    };
    let answer = site.see_other(&href::order(running.number, ""));
    let run = Arc::clone(&running);
    let work = tokio::spawn(async move {
        let mut report = Report::of(run.order.operation, Act::CarryOut, Style::Rows);
        report.bar = run.bar.clone();
        let kind = run.order.kind();
        let carried =
            Box::pin(operate::carry_out(&arguments, kind, &site.connection, report, run.stop.notified())).await;
        carried.map_err(|(failure, finished)| match finished {
            Some(finished) => finished.report.interrupted(failure, "begin with a dry run again"),
            None => failure,
        })
    });
    tokio::spawn(async move {
        // Nobody else sets it.
        let _ = running.ended.set(settled(work.await));
    });
    answer
}

/// What became of an order whose work may have panicked.
fn settled(work: Result<Result<Carried, Failure>, JoinError>) -> Result<Carried, Failure> {
    work.unwrap_or_else(|_| {
        let what = "the order ended in the middle, by a bug of hookonce";
        Err(Failure::unavailable(
            what,
            "report it with the lines on the console's terminal, and begin with a dry run again",
        ))
    })
}

/// Leads to the order that has not ended yet.
pub(super) fn notice(site: &Site) -> Markup {
    html! {
        @for run in site.runs.running() {
            p.note {
                (words(run.order.operation).0) ": " (run.bar.position()) " of " (run.bar.length().unwrap_or(0)) " looked at. "
                a href=(href::order(run.number, "")) { "Look at order " (run.number) }
            }
        }
    }
}

/// The page of an order.
pub(super) async fn show(State(Served { site, session }): State<Served>, Path(number): Path<String>) -> Response {
    match site.runs.find(&number) {
        Some(run) => {
            let content = html! {
                p.fault id="silent" role="alert" hidden {
                    "This page does not keep up. Load it again. If that fails, the console has ended, and the order may have stopped in \
                     the middle: start the console again, and open the address that it prints."
                }
                (progress(&run, &session))
            };
            page(&site, Tab::Records, "Order", Cost::default(), &content).into_response()
        }
        None => no_such_order().page(&site, Tab::Records),
    }
}

/// What changes on that page, for the script.
pub(super) async fn part(State(Served { site, session }): State<Served>, Path(number): Path<String>) -> Response {
    match site.runs.find(&number) {
        Some(run) => Html(progress(&run, &session)).into_response(),
        None => no_such_order().page(&site, Tab::Records),
    }
}

fn no_such_order() -> Trouble {
    Trouble::missing("this console has no such order", "It remembers the latest ones, until it is ended.")
}

/// Asks an order to stop between two records.
pub(super) async fn stop(
    State(Served { site, session }): State<Served>,
    Path(number): Path<String>,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    match site.runs.find(&number) {
        Some(run) if !session.agrees(fields.get("token").map_or("", String::as_str), &stopping(run.number)) => {
            Trouble::from(not_of_a_page()).page(&site, Tab::Records)
        }
        Some(run) => {
            run.stop.notify_one();
            site.see_other(&href::order(run.number, ""))
        }
        None => no_such_order().page(&site, Tab::Records),
    }
}

fn progress(run: &Running, session: &Session) -> Markup {
    let (verb, _) = words(run.order.operation);
    let (looked_at, total) = (run.bar.position(), run.bar.length().unwrap_or(0));
    html! {
        @match run.ended.get() {
            None => div id="order" aria-live="polite" data-poll=(href::order(run.number, "/part")) {
                h1 { (verb) ": " (looked_at) " of " (total) " looked at" }
                progress value=(looked_at) max=(total.max(1)) aria-label="How far it is" {}
                form.acts method="post" action=(href::order(run.number, "/stop")) {
                    input type="hidden" name="token" value=(session.agreement(&stopping(run.number)));
                    button { "Stop between two records" }
                    a.button href=(href::order(run.number, "")) { "Look again" }
                }
            },
            Some(Err(failure)) => div id="order" {
                h1 { (verb) ": not done" }
                p.fault role="alert" { (code(&sentence(&failure.to_string()))) }
                @for line in failure.hint().lines() { p { (code(line)) } }
                p { a.button href=(run.order.href()) { "Dry run again" } }
            },
            Some(Ok(carried)) => div id="order" {
                h1 { (title(verb, carried)) }
                @match carried {
                    Carried::Disagreed { agreed, found, refused } => {
                        p.fault role="alert" { "You agreed to " (agreed) " and there are " (found) " now that can be." }
                        @for line in refused { p.note { (code(&sentence(&here(line)))) } }
                        p { a.button href=(run.order.href()) { "Dry run again" } }
                    }
                    Carried::StoppedEarly => p { a.button href=(run.order.href()) { "Dry run again" } },
                    Carried::Through(finished) => {
                        // The title says the first of these.
                        @for line in finished.report.counts().iter().filter(|line| !line.ends_with(" done")) { p.note { (code(&sentence(&here(line)))) } }
                        div.acts {
                            @if finished.end != End::Complete { a.button.primary href=(run.order.rest()) { "Go on: dry run of the rest" } " " }
                            a.button href=(href::page(".")) { "What happens now" }
                        }
                        (rows(run.order.operation, &finished.report, "Was"))
                    }
                }
            },
        }
    }
}

/// What became of an order.
fn title(verb: &str, carried: &Carried) -> String {
    let finished = match carried {
        Carried::Disagreed { .. } => return format!("{verb}: nothing was changed"),
        Carried::StoppedEarly => return format!("{verb}: stopped before the first record"),
        Carried::Through(finished) => finished,
    };
    let done = count(u64::try_from(finished.report.changed()).unwrap_or(0), "record", "records");
    match finished.end {
        End::Complete => format!("{verb}: {done} done"),
        End::Limit | End::Stopped => format!("{verb}: stopped after {done}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_that_panics_has_ended() {
        let work: tokio::task::JoinHandle<Result<Carried, Failure>> = tokio::spawn(async { panic!("a bug") });
        assert_eq!(settled(work.await).unwrap_err().to_string(), "the order ended in the middle, by a bug of hookonce");
    }
}
