//! What CloudWatch knows of a deployed stack: its alarms, and when its relay last ran.

use std::collections::BTreeSet;

use aws_config::SdkConfig;
use hookonce_protocol::time::{EpochMs, Millis};
use serde_json::{Value, json};

use crate::bill::MONTH;
use crate::failure::Failure;
use crate::stack::cloudwatch::{Answer, METRICS};
use crate::stack::connection::Outputs;
use crate::stack::traffic::{CELL, CELLS};

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// All: records are counted to the last one, a call for some ten thousand of them. What only the command prints is
    /// asked for, too.
    Whole,
    /// As far as one read of each shard shows.
    Once,
}

/// How far back the latest point of a metric is looked for.
const LOOK_BACK: Millis = Millis::hours(3);

/// The most alarms of one stack. The template has far fewer, and one answer holds them all.
const ALARMS_MAX: usize = 100;

/// The alarms of the template, by severity and name.
const ALARMS: [&str; 14] = [
    "notice/AnswersAreSlow",
    "notice/DeadLettersWait",
    "notice/DeadRecordsWait",
    "notice/GatewayRefuses",
    "notice/NeedsALook",
    "notice/WebhookAnswers5xx",
    "page/DeliveriesNotAccepted",
    "page/EffectsNotCalled",
    "page/HandlerUnavailable",
    "page/RecordsDied",
    "page/RecordsNotProcessed",
    "page/RecordsOverdue",
    "page/RelayDoesNotRun",
    "page/WebhookFails",
];

/// An alarm that is in ALARM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alarm {
    /// Whether it can wait for working hours. Alarms that cannot wait are sorted first.
    pub(crate) is_notice: bool,
    /// Its name, without stack and severity.
    pub(crate) name: String,
    /// What to do, with the section of the runbook.
    pub(crate) description: String,
    /// Since when.
    pub(crate) since: Option<EpochMs>,
}

impl Alarm {
    fn read(fields: &Value, prefix: &str) -> Self {
        let text = |name: &str| fields[name].as_str().unwrap_or_default();
        let name = text("AlarmName");
        let (severity, name) = name.strip_prefix(prefix).and_then(|own| own.split_once('/')).unwrap_or(("", name));
        Self {
            is_notice: severity == "notice",
            name: name.to_owned(),
            description: text("AlarmDescription").to_owned(),
            since: moment(&fields["StateTransitionedTimestamp"]),
        }
    }

    /// The severity in its name.
    pub(crate) const fn severity(&self) -> &'static str {
        if self.is_notice { "notice" } else { "page" }
    }
}

/// The alarms of a stack.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// How many there are. Without any, nobody watches the stack.
    pub(crate) count: usize,
    /// Those in ALARM, the urgent ones first.
    pub(crate) raised: Vec<Alarm>,
    /// Those that notify nobody when they are raised, by severity and name.
    pub(crate) mute: Vec<String>,
    /// Those of the template that are not there, by severity and name.
    pub(crate) missing: Vec<&'static str>,
    /// The topics of SNS that they tell, each once.
    pub(crate) topics: Vec<String>,
}

impl Alarms {
    /// Reads CloudWatch's answer to [`fetch_alarms`].
    pub(crate) fn read(answer: &Value, stack: &str) -> Self {
        let prefix = prefix(stack);
        let all: Vec<_> = list(answer, "MetricAlarms").collect();
        let is_raised = |fields: &&&Value| fields["StateValue"] == "ALARM";
        let mut raised: Vec<_> = all.iter().filter(is_raised).map(|fields| Alarm::read(fields, &prefix)).collect();
        raised.sort();
        let is_mute =
            |fields: &&&Value| fields["ActionsEnabled"] == false || list(fields, "AlarmActions").next().is_none();
        let name = |fields: &Value| {
            let name = fields["AlarmName"].as_str().unwrap_or_default();
            name.strip_prefix(&prefix).unwrap_or(name).to_owned()
        };
        let names: Vec<_> = all.iter().map(|fields| name(fields)).collect();
        let actions = all.iter().flat_map(|fields| list(fields, "AlarmActions")).filter_map(Value::as_str);
        let topics: BTreeSet<_> = actions.filter(|arn| arn.split(':').nth(2) == Some("sns")).collect();
        let is_missing = |alarm: &&str| !names.iter().any(|name| name == alarm);
        Self {
            count: all.len(),
            raised,
            mute: all.iter().filter(is_mute).map(|fields| name(fields)).collect(),
            missing: ALARMS.into_iter().filter(is_missing).collect(),
            topics: topics.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// What CloudWatch knows.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The alarms.
    pub(crate) alarms: Alarms,
    /// When the relay last ran. `None` if it did not run for hours.
    pub(crate) relay_ran_at: Option<EpochMs>,
}

impl Watch {
    /// Asks CloudWatch about a stack.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when it refuses or does not answer.
    pub(crate) async fn of(config: &SdkConfig, stack: &str, now: EpochMs) -> Result<Self, Failure> {
        let alarms = Alarms::read(&fetch_alarms(config, stack).await?.outcome?, stack);
        Ok(Self { alarms, relay_ran_at: relay_ran_at(config, stack, now).await? })
    }
}

/// How near requests came to the gateway's limit in the last hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requests {
    /// How many there were in the minute that had most of them.
    pub(crate) busiest: u64,
    /// When it was.
    pub(crate) at: EpochMs,
    /// How many requests a second the gateway takes.
    pub(crate) limit: u64,
}

impl Requests {
    /// Asks CloudWatch about the gateway of a stack. `None` if the limit is not known.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when it refuses or does not answer.
    pub(crate) async fn of(config: &SdkConfig, outputs: &Outputs, now: EpochMs) -> Result<Option<Self>, Failure> {
        let Some(limit) = outputs.requests_per_second else { return Ok(None) };
        let of = ("ApiId", outputs.gateway.as_str());
        let requests = Metric { namespace: "AWS/ApiGateway", name: "Count", of, statistic: "Sum" };
        let points = requests.points(config, now, LOOK_BACK, Millis::minutes(1)).await?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
        let counts = points.into_iter().map(|(at, count)| (count as u64, at));
        let (busiest, at) = counts.max().unwrap_or((0, now));
        Ok(Some(Self { busiest, at, limit }))
    }

    /// How much of the limit the busiest minute had.
    pub(crate) fn percent(&self) -> u64 {
        (self.busiest * 100).checked_div(self.limit * 60).unwrap_or(0)
    }

    /// Whether somebody should raise the limit: a minute has peaks, so 429 comes before a minute is full.
    pub(crate) fn are_near_limit(&self) -> bool {
        self.percent() >= 80
    }
}

/// When the relay of a stack last ran. `None` if it did not run for hours.
///
/// # Errors
/// [`Failure::Unavailable`] when CloudWatch refuses or does not answer.
pub(crate) async fn relay_ran_at(config: &SdkConfig, stack: &str, now: EpochMs) -> Result<Option<EpochMs>, Failure> {
    let namespace = format!("hookonce/{stack}");
    let runs = Metric { namespace: &namespace, name: "relay_ran", of: ("function", "relay"), statistic: "SampleCount" };
    Ok(runs.latest(config, now).await?.map(|(at, _)| at))
}

/// How old the oldest message of a queue was when SQS last told CloudWatch. `None` if it did not for hours.
///
/// # Errors
/// [`Failure::Unavailable`] when CloudWatch refuses or does not answer.
pub(crate) async fn oldest_message(config: &SdkConfig, queue: &str, now: EpochMs) -> Result<Option<Millis>, Failure> {
    let name = "ApproximateAgeOfOldestMessage";
    let ages = Metric { namespace: "AWS/SQS", name, of: ("QueueName", queue), statistic: "Maximum" };
    let latest = ages.latest(config, now).await?;
    #[expect(clippy::cast_possible_truncation, reason = "ages are far below the limit")]
    Ok(latest.map(|(_, seconds)| Millis((seconds * 1_000.0) as i64)))
}

/// What the metrics of a stack's functions add up to in the last month, each given as function and name.
///
/// # Errors
/// [`Failure::Unavailable`] when CloudWatch refuses or does not answer.
pub(crate) async fn sums_of_month<const N: usize>(
    config: &SdkConfig,
    stack: &str,
    metrics: [(&str, &str); N],
    now: EpochMs,
) -> Result<[f64; N], Failure> {
    let namespace = format!("hookonce/{stack}");
    let mut sums = [0.0; N];
    for (sum, (function, name)) in sums.iter_mut().zip(metrics) {
        let metric = Metric { namespace: &namespace, name, of: ("function", function), statistic: "Sum" };
        *sum = metric.points(config, now, MONTH, Millis::days(1)).await?.iter().map(|(_, sum)| sum).sum();
    }
    Ok(sums)
}

/// What a series shows of the values of its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// How much there was.
    Sum,
    /// What all but one in a hundred stayed below.
    P99,
}

/// Metrics of a stack's functions over a day, in [`CELLS`] values each, oldest first: one request, and a hundredth of a
/// cent for ten of them. Each is given as function, name and statistic. A period without a value counts as nothing.
///
/// # Errors
/// [`Failure::Unavailable`] when CloudWatch refuses or does not answer.
pub(crate) async fn series_of_day(
    config: &SdkConfig,
    stack: &str,
    metrics: &[(&str, &str, Statistic)],
    now: EpochMs,
) -> Result<Vec<Vec<f64>>, Failure> {
    let start = (now.0.div_euclid(CELL.0) - CELLS + 1) * CELL.0 / 1_000;
    let seconds = CELL.0 / 1_000;
    let query = |(number, (function, name, statistic)): (usize, &(&str, &str, Statistic))| {
        let metric = json!({
            "Namespace": format!("hookonce/{stack}"),
            "MetricName": name,
            "Dimensions": [{ "Name": "function", "Value": function }],
        });
        let stat = match statistic {
            Statistic::Sum => "Sum",
            Statistic::P99 => "p99",
        };
        json!({ "Id": format!("m{number}"), "MetricStat": { "Metric": metric, "Period": seconds, "Stat": stat } })
    };
    let queries: Vec<_> = metrics.iter().enumerate().map(query).collect();
    // What happens while this is asked belongs to the last period.
    let input = json!({ "MetricDataQueries": queries, "StartTime": start, "EndTime": start + CELLS * seconds });
    let answer = METRICS.call(config, "GetMetricData", &input).await?.outcome?;
    let mut series = vec![vec![0.0; usize::try_from(CELLS).unwrap_or(0)]; metrics.len()];
    for result in list(&answer, "MetricDataResults") {
        let number = result["Id"].as_str().and_then(|id| id.strip_prefix('m')?.parse::<usize>().ok());
        let Some(values) = number.and_then(|number| series.get_mut(number)) else { continue };
        for (at, value) in list(result, "Timestamps").zip(list(result, "Values")) {
            let place = moment(at).and_then(|at| usize::try_from((at.0 / 1_000 - start).div_euclid(seconds)).ok());
            let Some(cell) = place.and_then(|place| values.get_mut(place)) else { continue };
            *cell = value.as_f64().unwrap_or_default();
        }
    }
    Ok(series)
}

/// A metric with one dimension that has a point each minute.
struct Metric<'a> {
    namespace: &'a str,
    name: &'a str,
    of: (&'a str, &'a str),
    statistic: &'a str,
}

impl Metric<'_> {
    /// Its latest point, if it has one.
    async fn latest(&self, config: &SdkConfig, now: EpochMs) -> Result<Option<(EpochMs, f64)>, Failure> {
        Ok(self.points(config, now, LOOK_BACK, Millis::minutes(1)).await?.into_iter().max_by_key(|(at, _)| *at))
    }

    /// Its points until now, in no order. Each stands for a period.
    async fn points(
        &self,
        config: &SdkConfig,
        now: EpochMs,
        back: Millis,
        period: Millis,
    ) -> Result<Vec<(EpochMs, f64)>, Failure> {
        let input = json!({
            "Namespace": self.namespace,
            "MetricName": self.name,
            "Dimensions": [{ "Name": self.of.0, "Value": self.of.1 }],
            "Statistics": [self.statistic],
            "Period": period.0 / 1_000,
            "StartTime": (now.0 - back.0) / 1_000,
            "EndTime": now.0 / 1_000,
        });
        let answer = METRICS.call(config, "GetMetricStatistics", &input).await?.outcome?;
        let point = |point: &Value| Some((moment(&point["Timestamp"])?, point[self.statistic].as_f64()?));
        Ok(list(&answer, "Datapoints").filter_map(point).collect())
    }
}

/// The failure of a stack that nothing watches.
pub(crate) fn no_alarms(stack: &str) -> Failure {
    Failure::usage(
        format!("CloudWatch has no alarm whose name begins with {}, so nothing watches this stack", prefix(stack)),
        "check the stack's name, then deploy it again from this release's template.yaml, which names its alarms so",
    )
}

/// Fetches all alarms of a stack: an answer with those in ALARM alone would look the same for a stack that has none.
///
/// # Errors
/// [`Failure::Unavailable`] when CloudWatch does not answer.
pub(crate) async fn fetch_alarms(config: &SdkConfig, stack: &str) -> Result<Answer, Failure> {
    let input = json!({ "AlarmNamePrefix": prefix(stack), "MaxRecords": ALARMS_MAX });
    METRICS.call(config, "DescribeAlarms", &input).await
}

/// How the names of a stack's alarms begin.
fn prefix(stack: &str) -> String {
    format!("hookonce/{stack}/")
}

/// The elements of a list that an answer has.
pub(crate) fn list<'a>(answer: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    answer.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// A time in seconds, with a fraction.
fn moment(value: &Value) -> Option<EpochMs> {
    let millis = value.as_f64()? * 1_000.0;
    #[expect(clippy::cast_possible_truncation, reason = "times are far below the limit")]
    Some(EpochMs(millis as i64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_alarms_are_those_of_the_template() {
        let template = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml")).unwrap();
        let names = template.lines().filter_map(|line| line.split_once("AlarmName: !Sub hookonce/${AWS::StackName}/"));
        assert_eq!(names.map(|(_, name)| name).collect::<BTreeSet<_>>(), ALARMS.into_iter().collect());
    }
}
