//! `hookonce demo`: runs the whole inbox under racing, regrouped, forged and stale deliveries, and counts the results:
//! in the tables, and outside at a receiver that loses answers and kills its callers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_local::backends::DataLocation;
use hookonce_local::clients;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::timing::Timing;
use hookonce_providers::{Catalog, Provider, Settings};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::inbox::drive::duration;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use super::endpoint;
use super::providers::find;
use crate::dev::life;
use crate::dev::own_handlers::HandlerCommands;
use crate::dev::receiver::{self, Outside, Receiver};
use crate::dev::samples::{self, DemoRequest, ENDPOINTS, Plan, RequestKind};
use crate::dev::sender::{Delivered, DeliveryToSend, PROVIDER_ATTEMPTS_MAX, Sender, now_unix};
use crate::dev::stack::{FunctionCalls, Functions, Servers, Stack, StackConfig};
use crate::dev::table_counts::{self, TableCounts};
use crate::documents::parse_id;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt::Stop;
use crate::stack::target::{self, DataFolder, Place, store_unavailable};

/// How long the demo waits until every event is applied, in minutes. An event whose worker dies right after it has
/// counted a failure is sent again after the visibility timeout, which is six minutes.
const WAIT_MINUTES: u64 = 8;

/// How often it counts meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(250);

/// How many calls the demo may end with the death of the dispatcher. More have nothing else to show.
const KILLS_MAX: i64 = 10;

/// The age of a stale request's signature, outside every provider's tolerance.
const STALE_SECONDS: i64 = -30 * 86_400;

/// The destination of the demo's effects.
const DESTINATION: &str = "accounting";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of distinct events.
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    deliveries: u32,
    /// Number of deliveries of each event.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: u32,
    /// Number of deliveries in parallel.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=512))]
    concurrency: u32,
    /// The same seed sends the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Deliver to this gateway, instead of starting a stack.
    ///
    /// It has the endpoints stripe, whatsapp and github.
    #[arg(long)]
    url: Option<String>,
    /// Minutes to wait for the last event.
    ///
    /// If a handler is unavailable for N minutes, allow at least 2 x N + 7.
    #[arg(long, value_name = "N", default_value_t = WAIT_MINUTES, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    wait_minutes: u64,
    /// Kill the dispatcher this many times.
    ///
    /// It is killed right after the receiver has booked an invoice. The messages that it held come back after six minutes.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "url", value_parser = clap::value_parser!(u32).range(0..=KILLS_MAX))]
    kill: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The results, counted from the answers and from the tables.
#[derive(Debug, Serialize)]
struct Report {
    sent: usize,
    accepted: usize,
    duplicate: usize,
    refused: usize,
    unanswered: usize,
    retried: usize,
    events: usize,
    applied: usize,
    applied_twice: usize,
    lost: usize,
    dead: usize,
    pending: usize,
    violations: usize,
    /// What arrived at the receiver. None for a stack of another process, whose effects the demo does not know.
    outside: Option<Outside>,
    p50_ms: u64,
    p99_ms: u64,
    /// How long the slowest answer to a genuine delivery took.
    #[serde(skip)]
    slowest: Duration,
    /// Calls of all functions to AWS, by operation; empty for a stack of another process.
    store_calls: BTreeMap<String, u64>,
    /// Calls of the webhook function: one PutItem for each genuine delivery, one SendMessage for each accepted one.
    webhook_calls: BTreeMap<String, u64>,
    seed: u64,
}

/// The stack that the demo delivers to.
struct DemoStack {
    own: Option<Own>,
    url: String,
    store: DynamoStore,
    secrets: BTreeMap<&'static str, String>,
}

/// What the demo runs itself.
struct Own {
    stack: Stack,
    receiver: Receiver,
    _folder: tempfile::TempDir,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.url.is_none() && arguments.place.deployed().is_some() {
        return Err(Failure::usage(
            "--stack needs --url, because without it the demo starts a stack of its own",
            "pass the URL of that stack's gateway with --url",
        ));
    }
    let mut stop = Stop::watch()?;
    let is_own = arguments.url.is_none();
    tokio::select! {
        ended = show(arguments) => ended,
        () = async { stop.came().await; output::end_log() } => {
            // The folder of a stack of its own goes with it.
            output::note(if is_own { "stopped; nothing is left of the demo" } else { "stopped" });
            Ok(Exit::No)
        }
    }
}

/// Delivers, waits, counts and reports.
async fn show(arguments: Arguments) -> Result<Exit, Failure> {
    let plan = samples::plan(
        usize::try_from(arguments.deliveries).unwrap_or(usize::MAX),
        usize::try_from(arguments.copies).unwrap_or(usize::MAX),
        arguments.seed,
        &run_name(&arguments),
    );
    let stack = DemoStack::prepare(&arguments).await?;
    let expected_refused =
        plan.requests.iter().filter(|it| matches!(it.kind, RequestKind::Forged | RequestKind::Stale)).count();
    let delivered = deliver(&stack, &plan, usize::try_from(arguments.concurrency).unwrap_or(1)).await?;
    if arguments.kill > 0 {
        output::note("What the killed dispatcher held comes back after six minutes: wait for it.");
    }
    let counts = settle(&stack.store, &plan, Duration::from_mins(arguments.wait_minutes)).await?;
    let calls = stack.own.as_ref().map(|own| own.stack.calls().clone()).unwrap_or_default();
    let outside = stack.own.as_ref().map(|own| own.receiver.outside(&plan.invoices));
    let report = report(&delivered, counts, outside, &calls, plan.expected.len(), arguments.seed);
    if let Some(own) = stack.own {
        own.stack.shutdown().await;
    }
    let faults = report.faults(expected_refused, &calls);
    if arguments.json {
        output::json(&report);
    } else {
        print(&report, &faults);
    }
    Ok(if faults.is_empty() { Exit::Done } else { Exit::No })
}

/// A stack that keeps running remembers earlier runs, so each run needs new event ids.
fn run_name(arguments: &Arguments) -> String {
    if arguments.url.is_some() { now_unix().to_string() } else { "demo".to_owned() }
}

impl DemoStack {
    async fn prepare(arguments: &Arguments) -> Result<Self, Failure> {
        if let Some(url) = &arguments.url {
            let store = arguments.place.connect().store().await?;
            let secrets = secrets(&arguments.place.folder())?;
            let url = url.trim_end_matches('/').to_owned();
            return Ok(Self { own: None, url, store, secrets });
        }
        let temporary = tempfile::tempdir().map_err(|error| {
            Failure::unavailable(format!("creating a temporary folder failed: {error}"), "check TMPDIR")
        })?;
        let folder = DataFolder { data: temporary.path().to_owned() };
        for (id, provider) in ENDPOINTS {
            let document = endpoint::fresh(find(Catalog::built_in(), provider)?, BTreeMap::new());
            endpoint::store(&folder, &parse_id(id)?, &document)?;
        }
        let no_port = |error: &dyn std::error::Error| {
            let what = error_reporter::Report::new(error).to_string();
            Failure::unavailable(what, "check that this machine may open ports on 127.0.0.1")
        };
        let dispatcher_deaths = Arc::default();
        let kills = usize::try_from(arguments.kill).unwrap_or(usize::MAX);
        let receiver = Receiver::start(kills, Arc::clone(&dispatcher_deaths)).await.map_err(|error| no_port(&error))?;
        forward(&folder, receiver.url())?;
        let config = StackConfig {
            servers: Servers::Embedded(DataLocation::Memory),
            functions: Functions::InProcess { port: 0 },
            built_in: hookonce_examples::handlers,
            folder: folder.clone(),
            tables: Vec::new(),
            timing: Timing::standard(),
            public_url: None,
            feed: life::feed(false).0,
            capturer: None,
            handlers: HandlerCommands::default(),
            dispatcher_deaths,
        };
        let stack = Box::pin(Stack::start(config)).await.map_err(|error| no_port(&error))?;
        // A separate client, so that reading the tables does not add to the call counts.
        let place = stack.place();
        let client = clients::dynamodb(&place.dynamodb_url);
        let store = DynamoStore::new(client, &place.resources.inbox_table, &place.resources.domain_table);
        let secrets = secrets(&folder)?;
        let url = stack.url().to_owned();
        Ok(Self { own: Some(Own { stack, receiver, _folder: temporary }), url, store, secrets })
    }

    fn delivery(&self, sample: &DemoRequest) -> Result<DeliveryToSend, Failure> {
        let (id, provider) = ENDPOINTS.get(sample.endpoint).copied().unwrap_or_default();
        let provider = find(Catalog::built_in(), provider)?;
        let secret = match sample.kind {
            RequestKind::Forged => forged_secret(provider),
            RequestKind::Single | RequestKind::Batch | RequestKind::Stale => {
                self.secrets.get(id).cloned().unwrap_or_default()
            }
        };
        Ok(DeliveryToSend {
            url: format!("{}/webhooks/{id}", self.url),
            provider,
            secret,
            settings: Settings::none(),
            schemes: Vec::new(),
            headers: sample.headers.clone(),
            body: sample.body.clone(),
            clock_offset_seconds: if sample.kind == RequestKind::Stale { STALE_SECONDS } else { 0 },
        })
    }
}

/// Lets Stripe's events leave the inbox, too: each is forwarded to the receiver, which honours the key of a call.
fn forward(folder: &DataFolder, url: &str) -> Result<(), Failure> {
    let destination = json!({
        "kind": "http", "url": url, "allow_private": true, "class": "keyed", "key_header": receiver::KEY_HEADER,
        "key_window_hours": 24, "key_source_url": "https://receiver.example/keys",
    });
    let routes = json!({"version": 1, "otherwise": "builtin", "routes": [{
        "name": "invoices", "consumer": "payments", "endpoints": ["stripe"], "handler": {"builtin": "payments"},
        "forward": [DESTINATION],
    }]});
    target::write(&folder.documents().path(DocumentKind::Destination, DESTINATION), &destination.to_string())?;
    target::write(&folder.routes(), &routes.to_string())
}

fn forged_secret(provider: &Provider) -> String {
    endpoint::fresh(provider, BTreeMap::new()).secrets.into_iter().next().unwrap_or_default()
}

fn secrets(folder: &DataFolder) -> Result<BTreeMap<&'static str, String>, Failure> {
    let newest = |id: &EndpointId| Ok(endpoint::read(folder, id)?.secrets.into_iter().next().unwrap_or_default());
    ENDPOINTS.iter().map(|(id, _)| Ok((*id, newest(&parse_id(id)?)?))).collect()
}

async fn deliver(stack: &DemoStack, plan: &Plan, concurrency: usize) -> Result<Vec<(RequestKind, Delivered)>, Failure> {
    let deliveries =
        plan.requests.iter().map(|it| Ok((it.kind, stack.delivery(it)?))).collect::<Result<Vec<_>, Failure>>()?;
    let bar = bar("delivering", deliveries.len());
    let sender = Sender::new(&stack.url, PROVIDER_ATTEMPTS_MAX);
    let delivered = futures::stream::iter(deliveries)
        .map(|(kind, delivery)| {
            let (sender, bar) = (sender.clone(), bar.clone());
            async move {
                let delivered = sender.deliver(&delivery).await;
                bar.inc(1);
                delivered.map(|delivered| (kind, delivered))
            }
        })
        .buffer_unordered(concurrency)
        .collect::<Vec<_>>()
        .await;
    bar.finish_and_clear();
    delivered
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::usage(error.to_string(), "check that the endpoint's secret has its provider's form"))
}

/// Waits until every event is applied or dead, then counts.
async fn settle(store: &DynamoStore, plan: &Plan, wait: Duration) -> Result<TableCounts, Failure> {
    let events = plan.expected.len();
    let bar = bar("applying", events);
    let looks = wait.as_millis() / LOOK_PERIOD.as_millis();
    let mut counts = TableCounts::default();
    for _ in 0..looks {
        counts =
            table_counts::take(store, &plan.expected, &Timing::standard()).await.map_err(|_| store_unavailable())?;
        bar.set_position(u64::try_from(counts.applied).unwrap_or(0));
        if counts.pending == 0 && counts.applied + counts.dead >= events {
            break;
        }
        tokio::time::sleep(LOOK_PERIOD).await;
    }
    bar.finish_and_clear();
    Ok(counts)
}

fn bar(label: &'static str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>12} {bar:40} {pos}/{len}");
    let bar = ProgressBar::new(u64::try_from(length).unwrap_or(u64::MAX)).with_message(label);
    if let Ok(style) = style { bar.with_style(style) } else { bar }
}

fn report(
    delivered: &[(RequestKind, Delivered)],
    counts: TableCounts,
    outside: Option<Outside>,
    calls: &FunctionCalls,
    events: usize,
    seed: u64,
) -> Report {
    let word = |word: &str| delivered.iter().filter(|(_, it)| it.word == word).count();
    let refused = |status: u16| (400..500).contains(&status);
    let genuine = |kind: &RequestKind| matches!(kind, RequestKind::Single | RequestKind::Batch);
    let mut times: Vec<_> = delivered.iter().filter(|(kind, _)| genuine(kind)).map(|(_, it)| it.duration).collect();
    times.sort_unstable();
    let percentile = |percent: usize| {
        let time = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    Report {
        sent: delivered.len(),
        accepted: word("accepted"),
        duplicate: word("duplicate"),
        refused: delivered.iter().filter(|(_, it)| it.status.is_some_and(refused)).count(),
        unanswered: delivered.iter().filter(|(_, it)| it.status.is_none_or(|status| status >= 500)).count(),
        retried: delivered.iter().filter(|(_, it)| it.attempts > 1).count(),
        events,
        applied: counts.applied,
        applied_twice: counts.applied_twice,
        lost: counts.lost,
        dead: counts.dead,
        pending: counts.pending,
        violations: counts.violations,
        outside,
        p50_ms: percentile(50),
        p99_ms: percentile(99),
        slowest: times.last().copied().unwrap_or_default(),
        store_calls: calls.total(),
        webhook_calls: calls.webhook.by_name(),
        seed,
    }
}

impl Report {
    /// What contradicts that every genuine event was applied exactly once, and that only forged and stale requests were
    /// refused.
    fn faults(&self, expected_refused: usize, calls: &FunctionCalls) -> Vec<String> {
        let outside = self.outside.as_ref().is_none_or(Outside::is_good);
        let (put, sent) = (calls.webhook.of("PutItem"), calls.webhook.of("SendMessage"));
        let faults = [
            (self.applied != self.events, format!("applied: {} of {} events", self.applied, self.events)),
            (self.applied_twice > 0, format!("applied twice: {}", self.applied_twice)),
            (self.lost + self.dead > 0, format!("lost: {}, dead: {}", self.lost, self.dead)),
            (self.pending > 0, format!("still waiting: {}", output::number_of(&self.pending, "record"))),
            (self.violations > 0, format!("violations that `hookonce audit` finds: {}", self.violations)),
            (!outside, "an invoice was not booked once outside".to_owned()),
            (
                self.refused != expected_refused,
                format!("refused: {}, forged or stale: {expected_refused}", self.refused),
            ),
            (self.unanswered > 0, format!("without an answer, or asked to try again: {}", self.unanswered)),
            (
                !self.hot_path_is_exact(put, sent),
                format!(
                    "the webhook made {put} PutItem and {sent} SendMessage, and not one for each delivery and record"
                ),
            ),
        ];
        faults.into_iter().filter_map(|(is_there, fault)| is_there.then_some(fault)).collect()
    }

    /// One PutItem for each genuine delivery, one SendMessage for each accepted one. This cannot be checked after a
    /// retry, which may cost one more, or for functions that run in another process. The SDK repeats a call without an answer
    /// after half of its time.
    fn hot_path_is_exact(&self, put: u64, sent: u64) -> bool {
        let claims = u64::try_from(self.accepted + self.duplicate).unwrap_or(u64::MAX);
        let hints = u64::try_from(self.accepted).unwrap_or(u64::MAX);
        let timing = Timing::standard();
        let repeats_after = duration(timing.claim_timeout.min(timing.send_timeout)) / 2;
        let known = !self.webhook_calls.is_empty() && self.retried == 0 && self.slowest < repeats_after;
        !known || (put == claims && sent == hints)
    }
}

fn print(report: &Report, faults: &[String]) {
    output::line(&format!(
        "{} deliveries of {} distinct events, sent in parallel, some regrouped, forged or stale:\n",
        report.sent, report.events
    ));
    let mut table = output::table(&[]);
    let mut row = |name: &str, count: usize, meaning: &str| {
        table.add_row([name.to_owned(), count.to_string(), meaning.to_owned()]);
    };
    row("accepted", report.accepted, "first delivery of an id, stored");
    row("duplicate", report.duplicate, "repeated id, answered 200 and not stored again");
    row("refused", report.refused, "forged or stale, answered 4xx");
    row("applied", report.applied, "events whose changes are in the tables");
    row("applied twice", report.applied_twice, "events whose changes were made again");
    row("lost", report.lost, "events neither applied nor dead");
    row("dead", report.dead, "events given up, payload kept");
    if let Some(outside) = &report.outside {
        row("forwarded", outside.expected, "invoices to be booked outside, by a receiver that honours keys");
        row("answers lost", outside.answers_lost, "booked, but the answer was lost: called again with the same key");
        if outside.killed > 0 {
            row("killed", outside.killed, "booked, but the dispatcher died: called again with the same key");
        }
        row("booked", outside.done, "invoices booked outside");
        row("booked twice", outside.done_twice, "invoices booked again");
        row("not booked", outside.lost, "invoices missing outside");
    }
    output::print(&table);
    output::line(&format!("\nanswer time: {} ms (median), {} ms (99th percentile)", report.p50_ms, report.p99_ms));
    match (faults, &report.outside) {
        ([], Some(_)) => output::line(
            "\nEvery genuine event was applied exactly once, and every forwarded one was done once outside.",
        ),
        ([], None) => output::line("\nEvery genuine event was applied exactly once."),
        (faults, _) => {
            output::line(&format!("\nFailed: {}. Run again with RUST_LOG=info and --json.", faults.join("; ")));
        }
    }
    output::note(
        "\nNext: `hookonce dev` keeps the inbox running, `hookonce trigger stripe.invoice.paid` delivers a sample event to it. README.md explains both.",
    );
}
