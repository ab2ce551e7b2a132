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
            Ok(Ok(confirmed)) => all += confirmed,
            Ok(Err(why)) => deaf.push(why),
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

/// How many subscriptions a topic has that are confirmed, or why it tells nobody.
async fn subscriptions(config: &SdkConfig, arn: &str) -> Result<Result<u64, String>, Failure> {
    const ACTION: &str = "sns:GetTopicAttributes";
    let answer = SNS.call(config, "GetTopicAttributes", &[("TopicArn", arn)]).await;
    let answer = match answer.map_err(|cause| refused(ACTION, None, &Report::new(&*cause)))? {
        Ok(answer) => answer,
        Err(Refusal { code, .. }) if code == "NotFound" => return Ok(Err(format!("{arn} is gone"))),
        Err(Refusal { code, message }) => return Err(refused(ACTION, Some(&code), &message)),
    };
    let answer = Document::parse(&answer).map_err(|error| refused(ACTION, None, &Report::new(&error)))?;
    let value = |name: &str| {
        let entry = answer.descendants().find(|node| child(*node, "key") == name);
        entry.map_or("", |entry| child(entry, "value"))
    };
    if value("KmsMasterKeyId").ends_with("alias/aws/sns") {
        return Ok(Err(format!("CloudWatch cannot publish to {arn}, which has the key alias/aws/sns")));
    }
    let number = |name: &str| value(name).parse().ok();
    Ok(match number("SubscriptionsConfirmed").zip(number("SubscriptionsPending")) {
        None => return Err(refused(ACTION, None, &"it does not tell the subscriptions")),
        Some((0, 0)) => Err(format!("nobody subscribes to {arn}")),
        Some((0, waiting)) => {
            Err(format!("{arn} tells nobody: {} to be confirmed", output::number_of(&waiting, "subscription")))
        }
        Some((confirmed, _)) => Ok(confirmed),
    })
}
