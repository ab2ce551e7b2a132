//! The queues of a deployed stack: what waits in them, and what of them is not as the template made it.

use aws_config::SdkConfig;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::QueueAttributeName;
use error_reporter::Report;
use hookonce_aws::sqs_client;
use hookonce_local::tables::{StackShape, queue_policy};
use hookonce_runtime::config::MESSAGE_BYTES_MAX;
use serde_json::{Value, json};

use super::policies::{sorted, statements};
use super::{Check, REPAIR};
use crate::failure::Failure;
use crate::output;
use crate::stack::account::{CALL_MAX, refused};
use crate::stack::connection::{Outputs, StackParts};
use crate::stack::lambda::DeployedFunctions;
use crate::stack::status::dead_letter_queue;

/// What the template says of a queue.
struct Wanted<'a> {
    what: &'static str,
    url: &'a str,
    /// The functions that use it.
    users: &'static [&'static str],
    /// The function that may not send to it, whatever else allows it.
    never_sends: Option<&'static str>,
    /// The queue that takes its dead letters.
    dead_letters: Option<&'a str>,
    /// The queues whose dead letters it takes.
    sources: &'a [&'a str],
}

/// Looks at the four queues. Without the functions, nobody knows whom their policies should name.
pub(super) async fn queues(config: &SdkConfig, outputs: &Outputs, functions: Option<&DeployedFunctions>) -> [Check; 4] {
    let letters = outputs.dead_letter_queue_url.as_str();
    let StackParts { queue_url: hints, slow_queue_url: slow, effects_queue_url: effects, .. } = &outputs.parts;
    let queue =
        |what, url, users| Wanted { what, url, users, never_sends: None, dead_letters: Some(letters), sources: &[] };
    let sources = [hints.as_str(), slow, effects];
    let all = [
        queue("queue", hints, &["webhook", "worker", "relay"]),
        queue("slow queue", slow, &["worker"]),
        Wanted {
            never_sends: Some("dispatcher"),
            ..queue("effects queue", effects, &["worker", "relay", "dispatcher"])
        },
        Wanted { dead_letters: None, sources: &sources, ..queue("dead-letter queue", letters, &["relay"]) },
    ];
    let look = async |wanted: Wanted<'_>| Check::new(wanted.what, wanted.look(config, outputs, functions).await);
    let [hints, slow, effects, letters] = all;
    futures::join!(look(hints), look(slow), look(effects), look(letters)).into()
}

impl Wanted<'_> {
    async fn look(
        &self,
        config: &SdkConfig,
        outputs: &Outputs,
        functions: Option<&DeployedFunctions>,
    ) -> Result<String, Failure> {
        let request = sqs_client(config, CALL_MAX).get_queue_attributes().queue_url(self.url);
        let request = request.attribute_names(QueueAttributeName::All).send().await;
        let answer = request.map_err(|error| refused("sqs:GetQueueAttributes", error.code(), &Report::new(&error)))?;
        let text = |name| answer.attributes().and_then(|all| all.get(&name)).map(String::as_str);
        let mut drift = self.settings(text);
        let arn = text(QueueAttributeName::QueueArn).unwrap_or_default();
        if !self.sources.is_empty() {
            let found =
                text(QueueAttributeName::RedriveAllowPolicy).and_then(|policy| serde_json::from_str(policy).ok());
            if found.as_ref().map(sorted) != Some(sorted(&self.takes_only(arn))) {
                drift.push("RedriveAllowPolicy is not that of the template".to_owned());
            }
        }
        if let (Some(functions), Some(operator)) = (functions, &outputs.operator) {
            let role = |function: &str| functions.role_of(function).to_owned();
            let users = self
                .users
                .iter()
                .map(|function| role(function))
                .chain(Some(operator.clone()).filter(|arn| !arn.is_empty()));
            let policy = queue_policy(arn, &users.collect::<Vec<_>>(), self.never_sends.map(role).as_deref());
            let found = text(QueueAttributeName::Policy).and_then(|policy| serde_json::from_str(policy).ok());
            if statements(&found.unwrap_or_default()) != statements(&policy) {
                drift.push("Policy is not that of the template".to_owned());
            }
        }
        if drift.is_empty() {
            let messages = text(QueueAttributeName::ApproximateNumberOfMessages).unwrap_or("0");
            return Ok(output::number_of(&messages, "message"));
        }
        Err(Failure::usage(drift.join("; "), REPAIR))
    }

    /// Which queues may have it as theirs for dead letters. They are of the same account and region as it is.
    fn takes_only(&self, arn: &str) -> Value {
        let place = arn.rsplit_once(':').map_or("", |(place, _)| place);
        let arns = self.sources.iter().filter_map(|url| Some(format!("{place}:{}", url.rsplit('/').next()?)));
        json!({ "redrivePermission": "byQueue", "sourceQueueArns": arns.collect::<Vec<_>>() })
    }

    /// What of its numbers and its dead-letter queue is not as it should be.
    fn settings<'a>(&self, text: impl Fn(QueueAttributeName) -> Option<&'a str>) -> Vec<String> {
        let redrive = text(QueueAttributeName::RedrivePolicy);
        let receives = redrive.and_then(|policy| serde_json::from_str::<Value>(policy).ok());
        // AWS has a number there, other implementations a text.
        let receives = receives.and_then(|policy| Some(policy.get("maxReceiveCount")?.to_string()));
        let receives = receives.map(|number| number.trim_matches('"').to_owned());
        let shape = StackShape::deployed("");
        let has_next = self.dead_letters.is_some();
        let retention = if has_next { shape.retention_seconds } else { shape.dead_letter_retention_seconds };
        let own = |name| text(name).map(str::to_owned);
        let name = |url: &str| url.rsplit('/').next().map(str::to_owned);
        let visibility = Some(shape.visibility_seconds.to_string());
        let all = [
            ("VisibilityTimeout", own(QueueAttributeName::VisibilityTimeout), visibility),
            ("MessageRetentionPeriod", own(QueueAttributeName::MessageRetentionPeriod), Some(retention.to_string())),
            ("MaximumMessageSize", own(QueueAttributeName::MaximumMessageSize), Some(MESSAGE_BYTES_MAX.to_string())),
            ("maxReceiveCount", receives, has_next.then(|| shape.receive_count_max.to_string())),
            ("deadLetterTargetArn", redrive.and_then(dead_letter_queue), self.dead_letters.and_then(name)),
        ];
        let drift = all.into_iter().filter(|(_, found, wanted)| found != wanted);
        let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
        drift.map(|(what, found, wanted)| format!("{what} is {}, not {}", shown(found), shown(wanted))).collect()
    }
}
