//! What a stack costs: the counts of `hookonce cost` are those of the template and of the lines that functions write,
//! and at rest they stay within the goals.

use std::collections::BTreeSet;

use hookonce::bill::{Bill, Counted, Item, Load, Prices, WriteUnits};
use hookonce_protocol::timing::{SHARDS, Timing};
use serde_json::Value;

use super::metrics::watched_by;
use super::{changed, file, only};
use crate::support::metrics::{AT_REST, golden, series};
use crate::support::template::{Template, template};
use crate::support::{Harness, Operation, Script};
use crate::tidy::none;

/// The most that a stack may cost at rest, in dollars: at list price, and after the free tiers.
const LIST_MAX: f64 = 4.0;
const AFTER_MAX: f64 = 1.0;

/// What capacity.md assumes of a batch of the worker: its events, and the seconds that it takes.
const BATCH: f64 = 10.0;
const BATCH_SECONDS: f64 = 0.3;
/// AWS's quotas there: write units a second of a partition, of a new table and of a table, and executions of an account,
/// which are as many as one event source may have.
const PARTITION: f64 = 1_000.0;
const NEW_TABLE: f64 = 4_000.0;
const TABLE: f64 = 40_000.0;
const EXECUTIONS: f64 = 1_000.0;

/// What typical runs write, by their names in `tests/metrics.txt`.
const ACCEPTED: &str = "webhook, a delivery is accepted";
const AGAIN: &str = "webhook, it comes again";
const REFUSED: &str = "webhook, no secret fits";
const APPLIED: &str = "worker, an event is applied";
const DELIVERED: &str = "dispatcher, an effect is delivered";

/// What stands for each value in the gateway's line, as long as such values are.
const GATEWAY_VALUES: [(&str, &str); 9] = [
    ("$context.requestId", "JKJaXmPLvHcESHA="),
    ("$context.requestTimeEpoch", "1767225600000"),
    ("$context.identity.sourceIp", "203.0.113.109"),
    ("$context.routeKey", "POST /webhooks/{endpoint}"),
    ("$context.status", "200"),
    ("$context.responseLength", "38"),
    ("$context.responseLatency", "14"),
    ("$context.integrationLatency", "12"),
    ("$context.integrationErrorMessage", "-"),
];

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// How many metrics CloudWatch bills for these runs. One with a code exists twice.
fn metrics(runs: &[&str]) -> f64 {
    let lines = runs.iter().flat_map(|run| &golden().runs[*run]);
    let all: BTreeSet<_> = lines.flat_map(|line| series(line)).collect();
    number(all.iter().map(|(_, _, is_coded)| 1 + usize::from(*is_coded)).sum())
}

/// The only line of a run, as long as it is in a stack that is named `hookonce`.
fn line_bytes(run: &str) -> f64 {
    let [line] = &golden().runs[run][..] else { panic!("{run} writes one line") };
    number(line.replace("\"Namespace\":\"hookonce\"", "\"Namespace\":\"hookonce/hookonce\"").len())
}

/// What can be counted, and the rest as the command assumes it.
fn counted(template: &Template, queries: usize) -> Counted {
    let alarms = template.resources("AWS::CloudWatch::Alarm").into_iter();
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let mappings = functions.map(|function| template.events(function, "SQS").len()).sum();
    let memory = |function: &str| template.property(function, &["MemorySize"]).as_f64().unwrap();
    let counts: Value = serde_json::from_str(&file("scripts/checks/counts.json")).unwrap();
    let written = |what: &str| counts["within a tenth"][what].as_f64().unwrap();
    let lines = |what: &str| counts["exact"][what].as_f64().unwrap();
    let webhook_log_bytes = written("log bytes per delivery");
    let format = template.raw(&["Resources", "Gateway", "Properties", "AccessLogSettings", "Format"]);
    let line = GATEWAY_VALUES
        .iter()
        .rev()
        .fold(format.as_str().unwrap().to_owned(), |line, (name, value)| line.replace(name, value));
    Counted {
        alarm_metrics: number(alarms.map(|alarm| watched_by(template, alarm).len()).sum()),
        event_sources: number(mappings),
        dashboards: number(template.resources("AWS::CloudWatch::Dashboard").len()),
        metrics_at_rest: metrics(&[AT_REST]),
        metrics_of_deliveries: metrics(&[ACCEPTED, AGAIN, REFUSED, APPLIED]),
        metrics_of_effects: metrics(&[DELIVERED]),
        relay_queries: number(queries),
        relay_mb: memory("RelayFunction"),
        webhook_mb: memory("WebhookFunction"),
        worker_mb: memory("WorkerFunction"),
        dispatcher_mb: memory("DispatcherFunction"),
        relay_log_bytes: line_bytes(AT_REST),
        webhook_log_bytes,
        webhook_log_lines: lines("log lines per delivery"),
        worker_log_bytes: line_bytes(APPLIED),
        // Ten effects of one message share the line of metrics when they are counted. Here each has its own.
        dispatcher_log_bytes: (written("dispatcher: log bytes per record") + 0.9 * line_bytes(DELIVERED)).round(),
        dispatcher_log_lines: lines("dispatcher: log lines per record") + 0.9,
        // The line that says that a delivery was not accepted is about as long as the one that says that it was.
        refusal_log_bytes: webhook_log_bytes - line_bytes(ACCEPTED) + line_bytes(REFUSED),
        gateway_log_bytes: number(line.trim().len()),
        ..Counted::built_in().clone()
    }
}

/// Where the command's counts differ, and what a stack costs too much at rest.
fn wrong(template: &Template, queries: usize) -> Vec<String> {
    let counted = counted(template, queries);
    let fields = |counted: &Counted| serde_json::to_value(counted).unwrap().as_object().unwrap().clone();
    let stands = fields(Counted::built_in());
    let differ = fields(&counted).into_iter().filter(|(name, count)| stands[name] != *count);
    let mut findings: Vec<_> =
        differ.map(|(name, count)| format!("{name} is {count}, not {}", stands[&name])).collect();
    let bill = Bill::of(&Load::AT_REST, &counted, Prices::built_in());
    for (what, sum, max) in
        [("at list price", bill.list(), LIST_MAX), ("after the free tiers", bill.after_free(), AFTER_MAX)]
    {
        if sum > max {
            findings.push(format!("at rest a stack costs {sum:.2} {what}, more than {max}"));
        }
    }
    findings
}

/// How many queries one run of the relay makes when nothing is due.
async fn queries_of_a_run() -> usize {
    let mut harness = Harness::new().await;
    harness.timing.shards = Timing::standard().shards;
    let calls = Script::recording();
    harness.relay_under(&calls).await.unwrap();
    let calls = calls.calls();
    assert!(calls.iter().all(|call| *call == Operation::QueryDue || *call == Operation::CountReceived), "{calls:?}");
    calls.len()
}

#[tokio::test]
async fn the_bill_counts_what_the_template_has_and_the_functions_write() {
    let queries = queries_of_a_run().await;
    none(&wrong(&template(), queries));
    only(&wrong(&template(), queries + 2), "relay_queries is 66.0, not 64.0");
    let changed = |from: &str, to: &str| wrong(&changed(from, to), queries).join("; ");
    let polled = changed("        SlowHints:\n          Type: SQS\n", "        SlowHints:\n          Type: Cron\n");
    assert_eq!(polled, "event_sources is 2.0, not 3.0");
    let shown = changed("Type: AWS::Logs::LogGroup", "Type: AWS::CloudWatch::Dashboard");
    assert!(shown.contains("dashboards is 1.0") && shown.contains("a stack costs 6.04 at list price"), "{shown}");
}

/// The units of DynamoDB that docs/run/deploy.md explains, as its table has them.
fn formulas() -> Vec<String> {
    let of = |bytes: f64, writes: f64| WriteUnits::of_event(bytes, writes).total();
    let for_a_kb = of(2_048.0, 0.0) - of(1_024.0, 0.0);
    let for_a_write = of(1_024.0, 1.0) - of(1_024.0, 0.0);
    let fixed = of(1_024.0, 0.0) - for_a_kb;
    let duplicate = WriteUnits::of_duplicate(1_024.0).total();
    let effect = |bytes: f64| WriteUnits::of_effect(bytes).total();
    let for_a_kb_of_effect = effect(2_048.0) - effect(1_024.0);
    vec![
        format!("| together | {for_a_kb}*k* + {fixed} + {for_a_write}*W* |"),
        format!("| a duplicate | {duplicate}*k*:"),
        format!("| {for_a_kb_of_effect} for each KB of its record, and {} |", effect(1_024.0) - for_a_kb_of_effect),
    ]
}

/// The figures of pages that are no output of the command, and what is wrong with them.
fn strange_figures(page: impl Fn(&str) -> String) -> Vec<String> {
    let (counted, prices) = (Counted::built_in(), Prices::built_in());
    let list = |load: &Load| Bill::of(load, counted, prices).list();
    let million = Load { events: 1e6, duplicates: 0.01, effects: 0.0, refused: 0.0, body_bytes: 2_048.0 };
    let rest = list(&Load::AT_REST);
    let refusals = 100.0 * 86_400.0 * 30.0;
    let strangers = list(&Load { refused: refusals, ..Load::AT_REST }) - rest;
    let turned_away = prices.of(Item::LogBytes, 1e6 * (counted.gateway_log_bytes + counted.log_line_bytes)).0;
    let lines = counted.refusal_log_bytes
        + counted.gateway_log_bytes
        + (counted.webhook_log_lines + 1.0) * counted.log_line_bytes;
    let logs_of_strangers = prices.of(Item::LogBytes, refusals * lines).0;
    let (small, larger) = (WriteUnits::of_event(1_000.0, counted.plan_writes), WriteUnits::of_event(2_000.0, 0.0));
    let (effect, larger_effect) = (WriteUnits::of_effect(1_000.0), WriteUnits::of_effect(2_000.0));
    let batches = template().raw(&["Parameters", "WorkerConcurrencyMax", "Default"]).as_f64().unwrap();
    let ends = |rate: f64, what: &str| format!("| {} | {what}", thousands(rate));
    let rate = |name: &str, units: f64| format!("| write units per second, {name} | {units},000 | {units}0,000 |");
    let left = |bytes: f64| 100.0 * (counted.record_bytes(bytes) - counted.record_bytes_beside_body) / bytes;
    let deploy = [
        format!("some ${strangers:.0} a month, or ${:.0} a day", strangers / 30.0),
        format!("${logs_of_strangers:.0} of that: {:.1} KB for each request", lines / 1_000.0),
        format!("logs each 429, for ${turned_away:.2} per million"),
        format!(
            "of 256 bytes {:.0} % are left, of 2 KB {:.0} %, of 8 KB {:.0} %",
            left(256.0),
            left(2_048.0),
            left(8_192.0)
        ),
        format!("the {} bytes that a record has beside its body", counted.record_bytes_beside_body),
        format!("2 KB from {} write units to 12", of_event(&million)),
        format!("13 write units at 2 KB instead of {},", of_event(&million)),
    ];
    let capacity = [
        rate("inbox table", small.inbox),
        rate("index of due records", small.due),
        rate("journal", small.journal),
        rate("domain table", small.domain),
        format!("a record adds {} write units to the inbox table", larger.inbox - small.inbox),
        format!("An effect takes {} write units and one read unit more", effect.total()),
        format!("each further KB of its record adds {}.", larger_effect.total() - effect.total()),
        ends(batches * BATCH / BATCH_SECONDS, "the worker |"),
        ends(PARTITION / 2.0, "one item that all events share"),
        ends(NEW_TABLE / small.domain, "the domain table while it is new"),
        ends(f64::from(SHARDS) * 0.7 * PARTITION / small.due, "the index of due records"),
        ends(TABLE / small.domain, "the domain table |"),
        ends(f64::from(SHARDS) * 0.7 * PARTITION / small.journal, "the journal"),
        ends(TABLE / small.inbox, "the inbox table"),
        ends(EXECUTIONS / (counted.webhook_seconds + BATCH_SECONDS / BATCH), "the account's concurrency"),
        ends(EXECUTIONS * BATCH / BATCH_SECONDS, "one event source"),
    ];
    let overview = [format!("[about ${:.0}]", list(&million)), format!("without traffic ${rest:.2};")];
    let figures = (overview.iter().map(|figure| ("README.md", figure)))
        .chain(overview.iter().take(1).map(|figure| ("COMPARE.md", figure)))
        .chain(deploy.iter().map(|figure| ("docs/run/deploy.md", figure)))
        .chain(capacity.iter().map(|figure| ("docs/run/capacity.md", figure)))
        .map(|(name, figure)| (name, figure.clone()));
    let figures = figures.chain(formulas().into_iter().map(|formula| ("docs/run/deploy.md", formula)));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lacks = |(name, figure): &(&str, String)| !words(&page(name)).contains(figure.as_str());
    figures.filter(lacks).map(|(name, figure)| format!("{name} does not say {figure:?}")).collect()
}

/// A number without its fraction, with a comma between thousands.
fn thousands(number: f64) -> String {
    let whole = format!("{:.0}", number.floor());
    match whole.len().checked_sub(3).filter(|at| *at > 0).map(|at| whole.split_at(at)) {
        Some((thousands, rest)) => format!("{thousands},{rest}"),
        None => whole,
    }
}

/// The write units of an event of this load.
fn of_event(load: &Load) -> f64 {
    let counted = Counted::built_in();
    WriteUnits::of_event(counted.record_bytes(load.body_bytes), counted.plan_writes).total()
}

#[test]
fn the_figures_of_the_pages_are_those_of_the_bill() {
    none(&strange_figures(file));
    let changed = |name: &str| file(name).replace("without traffic $", "without traffic $1");
    only(&strange_figures(changed), "README.md does not say");
    let changed = |name: &str| file(name).replace("| 13,333 |", "| 13,334 |");
    only(&strange_figures(changed), "docs/run/capacity.md does not say");
}
