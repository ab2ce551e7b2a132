//! Whether the metrics are counted on which alarms rest. CloudWatch counts them in the lines of logs, by filters. An alarm
//! whose filter is gone stays silent.

use aws_config::SdkConfig;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::stack::cloudwatch::LOGS;
use crate::stack::watch::list;

/// What the template counts a death by, in each function that can end a record.
const DIED: &str = "{ $.record_dead > 0 }";

/// The metrics that the template counts, and the pattern of each filter.
const FILTERS: [(&str, &[&str]); 3] = [
    ("records_died", &[DIED, DIED, DIED]),
    ("records_overdue", &["{ $.relay_oldest_due_age_ms > 600000 || $.effects_oldest_due_age_ms > 600000 }"]),
    (
        "needs_a_look",
        &[
            "{ $.body_mismatch > 0 || $.config_unknown > 0 || $.delivery_retry_please > 0 || $.key_fallback > 0 || \
             $.unknown_version > 0 || $.write_invalid > 0 }",
            "{ $.body_mismatch > 0 || $.config_unknown > 0 || $.message_panicked > 0 || $.routes_refused > 0 || \
             $.unknown_version > 0 || $.write_invalid > 0 }",
            "{ $.body_mismatch > 0 || $.config_unknown > 0 || $.effects_failed_tries >= 10 || $.unknown_version > 0 || \
             $.write_invalid > 0 }",
            "{ $.config_unknown > 0 || $.destination_unknown > 0 || $.message_panicked > 0 || $.unknown_version > 0 || \
             $.write_invalid > 0 }",
            "{ $.status = \"413\" || $.status = \"429\" || $.status = \"5*\" }",
        ],
    ),
];

/// Each filter of the template is there. What somebody counts beside is theirs.
///
/// # Errors
/// [`Failure::Usage`] with the metrics that lack one; [`Failure::Unavailable`] when CloudWatch refuses or does not answer.
pub(super) async fn filters(config: &SdkConfig, stack: &str) -> Result<String, Failure> {
    let all = try_join_all(FILTERS.map(|(metric, _)| patterns(config, stack, metric))).await?;
    let lacking = |((metric, wanted), found): (&(&str, &[&str]), Vec<String>)| {
        let there = count(wanted, found);
        (there < wanted.len()).then(|| format!("{metric} has {there} of its {}", wanted.len()))
    };
    let lacking: Vec<_> = FILTERS.iter().zip(all).filter_map(lacking).collect();
    if lacking.is_empty() {
        let count: usize = FILTERS.iter().map(|(_, wanted)| wanted.len()).sum();
        return Ok(format!("{count} count what alarms watch"));
    }
    Err(Failure::usage(lacking.join("; "), "make them again: docs/run/alerts.md#an-alarm-is-missing"))
}

/// How many of these patterns were found.
fn count(wanted: &[&str], mut found: Vec<String>) -> usize {
    let taken =
        wanted.iter().filter_map(|wanted| found.iter().position(|it| it == wanted).map(|at| found.swap_remove(at)));
    taken.count()
}

/// The patterns of all filters that count a metric of a stack.
async fn patterns(config: &SdkConfig, stack: &str, metric: &str) -> Result<Vec<String>, Failure> {
    let namespace = format!("hookonce/{stack}");
    let mut patterns = Vec::new();
    let mut input = json!({ "metricNamespace": namespace, "metricName": metric });
    loop {
        let page = LOGS.call(config, "DescribeMetricFilters", &input).await?.outcome?;
        let found = list(&page, "metricFilters").filter_map(|filter| filter.get("filterPattern")?.as_str());
        patterns.extend(found.map(str::to_owned));
        let Some(next) = page.get("nextToken").and_then(Value::as_str) else { return Ok(patterns) };
        input = json!({ "metricNamespace": namespace, "metricName": metric, "nextToken": next });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_those_of_the_template() {
        let template = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml")).unwrap();
        let text = |block: &str, before: &str, after: char| {
            let (_, rest) = block.split_once(before).unwrap();
            rest[..rest.find(after).unwrap()].to_owned()
        };
        let blocks = template.split("Type: AWS::Logs::MetricFilter").skip(1);
        let of = |block: &str| (text(block, "MetricName: ", ','), text(block, "FilterPattern: '", '\''));
        let mut theirs: Vec<_> = blocks.map(of).collect();
        let mut ours: Vec<_> = FILTERS
            .iter()
            .flat_map(|(metric, wanted)| wanted.iter().map(|wanted| ((*metric).to_owned(), (*wanted).to_owned())))
            .collect();
        theirs.sort();
        ours.sort();
        assert_eq!(ours, theirs);
    }
}
