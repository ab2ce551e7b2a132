//! The report: for a terminal, as JSON, and what the page shows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::course::{Sent, Storm};
use super::event::Request;
use super::plan::Case;
use super::scenario::{PlannedScenario, Scenario};
use super::traces::Traces;
use super::verdict::{Fact, Finding};
use super::wire::{Exchange, Outcome, head};
use super::{CONTROL, Order};
use crate::output;

/// How many events a scenario names that did not do what they must.
const NAMED: usize = 3;

/// How much of a body is shown, in characters.
const BODY_CHARACTERS_MAX: usize = 600;

/// How much of a request stands in a line, in characters: 80 columns with their indent.
const LINE_CHARACTERS_MAX: usize = 73;

/// How much of what signing added is shown where a person gave the secret, in characters.
const SIGNED_CHARACTERS_MAX: usize = 12;

/// Why nothing was sent of a scenario that the catalog announces.
const NOTHING_TO_CHANGE: &str = "this event has nothing that it could change, or no request was left for it";

/// In place of a secret that a person gave.
const WITHHELD: &str = "WITHHELD";

/// An event that was sent, and how often it was applied.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) sent: Sent,
    pub(super) traces: usize,
}

/// A race that was run again.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) case: Case,
    pub(super) shown: usize,
    pub(super) of: usize,
}

/// What was sent and found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) verdict: &'static str,
    pub(super) summary: String,
    pub(super) url: String,
    pub(super) provider: String,
    pub(super) provider_name: String,
    pub(super) event_type: String,
    pub(super) seed: u64,
    pub(super) traces: &'static str,
    pub(super) control: usize,
    pub(super) requests: usize,
    pub(super) seconds: u64,
    pub(super) scenarios: Vec<Part>,
    pub(super) not_sent: Vec<NotSent>,
    pub(super) answers: Answers,
}

/// A scenario that was sent.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    pub(super) scenario: &'static str,
    pub(super) says: &'static str,
    pub(super) expected: &'static str,
    pub(super) found: String,
    pub(super) is_good: bool,
    pub(super) events: usize,
    pub(super) deliveries: usize,
    pub(super) good: usize,
    pub(super) twice: usize,
    pub(super) never: usize,
    pub(super) unsettled: usize,
    pub(super) accepted: usize,
    pub(super) not_refused: usize,
    /// What the catalog says about it, and where that comes from.
    pub(super) catalog: String,
    pub(super) source: String,
    pub(super) named: Vec<Named>,
    /// How often a race that was found showed again, such as `3 of 20`.
    pub(super) shown_again: String,
}

/// An event that did not do what it must.
#[derive(Debug, Serialize)]
pub(super) struct Named {
    pub(super) event: String,
    pub(super) number: usize,
    pub(super) traces: usize,
    pub(super) requests: Vec<Shown>,
    /// The command that sends only this event.
    pub(super) only: String,
}

/// A request as people read it.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) at_ms: u64,
    pub(super) took_ms: u64,
    pub(super) answer: String,
    pub(super) head: String,
    pub(super) body: String,
}

/// A scenario that was not sent.
#[derive(Debug, Serialize)]
pub(super) struct NotSent {
    pub(super) scenario: &'static str,
    pub(super) why: String,
}

/// How the endpoint answered genuine events.
#[derive(Debug, Serialize)]
pub(super) struct Answers {
    pub(super) median_ms: u64,
    pub(super) slowest_ms: u64,
    pub(super) by_status: BTreeMap<String, usize>,
    pub(super) deadline: String,
}

impl Report {
    pub(super) fn new(
        order: &Order,
        storm: &Storm,
        planned: &[PlannedScenario],
        judged: &[Judged],
        again: &[Again],
        traces: &Traces,
    ) -> Self {
        let is_counted = traces.are_counted();
        let part = |planned: &PlannedScenario| {
            let of: Vec<_> = judged.iter().filter(|it| it.sent.event.case.scenario == planned.scenario).collect();
            (!of.is_empty()).then(|| part(order, storm, planned, &of, again, is_counted))
        };
        let scenarios: Vec<_> = planned.iter().filter_map(part).collect();
        let total = Finding::of(judged.iter().map(fact), is_counted);
        let not_sent = if order.only.is_none() { not_sent(planned, &scenarios) } else { Vec::new() };
        let seconds = storm.wire.started.elapsed().as_secs();
        let is_good = total.is_good();
        let summary = if is_good { good_summary(total.events, is_counted) } else { total.faults().join(", ") };
        Self {
            verdict: if is_good { "passed" } else { "failed" },
            summary,
            url: order.url.clone(),
            provider: order.provider.id().to_owned(),
            provider_name: order.provider.name().to_owned(),
            event_type: storm.sample.event_type.to_owned(),
            seed: order.seed,
            traces: traces.word(),
            control: CONTROL,
            requests: storm.wire.pace.sent(),
            seconds,
            scenarios,
            not_sent,
            answers: answers(judged, &order.provider.facts().deadline),
        }
    }

    /// Whether every event did what it must.
    pub(super) fn is_good(&self) -> bool {
        self.scenarios.iter().all(|part| part.is_good)
    }

    /// Prints it for a person.
    pub(super) fn print(&self) {
        output::line(&output::wrapped(&format!(
            "{} at {}: {} requests in {} s, events of type {}, seed {}",
            self.provider_name, self.url, self.requests, self.seconds, self.event_type, self.seed
        )));
        output::line("");
        let mut table = output::table(&["", "scenario", "events", "sent", "found"]);
        for part in &self.scenarios {
            table.add_row([
                if part.is_good { "✓" } else { "✕" }.to_owned(),
                part.scenario.to_owned(),
                part.events.to_string(),
                part.deliveries.to_string(),
                part.found.clone(),
            ]);
        }
        output::print(&table);
        self.scenarios.iter().filter(|part| !part.is_good).for_each(Part::print);
        if !self.not_sent.is_empty() {
            output::line("\nnot sent:");
        }
        for part in &self.not_sent {
            output::line(&output::wrapped(&format!("  {}: {}", part.scenario, part.why)));
        }
        let Answers { median_ms, slowest_ms, deadline, .. } = &self.answers;
        output::line("");
        output::line(&output::wrapped(&format!(
            "answers: {median_ms} ms (median), {slowest_ms} ms (slowest); {} waits: {deadline}",
            self.provider_name
        )));
        if self.traces == Traces::Uncounted.word() {
            output::line("traces not counted");
        }
        output::line("");
        output::line(&output::wrapped(&format!("{}.", self.summary)));
    }
}

/// The scenarios of which nothing was sent, and why.
fn not_sent(planned: &[PlannedScenario], sent: &[Part]) -> Vec<NotSent> {
    let missing = planned.iter().filter(|planned| sent.iter().all(|part| part.scenario != planned.scenario.word()));
    let why =
        |planned: &PlannedScenario| if planned.is_sent { NOTHING_TO_CHANGE.to_owned() } else { planned.why.clone() };
    missing.map(|planned| NotSent { scenario: planned.scenario.word(), why: why(planned) }).collect()
}

fn good_summary(events: usize, is_counted: bool) -> String {
    if is_counted {
        return format!("all {events} events did what they must: genuine ones were applied once, forgeries never");
    }
    format!("all {events} events were answered as they must be")
}

impl Part {
    fn print(&self) {
        output::line("");
        output::line(&output::wrapped(&format!("{}: {}. Expected: {}.", self.scenario, self.says, self.expected)));
        output::line(&output::wrapped(&format!("  {}", self.catalog)));
        output::line(&output::wrapped(&format!("  {}", self.source)));
        for named in &self.named {
            output::line(&format!("  {} was applied {}", named.event, times(named.traces)));
            for request in &named.requests {
                let Shown { at_ms, took_ms, answer, .. } = request;
                output::line(&format!("    at {at_ms} ms: {answer}, after {took_ms} ms"));
                output::line(&format!("      {}", request.in_a_line()));
            }
            output::line(&format!("    only this one:\n      {}", named.only));
        }
        if !self.shown_again.is_empty() {
            output::line(&format!("  sent again as it was, it showed {}", self.shown_again));
        }
    }
}

impl Shown {
    /// How it begins: its first line, its length, and its body.
    fn in_a_line(&self) -> String {
        let mut lines = self.head.lines();
        let first = lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1");
        let length: String = lines.filter_map(|line| line.strip_prefix("content-length: ")).collect();
        let text = format!("{first}, {length} bytes: {}", self.body);
        text.chars().take(LINE_CHARACTERS_MAX).collect::<String>() + "…"
    }
}

/// How often, in words.
pub(super) fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// What became of a request, in words.
pub(super) fn outcome(exchange: &Exchange) -> String {
    match exchange.outcome {
        Outcome::Answered(status) => status.to_string(),
        Outcome::HungUp => "the sender went away".to_owned(),
        Outcome::Unanswered => "no answer".to_owned(),
    }
}

fn fact(judged: &Judged) -> Fact {
    let exchanges = &judged.sent.exchanges;
    Fact {
        scenario: judged.sent.event.case.scenario,
        deliveries: exchanges.len(),
        traces: judged.traces,
        last: exchanges.last().map_or(Outcome::Unanswered, |last| last.outcome),
        was_taken: exchanges.iter().any(|exchange| exchange.outcome.is_taken()),
    }
}

fn part(
    order: &Order,
    storm: &Storm,
    planned: &PlannedScenario,
    of: &[&Judged],
    again: &[Again],
    is_counted: bool,
) -> Part {
    let found = Finding::of(of.iter().map(|it| fact(it)), is_counted);
    let is_forgery = planned.scenario.is_forgery();
    let named = of.iter().filter(|it| fact(it).fault(is_counted).is_some()).take(NAMED);
    let again = again.iter().find(|again| again.case.scenario == planned.scenario);
    Part {
        scenario: planned.scenario.word(),
        says: planned.scenario.description(),
        expected: if is_forgery {
            "it takes no effect, and is answered with 4xx"
        } else {
            "each event is applied once"
        },
        found: match (found.is_good(), is_forgery, is_counted) {
            (true, true, _) => "all refused".to_owned(),
            (true, false, true) => "all were applied once".to_owned(),
            (true, false, false) => "all were taken".to_owned(),
            (false, ..) => found.faults().join(", "),
        },
        is_good: found.is_good(),
        events: found.events,
        deliveries: found.deliveries,
        good: found.good,
        twice: found.twice,
        never: found.never,
        unsettled: found.unsettled,
        accepted: found.accepted,
        not_refused: found.not_refused,
        catalog: format!("{}: {}", order.provider.name(), planned.why),
        source: planned.source.clone(),
        named: named.map(|judged| name(order, storm, judged)).collect(),
        shown_again: again.map(|again| format!("{} of {}", again.shown, again.of)).unwrap_or_default(),
    }
}

fn name(order: &Order, storm: &Storm, judged: &Judged) -> Named {
    let Judged { sent, traces } = judged;
    let case = sent.event.case;
    Named {
        event: sent.event.name.as_str().to_owned(),
        number: case.number,
        traces: *traces,
        requests: sent.exchanges.iter().map(|exchange| shown(order, storm, exchange)).collect(),
        only: only(order, case.scenario, case.number),
    }
}

fn shown(order: &Order, storm: &Storm, exchange: &Exchange) -> Shown {
    let request = open(&exchange.request, order.secret.as_deref());
    let body = String::from_utf8_lossy(&request.body);
    let mut letters = body.chars();
    let mut text: String = letters.by_ref().take(BODY_CHARACTERS_MAX).collect();
    if letters.next().is_some() {
        text.push('…');
    }
    Shown {
        at_ms: millis(exchange.at),
        took_ms: millis(exchange.took),
        answer: outcome(exchange),
        head: head(&storm.wire.target, &request).trim_end().replace("\r\n", "\n"),
        body: text,
    }
}

/// A request without what only its sender may know: a secret that a person gave, and most of what it signed.
fn open(request: &Request, given: Option<&str>) -> Request {
    let Some(secret) = given else { return request.clone() };
    let shorten = |value: &str| value.chars().take(SIGNED_CHARACTERS_MAX).collect::<String>() + "…";
    let open = |(place, (name, value)): (usize, &(String, String))| {
        let value = if value.contains(secret) {
            WITHHELD.to_owned()
        } else if place >= request.own_headers {
            shorten(value)
        } else {
            value.clone()
        };
        (name.clone(), value)
    };
    let headers = request.headers.iter().enumerate().map(open).collect();
    let body = String::from_utf8_lossy(&request.body).replace(secret, WITHHELD).into_bytes();
    Request { headers, own_headers: request.own_headers, body }
}

/// The command that sends only this event.
fn only(order: &Order, scenario: Scenario, number: usize) -> String {
    let quoted = |text: &str| shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into);
    let mut words = vec![
        "hookonce storm".to_owned(),
        quoted(&order.url),
        format!("--provider {}", order.provider.id()),
        format!("--seed {}", order.seed),
        format!("--only {scenario}/{number}"),
    ];
    if order.is_long {
        words.push("--long".to_owned());
    }
    words.extend(order.secret.as_ref().map(|_| "--secret -".to_owned()));
    words.extend(order.sink.map(|port| format!("--sink {port}")));
    words.extend(order.run.as_ref().map(|command| format!("--run {}", quoted(command))));
    if !order.own.is_empty() {
        words.push(format!("--i-own-this {}", quoted(&order.own)));
    }
    if !order.command.is_empty() {
        words.push("--".to_owned());
        words.extend(order.command.iter().map(|word| quoted(word)));
    }
    // A person may have written the secret into a command.
    order.secret.iter().fold(words.join(" "), |text, secret| text.replace(secret, WITHHELD))
}

fn answers(judged: &[Judged], deadline: &str) -> Answers {
    let genuine = judged.iter().filter(|it| !it.sent.event.case.scenario.is_forgery());
    let exchanges: Vec<_> = genuine.flat_map(|it| &it.sent.exchanges).collect();
    let is_answered = |it: &&&Exchange| matches!(it.outcome, Outcome::Answered(_));
    let mut times: Vec<_> = exchanges.iter().filter(is_answered).map(|it| it.took).collect();
    times.sort_unstable();
    let mut by_status = BTreeMap::new();
    for exchange in &exchanges {
        *by_status.entry(outcome(exchange)).or_default() += 1;
    }
    Answers {
        median_ms: times.get(times.len() / 2).copied().map_or(0, millis),
        slowest_ms: times.last().copied().map_or(0, millis),
        by_status,
        deadline: deadline.to_owned(),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use hookonce_providers::Catalog;

    use super::*;

    #[test]
    fn a_scenario_of_which_nothing_was_sent_gives_a_reason() {
        let planned = |scenario: Scenario, is_sent: bool| PlannedScenario {
            scenario,
            is_sent,
            why: "the catalog says so".to_owned(),
            source: String::new(),
        };
        let planned = [planned(Scenario::Byte, true), planned(Scenario::Stale, false)];
        let found = not_sent(&planned, &[]);
        let found: Vec<_> = found.iter().map(|one| (one.scenario, one.why.as_str())).collect();
        assert_eq!(found, [("byte", NOTHING_TO_CHANGE), ("stale", "the catalog says so")]);
    }

    #[test]
    fn a_secret_that_was_given_is_nowhere_in_what_is_shown() {
        let secret = "whsec_given";
        let headers = [
            ("x-event", "a"),
            ("x-token", secret),
            ("x-basic", "Basic whsec_given"),
            ("x-signature", "0123456789abcdef"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let request = Request { headers, own_headers: 1, body: format!("{{\"token\":\"{secret}\"}}").into_bytes() };
        let shown = open(&request, Some(secret));
        let text = format!("{:?}{}", shown.headers, String::from_utf8_lossy(&shown.body));
        assert!(
            !text.contains(secret) && !text.contains("0123456789abcdef") && text.contains("0123456789ab…"),
            "{text}"
        );
        assert_eq!(open(&request, None), request, "one that was made up is shown");
        let order = Order {
            run: Some(format!("SECRET={secret} npm start")),
            command: vec!["show".to_owned(), secret.to_owned()],
            ..Order::plain(Catalog::built_in().provider("stripe").unwrap(), Some(secret))
        };
        let again = only(&order, Scenario::Race, 3);
        let expected = "hookonce storm http://127.0.0.1:3000/in --provider stripe --seed 1 --only race/3 --secret - \
                        --run 'SECRET=WITHHELD npm start' -- show WITHHELD";
        assert_eq!(again, expected);
    }
}
