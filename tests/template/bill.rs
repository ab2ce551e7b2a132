//! What a stack costs while nothing is delivered, as docs/deploy.md has it: the units are counted here.

use hookonce_protocol::timing::Timing;

use super::metrics::watched_by;
use super::{changed, file, only};
use crate::support::metrics::{AT_REST, golden};
use crate::support::template::{Template, template};
use crate::support::{Harness, Operation, Script};
use crate::tidy::none;

const MINUTES: f64 = 30.0 * 24.0 * 60.0;
/// What is assumed: five pollers that wait for 20 seconds each, and the time of one run of the relay.
const POLLS_PER_MINUTE: f64 = 15.0;
const RELAY_SECONDS: f64 = 0.4;
/// What CloudWatch adds to the bytes of a line.
const LINE_BYTES: f64 = 26.0;
/// The most that a stack may cost at rest, in dollars: at list price, and after the free tiers.
const LIST_MAX: f64 = 4.0;
const AFTER_MAX: f64 = 1.0;

/// The units of a month, by the first cell of their row. The line has the namespace of a stack named `hookonce`.
fn units(template: &Template, queries: usize) -> Vec<(&'static str, f64)> {
    let alarms = template.resources("AWS::CloudWatch::Alarm").into_iter();
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let mappings = functions.map(|function| template.events(function, "SQS").len()).sum::<usize>();
    let [line] = &golden().runs[AT_REST][..] else { panic!("one line each minute") };
    let gigabytes = template.property("RelayFunction", &["MemorySize"]).as_f64().unwrap() / 1_024.0;
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    vec![
        ("alarms", number(alarms.map(|alarm| watched_by(template, alarm).len()).sum())),
        // Each run of the relay looks for dead letters once.
        ("receives", (number(mappings) * POLLS_PER_MINUTE + 1.0) * MINUTES),
        ("custom metrics", number(golden().at_rest().len())),
        ("reads", number(queries) / 2.0 * MINUTES),
        ("function time", gigabytes * RELAY_SECONDS * MINUTES),
        ("invocations", MINUTES),
        ("log bytes", (number(line.len() + "/hookonce".len()) + LINE_BYTES) * MINUTES),
        ("dashboards", number(template.resources("AWS::CloudWatch::Dashboard").len())),
    ]
}

/// A number of the table, such as `$0.40 per million`.
fn number(cell: &str) -> f64 {
    let cell = cell.trim().replace("**", "");
    let (figure, per) = cell.split_once(" per ").map_or((cell.as_str(), 1.0), |(figure, per)| match per {
        "million" => (figure, 1e6),
        "thousand million" => (figure, 1e9),
        _ => panic!("{cell}"),
    });
    figure.replace(['$', ','], "").parse::<f64>().unwrap_or_else(|_| panic!("{cell} is no number")) / per
}

/// What is wrong with the table.
fn wrong(template: &Template, page: &str, queries: usize) -> Vec<String> {
    let section =
        page.split("\n### While nothing is delivered\n").nth(1).and_then(|rest| rest.split("\n\n### ").next());
    let rows: Vec<Vec<_>> = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut findings = Vec::new();
    let mut check = |what: &str, stands: f64, is: f64| {
        if (stands - is).abs() > 0.005 {
            findings.push(format!("{what} is {is:.2}, not {stands}"));
        }
    };
    let counted = units(template, queries);
    let (mut list, mut after) = (0.0, 0.0);
    for (name, units) in &counted {
        let Some(row) = rows.iter().find(|row| row[0] == *name) else {
            panic!("the page has no row of {name}");
        };
        let (price, free) = (number(row[3]), number(row[4]));
        check(name, number(row[2]), *units);
        check(&format!("{name}, list price"), number(row[5]), units * price);
        check(&format!("{name}, after the free tier"), number(row[6]), (units - free).max(0.0) * price);
        list += units * price;
        after += (units - free).max(0.0) * price;
    }
    let sum = rows.last().unwrap();
    check("the sum", number(sum[5]), list);
    check("the sum after the free tiers", number(sum[6]), after);
    if rows.len() != counted.len() + 1 {
        findings.push("a row has units that nobody counts".to_owned());
    }
    for (what, sum, max) in [("at list price", list, LIST_MAX), ("after the free tiers", after, AFTER_MAX)] {
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
async fn the_bill_at_rest_is_that_of_the_page() {
    let queries = queries_of_a_run().await;
    let (page, stack) = (file("docs/deploy.md"), template());
    none(&wrong(&stack, &page, queries));
    let without = |from: &str, to: &str| wrong(&stack, &page.replacen(from, to, 1), queries);
    only(&without("| 14 | $0.10 |", "| 15 | $0.10 |"), "alarms is 14.00, not 15");
    only(&without("| **$3.04** |", "| **$3.05** |"), "the sum is 3.04");
    only(&without("| $1.40 | $0.40 |", "| $1.40 | $0.50 |"), "alarms, after the free tier");
    let changed = |from: &str, to: &str| wrong(&changed(from, to), &page, queries).join("; ");
    let polled = changed("        SlowHints:\n          Type: SQS\n", "        SlowHints:\n          Type: Cron\n");
    assert!(polled.contains("receives is 1339200.00"), "{polled}");
    let shown = changed("Type: AWS::Logs::LogGroup", "Type: AWS::CloudWatch::Dashboard");
    assert!(shown.contains("dashboards is 1.00") && shown.contains("a stack costs 6.04 at list price"), "{shown}");
}
