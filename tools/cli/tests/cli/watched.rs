//! What the stand-in for an account answers of `CloudWatch` and its logs.

use serde_json::{Value, json as object};

use crate::aws::{Account, Alarm, now};
use crate::described::metric_filters;

impl Account {
    fn points(&self, body: &Value) -> Vec<Value> {
        let of = &body["Dimensions"][0];
        match (body["Namespace"].as_str().unwrap(), body["MetricName"].as_str().unwrap()) {
            ("hookonce/inbox", name) if body["Statistics"] == object!(["Sum"]) => {
                let days = (body["EndTime"].as_u64().unwrap() - body["StartTime"].as_u64().unwrap()) / 86_400;
                assert_eq!((days, &body["Period"], &of["Name"]), (30, &object!(86_400), &object!("function")));
                let sums = self.sums.get(&(of["Value"].as_str().unwrap(), name));
                let point = |sum: &f64| object!({ "Timestamp": now(), "Sum": sum });
                sums.into_iter().flatten().map(point).collect()
            }
            ("hookonce/inbox", "relay_ran") => {
                assert_eq!(of, &object!({ "Name": "function", "Value": "relay" }));
                self.relay_ran_at.map(|at| object!({ "Timestamp": at, "SampleCount": 1.0 })).into_iter().collect()
            }
            ("AWS/ApiGateway", "Count") => {
                assert_eq!(of, &object!({ "Name": "ApiId", "Value": "gateway-of-inbox" }));
                assert_eq!((&body["Statistics"], &body["Period"]), (&object!(["Sum"]), &object!(60)));
                let point = |before, count| object!({ "Timestamp": now() - before, "Sum": count });
                // In no order, as CloudWatch has them.
                self.requests_of_minute.iter().flat_map(|most| [point(600, *most), point(60, 1)]).collect()
            }
            ("AWS/SQS", "ApproximateAgeOfOldestMessage") => {
                assert_eq!(of["Name"], "QueueName");
                let age = self.oldest_messages.get(of["Value"].as_str().unwrap());
                let point = |age: &u64, before| object!({ "Timestamp": now() - before, "Maximum": age });
                // In no order, as CloudWatch has them.
                age.into_iter().flat_map(|age| [point(age, 60), point(&0, 120)]).collect()
            }
            other => panic!("{other:?} is not played"),
        }
    }

    pub(crate) fn cloudwatch(&self, operation: &str, body: &Value) -> Value {
        match operation {
            "DescribeAlarms" => {
                let prefix = body["AlarmNamePrefix"].as_str().unwrap();
                assert_eq!(body, &object!({ "AlarmNamePrefix": prefix, "MaxRecords": 100 }));
                let alarm = |alarm: &Alarm| {
                    object!({
                        "AlarmName": alarm.name, "AlarmDescription": alarm.description, "ActionsEnabled": true,
                        "AlarmActions": alarm.actions, "StateValue": if alarm.is_raised { "ALARM" } else { "OK" },
                        "StateTransitionedTimestamp": now() - 630,
                    })
                };
                let found = self.alarms.iter().filter(|alarm| alarm.name.starts_with(prefix));
                object!({ "MetricAlarms": found.map(alarm).collect::<Vec<_>>() })
            }
            "GetMetricStatistics" => {
                object!({ "Datapoints": self.points(body) })
            }
            "GetMetricData" => {
                let (start, end) = (body["StartTime"].as_u64().unwrap(), body["EndTime"].as_u64().unwrap());
                let result = |query: &Value| {
                    let (metric, period) =
                        (&query["MetricStat"]["Metric"], query["MetricStat"]["Period"].as_u64().unwrap());
                    assert_eq!(
                        (&metric["Namespace"], start % period, end - start),
                        (&object!("hookonce/inbox"), 0, 86_400)
                    );
                    let name = metric["MetricName"].as_str().unwrap();
                    let known =
                        self.series.iter().find(|((of, it), _)| metric["Dimensions"][0]["Value"] == *of && name == *it);
                    let (at, values): (Vec<u64>, Vec<f64>) =
                        known.map(|(_, value)| (end - period, *value)).into_iter().unzip();
                    object!({ "Id": query["Id"], "Timestamps": at, "Values": values })
                };
                object!({ "MetricDataResults": body["MetricDataQueries"].as_array().unwrap().iter().map(result).collect::<Vec<_>>() })
            }
            other => panic!("{other} is not played"),
        }
    }

    /// A search in a log is started and not done at once.
    pub(crate) fn logs(&self, operation: &str, body: &Value) -> Value {
        match operation {
            "DescribeMetricFilters" => metric_filters(&self.drift, body),
            "StartQuery" => {
                assert_eq!(body["logGroupName"], "/aws/lambda/inbox-webhook");
                // The other search is for what each endpoint took last.
                if body["queryString"].as_str().unwrap().contains("by endpoint, answer") {
                    return object!({ "queryId": "search" });
                }
                object!({ "queryId": format!("taken since {}", body["startTime"]) })
            }
            "GetQueryResults" if self.count(operation) % 2 == 1 => object!({ "status": "Running", "results": [] }),
            "GetQueryResults" if body["queryId"] != "search" => {
                let since: u64 = body["queryId"].as_str().unwrap().trim_start_matches("taken since ").parse().unwrap();
                let row = |(endpoint, at): (&&str, &u64)| {
                    let fields = [("endpoint", (*endpoint).to_owned()), ("last", (at * 1_000).to_string())];
                    fields.map(|(field, value)| object!({ "field": field, "value": value }))
                };
                let rows: Vec<_> = self.taken.iter().filter(|(_, at)| **at >= since).map(row).collect();
                object!({ "status": "Complete", "results": rows, "statistics": { "bytesScanned": 12_345.0 } })
            }
            "GetQueryResults" => {
                let row = |row: &Vec<(&str, String)>| {
                    row.iter().map(|(field, value)| object!({ "field": field, "value": value })).collect::<Vec<_>>()
                };
                let rows: Vec<_> = self.logged.iter().map(row).collect();
                object!({ "status": "Complete", "results": rows, "statistics": { "bytesScanned": 12_345.0 } })
            }
            other => panic!("{other} is not played"),
        }
    }
}
