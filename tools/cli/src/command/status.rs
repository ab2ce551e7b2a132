//! `hookonce status`: does anything need a person?

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use clap::Args;
use error_reporter::Report;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::call::{DueQuery, DueState};
use hookonce_protocol::key::RecordKind;
use hookonce_protocol::record::dead_shard;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::SHARDS;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::port::Store as _;
use serde_json::json;

use super::pause::described;
use crate::connection::Deployed;
use crate::connection::{Connection, Local, RunningStack, StackParts};
use crate::failure::{Exit, Failure};
use crate::lambda::{Code, DeployedFunctions};
use crate::output;
use crate::pauses::{self, Act, Acts, PausedFunction};
use crate::records::READS_AT_ONCE;
use crate::route_set;
use crate::target::{Target, store_unavailable};
use crate::watch::{Alarm, Watch, no_alarms, oldest_message};

/// The release of this command.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the relay may not run before somebody should know. The alarm of the template says the same.
const RELAY_AWAY: Millis = Millis::minutes(10);

/// How long a record may be due before somebody should know. The alarm of the template says the same.
pub(super) const OVERDUE: Millis = Millis::minutes(10);

/// How many of the latest dead records of a shard are looked at, to say how many are effects.
const DEAD_LOOKED_AT: usize = 1_000;

/// Questions about each shard: pending records, those that wait, pending effects, dead records, and dead effects.
const QUESTIONS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// How many messages a queue has.
#[derive(Debug)]
struct Depth {
    name: String,
    visible: u64,
    in_flight: u64,
    delayed: u64,
    /// How old its oldest message is. `None` on a local stack, which does not tell.
    oldest: Option<Millis>,
}

/// The records of a state that are due or dead.
#[derive(Debug)]
struct Due {
    count: u64,
    /// Since when the oldest of them is.
    oldest: Option<EpochMs>,
}

/// Everything that is printed. It is read during outages, so a service that does not answer must not hide the others.
#[derive(Debug)]
struct StackStatus {
    records: Records,
    depths: Depths,
    /// What people paused, and what they did before. `None` where the domain table is not known, and for a restored
    /// copy.
    pauses: Result<Option<[Acts; 2]>, Failure>,
    /// The stack on this machine. `None` for any other.
    local: Option<RunningStack>,
    /// Why the stack on this machine refuses its route set. On AWS, an alarm tells.
    routes: Option<String>,
    aws: Option<AwsStatus>,
}

/// Something that needs a person: a word for programs, and what to do.
type Need = (String, String);

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let stack = &arguments.target.connect();
    let now = System.moment().now;
    let deployed = stack.deployed().filter(|_| !stack.is_copy());
    let aws = match deployed {
        Some(deployed) => Some(Box::pin(AwsStatus::of(deployed, now)).await?),
        None => None,
    };
    let (records, depths, pauses) = futures::join!(records(stack, now), depths(stack), pauses(stack));
    let depths = match deployed {
        Some(deployed) => depths.with_ages(deployed.account().await?, now).await,
        None => depths,
    };
    // Nothing at all is known: no stack runs or is named so.
    let pending = &records.pending;
    if let (true, Err(failure), Err(_)) = (stack.local().is_some() || is_usage(pending), pending, &depths.queue) {
        return Err(failure.clone());
    }
    let local = stack.local().map(Local::running).and_then(Result::ok).cloned();
    let report = StackStatus {
        records,
        depths,
        pauses,
        routes: local.as_ref().and_then(|_| route_set::refusal(&stack.folder)),
        local,
        aws,
    };
    let unknown = report.unknown();
    let needs = report.needs(now);
    if arguments.json {
        let words = needs.iter().map(|(word, _)| word.clone());
        let unknown_words = unknown.iter().map(|(part, _)| format!("{part}_unknown"));
        output::json(&report.json(now, &words.chain(unknown_words).collect::<Vec<_>>()));
    } else {
        let sentences = needs.iter().map(|(_, need)| need.clone());
        report.print(now, &sentences.chain(describe_unknown(&unknown)).collect::<Vec<_>>());
    }
    Ok(match (unknown.is_empty(), needs.is_empty()) {
        (false, _) => Exit::Unavailable,
        (true, false) => Exit::No,
        (true, true) => Exit::Done,
    })
}

/// What people paused.
async fn pauses(stack: &Connection) -> Result<Option<[Acts; 2]>, Failure> {
    if stack.is_copy() {
        return Ok(None);
    }
    pauses::read(&stack.store().await?).await.map(Some)
}

fn is_usage(known: &Result<Due, Failure>) -> bool {
    matches!(known, Err(Failure::Usage { .. }))
}

/// How many of the dead records are effects.
#[derive(Debug, Default)]
struct DeadEffects {
    count: u64,
    /// Whether there were too many dead records to look at all.
    at_least: bool,
}

/// What the index says.
#[derive(Debug)]
struct Records {
    pending: Result<Due, Failure>,
    waiting: Result<Due, Failure>,
    /// Effects that wait for a call.
    effects: Result<Due, Failure>,
    dead: Result<Due, Failure>,
    /// How many of the dead records are effects.
    dead_effects: Result<DeadEffects, Failure>,
}

/// The records that are due, and the dead ones.
async fn records(stack: &Connection, now: EpochMs) -> Records {
    let store = match stack.store().await {
        Ok(store) => store,
        Err(failure) => {
            let due = || Err(failure.clone());
            return Records {
                pending: due(),
                waiting: due(),
                effects: due(),
                dead: due(),
                dead_effects: Err(failure.clone()),
            };
        }
    };
    let due = |state| due(&store, state, now);
    let (pending, waiting, effects, dead, dead_effects) = futures::join!(
        due(DueState::Pending),
        due(DueState::Waiting),
        due(DueState::Effect),
        due(DueState::Dead),
        dead_effects(&store)
    );
    Records { pending, waiting, effects, dead, dead_effects }
}

/// Looks at the latest dead records of each shard: their keys say which are effects.
async fn dead_effects(store: &DynamoStore) -> Result<DeadEffects, Failure> {
    let of_shard = |shard| async move {
        let query = IndexQuery::Due { partition: dead_shard(shard) };
        let page = store.index_page(&query, None, DEAD_LOOKED_AT).await.map_err(|_| store_unavailable())?;
        let count = page.keys.iter().filter(|key| key.kind() == RecordKind::Effect).count();
        Ok(DeadEffects { count: u64::try_from(count).unwrap_or(0), at_least: page.next.is_some() })
    };
    let add = |sum: DeadEffects, part: DeadEffects| DeadEffects {
        count: sum.count + part.count,
        at_least: sum.at_least || part.at_least,
    };
    each_shard(of_shard).try_fold(DeadEffects::default(), async |sum, part| Ok(add(sum, part))).await
}

/// How many records of a state there are, and since when the oldest of them is due or dead.
async fn due(store: &DynamoStore, state: DueState, now: EpochMs) -> Result<Due, Failure> {
    let of_shard = |shard| async move {
        let first = DueQuery { state, shard, until: now, after: None, limit: 1 };
        let query = IndexQuery::Due { partition: first.partition() };
        let count = store.index_count(&query).await.map_err(|_| store_unavailable())?;
        let page = store.query_due(&first).await.map_err(|_| store_unavailable())?;
        Ok(Due { count, oldest: page.entries.iter().map(|entry| entry.due_at).min() })
    };
    let add = |sum: Due, part: Due| Due {
        count: sum.count + part.count,
        oldest: sum.oldest.into_iter().chain(part.oldest).min(),
    };
    each_shard(of_shard).try_fold(Due { count: 0, oldest: None }, async |sum, part| Ok(add(sum, part))).await
}

/// Asks about every shard, a few side by side. All questions together make at most [`READS_AT_ONCE`] calls at once.
fn each_shard<T, F: Future<Output = Result<T, Failure>>>(read: impl FnMut(u16) -> F) -> impl Stream<Item = F::Output> {
    futures::stream::iter(0..SHARDS).map(read).buffer_unordered(READS_AT_ONCE / QUESTIONS)
}

/// What is known of a queue. `None` for a restored copy, which has none, and of dead letters if the queue names no queue
/// for them.
type KnownDepth = Result<Option<Depth>, Failure>;

/// What the queues say.
#[derive(Debug)]
struct Depths {
    queue: KnownDepth,
    slow_queue: KnownDepth,
    effects_queue: KnownDepth,
    dead_letters: KnownDepth,
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
    async fn with_ages(mut self, account: &SdkConfig, now: EpochMs) -> Self {
        let depths = [&mut self.queue, &mut self.slow_queue, &mut self.effects_queue, &mut self.dead_letters];
        let fill = async |depth: &mut Depth| {
            depth.oldest = oldest_message(account, &depth.name, now).await.unwrap_or_default();
        };
        futures::future::join_all(depths.into_iter().filter_map(|known| known.as_mut().ok()?.as_mut()).map(fill)).await;
        self
    }
}

/// The depths of the queues and of their dead-letter queue. Those of the stack say nothing of a restored copy.
async fn depths(stack: &Connection) -> Depths {
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

impl StackStatus {
    /// What could not be read, and why.
    fn unknown(&self) -> Vec<(&'static str, &Failure)> {
        let parts = [
            ("pending", self.records.pending.as_ref().err()),
            ("waiting", self.records.waiting.as_ref().err()),
            ("effects", self.records.effects.as_ref().err()),
            ("dead", self.records.dead.as_ref().err()),
            ("queue", self.depths.queue.as_ref().err()),
            ("slow_queue", self.depths.slow_queue.as_ref().err()),
            ("effects_queue", self.depths.effects_queue.as_ref().err()),
            ("dead_letters", self.depths.dead_letters.as_ref().err()),
            ("pauses", self.pauses.as_ref().err()),
        ];
        let parts = parts.into_iter().chain(self.aws.iter().flat_map(|aws| {
            let (watch, functions) = (aws.watch.as_ref().err(), aws.functions.as_ref().err());
            let (release, caller) = (aws.version.as_ref().err(), aws.caller.as_ref().err());
            // Without the outputs, the functions' names are unknown, too.
            let functions = functions.filter(|_| release.is_none());
            [("alarms", watch), ("release", release), ("functions", functions), ("caller", caller)]
        }));
        parts.into_iter().filter_map(|(part, failure)| Some((part, failure?))).collect()
    }

    /// What needs a person, and what to do.
    fn needs(&self, now: EpochMs) -> Vec<Need> {
        let mut needs = self.aws.as_ref().map(|aws| needs_on_aws(aws, now)).unwrap_or_default();
        needs.extend(self.aws.iter().flat_map(|aws| self.needs_of_functions(aws)));
        needs.extend(self.paused().map(|(function, act)| {
            let name = function.as_str();
            let need = format!(
                "the {name} is paused {}, and {} wait: `hookonce resume {name}` as soon as it may run, \
                 docs/runbook.md#containment",
                described(act),
                function.waiting()
            );
            (format!("{name}_paused"), need)
        }));
        if let Some(dead) = self.records.dead.as_ref().ok().filter(|dead| dead.count > 0) {
            needs.push((
                "records_died".to_owned(),
                format!(
                    "{} record(s) are DEAD{}: `hookonce stats --state DEAD` counts them by error, `hookonce list --state DEAD` \
                     lists them, docs/runbook.md#records-died",
                    dead.count,
                    self.of_them_effects()
                ),
            ));
        }
        let lists = [
            ("overdue", &self.records.pending, "a record", "the relay does not run or cannot keep up"),
            (
                "waiting_overdue",
                &self.records.waiting,
                "an event that waits",
                "the relay does not run or cannot keep up",
            ),
            ("effects_overdue", &self.records.effects, "an effect", "relay or dispatcher do not run or cannot keep up"),
        ];
        for (name, due, what, cause) in lists {
            let oldest = due.as_ref().ok().and_then(|due| due.oldest);
            if let Some(oldest) = oldest.filter(|oldest| now.0 - oldest.0 > OVERDUE.0) {
                let age = output::between(oldest, now);
                let text = format!("{what} has been due for {age}: {cause}, docs/runbook.md#records-are-overdue");
                needs.push((name.to_owned(), text));
            }
        }
        if let Some(refusal) = &self.routes {
            needs.push(("routes_refused".to_owned(), format!("{refusal}: docs/routes.md")));
        }
        let letters = self.depths.dead_letters.as_ref().ok().and_then(Option::as_ref);
        if let Some(letters) = letters.filter(|letters| letters.visible > 0) {
            needs.push((
                "dead_letters".to_owned(),
                format!("{} dead letter(s) wait for the relay: docs/runbook.md#dead-letters-wait", letters.visible),
            ));
        }
        needs
    }

    /// The pauses that hold.
    fn paused(&self) -> impl Iterator<Item = (PausedFunction, &Act)> {
        let acts = self.pauses.as_ref().ok().and_then(Option::as_ref).into_iter().flatten();
        PausedFunction::ALL.into_iter().zip(acts).filter_map(|(function, acts)| Some((function, acts.pause()?)))
    }

    /// Event sources that do not do what people last asked for.
    fn needs_of_functions(&self, aws: &AwsStatus) -> Vec<Need> {
        let Ok(functions) = &aws.functions else { return Vec::new() };
        let need = |(function, is_on): (PausedFunction, bool)| {
            let name = function.as_str();
            let is_paused = self.paused().any(|(paused, _)| paused == function);
            match (is_on, is_paused) {
                (false, false) => Some((
                    format!("{name}_off"),
                    format!(
                        "an event source of the {name} is off, so {} wait, and no pause says why: `hookonce resume {name}` as \
                         soon as it may run, docs/runbook.md#containment",
                        function.waiting()
                    ),
                )),
                (true, true) => Some((
                    format!("{name}_on"),
                    format!(
                        "the pause of the {name} did not reach its event sources: they are on. Run the pause again, or \
                         `hookonce resume {name}`"
                    ),
                )),
                (true, false) | (false, true) => None,
            }
        };
        let both = [
            (PausedFunction::Worker, functions.worker_is_on),
            (PausedFunction::Dispatcher, functions.dispatcher_is_on),
        ];
        both.into_iter().filter_map(need).collect()
    }

    /// How many of the dead records are effects, in words.
    fn of_them_effects(&self) -> String {
        match &self.records.dead_effects {
            Ok(DeadEffects { count: count @ 1.., at_least: false }) => format!(", {count} of them effects"),
            Ok(DeadEffects { count: count @ 1.., at_least: true }) => format!(", at least {count} of them effects"),
            Ok(DeadEffects { count: 0, .. }) | Err(_) => String::new(),
        }
    }

    fn json(&self, now: EpochMs, needs: &[String]) -> serde_json::Value {
        let depth = |depth: &Depth| {
            json!({
                "name": depth.name, "visible": depth.visible, "in_flight": depth.in_flight, "delayed": depth.delayed,
                "oldest_age_ms": depth.oldest.map(|age| age.0),
            })
        };
        let age = |due: &Due| due.oldest.map(|at| now.0 - at.0);
        let (pending, dead) = (self.records.pending.as_ref().ok(), self.records.dead.as_ref().ok());
        let waiting = self.records.waiting.as_ref().ok();
        let aws = self.aws.as_ref().map(|aws| json_of(aws, now));
        json!({
            "pending": pending.map(|due| due.count),
            "waiting": waiting.map(|due| json!({ "pending": due.count, "oldest_due_age_ms": age(due) })),
            "effects": self.records.effects.as_ref().ok().map(|due| json!({
                "pending": due.count,
                "oldest_due_age_ms": age(due),
                "dead": self.records.dead_effects.as_ref().ok().map(|effects| effects.count),
            })),
            "dead": dead.map(|due| due.count),
            "oldest_due_age_ms": pending.and_then(age),
            "oldest_dead_age_ms": dead.and_then(age),
            "queue": self.depths.queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "slow_queue": self.depths.slow_queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "effects_queue": self.depths.effects_queue.as_ref().ok().and_then(Option::as_ref).map(depth),
            "dead_letter_queue": self.depths.dead_letters.as_ref().ok().and_then(Option::as_ref).map(depth),
            "paused": self.paused().map(|(function, act)| (function.as_str(), act.json())).collect::<BTreeMap<_, _>>(),
            "local": self.local.as_ref().map(|local| json!({ "url": local.url, "pid": local.pid, "version": local.parts.version })),
            "aws": aws,
            "needs": needs,
        })
    }

    fn print(&self, now: EpochMs, needs: &[String]) {
        let depth = |depth: &Depth| {
            let age = |age: Millis| format!(", the oldest is {} old", output::between(EpochMs(now.0 - age.0), now));
            let age = depth.oldest.map_or_else(String::new, age);
            format!("{} visible, {} in flight, {} delayed{age}", depth.visible, depth.in_flight, depth.delayed)
        };
        let (pending, dead) = (self.records.pending.as_ref().ok(), self.records.dead.as_ref().ok());
        let (waiting, effects) = (self.records.waiting.as_ref().ok(), self.records.effects.as_ref().ok());
        let waits = |due: &Due| {
            let oldest = |at| format!("the oldest has been due for {}", output::between(at, now));
            due.oldest.map_or("none is due".to_owned(), oldest)
        };
        let died = dead.and_then(|due| due.oldest);
        let died = died.map(|at| format!("the oldest died {} ago{}", output::between(at, now), self.of_them_effects()));
        let is_copy = matches!(self.depths.queue, Ok(None));
        let queues = [
            ("queue", &self.depths.queue),
            ("slow queue", &self.depths.slow_queue),
            ("effects queue", &self.depths.effects_queue),
            ("dead letters", &self.depths.dead_letters),
        ];
        let mut table = output::table(&[]);
        let number = |known: Option<u64>| known.map_or("not known".to_owned(), |known| known.to_string());
        table.add_row([
            "PENDING".to_owned(),
            number(pending.map(|due| due.count)),
            pending.map(waits).unwrap_or_default(),
        ]);
        for (name, due) in [("waiting PENDING", waiting), ("effects PENDING", effects)] {
            table.add_row([name.to_owned(), number(due.map(|due| due.count)), due.map(waits).unwrap_or_default()]);
        }
        table.add_row(["DEAD".to_owned(), number(dead.map(|due| due.count)), died.unwrap_or_default()]);
        for (name, known) in queues.into_iter().filter(|_| !is_copy) {
            let known = known.as_ref().ok().and_then(Option::as_ref);
            let count = number(known.map(|depth| depth.visible));
            table.add_row([name.to_owned(), count, known.map(depth).unwrap_or_default()]);
        }
        if let Some(RunningStack { url, pid, parts: StackParts { version, .. }, .. }) = &self.local {
            table.add_row(["runs at", url, &format!("process {pid}; its relay runs every few seconds")]);
            table.add_row(["release", version, &of_another_release(version)]);
        }
        for row in self.aws.iter().flat_map(|aws| rows_of(aws, now)) {
            table.add_row(row);
        }
        output::print(&table);
        if is_copy {
            output::note("this is a copy of the stack's table: the stack's queues, alarms and relay are left out");
        }
        output::line("");
        if needs.is_empty() {
            output::line("nothing needs a person");
        }
        for need in needs {
            output::message(need);
        }
    }
}

/// What could not be read, for people: one line for each cause.
fn describe_unknown(unknown: &[(&'static str, &Failure)]) -> Vec<String> {
    let mut causes: Vec<(String, Vec<&str>)> = Vec::new();
    for (part, failure) in unknown {
        let cause = format!("{failure}; {}", failure.hint());
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, parts)) => parts.push(part),
            None => causes.push((cause, vec![part])),
        }
    }
    causes.into_iter().map(|(cause, parts)| format!("not known: {}: {cause}", parts.join(", "))).collect()
}

/// A note beside a release that is not that of this command.
fn of_another_release(version: &str) -> String {
    if version == OWN_VERSION { String::new() } else { format!("this command is {OWN_VERSION}") }
}

/// What AWS knows of a stack beside its tables and queues. A service that does not answer does not hide the others.
#[derive(Debug)]
struct AwsStatus {
    /// The stack's name.
    stack: String,
    /// Whom AWS takes the caller for.
    caller: Result<String, Failure>,
    /// The release that is deployed.
    version: Result<String, Failure>,
    /// What CloudWatch knows.
    watch: Result<Watch, Failure>,
    /// What Lambda knows.
    functions: Result<DeployedFunctions, Failure>,
}

impl AwsStatus {
    /// # Errors
    /// [`Failure`] when there are no credentials or no region.
    async fn of(stack: &Deployed, now: EpochMs) -> Result<Self, Failure> {
        let account = stack.account().await?;
        let functions = async { DeployedFunctions::of(account, &stack.outputs().await?.functions).await };
        let (caller, watch) = (stack.caller(), Watch::of(account, &stack.name, now));
        let (caller, functions, watch) = futures::join!(caller, functions, watch);
        let version = stack.outputs().await.map(|outputs| outputs.parts.version.clone());
        Ok(Self { stack: stack.name.clone(), caller, version, watch, functions })
    }
}

fn needs_on_aws(aws: &AwsStatus, now: EpochMs) -> Vec<Need> {
    let Ok(watch) = &aws.watch else { return Vec::new() };
    let raised = |alarm: &Alarm| {
        let since = alarm.since.map_or_else(String::new, |since| format!(" for {}", output::between(since, now)));
        let need = format!("{} {}, raised{since}: {}", alarm.severity(), alarm.name, alarm.description);
        (format!("alarm:{}", alarm.name), need)
    };
    let mut needs: Vec<_> = watch.alarms.raised.iter().map(raised).collect();
    if watch.alarms.count == 0 {
        let none = no_alarms(&aws.stack);
        needs.push(("no_alarms".to_owned(), format!("{none}; {}", none.hint())));
    }
    if watch.relay_ran_at.is_none_or(|at| now.0 - at.0 > RELAY_AWAY.0) {
        let need = "the relay has not run for ten minutes: docs/runbook.md#the-relay-does-not-run";
        needs.push(("relay_away".to_owned(), need.to_owned()));
    }
    needs
}

fn json_of(aws: &AwsStatus, now: EpochMs) -> serde_json::Value {
    let watch = aws.watch.as_ref().ok();
    let alarms = |watch: &Watch| {
        let alarm = |alarm: &Alarm| json!({ "name": alarm.name, "severity": alarm.severity() });
        watch.alarms.raised.iter().map(alarm).collect::<Vec<_>>()
    };
    let functions = aws.functions.as_ref().ok();
    let code = |code: &Code| {
        let fields = json!({ "changed_at_ms": code.changed_at.map(|at| at.0), "code_sha256": code.sha256 });
        (code.role.to_owned(), fields)
    };
    let codes = functions.map(|functions| functions.codes.iter().map(code).collect::<serde_json::Map<_, _>>());
    json!({
        "functions": codes,
        "worker_is_on": functions.map(|functions| functions.worker_is_on),
        "dispatcher_is_on": functions.map(|functions| functions.dispatcher_is_on),
        "caller": aws.caller.as_ref().ok(),
        "version": aws.version.as_ref().ok(),
        "alarms": watch.map(alarms),
        "alarms_mute": watch.map(|watch| &watch.alarms.mute),
        "relay_ran_ago_ms": watch.and_then(|watch| watch.relay_ran_at).map(|at| now.0 - at.0),
    })
}

fn rows_of(aws: &AwsStatus, now: EpochMs) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, more: &str| [name.to_owned(), value, more.to_owned()];
    let unknown = || "not known".to_owned();
    let watch = aws.watch.as_ref().ok();
    let ran = watch.map(|watch| {
        watch.relay_ran_at.map_or("not for hours".to_owned(), |at| format!("{} ago", output::between(at, now)))
    });
    let version = aws.version.clone().ok();
    let note = of_another_release(version.as_deref().unwrap_or_default());
    let alarms = watch.map(|watch| &watch.alarms);
    let raised = alarms.map(|alarms| format!("{} of {} raised", alarms.raised.len(), alarms.count));
    let mute = alarms.filter(|alarms| !alarms.mute.is_empty());
    let mute = mute.map(|alarms| format!("{} notify nobody: docs/alerts.md", alarms.mute.len()));
    let functions = aws.functions.as_ref().ok();
    let code = |code: &Code| {
        let changed = code.changed_at.map_or_else(unknown, |at| format!("changed {} ago", output::between(at, now)));
        let off = functions.is_some_and(|functions| match code.role {
            "worker" => !functions.worker_is_on,
            "dispatcher" => !functions.dispatcher_is_on,
            _ => false,
        });
        row(code.role, changed, &format!("code {}{}", code.sha256, if off { ", off" } else { "" }))
    };
    let codes: Vec<_> = functions.iter().flat_map(|functions| &functions.codes).map(code).collect();
    let rows = vec![
        row("alarms", raised.unwrap_or_else(unknown), &mute.unwrap_or_default()),
        row("relay ran", ran.unwrap_or_else(unknown), ""),
        row("release", version.unwrap_or_else(unknown), &note),
        row("you are", aws.caller.clone().unwrap_or_else(|_| unknown()), ""),
    ];
    rows.into_iter().chain(codes).collect()
}
