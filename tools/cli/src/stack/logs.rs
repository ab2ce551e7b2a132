//! What the endpoints of a stack on AWS answered. Its webhook function writes a line for each request, and CloudWatch Logs
//! counts them when somebody asks: nothing is written for it.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::SdkConfig;
use hookonce_protocol::time::{EpochMs, Millis};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::stack::cloudwatch::LOGS;
use crate::stack::connection::Deployed;
use crate::stack::traffic::{CELL, CELLS, EndpointTraffic, Logged};
use crate::stack::watch::list;

/// The most rows that a search returns.
const ROWS_MAX: usize = 10_000;

/// The pauses before a search is asked whether it is done: they double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How often it is asked: for a minute.
const LOOKS_MAX: usize = 30;

/// A row for each endpoint, hour and code. Lines that name no endpoint are of requests to one that does not exist.
const SEARCH: &str = "\
fields toMillis(@timestamp) as at, coalesce(code, 'none') as answer
| filter ispresent(endpoint) and (ispresent(delivery_accepted) or ispresent(delivery_duplicate)
    or ispresent(delivery_refused) or ispresent(delivery_retry_please) or ispresent(unproven_retry_please))
| fields at * delivery_accepted as accepted_at, delivery_accepted * old_secret_used as older,
    accepted_at * old_secret_used as older_at
| stats sum(delivery_accepted) as accepted, sum(delivery_duplicate) as duplicates, count(*) as requests,
    max(accepted_at) as last_accepted, sum(older) as older_secret, max(older_at) as last_older_secret,
    max(at) as last by endpoint, answer, bin(1h)
| sort last desc
| limit 10000";

/// A row for each endpoint that took a delivery.
const LAST_TAKEN: &str = "\
fields toMillis(@timestamp) as at
| filter ispresent(endpoint) and (ispresent(delivery_accepted) or ispresent(delivery_duplicate))
| stats max(at) as last by endpoint
| limit 10000";

/// When each endpoint last took a delivery, accepted or a duplicate, as the log of a stack says of the time until now.
///
/// # Errors
/// [`Failure`] when there is no such stack, or CloudWatch refuses, fails or is not done within a minute.
pub(crate) async fn last_taken(
    stack: &Deployed,
    now: EpochMs,
    back: Millis,
) -> Result<BTreeMap<String, EpochMs>, Failure> {
    let answer = search(stack, LAST_TAKEN, (now.0 - back.0) / 1_000, now).await?;
    let rows = list(&answer, "results").filter_map(Value::as_array);
    Ok(rows.filter_map(|row| Some((value(row, "endpoint")?.as_str()?.to_owned(), moment(row, "last")?))).collect())
}

/// Searches the log of a stack's webhook function, from a second on.
async fn search(stack: &Deployed, query: &str, start: i64, now: EpochMs) -> Result<Value, Failure> {
    let (account, group) = (stack.account().await?, &stack.outputs().await?.webhook_logs);
    let input = json!({
        "logGroupName": group, "startTime": start, "endTime": now.0 / 1_000, "queryString": query,
    });
    let started = LOGS.call(account, "StartQuery", &input).await?.outcome?;
    found(account, started.get("queryId")).await
}

/// What a log says of the last 24 hours.
#[derive(Debug, Default)]
pub(crate) struct LoggedDay {
    endpoints: BTreeMap<String, EndpointTraffic>,
    /// How much of the log was read for it: CloudWatch bills that.
    bytes: u64,
    /// Whether there is more than one answer holds, so that the oldest hours are missing.
    is_cut: bool,
}

impl LoggedDay {
    /// What an endpoint answered.
    pub(crate) fn endpoint(&self, id: &str) -> EndpointTraffic {
        self.endpoints.get(id).cloned().unwrap_or_default()
    }

    /// Where the counts come from, and what they leave out.
    pub(crate) fn source(&self) -> String {
        let kilobytes = self.bytes.div_ceil(1_000);
        let cut =
            if self.is_cut { "; there is more than one answer holds, so the oldest hours are missing" } else { "" };
        format!("counted in {kilobytes} KB of the webhook function's log, of 24 hours{cut}")
    }

    /// Searches the log of a stack's webhook function.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or CloudWatch refuses, fails or is not done within a minute.
    pub(crate) async fn of(stack: &Deployed, now: EpochMs) -> Result<Self, Failure> {
        let start = (now.0.div_euclid(CELL.0) - CELLS + 1) * CELL.0 / 1_000;
        Ok(Self::read(&search(stack, SEARCH, start, now).await?))
    }

    fn read(answer: &Value) -> Self {
        let mut day = Self { bytes: answer.pointer("/statistics/bytesScanned").map_or(0, number), ..Self::default() };
        let rows: Vec<_> = list(answer, "results").filter_map(Value::as_array).collect();
        for (endpoint, logged) in rows.iter().filter_map(|row| logged(row)) {
            day.endpoints.entry(endpoint).or_default().add(logged);
        }
        day.is_cut = rows.len() >= ROWS_MAX;
        day
    }
}

/// Waits until a search is done.
async fn found(account: &SdkConfig, id: Option<&Value>) -> Result<Value, Failure> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        let answer = LOGS.call(account, "GetQueryResults", &json!({ "queryId": id })).await?.outcome?;
        match answer.get("status").and_then(Value::as_str) {
            Some("Complete") => return Ok(answer),
            Some("Scheduled" | "Running") => {}
            Some(_) | None => break,
        }
    }
    Err(Failure::unavailable(
        "CloudWatch Logs did not finish the search in the log of the webhook function",
        "run it again; docs/run/runbook.md#an-endpoint-is-silent finds the same by hand",
    ))
}

/// The endpoint of a row, and what it answered.
fn logged(row: &[Value]) -> Option<(String, Logged)> {
    let count = |name: &str| value(row, name).map_or(0, number);
    let code = value(row, "answer")?.as_str().filter(|answer| *answer != "none");
    let logged = Logged {
        accepted: count("accepted"),
        older_secret: count("older_secret"),
        duplicates: count("duplicates"),
        refused: code.map(|code| (count("requests"), code.to_owned())),
        last_accepted: moment(row, "last_accepted"),
        last_older_secret: moment(row, "last_older_secret"),
        last: moment(row, "last")?,
    };
    Some((value(row, "endpoint")?.as_str()?.to_owned(), logged))
}

/// A field of a row.
fn value<'a>(row: &'a [Value], name: &str) -> Option<&'a Value> {
    row.iter().find(|it| it["field"] == name).map(|it| &it["value"])
}

/// A moment in a row, if there was one.
fn moment(row: &[Value], name: &str) -> Option<EpochMs> {
    value(row, name).and_then(|it| i64::try_from(number(it)).ok()).map(EpochMs).filter(|at| at.0 > 0)
}

/// A number as CloudWatch Logs writes it: as a text in a row, large ones with an exponent.
fn number(value: &Value) -> u64 {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float ends at the limits"
    )]
    return number as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that the search reads are those that the function writes.
    #[test]
    fn the_search_names_what_the_webhook_function_writes() {
        let written = include_str!("../../../../tests/metrics.txt");
        let line = |of: &str| -> Value {
            let mut typical = written.lines().filter(|line| line.starts_with('{') && line.contains("\"webhook\""));
            serde_json::from_str(typical.find(|line| line.contains(of)).unwrap()).unwrap()
        };
        let metrics: Vec<_> = SEARCH.split("ispresent(").skip(2).map(|it| it.split(')').next().unwrap()).collect();
        assert_eq!(metrics.len(), 5);
        let taken: Vec<_> = LAST_TAKEN.split("ispresent(").skip(2).map(|it| it.split(')').next().unwrap()).collect();
        assert_eq!(taken, metrics[..2], "what was accepted, and duplicates");
        assert!(SEARCH.contains("old_secret_used"));
        for metric in metrics.into_iter().chain(["old_secret_used"]) {
            assert!(written.lines().any(|it| it.split(' ').take(2).eq(["webhook", metric])), "{metric}");
        }
        for (metric, field) in [("delivery_accepted", "endpoint"), ("delivery_refused", "code")] {
            assert!(line(metric)[metric].is_number() && line(metric)[field].is_string(), "{metric} {field}");
        }
        assert!(line("delivery_accepted")["code"].is_null());
    }

    fn row(fields: &[(&str, &str)]) -> Vec<Value> {
        fields.iter().map(|(field, value)| json!({ "field": field, "value": value })).collect()
    }

    #[test]
    fn rows_of_one_endpoint_add_up_and_the_latest_refusal_counts() {
        let hour = 3_600_000_i64;
        let now = EpochMs(500_000 * hour);
        let last = |hours: i64| (now.0 - hours * hour).to_string();
        let (one, two, three) = (last(1), last(2), last(3));
        let rows = [
            row(&[
                ("endpoint", "shop"),
                ("answer", "none"),
                ("accepted", "3"),
                ("duplicates", "1"),
                ("last_accepted", &three),
                ("last", &three),
            ]),
            row(&[("endpoint", "shop"), ("answer", "signature_mismatch"), ("requests", "2"), ("last", &one)]),
            row(&[("endpoint", "shop"), ("answer", "timestamp_missing"), ("requests", "4"), ("last", &two)]),
            row(&[
                ("endpoint", "shop"),
                ("answer", "none"),
                ("accepted", "1.2E1"),
                ("last_accepted", "1.79999E12"),
                ("older_secret", "2"),
                ("last_older_secret", "1.79998E12"),
                ("last", &one),
            ]),
            row(&[("answer", "none"), ("last", &one)]),
        ];
        let day = LoggedDay::read(&json!({ "results": rows, "statistics": { "bytesScanned": 2048.0 } }));
        let shop = day.endpoint("shop");
        assert_eq!((shop.totals(now), day.bytes, day.is_cut), ((15, 6), 2048, false));
        assert_eq!(shop.last_refusal, Some((EpochMs(now.0 - hour), "signature_mismatch".to_owned())));
        assert_eq!(shop.last_accepted, Some(EpochMs(1_799_990_000_000)));
        assert_eq!((shop.by_older_secret(now), shop.last_older_secret), (2, Some(EpochMs(1_799_980_000_000))));
        let hours = shop.hours(now);
        assert_eq!((hours.len(), hours.iter().filter(|hour| hour.accepted > 0).count()), (24, 2));
        assert_eq!(day.endpoint("other"), EndpointTraffic::default());
    }
}
