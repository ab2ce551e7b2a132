//! The queues of a deployed stack: what waits in them, and what of them is not as the template made it.

use aws_config::SdkConfig;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::QueueAttributeName;
use error_reporter::Report;
use hookonce_aws::sqs_client;
use hookonce_local::tables::{StackShape, queue_policy};
use serde_json::Value;

use super::{Check, REPAIR};
use crate::failure::Failure;
use crate::output;
use crate::stack::account::{CALL_MAX, refused};
use crate::stack::connection::Outputs;
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
}

/// Looks at the four queues. Without the functions, nobody knows whom their policies should name.
pub(super) async fn queues(config: &SdkConfig, outputs: &Outputs, functions: Option<&DeployedFunctions>) -> [Check; 4] {
    let letters = outputs.dead_letter_queue_url.as_str();
    let queue = |what, url, users| Wanted { what, url, users, never_sends: None, dead_letters: Some(letters) };
    let all = [
        queue("queue", &outputs.parts.queue_url, &["webhook", "worker", "relay"]),
        queue("slow queue", &outputs.parts.slow_queue_url, &["worker"]),
        Wanted {
            never_sends: Some("dispatcher"),
            ..queue("effects queue", &outputs.parts.effects_queue_url, &["worker", "relay", "dispatcher"])
        },
        Wanted { dead_letters: None, ..queue("dead-letter queue", letters, &["relay"]) },
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
        if let (Some(functions), Some(operator)) = (functions, &outputs.operator) {
            let arn = text(QueueAttributeName::QueueArn).unwrap_or_default();
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
            ("maxReceiveCount", receives, has_next.then(|| shape.receive_count_max.to_string())),
            ("deadLetterTargetArn", redrive.and_then(dead_letter_queue), self.dead_letters.and_then(name)),
        ];
        let drift = all.into_iter().filter(|(_, found, wanted)| found != wanted);
        let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
        drift.map(|(what, found, wanted)| format!("{what} is {}, not {}", shown(found), shown(wanted))).collect()
    }
}

/// The statements of a policy in one form: without their names, and in one order, as are the lists in them.
fn statements(policy: &Value) -> Vec<String> {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(list) => {
                let mut list: Vec<_> = list.iter().map(sorted).collect();
                list.sort_by_key(Value::to_string);
                // AWS may write a list of one as its only member.
                if let [one] = list.as_slice() { one.clone() } else { list.into() }
            }
            Value::Object(fields) => {
                let named = fields.iter().filter(|(name, _)| *name != "Sid");
                named.map(|(name, value)| (name.clone(), sorted(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
    let all = policy.get("Statement").and_then(Value::as_array).into_iter().flatten();
    let mut all: Vec<_> = all.map(|statement| sorted(statement).to_string()).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_compared_by_what_it_says_and_not_by_how_it_is_written() {
        let (arn, users) = ("arn:queue", ["arn:worker".to_owned(), "arn:relay".to_owned()]);
        let usual = queue_policy(arn, &users, Some("arn:relay"));
        let text = usual.to_string();
        let parsed = |text: &str| statements(&serde_json::from_str(text).unwrap());
        let swapped = text.replace(r#"["arn:worker","arn:relay"]"#, r#"["arn:relay","arn:worker"]"#);
        let named = text.replacen(r#"{"Action""#, r#"{"Sid":"One","Action""#, 1);
        for same in [&swapped, &named] {
            assert!(*same != text && parsed(same) == statements(&usual), "{same}");
        }
        for (old, new) in [
            ("Deny", "Allow"),
            (r#""aws:SecureTransport":"false""#, r#""aws:SecureTransport":"true""#),
            (r#""arn:worker","#, ""),
            (r#""sqs:PurgeQueue""#, r#""sqs:GetQueueUrl""#),
            ("arn:queue", "arn:another"),
            ("[{", r#"[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"},{"#),
        ] {
            assert!(parsed(&text.replacen(old, new, 1)) != statements(&usual), "{new}");
        }
        assert!(statements(&Value::Null).is_empty());
    }
}
