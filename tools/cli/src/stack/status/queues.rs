//! How many messages the queues hold.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use error_reporter::Report;
use hookonce_protocol::time::{EpochMs, Millis};

use crate::failure::Failure;
use crate::stack::connection::Connection;
use crate::stack::watch::oldest_message;

/// How many messages a queue has.
#[derive(Debug)]
pub(crate) struct Depth {
    pub(crate) name: String,
    pub(crate) visible: u64,
    pub(crate) in_flight: u64,
    pub(crate) delayed: u64,
    /// How old its oldest message is. `None` on a local stack, which does not tell.
    pub(crate) oldest: Option<Millis>,
}

/// What is known of a queue. `None` for a restored copy, which has none, and of dead letters if the queue names no queue
/// for them.
pub(crate) type KnownDepth = Result<Option<Depth>, Failure>;

/// What the queues say.
#[derive(Debug)]
pub(crate) struct Depths {
    pub(crate) queue: KnownDepth,
    pub(crate) slow_queue: KnownDepth,
    pub(crate) effects_queue: KnownDepth,
    pub(crate) dead_letters: KnownDepth,
}

impl Depths {
    /// The same of all.
    fn all(known: impl Fn() -> KnownDepth) -> Self {
        Self { queue: known(), slow_queue: known(), effects_queue: known(), dead_letters: known() }
    }
}

impl Depths {
    /// Adds what CloudWatch says of the ages of messages. Where it does not answer, the alarms are not known either,
    /// and that is told.
    pub(super) async fn with_ages(mut self, account: &SdkConfig, now: EpochMs) -> Self {
        let depths = [&mut self.queue, &mut self.slow_queue, &mut self.effects_queue, &mut self.dead_letters];
        let fill = async |depth: &mut Depth| {
            depth.oldest = oldest_message(account, &depth.name, now).await.unwrap_or_default();
        };
        futures::future::join_all(depths.into_iter().filter_map(|known| known.as_mut().ok()?.as_mut()).map(fill)).await;
        self
    }
}

/// The depths of the queues and of their dead-letter queue. Those of the stack say nothing of a restored copy.
pub(super) async fn depths(stack: &Connection) -> Depths {
    if stack.is_copy() {
        return Depths::all(|| Ok(None));
    }
    let found = async {
        let (sqs, parts) = (stack.sqs().await?, stack.parts().await?);
        let (depth, dead_letter_queue) = queue(&sqs, &parts.queue_url).await?;
        Ok::<_, Failure>((sqs, parts, depth, dead_letter_queue))
    };
    let (sqs, parts, depth, dead_letter_queue) = match found.await {
        Ok(found) => found,
        Err(failure) => return Depths::all(|| Err(failure.clone())),
    };
    let named = async |url: &str| queue(&sqs, url).await.map(|(depth, _)| Some(depth));
    let dead_letters = async {
        match &dead_letter_queue {
            Some(name) => dead_letters(&sqs, name).await.map(Some),
            None => Ok(None),
        }
    };
    let (slow_queue, effects_queue, dead_letters) =
        futures::join!(named(&parts.slow_queue_url), named(&parts.effects_queue_url), dead_letters);
    Depths { queue: Ok(Some(depth)), slow_queue, effects_queue, dead_letters }
}

/// The depth of a queue, and the name of its dead-letter queue.
async fn queue(sqs: &Client, url: &str) -> Result<(Depth, Option<String>), Failure> {
    let request = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let answer = request.send().await.map_err(|error| unavailable(&error))?;
    let text = |name: &QueueAttributeName| answer.attributes().and_then(|attributes| attributes.get(name));
    let number = |name| text(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let depth = Depth {
        name: url.rsplit('/').next().unwrap_or_default().to_owned(),
        visible: number(QueueAttributeName::ApproximateNumberOfMessages),
        in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
        oldest: None,
    };
    Ok((depth, text(&QueueAttributeName::RedrivePolicy).and_then(|policy| dead_letter_queue(policy))))
}

/// The name of the queue that a redrive policy sends dead letters to.
pub(crate) fn dead_letter_queue(policy: &str) -> Option<String> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    policy.get("deadLetterTargetArn")?.as_str()?.rsplit(':').next().map(str::to_owned)
}

async fn dead_letters(sqs: &Client, name: &str) -> Result<Depth, Failure> {
    let found = sqs.get_queue_url().queue_name(name).send().await.map_err(|error| unavailable(&error))?;
    Ok(queue(sqs, &found.queue_url.unwrap_or_default()).await?.0)
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::unavailable(
        format!("SQS did not answer: {}", Report::new(error)),
        "check the region, the queue, and the permissions sqs:GetQueueAttributes and sqs:GetQueueUrl",
    )
}
