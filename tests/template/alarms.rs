//! Each alarm says how urgent it is, links to the section of the runbook that is about it, and tells when it is over.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::metrics::watched_by;
use super::{Rule, file, only};
use crate::support::metrics::golden;
use crate::support::template::{Template, template, text};
use crate::support::tokens;
use crate::tidy::none;

/// The alarms that count events. Five minutes without another one do not undo the first: the record is still DEAD, the
/// event still lost. So the description of each says what its OK means.
const COUNT_EVENTS: &str = "NeedsALook RecordsDied WebhookFails";

const NO_MORE_CAME: &str = " OK only means that no more came. See ";

fn counts_events(alarm: &str) -> bool {
    COUNT_EVENTS.split(' ').any(|name| name == alarm)
}

/// The sections of a page by their anchors.
fn sections(page: &str) -> BTreeMap<String, String> {
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_ascii_alphanumeric() || " -".contains(*c);
        heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    let headed = page.split("\n#").skip(1).filter_map(|part| part.trim_start_matches('#').split_once('\n'));
    headed.map(|(heading, text)| (anchor(heading.trim()), text.to_owned())).collect()
}

fn findings(template: &Template, runbook: &str) -> Vec<String> {
    let sections = sections(runbook);
    let mut findings = Vec::new();
    let mut linked = 0;
    for alarm in template.resources("AWS::CloudWatch::Alarm") {
        let text = |name| template.property(alarm, &[name]).as_str().unwrap_or_default().to_owned();
        let (name, description) = (text("AlarmName"), text("AlarmDescription"));
        let severity = name.strip_prefix("hookonce/AWS::StackName/").and_then(|rest| rest.split_once('/'));
        let severity = severity.filter(|(severity, own)| ["page", "notice"].contains(severity) && *own == alarm);
        let Some((severity, _)) = severity else {
            findings.push(format!("{alarm}: the name {name} does not end in a severity and its own name"));
            continue;
        };
        let link = description.rsplit_once(" See RunbookUrl#").map(|(_, link)| link);
        // The same section without a browser.
        let anchor = link.and_then(|link| link.strip_suffix(&format!(", or run hookonce explain {alarm}")));
        match anchor.and_then(|anchor| sections.get(anchor)) {
            Some(section) if section.contains(&format!("`{alarm}` ({severity})")) => linked += 1,
            Some(_) => findings.push(format!("{alarm}: its section does not name it with its severity, {severity}")),
            None => findings.push(format!("{alarm}: its description links to no section: {description}")),
        }
        let first_step =
            description.split_once("hookonce ").and_then(|(_, rest)| rest.split_once(" --stack AWS::StackName"));
        if first_step.is_none_or(|(words, _)| words.split(' ').count() > 3) {
            findings.push(format!("{alarm}: its description names no command: {description}"));
        }
        let (raised, over) = (template.property(alarm, &["AlarmActions"]), template.property(alarm, &["OKActions"]));
        if raised == Value::Null {
            findings.push(format!("{alarm}: it tells nobody"));
        }
        if over != raised {
            findings.push(format!("{alarm}: it does not tell when it is over"));
        }
        if description.contains(NO_MORE_CAME) != counts_events(alarm) {
            findings.push(format!("{alarm}: its description does not say what its OK means"));
        }
        // One event in one period raises it, and a quiet period ends it.
        let value = |name| template.property(alarm, &[name]);
        let counts = value("Statistic") == "Sum" && value("Threshold") == 0 && value("EvaluationPeriods") == 1;
        if counts != counts_events(alarm) {
            findings.push(format!("{alarm}: the list of alarms that count events is not right about it"));
        }
    }
    let named = runbook.matches("` (page)").count() + runbook.matches("` (notice)").count();
    if findings.is_empty() && named != linked {
        findings.push(format!("the runbook names {named} alarms, the template has {linked}"));
    }
    findings
}

#[test]
fn every_alarm_links_to_the_section_that_is_about_it() {
    let runbook = file("docs/run/runbook.md");
    Rule(|template: &Template| findings(template, &runbook)).finds([
        ("}/page/RecordsDied\n", "}/urgent/RecordsDied\n", "does not end in a severity"),
        ("}/page/RecordsDied\n", "}/notice/RecordsDied\n", "does not name it with its severity, notice"),
        ("#records-died,", "#records-dead,", "links to no section"),
        ("explain RecordsDied\n", "explain RecordsDead\n", "links to no section"),
        ("#dead-letters-wait,", "#records-died,", "its section does not name it"),
        ("      OKActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]\n", "", "is over"),
        ("hookonce doctor --stack ${AWS::StackName}, then read its log", "read its log", "names no command"),
        (NO_MORE_CAME, " See ", "does not say what its OK means"),
    ]);
    let of_old = runbook + "\nAlarm `DiskIsFull` (page).\n";
    only(&findings(&template(), &of_old), "the runbook names 15 alarms, the template has 14");
}

/// Whether an alarm is raised after these periods, the last one at the end. CloudWatch takes a period without a value as
/// `TreatMissingData` says, and with `ignore` stays as it was.
fn is_raised(template: &Template, alarm: &str, was_raised: bool, periods: &[Option<f64>]) -> bool {
    let value = |name| template.property(alarm, &[name]);
    let threshold = value("Threshold").as_f64().unwrap();
    let missing = value("TreatMissingData");
    if missing == "ignore" && periods.last().copied().flatten().is_none() {
        return was_raised;
    }
    let is_bad = |period: &Option<f64>| match (period, value("ComparisonOperator").as_str().unwrap()) {
        (None, _) => missing == "breaching",
        (Some(value), "GreaterThanThreshold") => *value > threshold,
        (Some(value), "LessThanThreshold") => *value < threshold,
        (_, other) => panic!("{alarm}: {other}"),
    };
    let looked_at = usize::try_from(value("EvaluationPeriods").as_u64().unwrap()).unwrap();
    let enough = value("DatapointsToAlarm").as_u64().unwrap_or(looked_at as u64);
    let bad = periods.iter().rev().take(looked_at).filter(|period| is_bad(period)).count();
    bad as u64 >= enough
}

/// In how many quiet periods after the cure each alarm ends: a quarter of an hour.
const QUIET_MAX: usize = 3;

/// What is wrong with the alarms, given that a metric that would be 0 has no value, except for those that the relay emits
/// each minute. Of each alarm: it is quiet at rest, a fault raises it, and the end of the fault ends it.
fn deaf(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for alarm in template.resources("AWS::CloudWatch::Alarm") {
        let value = |name| template.property(alarm, &[name]);
        let threshold = value("Threshold").as_f64().unwrap();
        let watched = watched_by(template, alarm);
        let at_rest = golden().at_rest();
        let quiet = watched.first().and_then(|(_, metric, _)| at_rest.get(metric).copied());
        // AWS may have a 0 for its own metrics.
        let of_aws = watched.iter().all(|(namespace, ..)| namespace.starts_with("AWS/"));
        let quiets = if of_aws { vec![None, Some(0.0)] } else { vec![quiet] };
        let faults = match value("ComparisonOperator").as_str().unwrap() {
            "LessThanThreshold" => vec![None, Some(threshold - 1.0)],
            _ => vec![Some(threshold + 1.0)],
        };
        let periods = usize::try_from(value("EvaluationPeriods").as_u64().unwrap()).unwrap();
        let warm_up = template.property(alarm, &["WarmUpConfiguration", "WarmUpPeriodDurationInMinutes"]).as_u64();
        let is_warm = || warm_up.unwrap_or(0) * 60 > periods as u64 * value("Period").as_u64().unwrap();
        if value("TreatMissingData") == "breaching" && !is_warm() {
            findings.push(format!("{alarm} is raised on a new stack"));
        }
        for quiet in quiets {
            for fault in &faults {
                let at_rest = vec![quiet; periods];
                let during = vec![*fault; periods];
                let cured = [during.clone(), vec![quiet; QUIET_MAX]].concat();
                let steps = [("raised at rest", false, &at_rest, false), ("deaf", false, &during, true)];
                let steps = steps.into_iter().chain([("never over", true, &at_rest, false)]);
                let steps = steps.chain([("over late", true, &cured, false)]);
                let wrong = steps.filter(|(_, was, periods, is)| is_raised(template, alarm, *was, periods) != *is);
                findings.extend(wrong.map(|(what, ..)| format!("{alarm} is {what}, with {quiet:?} and {fault:?}")));
            }
        }
    }
    findings.dedup();
    findings
}

/// Zeros cost as much as other values, so most metrics have none. An alarm that waits for one never ends, and one that
/// waits for any value never rings.
#[test]
fn every_alarm_rings_and_ends_although_zeros_are_not_emitted() {
    let of = |alarm: &str, from: &str, to: &str| {
        let text = text();
        let (before, own) = text.split_once(&format!("\n  {alarm}:\n")).unwrap();
        assert!(own.contains(from));
        deaf(&Template::parse(&format!("{before}\n  {alarm}:\n{}", own.replacen(from, to, 1))))
    };
    none(&deaf(&template()));
    let day = "EvaluationPeriods: 96\n      DatapointsToAlarm: 1";
    only(
        &of("EffectsNotCalled", "EvaluationPeriods: 3\n      DatapointsToAlarm: 1", day),
        "EffectsNotCalled is over late",
    );
    let quiet = "TreatMissingData: notBreaching";
    let late = of("RecordsOverdue", quiet, "TreatMissingData: ignore");
    assert!(late.iter().any(|it| it.starts_with("RecordsOverdue is never over")), "{late:?}");
    assert!(
        of("RecordsNotProcessed", quiet, "TreatMissingData: breaching").iter().any(|it| it.contains("raised at rest"))
    );
    let heartbeat = "TreatMissingData: breaching";
    only(&of("RelayDoesNotRun", heartbeat, quiet), "RelayDoesNotRun is deaf");
    let short = "WarmUpPeriodDurationInMinutes: 10";
    only(
        &of("RelayDoesNotRun", "WarmUpPeriodDurationInMinutes: 20", short),
        "RelayDoesNotRun is raised on a new stack",
    );
    let late = of("DeadRecordsWait", "MetricName: dead_records", "MetricName: dead_oldest_age_ms");
    assert!(late.iter().any(|it| it.starts_with("DeadRecordsWait is never over")), "{late:?}");
}

/// Most providers retry after a minute, and the notice has what others lost. Deliveries may be rare, so a fault that lasts need not
/// show in each period.
#[test]
fn deliveries_that_are_not_accepted_page_once_the_fault_comes_again() {
    let template = template();
    let raised = |periods: &[Option<f64>]| is_raised(&template, "DeliveriesNotAccepted", false, periods);
    assert!(!raised(&[None, None, Some(1.0)]));
    assert!(raised(&[None, Some(1.0), Some(1.0)]));
    assert!(raised(&[Some(1.0), None, Some(1.0)]), "one delivery in ten minutes");
    assert!(template.property("WebhookLooks", &["FilterPattern"]).to_string().contains("$.delivery_retry_please > 0"));
}

/// The alarm that rolls an update back is raised in the minutes in which the update is watched.
#[test]
fn the_alarm_that_rolls_back_is_raised_in_the_minutes_in_which_it_is_watched() {
    let deploy = file("tools/cli/src/command/deploy/mod.rs");
    let minutes = deploy.split("const WATCH_MINUTES: &str = \"").nth(1).and_then(|rest| rest.split('"').next());
    let watched = minutes.unwrap().parse::<u64>().unwrap() * 60;
    let template = template();
    let value = |name| template.property("WebhookFails", &[name]).as_u64();
    let periods = value("DatapointsToAlarm").or(value("EvaluationPeriods")).unwrap();
    assert!(value("Period").unwrap() * periods <= watched, "{periods} periods");
}

/// Alarms of earlier templates, with their severity. The fault of each is still shown.
const GONE: [(&str, &str); 25] = [
    ("BodiesDiffer", "notice"),
    ("BodiesDifferInBatches", "notice"),
    ("DeliveriesAreTooLarge", "notice"),
    ("DestinationIsUnknown", "page"),
    ("DispatcherFails", "page"),
    ("DispatcherIsThrottled", "notice"),
    ("EffectCallsFail", "notice"),
    ("EffectMessagesAreHidden", "page"),
    ("EffectsDied", "page"),
    ("EffectsOverdue", "page"),
    ("EventsLackAnId", "notice"),
    ("GatewayThrottled", "notice"),
    ("MessagesAreHidden", "page"),
    ("PlanConditionsFail", "notice"),
    ("RecordsAreQuarantined", "notice"),
    ("RecordsDiedAsDeadLetters", "page"),
    ("RelayCannotReadIndex", "page"),
    ("RelayCannotSend", "page"),
    ("RoutesAreRefused", "page"),
    ("RoutesCannotBeRead", "page"),
    ("SignaturesFail", "notice"),
    ("SlowMessagesAreHidden", "page"),
    ("TableUnavailable", "page"),
    ("WorkerFails", "page"),
    ("WorkerIsThrottled", "notice"),
];

/// The words of a text that are code.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What the table of the page says wrongly about alarms that are gone. `printed` are the words that `hookonce status`
/// prints with `--json`.
fn not_shown(template: &Template, page: &str, printed: &BTreeSet<String>) -> Vec<String> {
    let alarms = template.resources("AWS::CloudWatch::Alarm");
    let pages = |alarm: &str| template.raw_text(alarm, "AlarmName").contains("/page/");
    let table = page.split("## Faults without their own alarm\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: Vec<_> = table.unwrap_or_default().lines().filter(|line| line.starts_with("| `")).collect();
    let mut findings = Vec::new();
    for (gone, severity) in GONE {
        let of = |row: &&&str| row.split('|').nth(1).is_some_and(|cell| code(cell).contains(&gone));
        let [row] = rows.iter().filter(of).collect::<Vec<_>>()[..] else {
            findings.push(format!("{gone}: not in one row"));
            continue;
        };
        let shown: Vec<_> = row.split('|').skip(3).flat_map(code).collect();
        let (by_alarms, by_status): (Vec<_>, Vec<_>) = shown.iter().partition(|word| alarms.contains(word));
        if let Some(word) = by_status.iter().find(|word| !printed.contains(**word)) {
            findings.push(format!("{gone}: neither an alarm nor a word of the status: {word}"));
        } else if shown.is_empty() || severity == "page" && !by_alarms.iter().any(|alarm| pages(alarm)) {
            findings.push(format!("{gone}: nothing that shows it is as urgent"));
        }
        if alarms.contains(&gone) {
            findings.push(format!("{gone}: it has an alarm"));
        }
    }
    if findings.is_empty() && rows.iter().flat_map(|row| code(row.split('|').nth(1).unwrap())).count() != GONE.len() {
        findings.push("the table has other rows than there are alarms that went".to_owned());
    }
    findings
}

#[test]
fn every_fault_that_lost_its_alarm_is_shown_elsewhere() {
    let path = "tools/cli/src/command/status.rs";
    let printed: BTreeSet<_> = tokens::strings(&tokens::product(path, &file(path))).into_iter().collect();
    let page = file("docs/run/alerts.md");
    let rule = Rule(|template: &Template| not_shown(template, &page, &printed));
    rule.finds([("  HandlerUnavailable:\n    Type", "  HandlerAway:\n    Type", "TableUnavailable: neither")]);
    let template = template();
    let without = |from: &str, to: &str| not_shown(&template, &page.replacen(from, to, 1), &printed);
    only(&without("| `WorkerIsThrottled`", "| Throttles"), "WorkerIsThrottled: not in one row");
    only(&without("`waiting`", "`wanting`"), "PlanConditionsFail: neither an alarm nor a word of the status: wanting");
    only(
        &without("| `HandlerUnavailable` |", "| `NeedsALook` |"),
        "TableUnavailable: nothing that shows it is as urgent",
    );
}
