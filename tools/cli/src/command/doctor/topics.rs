//! Whether the topics of the alarms reach anybody.

use aws_config::SdkConfig;
use error_reporter::Report;
use roxmltree::Document;

use super::Check;
use crate::failure::Failure;
use crate::output;
use crate::stack::account::refused;
use crate::stack::query::{Refusal, SNS, child};

/// Each topic is there, and has a subscription that somebody confirmed. A topic of another account may not be looked at,
/// so what is not known is a warning.
pub(super) async fn topics(config: &SdkConfig, arns: &[String]) -> Check {
    let (mut deaf, mut warnings, mut all) = (Vec::new(), Vec::new(), 0);
    for arn in arns {
        match subscriptions(config, arn).await {
            Ok(Some((0, 0))) => deaf.push(format!("nobody subscribes to {arn}")),
            Ok(Some((0, waiting))) => {
                let waiting = output::number_of(&waiting, "subscription");
                deaf.push(format!("{arn} tells nobody: {waiting} to be confirmed"));
            }
            Ok(Some((confirmed, _))) => all += confirmed,
            Ok(None) => deaf.push(format!("{arn} is gone")),
            Err(failure) => {
                warnings.push(format!("whether {arn} tells anybody is not known: {failure}; {}", failure.hint()));
            }
        }
    }
    let seen = if deaf.is_empty() {
        let topics = output::number_of(&arns.len(), "topic");
        Ok(format!("{topics} with {}", output::number_of(&all, "confirmed subscription")))
    } else {
        Err(Failure::usage(deaf.join("; "), "docs/run/alerts.md#nobody-is-told has the commands"))
    };
    Check { warnings, ..Check::new("alarm topics", seen) }
}

/// How many subscriptions a topic has that are confirmed, and how many that are not. `None` if there is no such topic.
async fn subscriptions(config: &SdkConfig, arn: &str) -> Result<Option<(u64, u64)>, Failure> {
    const ACTION: &str = "sns:GetTopicAttributes";
    let answer = SNS.call(config, "GetTopicAttributes", &[("TopicArn", arn)]).await;
    let answer = match answer.map_err(|cause| refused(ACTION, None, &Report::new(&*cause)))? {
        Ok(answer) => answer,
        Err(Refusal { code, .. }) if code == "NotFound" => return Ok(None),
        Err(Refusal { code, message }) => return Err(refused(ACTION, Some(&code), &message)),
    };
    let answer = Document::parse(&answer).map_err(|error| refused(ACTION, None, &Report::new(&error)))?;
    let number = |name: &str| {
        let entry = answer.descendants().find(|node| child(*node, "key") == name);
        entry.and_then(|entry| child(entry, "value").parse().ok())
    };
    let counts = number("SubscriptionsConfirmed").zip(number("SubscriptionsPending"));
    counts.map(Some).ok_or_else(|| refused(ACTION, None, &"it does not tell the subscriptions"))
}
