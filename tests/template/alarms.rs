//! Each alarm says how urgent it is, links to the section of the runbook that is about it, and tells when it is over.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Rule, file, only};
use crate::support::template::{Template, template};

/// The alarms that count events. Five minutes without another one do not undo the first: the record is still DEAD, the
/// event still lost. So the description of each says what its OK means.
const COUNT_EVENTS: &str = "BodiesDiffer BodiesDifferInBatches DeliveriesAreTooLarge EffectsDied \
                            EventsLackAnId GatewayThrottled RecordsAreOutOfReach RecordsAreQuarantined \
                            RecordsDied RecordsDiedAsDeadLetters RoutesAreRefused WebhookFails";

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
        let anchor = description.rsplit_once(" See RunbookUrl#").map(|(_, anchor)| anchor);
        match anchor.and_then(|anchor| sections.get(anchor)) {
            Some(section) if section.contains(&format!("`{alarm}` ({severity})")) => linked += 1,
            Some(_) => findings.push(format!("{alarm}: its section does not name it with its severity, {severity}")),
            None => findings.push(format!("{alarm}: its description links to no section: {description}")),
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
        if text("MetricName") == "routes_unavailable" && text("TreatMissingData") != "ignore" {
            findings.push(format!("{alarm}: only a good read of the routes tells that they can be read again"));
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
    let runbook = file("docs/runbook.md");
    Rule(|template: &Template| findings(template, &runbook)).finds([
        ("}/page/RecordsDied\n", "}/urgent/RecordsDied\n", "does not end in a severity"),
        ("}/page/RecordsDied\n", "}/notice/RecordsDied\n", "does not name it with its severity, notice"),
        ("#records-died\n", "#records-dead\n", "links to no section"),
        ("#dead-letters-wait\n", "#records-died\n", "its section does not name it"),
        ("      OKActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]\n", "", "is over"),
        (NO_MORE_CAME, " See ", "does not say what its OK means"),
        ("ends it.\n      TreatMissingData: ignore\n", "\n      TreatMissingData: notBreaching\n", "only a good read"),
    ]);
    let of_old = runbook + "\nAlarm `DiskIsFull` (page).\n";
    only(&findings(&template(), &of_old), "the runbook names 39 alarms, the template has 38");
}
