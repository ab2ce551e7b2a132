//! Reads of CloudWatch and of its logs.

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use error_reporter::Report;
use hookonce_aws::SignedService;
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::handlers::remote::Cause;
use serde_json::Value;

use crate::failure::Failure;
use crate::stack::account::{exchange, refused};

/// A service that speaks JSON and is called without its SDK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonService {
    signed: SignedService,
    /// How the names of its permissions begin.
    actions: &'static str,
    /// The name of its interface in requests.
    interface: &'static str,
    /// The media type of its protocol.
    media: &'static str,
}

/// Metrics and alarms.
pub(crate) const METRICS: JsonService = JsonService {
    signed: SignedService { name: "monitoring", id: "CloudWatch" },
    actions: "cloudwatch",
    interface: "GraniteServiceVersion20100801",
    media: "application/x-amz-json-1.0",
};

/// Logs, and searches in them.
pub(crate) const LOGS: JsonService = JsonService {
    signed: SignedService { name: "logs", id: "CloudWatch Logs" },
    actions: "logs",
    interface: "Logs_20140328",
    media: "application/x-amz-json-1.1",
};

/// An answer, and the service's clock when it was given.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The fields, or why the service refused.
    pub(crate) outcome: Result<Value, Failure>,
    /// To the second.
    pub(crate) date: Option<EpochMs>,
}

impl JsonService {
    /// Calls an operation.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when the service does not answer.
    pub(crate) async fn call(self, config: &SdkConfig, operation: &str, input: &Value) -> Result<Answer, Failure> {
        let action = format!("{}:{operation}", self.actions);
        let broken = |cause: &dyn std::error::Error| refused(&action, None, &Report::new(cause));
        let request = self.request(config, operation, input.to_string()).await.map_err(|error| broken(&*error))?;
        let response = exchange(request).await.map_err(|error| broken(&*error))?;
        let fields: Value = serde_json::from_slice(response.body().bytes().unwrap_or_default()).unwrap_or_default();
        let date = response.headers().get("date").and_then(parse_date);
        let outcome = if response.status().is_success() { Ok(fields) } else { Err(refusal(&action, &fields)) };
        Ok(Answer { outcome, date })
    }

    async fn request(self, config: &SdkConfig, operation: &str, body: String) -> Result<HttpRequest, Cause> {
        let target = format!("{}.{operation}", self.interface);
        let headers = [("content-type", self.media), ("x-amz-target", target.as_str())];
        self.signed.request(config, "POST", "/", &headers, body.into_bytes()).await
    }
}

/// The failure that a refusal stands for.
fn refusal(action: &str, fields: &Value) -> Failure {
    let code = fields["__type"].as_str().map(|code| code.rsplit('#').next().unwrap_or(code));
    let reason = ["message", "Message"].iter().find_map(|name| fields[name].as_str()).unwrap_or("it gave no reason");
    refused(action, code, &reason)
}

/// Reads the `Date` header.
fn parse_date(text: &str) -> Option<EpochMs> {
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(EpochMs(at.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_an_answer_is_read() {
        assert_eq!(parse_date("Sun, 22 Nov 2026 14:00:00 GMT"), Some(EpochMs(1_795_356_000_000)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
