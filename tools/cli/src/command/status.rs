//! `hookonce status`: does anything need a person?

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use clap::Args;
use error_reporter::Report;
use hookonce_protocol::call::{DueQuery, DueState};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::aws::IndexQuery;
use hookonce_runtime::port::Store as _;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output;
#[cfg(feature = "aws")]
use crate::target::Surroundings;
use crate::target::{OpenStack, Target, store_unavailable};
#[cfg(feature = "aws")]
use crate::watch::{Alarm, Watch};

/// The release of this command.
#[cfg(feature = "aws")]
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the relay may be away before somebody should know. The alarm of the template says the same.
#[cfg(feature = "aws")]
const RELAY_AWAY: Millis = Millis::minutes(10);

/// How long a record may be due before somebody should know. The alarm of the template says the same.
const OVERDUE: Millis = Millis::minutes(10);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// How many messages a queue has.
#[derive(Debug, Default)]
struct Depth {
    visible: u64,
    in_flight: u64,
    delayed: u64,
}

/// Everything that is printed.
#[derive(Debug)]
struct Glance {
    pending: u64,
    oldest_due: Option<EpochMs>,
    dead: u64,
    oldest_dead: Option<EpochMs>,
    queue: Depth,
    dead_letters: Option<Depth>,
    #[cfg(feature = "aws")]
    aws: Option<Surroundings>,
}

/// Something that needs a person: a word for programs, and what to do.
type Need = (String, String);

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let stack = arguments.target.open().await?;
    let (sqs, queue_url) = arguments.target.queues().await?;
    let now = System.moment().now;
    let (queue, dead_letter_url) = queue(&sqs, &queue_url).await?;
    let (pending, oldest_due) = count(&stack, DueState::Pending, now).await?;
    let (dead, oldest_dead) = count(&stack, DueState::Dead, now).await?;
    let report = Glance {
        pending,
        oldest_due,
        dead,
        oldest_dead,
        queue,
        dead_letters: match dead_letter_url {
            Some(url) => Some(self::queue(&sqs, &url).await?.0),
            None => None,
        },
        #[cfg(feature = "aws")]
        aws: arguments.target.surroundings(now).await?,
    };
    let needs = report.needs(now);
    if arguments.json {
        output::json(&report.json(now, &needs));
    } else {
        report.print(now, &needs);
    }
    Ok(if needs.is_empty() { Exit::Done } else { Exit::No })
}

/// How many records of a state there are, and since when the oldest of them is due or dead.
async fn count(stack: &OpenStack, state: DueState, now: EpochMs) -> Result<(u64, Option<EpochMs>), Failure> {
    let (mut count, mut oldest) = (0, None);
    for shard in 0..stack.shards_read {
        let first = DueQuery { state, shard, until: now, after: None, limit: 1 };
        let query = IndexQuery::Due { partition: first.partition() };
        count += stack.store.index_count(&query).await.map_err(|_| store_unavailable())?;
        let page = stack.store.query_due(&first).await.map_err(|_| store_unavailable())?;
        oldest = page.entries.iter().map(|entry| entry.due_at).chain(oldest).min();
    }
    Ok((count, oldest))
}

/// The depth of a queue, and the URL of its dead-letter queue.
async fn queue(sqs: &Client, url: &str) -> Result<(Depth, Option<String>), Failure> {
    let asked = sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let answer = asked.send().await.map_err(|error| unavailable(&error))?;
    let text = |name: &QueueAttributeName| answer.attributes().and_then(|attributes| attributes.get(name));
    let number = |name| text(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let depth = Depth {
        visible: number(QueueAttributeName::ApproximateNumberOfMessages),
        in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
        delayed: number(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
    };
    let policy = text(&QueueAttributeName::RedrivePolicy);
    let policy: serde_json::Value = policy.and_then(|policy| serde_json::from_str(policy).ok()).unwrap_or_default();
    let Some(name) =
        policy.get("deadLetterTargetArn").and_then(|arn| arn.as_str()).and_then(|arn| arn.rsplit(':').next())
    else {
        return Ok((depth, None));
    };
    let found = sqs.get_queue_url().queue_name(name).send().await.map_err(|error| unavailable(&error))?;
    Ok((depth, found.queue_url))
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::unavailable(
        format!("SQS did not answer: {}", Report::new(error)),
        "check the region, the queue, and the permissions sqs:GetQueueAttributes and sqs:GetQueueUrl",
    )
}

impl Glance {
    /// What needs a person, and what to do.
    fn needs(&self, now: EpochMs) -> Vec<Need> {
        #[cfg(feature = "aws")]
        let mut needs = self.aws.as_ref().map(|aws| needs_on_aws(aws, now)).unwrap_or_default();
        #[cfg(not(feature = "aws"))]
        let mut needs = Vec::new();
        if self.dead > 0 {
            needs.push((
                "records_died".to_owned(),
                format!("{} record(s) are DEAD: `hookonce list --state DEAD`, docs/runbook.md#records-died", self.dead),
            ));
        }
        if let Some(oldest) = self.oldest_due.filter(|oldest| now.0 - oldest.0 > OVERDUE.0) {
            needs.push((
                "overdue".to_owned(),
                format!(
                    "a record has been due for {}: the relay does not run or cannot keep up, \
                     docs/runbook.md#the-oldest-due-record-is-old",
                    output::between(oldest, now)
                ),
            ));
        }
        if let Some(letters) = self.dead_letters.as_ref().filter(|letters| letters.visible > 0) {
            needs.push((
                "dead_letters".to_owned(),
                format!("{} dead letter(s) wait for the relay: docs/runbook.md#dead-letters-wait", letters.visible),
            ));
        }
        needs
    }

    fn json(&self, now: EpochMs, needs: &[Need]) -> serde_json::Value {
        let depth =
            |depth: &Depth| json!({ "visible": depth.visible, "in_flight": depth.in_flight, "delayed": depth.delayed });
        #[cfg(feature = "aws")]
        let aws = self.aws.as_ref().map(|aws| json_of(aws, now));
        #[cfg(not(feature = "aws"))]
        let aws = None::<serde_json::Value>;
        json!({
            "pending": self.pending,
            "dead": self.dead,
            "oldest_due_age_ms": self.oldest_due.map(|at| now.0 - at.0),
            "oldest_dead_age_ms": self.oldest_dead.map(|at| now.0 - at.0),
            "queue": depth(&self.queue),
            "dead_letter_queue": self.dead_letters.as_ref().map(depth),
            "aws": aws,
            "needs": needs.iter().map(|(need, _)| need).collect::<Vec<_>>(),
        })
    }

    fn print(&self, now: EpochMs, needs: &[Need]) {
        let depth = |depth: &Depth| {
            format!("{} visible, {} in flight, {} delayed", depth.visible, depth.in_flight, depth.delayed)
        };
        let due = self
            .oldest_due
            .map_or("none is due".to_owned(), |at| format!("the oldest has been due for {}", output::between(at, now)));
        let unknown = || "not known".to_owned();
        let mut table = output::table(&[]);
        table.add_row(["PENDING".to_owned(), self.pending.to_string(), due]);
        let died = self.oldest_dead.map(|at| format!("the oldest died {} ago", output::between(at, now)));
        table.add_row(["DEAD".to_owned(), self.dead.to_string(), died.unwrap_or_default()]);
        table.add_row(["queue".to_owned(), self.queue.visible.to_string(), depth(&self.queue)]);
        let letters = self.dead_letters.as_ref();
        let count = letters.map_or_else(unknown, |letters| letters.visible.to_string());
        table.add_row(["dead letters".to_owned(), count, letters.map(depth).unwrap_or_default()]);
        #[cfg(feature = "aws")]
        for row in self.aws.iter().flat_map(|aws| rows_of(aws, now)) {
            table.add_row(row);
        }
        output::print(&table);
        output::line("");
        if needs.is_empty() {
            output::line("nothing needs a person");
        }
        for (_, need) in needs {
            output::line(need);
        }
    }
}

#[cfg(feature = "aws")]
fn needs_on_aws(aws: &Surroundings, now: EpochMs) -> Vec<Need> {
    let watch = match &aws.watch {
        Ok(watch) => watch,
        Err(failure) => {
            let need = format!("the alarms are not known: {failure}; {}", failure.hint());
            return vec![("alarms_unknown".to_owned(), need)];
        }
    };
    let raised = |alarm: &Alarm| {
        let since = alarm.since.map_or_else(String::new, |since| format!(" for {}", output::between(since, now)));
        let need = format!("{} {}, raised{since}: {}", alarm.severity(), alarm.name, alarm.description);
        (format!("alarm:{}", alarm.name), need)
    };
    let mut needs: Vec<_> = watch.alarms.iter().map(raised).collect();
    if watch.relay_ran_at.is_none_or(|at| now.0 - at.0 > RELAY_AWAY.0) {
        let need = "the relay has not run for ten minutes: docs/runbook.md#the-relay-does-not-run";
        needs.push(("relay_away".to_owned(), need.to_owned()));
    }
    needs
}

#[cfg(feature = "aws")]
fn json_of(aws: &Surroundings, now: EpochMs) -> serde_json::Value {
    let watch = aws.watch.as_ref().ok();
    let alarms = |watch: &Watch| {
        let alarm = |alarm: &Alarm| json!({ "name": alarm.name, "severity": alarm.severity() });
        watch.alarms.iter().map(alarm).collect::<Vec<_>>()
    };
    json!({
        "caller": aws.caller,
        "version": aws.version,
        "alarms": watch.map(alarms),
        "relay_ran_ago_ms": watch.and_then(|watch| watch.relay_ran_at).map(|at| now.0 - at.0),
    })
}

#[cfg(feature = "aws")]
fn rows_of(aws: &Surroundings, now: EpochMs) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, more: &str| [name.to_owned(), value, more.to_owned()];
    let unknown = || "not known".to_owned();
    let watch = aws.watch.as_ref().ok();
    let ran = watch.map(|watch| {
        watch.relay_ran_at.map_or("not for hours".to_owned(), |at| format!("{} ago", output::between(at, now)))
    });
    let version = aws.version.clone();
    let differs = version.as_deref() != Some(OWN_VERSION);
    let note = if differs { format!("this command is {OWN_VERSION}") } else { String::new() };
    vec![
        row("alarms", watch.map_or_else(unknown, |watch| watch.alarms.len().to_string()), ""),
        row("relay ran", ran.unwrap_or_else(unknown), ""),
        row("release", version.unwrap_or_else(unknown), &note),
        row("you are", aws.caller.clone(), ""),
    ]
}
