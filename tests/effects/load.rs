//! Effects under load, with faults on every wire: the functions' binaries on DynamoDB Local and ElasticMQ, their
//! processes killed at random, and events that each ask for three effects, one to a destination of each class.
//!
//! Durations are shortened by writes: a pass that is older than any call is moved back by its hold, and of some `keyed`
//! effects whose outcome is open the first call is moved back to before the callee's window.
//!
//! `scripts/prove effects` names the command line in `TEST_HOOKONCE`, the functions' binaries in `TEST_BINARIES`, the
//! folder of the stack in `TEST_DATA`, and in `TEST_EVENTS` and `TEST_KILLS` how much is to happen. It compares the
//! tables afterwards. Without them, nothing runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::iter::repeat_n;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, join, stream};
use hookonce_local::clients::without_key;
use hookonce_local::tables::StackShape;
use hookonce_protocol::record::{Record, Status, attribute, set};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use rand::seq::IndexedRandom as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::support::Delivery;
use crate::support::samples::invoice_paid;
use crate::support::stack::{TestStack, urls};
use crate::support::tables::Tables;
use crate::support::wire::{HttpMessage, Injector, ProxiedRequest, Proxy, WireFault};

const PORT: u16 = 9_101;
const SENDERS: usize = 10;
const COPIES: usize = 3;
/// Every so many events, a second event reports the same fact.
const REPORTED_TWICE: usize = 20;
/// How often a delivery is tried before it counts as never accepted.
const ATTEMPTS_MAX: usize = 60;
/// How long a delivery waits for its share of the kills, in tenths of a second.
const PACE_TRIES: usize = 20;

/// What happens to a request, with its weight. One that is slow is carried out all the same.
static OUTCOMES: [(&str, Option<WireFault>, f64); 6] = [
    ("passed", None, 90.0),
    ("slow", None, 1.5),
    ("refused", Some(WireFault::Refused), 1.5),
    ("without a reply", Some(WireFault::NoReply), 3.0),
    ("reply lost", Some(WireFault::ReplyLost), 3.0),
    ("late", Some(WireFault::Late), 1.0),
];
const SLOW_MS: Range<u64> = 100..1_500;
const LATE_MS: Range<u64> = 3_000..20_000;
/// Only these meet faults. What no function calls, such as the creation of tables, passes untouched.
const CALLS: &str = "GetItem BatchGetItem Query PutItem UpdateItem TransactWriteItems SendMessage SendMessageBatch \
    ChangeMessageVisibility ChangeMessageVisibilityBatch DeleteMessageBatch";

/// How many requests of functions lie between two kills. Most kills are for the process that makes the calls.
const REQUESTS_BETWEEN_KILLS: Range<usize> = 10..101;
const DISPATCHER: &str = "hookonce-dispatcher";
static VICTIMS: [(&str, u8); 4] =
    [(DISPATCHER, 6), ("hookonce-example-worker", 2), ("hookonce-webhook", 1), ("hookonce-relay", 1)];

/// How often the clock is moved, and for how long once the faults are over.
const TICK: Duration = Duration::from_secs(2);
const SETTLE_TICKS_MAX: usize = 450;
/// A call that a pass allowed began within one minute and took 1.5 seconds.
const LONGEST_CALL: Millis = Millis::seconds(90);
/// One in so many `keyed` effects outlives its callee's window.
const OUTLIVING: usize = 40;
/// The window, and an hour.
const OUTLIVED: Millis = Millis::hours(25);

/// How often each of these words was noted.
type Counts = Mutex<BTreeMap<&'static str, usize>>;

/// The wires between the functions and the servers.
#[derive(Debug, Default)]
struct Wires {
    fail: AtomicBool,
    /// What happened to the requests that could have met a fault.
    outcomes: Counts,
}

impl Injector for Wires {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        if !self.fail.load(Ordering::SeqCst) || !CALLS.split(' ').any(|operation| request.is_for(operation)) {
            return None;
        }
        let (outcome, fault, _) = OUTCOMES.choose_weighted(&mut rand::rng(), |outcome| outcome.2).unwrap();
        *self.outcomes.lock().unwrap().entry(outcome).or_default() += 1;
        if *outcome == "slow" {
            pause(SLOW_MS).await;
        }
        *fault
    }

    fn postpone(&self, request: ProxiedRequest) {
        tokio::spawn(async move {
            pause(LATE_MS).await;
            request.carry_out().await;
        });
    }
}

async fn pause(milliseconds: Range<u64>) {
    sleep(Duration::from_millis(rand::random_range(milliseconds))).await;
}

/// What the actors of a run share.
struct Run {
    stack: TestStack,
    events: usize,
    /// How many dispatchers must be killed.
    kills_min: usize,
    wires: Arc<Wires>,
    /// The process that starts those of the functions.
    dev: u32,
    kills: Counts,
    /// The records of `keyed` effects that have outlived their callee's window, and since when.
    outlived: Mutex<BTreeMap<String, i64>>,
}

impl Run {
    fn dispatchers_killed(&self) -> usize {
        self.kills.lock().unwrap().get(DISPATCHER).copied().unwrap_or_default()
    }

    /// Delivers all events, in step with the kills, and says how many deliveries were never accepted.
    async fn load(&self) -> usize {
        let (done, rejected) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(15)).build().unwrap();
        let reports = |number: usize| if number.is_multiple_of(REPORTED_TWICE) { &["", "b"][..] } else { &[""] };
        let ids = (0..self.events).flat_map(|number| reports(number).iter().map(move |report| (number, report)));
        let deliver = async |(number, report)| {
            // A dispatcher that can be killed needs effects, so nothing waits for ever.
            for _ in 0..PACE_TRIES {
                if self.dispatchers_killed() * self.events < number * self.kills_min {
                    sleep(Duration::from_millis(100)).await;
                }
            }
            let delivery = invoice_paid(&format!("evt_{number:06}{report}"), &format!("in_{number:06}"), 4_900);
            if !accepted(&client, &delivery).await {
                rejected.fetch_add(1, Ordering::SeqCst);
            }
            let done = done.fetch_add(1, Ordering::SeqCst) + 1;
            if done.is_multiple_of(100) {
                eprintln!("effects: {done} deliveries, killed: {:?}", self.kills.lock().unwrap());
            }
        };
        stream::iter(ids.flat_map(|id| repeat_n(id, COPIES))).for_each_concurrent(SENDERS, deliver).await;
        rejected.into_inner()
    }

    /// Kills processes of the functions while the wires fail.
    async fn kill(&self) {
        let mut next_kill = 0;
        while self.wires.fail.load(Ordering::SeqCst) {
            // By work, not by time: on a slow machine, processes get as far as on a fast one.
            let requests = self.wires.outcomes.lock().unwrap().values().sum::<usize>();
            if requests >= next_kill {
                self.kill_one();
                next_kill = requests + rand::random_range(REQUESTS_BETWEEN_KILLS);
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn kill_one(&self) {
        let (wanted, _) = VICTIMS.choose_weighted(&mut rand::rng(), |victim| victim.1).unwrap();
        let threads = fs::read_dir(format!("/proc/{}/task", self.dev)).unwrap().flatten();
        let children: String = threads.flat_map(|thread| fs::read_to_string(thread.path().join("children"))).collect();
        let runs = |process: &&str| {
            fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|program| program.ends_with(wanted))
        };
        let victims: Vec<_> = children.split_whitespace().filter(runs).collect();
        let victim = victims.choose(&mut rand::rng()).and_then(|victim| Pid::from_raw(victim.parse().unwrap()));
        if victim.is_some_and(|victim| kill_process(victim, Signal::KILL).is_ok()) {
            *self.kills.lock().unwrap().entry(wanted).or_default() += 1;
        }
    }

    /// Lets time pass, by writes, until the faults are over and every record is at rest.
    async fn pass_time(&self) {
        let mut calm_ticks = 0;
        while calm_ticks < SETTLE_TICKS_MAX {
            sleep(TICK).await;
            let is_calm = !self.wires.fail.load(Ordering::SeqCst);
            calm_ticks += usize::from(is_calm);
            let mut records = Tables::open(&self.stack.scan(Table::Inbox).await, Vec::new(), Vec::new()).records;
            records.retain(|_, record| record.status == Status::Pending);
            for record in records.values() {
                self.advance(record, is_calm).await;
            }
            if is_calm && records.is_empty() {
                return;
            }
        }
    }

    /// Once nothing new comes, whatever waits is due at once.
    async fn advance(&self, record: &Record, is_calm: bool) {
        let now = System.moment().now;
        let pass = record.effect.as_ref().and_then(|effect| effect.pass.as_ref());
        let first_call = self.first_call_to_outlive(record);
        let due = set(attribute::DUE_AT, now.0);
        let changes = match (pass, first_call) {
            (Some(pass), _) if pass.at.plus(LONGEST_CALL) < now => {
                vec![set(attribute::PASS_AT, pass.at.0 - Timing::standard().effects_visibility_timeout.0), due]
            }
            (None, Some(first_call)) => vec![set(attribute::FIRST_CALL_AT, first_call.0 - OUTLIVED.0)],
            (None, None) if is_calm && record.due.as_ref().is_some_and(|due| due.at > now) => vec![due],
            _ => return,
        };
        if self.stack.change(record, changes).await && pass.is_none() && first_call.is_some() {
            self.outlived.lock().unwrap().insert(record.key.as_str().to_owned(), System.moment().now.0);
        }
    }

    /// The first call of a `keyed` effect that may outlive its callee's window.
    fn first_call_to_outlive(&self, record: &Record) -> Option<EpochMs> {
        let effect = record.effect.as_ref().filter(|effect| effect.destination.as_str() == "receipts")?;
        let outlived = self.outlived.lock().unwrap();
        let is_new = !outlived.contains_key(record.key.as_str()) && outlived.len() < self.events / OUTLIVING;
        effect.first_call_at.filter(|_| is_new)
    }
}

/// Delivers as the provider does: until the answer is 2xx, signed again each time.
async fn accepted(client: &reqwest::Client, delivery: &Delivery) -> bool {
    for _ in 0..ATTEMPTS_MAX {
        let headers = delivery.signed_headers(System.moment().now.as_seconds());
        let url = format!("http://127.0.0.1:{PORT}/webhooks/{}", delivery.endpoint);
        let request = client.post(url).body(delivery.body.clone());
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
            return true;
        }
        pause(100..600).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_while_everything_fails() {
    let named = |name: &str| std::env::var_os(name)?.into_string().ok();
    let Some(hookonce) = named("TEST_HOOKONCE") else { return };
    let data = PathBuf::from(named("TEST_DATA").unwrap());
    let ((dynamodb_url, sqs_url), wires) = (urls(), Arc::new(Wires::default()));
    let (dynamodb, sqs) = (Proxy::start(dynamodb_url, &wires).await, Proxy::start(sqs_url, &wires).await);
    let log = File::create(data.join("dev.log")).unwrap();
    let mut dev = Command::new(hookonce);
    dev.args(["dev", "--port", &PORT.to_string(), "--dynamodb-url", &without_key(dynamodb.url()), "--sqs-url"]);
    dev.args([&without_key(sqs.url()), "--binaries", &named("TEST_BINARIES").unwrap(), "--stack"]).arg(&data);
    let dev = dev.stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true).spawn().unwrap();
    let is_up = async {
        while !data.join("stack.json").exists() {
            sleep(TICK).await;
        }
    };
    timeout(Duration::from_mins(5), is_up).await.expect("it starts; see dev.log");
    let run = Run {
        // What is there already.
        stack: TestStack::shaped(dynamodb_url, sqs_url, |shape| *shape = StackShape::deployed("hookonce")).await,
        events: named("TEST_EVENTS").unwrap().parse().unwrap(),
        kills_min: named("TEST_KILLS").unwrap().parse().unwrap(),
        dev: dev.id().unwrap(),
        kills: Mutex::default(),
        outlived: Mutex::default(),
        wires,
    };
    run.wires.fail.store(true, Ordering::SeqCst);
    let load = async {
        let rejected = run.load().await;
        let is_killed = async {
            while run.dispatchers_killed() < run.kills_min {
                sleep(TICK).await;
            }
        };
        drop(timeout(Duration::from_mins(5), is_killed).await);
        fs::write(data.join("calm"), "").unwrap();
        run.wires.fail.store(false, Ordering::SeqCst);
        eprintln!("effects: faults are over: {:?}", run.wires.outcomes.lock().unwrap());
        rejected
    };
    let (rejected, (), ()) = join!(load, run.kill(), run.pass_time());
    println!("{}", json!({ "killed": run.kills, "outlived": run.outlived, "rejected": rejected }));
}
