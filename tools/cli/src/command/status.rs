//! `hookonce status`: does anything need a person?

use std::collections::BTreeMap;

use clap::Args;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::codes;
use crate::stack::connection::{RunningStack, StackParts};
use crate::stack::lambda::Code;
use crate::stack::status::{AwsStatus, Depth, Due, Need, StackStatus, Unreached};
use crate::stack::target::Target;
use crate::stack::watch::{Alarm, Looking, Requests, Watch};

/// The release of this command.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The row of effects that wait.
const EFFECTS_WAIT: &str = "effects PENDING";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let stack = &arguments.target.connect();
    let now = System.moment().now;
    let report = Box::pin(StackStatus::read(stack, stack.store().await, Looking::Whole, now)).await?;
    let unknown = report.unknown();
    let needs = report.needs(now);
    if arguments.json {
        let words = needs.iter().map(|need| need.word.clone());
        let unknown_words = unknown.iter().map(|(part, _)| format!("{part}_unknown"));
        output::json(&report.json(now, &words.chain(unknown_words).collect::<Vec<_>>()));
    } else {
        report.print(now, &needs, &describe_unknown(&unknown));
    }
    Ok(match (unknown.is_empty(), needs.is_empty()) {
        (false, _) => Exit::Unavailable,
        (true, false) => Exit::No,
        (true, true) => Exit::Done,
    })
}

impl StackStatus {
    fn json(&self, now: EpochMs, needs: &[String]) -> serde_json::Value {
        let depth = |depth: &Depth| {
            json!({
                "name": depth.name, "visible": depth.visible, "in_flight": depth.in_flight, "delayed": depth.delayed,
                "oldest_age_ms": depth.oldest.map(|age| age.0),
            })
        };
        let age = |due: &Due| due.oldest.map(|at| now.0 - at.0);
        let (pending, dead) = (self.records.pending.as_ref().ok(), self.records.dead.as_ref().ok());
        let waiting = self.records.waiting.as_ref().ok();
        let aws = self.aws.as_ref().map(|aws| json_of(aws, now));
        json!({
            "pending": pending.map(|due| due.count),
            "waiting": waiting.map(|due| json!({ "pending": due.count, "oldest_due_age_ms": age(due) })),
            "effects": self.records.effects.as_ref().ok().map(|due| json!({
                "pending": due.count,
                "oldest_due_age_ms": age(due),
                "dead": dead.map(|dead| dead.effects),
                "unreached": self.unreached().map(|it| json!({
                    "destination": it.destination, "count": it.count, "at_least": it.at_least, "error": it.error, "oldest_age_ms": now.0 - it.since.0,
                })).collect::<Vec<_>>(),
            })),
            "dead": dead.map(|due| due.count),
            "top_error": self.records.top_error.as_ref().ok().and_then(Option::as_ref).map(|top| json!({
                "error": top.error, "endpoint": top.endpoint, "type": top.event_type, "count": top.count, "of": top.of,
            })),
            "oldest_due_age_ms": pending.and_then(age),
            "oldest_dead_age_ms": dead.and_then(age),
            "queue": self.depths.queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "slow_queue": self.depths.slow_queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "effects_queue": self.depths.effects_queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "dead_letter_queue": self.depths.dead_letters.as_ref().ok().and_then(Option::as_ref).map(depth),
            "silent": self.silent.as_ref().ok().and_then(Option::as_ref).map(|silent| silent.iter().map(|it| json!({
                "endpoint": it.endpoint, "expect_every_ms": it.expect_every.0, "last_taken_at_ms": it.last.map(|at| at.0),
            })).collect::<Vec<_>>()),
            "paused": self.paused().map(|(function, act)| (function.as_str(), act.json())).collect::<BTreeMap<_, _>>(),
            "local": self.local.as_ref().map(|local| json!({ "url": local.url, "pid": local.pid, "version": local.parts.version })),
            "aws": aws,
            "needs": needs,
        })
    }

    fn print(&self, now: EpochMs, needs: &[Need], unknown: &[String]) {
        for Need { next, page, .. } in needs.iter().inspect(|need| output::message(&output::wrapped(&need.sentence())))
        {
            if next.starts_with("hookonce ") {
                output::message(&format!("  {next}"));
            } else if !next.is_empty() {
                output::message(&output::wrapped(next));
            }
            if !page.is_empty() {
                output::line(&format!("  {}", codes::opening(page)));
            }
        }
        for sentence in unknown {
            output::message(&output::wrapped(sentence));
        }
        if needs.is_empty() && unknown.is_empty() {
            output::line("nothing needs a person");
        }
        output::line("");
        output::print(&self.rows(now));
        if matches!(self.depths.queue, Ok(None)) {
            output::note("this is a copy of the stack's table: the stack's queues, alarms and relay are left out");
        }
    }

    /// What waits and what died, and where the stack runs. What is empty has no row.
    fn rows(&self, now: EpochMs) -> output::Table {
        let waits = |due: &Due| {
            let oldest = |at| format!("the oldest has been due for {}", output::since(at, now));
            due.oldest.filter(|at| at.0 <= now.0).map_or("none is due".to_owned(), oldest)
        };
        let died =
            |due: &Due| due.oldest.map_or_else(String::new, |at| format!("the oldest died {}", output::ago(at, now)));
        let records = [
            ("PENDING", &self.records.pending, &waits as &dyn Fn(&Due) -> String),
            ("waiting PENDING", &self.records.waiting, &waits),
            (EFFECTS_WAIT, &self.records.effects, &waits),
            ("DEAD", &self.records.dead, &died),
        ];
        let mut table = output::table(&[]);
        let is_empty = |due: &Result<Due, Failure>| due.as_ref().is_ok_and(|due| due.count == 0);
        if records.iter().all(|(_, due, _)| is_empty(due)) {
            table.add_row(["records", "none waits, none is dead", ""]);
        }
        for (name, due, describe) in records.into_iter().filter(|(_, due, _)| !is_empty(due)) {
            let count = due.as_ref().map_or("not known".to_owned(), |due| due.count.to_string());
            table.add_row([name.to_owned(), count, due.as_ref().map(describe).unwrap_or_default()]);
            for Unreached { destination, count, at_least, since, error } in
                self.unreached().filter(|_| name == EFFECTS_WAIT)
            {
                let why = format!("{error}, the oldest for {}", output::since(*since, now));
                let count = if *at_least { format!("{count} or more") } else { count.to_string() };
                table.add_row([format!("  for {destination}"), count, why]);
            }
        }
        let queues = [
            ("queue", &self.depths.queue),
            ("slow queue", &self.depths.slow_queue),
            ("effects queue", &self.depths.effects_queue),
            ("dead letters", &self.depths.dead_letters),
        ];
        let depth = |depth: &Depth| {
            let age = |age: Millis| format!(", the oldest is {} old", output::since(EpochMs(now.0 - age.0), now));
            let age = depth.oldest.map_or_else(String::new, age);
            format!("{} in flight, {} delayed{age}", depth.in_flight, depth.delayed)
        };
        let holds = |depth: &Depth| depth.oldest.is_some() || depth.visible + depth.in_flight + depth.delayed > 0;
        if queues.iter().all(|(_, known)| matches!(known, Ok(Some(depth)) if !holds(depth))) {
            table.add_row(["queues", "empty", ""]);
        }
        for (name, known) in queues {
            match known {
                Ok(Some(known)) if holds(known) => table.add_row([name, &known.visible.to_string(), &depth(known)]),
                Ok(_) => {}
                Err(_) => table.add_row([name, "not known", ""]),
            }
        }
        if let Some(RunningStack { url, pid, parts: StackParts { version, .. }, .. }) = &self.local {
            table.add_row(["runs at", url, &format!("process {pid}")]);
            table.add_row(["release", version, &of_another_release(version)]);
        }
        if self.aws.is_some() && matches!(self.silent, Ok(None)) {
            table.add_row(["silent endpoints", "not known", "you have no right to read the endpoints"]);
        }
        for row in self.aws.iter().flat_map(|aws| rows_of(aws, now)) {
            table.add_row(row);
        }
        table
    }
}

/// What could not be read, for people: one line for each cause.
fn describe_unknown(unknown: &[(&'static str, &Failure)]) -> Vec<String> {
    let mut causes: Vec<(String, Vec<&str>)> = Vec::new();
    for (part, failure) in unknown {
        let cause = format!("{failure}; {}", failure.hint());
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, parts)) => parts.push(part),
            None => causes.push((cause, vec![part])),
        }
    }
    causes.into_iter().map(|(cause, parts)| format!("not known: {}: {cause}", parts.join(", "))).collect()
}

/// A note beside a release that is not that of this command.
fn of_another_release(version: &str) -> String {
    if version == OWN_VERSION { String::new() } else { format!("this command is {OWN_VERSION}") }
}

fn json_of(aws: &AwsStatus, now: EpochMs) -> serde_json::Value {
    let watch = aws.watch.as_ref().ok();
    let alarms = |watch: &Watch| {
        let alarm = |alarm: &Alarm| json!({ "name": alarm.name, "severity": alarm.severity() });
        watch.alarms.raised.iter().map(alarm).collect::<Vec<_>>()
    };
    let functions = aws.functions.as_ref().ok();
    let code = |code: &Code| {
        let fields = json!({ "changed_at_ms": code.changed_at.map(|at| at.0), "code_sha256": code.sha256 });
        (code.role.to_owned(), fields)
    };
    let codes = functions.map(|functions| functions.codes.iter().map(code).collect::<serde_json::Map<_, _>>());
    json!({
        "functions": codes,
        "worker_is_on": functions.map(|functions| functions.worker_is_on),
        "dispatcher_is_on": functions.map(|functions| functions.dispatcher_is_on),
        "caller": aws.caller.as_ref().ok(),
        "version": aws.version.as_ref().ok(),
        "alarms": watch.map(alarms),
        "alarms_mute": watch.map(|watch| &watch.alarms.mute),
        "requests": aws.requests.iter().flatten().next().map(|requests| json!({
            "busiest_minute": requests.busiest, "limit_per_minute": requests.limit * 60,
        })),
        "relay_ran_ago_ms": watch.and_then(|watch| watch.relay_ran_at).map(|at| now.0 - at.0),
    })
}

fn rows_of(aws: &AwsStatus, now: EpochMs) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, more: &str| [name.to_owned(), value, more.to_owned()];
    let unknown = || "not known".to_owned();
    let watch = aws.watch.as_ref().ok();
    let ran = watch.map(|watch| watch.relay_ran_at.map_or("not for hours".to_owned(), |at| output::ago(at, now)));
    let busiest = |requests: &Requests| {
        row(
            "requests",
            requests.busiest.to_string(),
            &format!("in the busiest minute, {} % of the limit", requests.percent()),
        )
    };
    let busiest = match &aws.requests {
        Ok(requests) => requests.as_ref().map(busiest),
        Err(_) => Some(row("requests", unknown(), "")),
    };
    let version = aws.version.clone().ok();
    let note = of_another_release(version.as_deref().unwrap_or_default());
    let alarms = watch.map(|watch| &watch.alarms);
    let raised = alarms.map(|alarms| format!("{} of {} raised", alarms.raised.len(), alarms.count));
    let mute = alarms.filter(|alarms| !alarms.mute.is_empty());
    let mute = mute.map(|alarms| format!("{} notify nobody: docs/run/alerts.md", alarms.mute.len()));
    let functions = aws.functions.as_ref().ok();
    let code = |code: &Code| {
        let changed = code.changed_at.map_or_else(unknown, |at| format!("changed {}", output::ago(at, now)));
        let off = functions.is_some_and(|functions| match code.role {
            "worker" => !functions.worker_is_on,
            "dispatcher" => !functions.dispatcher_is_on,
            _ => false,
        });
        row(code.role, changed, &format!("code {}{}", code.sha256, if off { ", off" } else { "" }))
    };
    let codes: Vec<_> = functions.iter().flat_map(|functions| &functions.codes).map(code).collect();
    let rows = vec![
        row("alarms", raised.unwrap_or_else(unknown), &mute.unwrap_or_default()),
        row("relay ran", ran.unwrap_or_else(unknown), ""),
        row("release", version.unwrap_or_else(unknown), &note),
        row("you are", aws.caller.clone().unwrap_or_else(|_| unknown()), ""),
    ];
    rows.into_iter().chain(busiest).chain(codes).collect()
}
