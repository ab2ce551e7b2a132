//! The fault grid on servers: every remote call of the functions, those of a destination included, is refused, loses
//! its reply or is carried out late, and the process is killed before and after it. The faults are injected on the
//! wire, below the SDK.
//!
//! `scripts/prove grid-real` names the functions' binaries in `TEST_BINARIES`, the address of their callee in
//! `TEST_CALLEE_ADDRESS`, and the servers as for every other test. Processes then run the scenarios. Without binaries,
//! two scenarios run in this process, so that a change that breaks the grid itself is noticed.
//!
//! The calls are not listed anywhere: a scenario first runs without a fault, and each of its calls is a point for each
//! fault that it can meet.

mod callee;
mod cluster;
mod fault_plan;
mod functions;
mod handler;
mod neighbours;
mod scenarios;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use hookonce_protocol::dead_letter::ROUNDS_MAX;
use hookonce_protocol::invariant;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::{SHARDS, Timing};
use hookonce_protocol::write::Table;
use hookonce_runtime::documents::{DocumentKind, MESSAGE_KEY_ID, ROUTE_SET_ID};
use serde_json::json;

use self::callee::Callee;
use self::cluster::Cluster;
use self::fault_plan::{CALL_DESTINATION, Call, FaultPlan, Role};
use self::functions::Functions;
use self::handler::{FACT, Handler, REMOTE};
use self::scenarios::{AT_MOST_ONCE, CLASSES, ENQUEUING, ENQUEUING_BATCHES, Scenario};
use crate::support::delivery::secret;
use crate::support::stack::{MESSAGE_KEY, TestStack, urls};
use crate::support::tables::Tables;
use crate::support::wire::WireFault;

/// Tables, queues and binaries for one run after the other.
struct Runner {
    stack: TestStack,
    binaries: Option<PathBuf>,
}

/// The result of a run.
struct RunOutcome {
    /// The calls of the scenario, without those made while everything came to rest.
    calls: Vec<Call>,
    struck: bool,
    wrong: Vec<String>,
}

impl RunOutcome {
    /// Whether the fault struck, and this was found wrong.
    fn found_wrong(&self, what: &str) -> bool {
        self.struck && self.wrong.iter().any(|wrong| wrong.contains(what))
    }
}

/// A fault at one call.
fn point(role: Role, operation: &str, index: usize, fault: WireFault) -> (Call, WireFault) {
    (Call { role, operation: operation.to_owned(), index }, fault)
}

/// A fault at the first call of a destination.
fn first_call(fault: WireFault) -> (Call, WireFault) {
    point(Role::Dispatcher, CALL_DESTINATION, 0, fault)
}

/// Concurrent runs. Each mostly waits for servers and for the SDK's retries.
const RUNNERS: usize = 4;

/// The results of all runs.
#[derive(Default)]
struct Explored {
    calls: usize,
    points: usize,
    violations: usize,
}

/// A fresh stack with its documents in its table, but for the destinations: those have the address of a run's callee.
async fn stack() -> TestStack {
    let stack = handler::stack().await;
    let endpoints = [
        ("stripe", "stripe", "reject"),
        ("meta_whatsapp", "meta_whatsapp", "reject"),
        (ENQUEUING, "stripe", "enqueue"),
        (ENQUEUING_BATCHES, "meta_whatsapp", "enqueue"),
        (REMOTE, "stripe", "reject"),
    ];
    let forwarded = CLASSES.map(|id| (id, "stripe", "reject"));
    for (id, provider, on_store_outage) in endpoints.into_iter().chain(forwarded) {
        let document =
            json!({ "provider": provider, "secrets": [secret(provider)], "on_store_outage": on_store_outage });
        stack.write_document(DocumentKind::Endpoint, id, &document.to_string()).await;
    }
    // For the functions in processes of their own.
    stack.write_document(DocumentKind::Key, MESSAGE_KEY_ID, &MESSAGE_KEY.to_text()).await;
    stack.write_document(DocumentKind::Routes, ROUTE_SET_ID, &callee::route_set().to_string()).await;
    stack
}

impl Runner {
    async fn new(binaries: Option<PathBuf>) -> Self {
        Self { stack: stack().await, binaries }
    }

    /// Runs a scenario with a fault, or without one, and lets everything come to rest.
    async fn run(&mut self, scenario: &Scenario, point: Option<(Call, WireFault)>) -> RunOutcome {
        let plan = Arc::new(FaultPlan::new(point.clone(), scenario.down));
        let callee = Callee::start(callee_address(), &self.stack, &plan).await;
        let handler = Handler::start(&plan).await;
        let functions = Functions::new(&self.stack, self.binaries.as_deref(), None, &handler, &plan).await;
        let cluster = Cluster::new(&self.stack, &plan, functions);
        scenario.run(&cluster).await;
        let calls = plan.calls();
        plan.mend();
        let at_rest = cluster.settle().await;
        let tables = cluster.tables().await;
        let calls = unlike(calls, &tables);
        let mut wrong = violations_of(scenario, &callee, tables, point.as_ref());
        let (counted, facts) = (handler::counted(&self.stack).await, &scenario.facts);
        if counted != i64::from(facts.iter().any(|fact| fact == FACT)) {
            wrong.push(format!("the remote handler has counted {counted} times in its table"));
        }
        if !at_rest {
            wrong.push("it did not come to rest".to_owned());
        }
        drop(cluster);
        self.clear(at_rest).await;
        RunOutcome { calls, struck: plan.struck(), wrong }
    }

    /// Leaves nothing for the next run to find.
    async fn clear(&mut self, at_rest: bool) {
        if at_rest {
            for table in [Table::Inbox, Table::Domain, Table::Own(handler::alias())] {
                self.stack.clear(table).await;
            }
        } else {
            self.stack = stack().await;
        }
    }
}

/// Runs every scenario without a fault, then with every fault at every call that it made. What is wrong without a fault
/// is wrong with every fault, so such a scenario ends there.
async fn explore(scenarios: &[Scenario], binaries: Option<&Path>) -> Explored {
    let runner = |_| Runner::new(binaries.map(Path::to_owned));
    let mut runners = join_all((0..RUNNERS).map(runner)).await;
    let (mut explored, mut points) = (Explored::default(), Vec::new());
    let runs = scenarios.iter().map(|scenario| (scenario, None)).collect();
    for (scenario, _, outcome) in run_all(&mut runners, runs, |_| ()).await {
        assert!(!outcome.calls.is_empty(), "{}: no function made a call", scenario.name);
        println!("grid-real: {}: {} calls", scenario.name, outcome.calls.len());
        explored.calls += outcome.calls.len();
        for wrong in &outcome.wrong {
            println!("grid-real: {}, no fault: {wrong}", scenario.name);
        }
        explored.violations += outcome.wrong.len();
        if outcome.wrong.is_empty() {
            let every_fault = |call: Call| call.faults().iter().map(move |fault| Some((call.clone(), *fault)));
            points.extend(outcome.calls.into_iter().flat_map(every_fault).map(|point| (scenario, point)));
        }
    }
    explored.points = points.len();
    let progress = |done: usize| {
        if done.is_multiple_of(100) {
            println!("grid-real: {done} of {} points", explored.points);
        }
    };
    for (scenario, point, outcome) in run_all(&mut runners, points, progress).await {
        let missed = (!outcome.struck).then(|| "the fault did not strike".to_owned());
        for wrong in outcome.wrong.into_iter().chain(missed) {
            let at = point.as_ref().map(|(call, fault)| format!("{fault:?} at {call:?}")).unwrap_or_default();
            println!("grid-real: {}: {at}: {wrong}", scenario.name);
            explored.violations += 1;
        }
    }
    explored
}

/// A scenario, and the fault in it.
type Run<'a> = (&'a Scenario, Option<(Call, WireFault)>);

/// Makes these runs, as many at once as there is room for. After each, reports how many are done.
async fn run_all<'a>(
    runners: &mut [Runner],
    runs: Vec<Run<'a>>,
    progress: impl Fn(usize),
) -> Vec<(&'a Scenario, Option<(Call, WireFault)>, RunOutcome)> {
    let (runs, outcome) = (Mutex::new(runs.into_iter()), Mutex::new(Vec::new()));
    let run_all = async |runner: &mut Runner| {
        loop {
            let Some((scenario, point)) = runs.lock().unwrap().next() else { return };
            let ended = runner.run(scenario, point.clone()).await;
            let mut outcome = outcome.lock().unwrap();
            outcome.push((scenario, point, ended));
            progress(outcome.len());
        }
    };
    join_all(runners.iter_mut().map(run_all)).await;
    outcome.into_inner().unwrap()
}

/// The calls without most queries of empty shards. In each list, the shards of records and one empty shard are left;
/// the other empty ones differ from that one in nothing. An effect is in another shard in each run, so all shards of
/// its list are left.
fn unlike(calls: Vec<Call>, tables: &Tables) -> Vec<Call> {
    let has_effects = tables.records.values().any(|record| record.effect.is_some());
    let shards: BTreeSet<u16> = tables.records.values().map(|record| record.key.shard(SHARDS)).collect();
    let empty = (0..SHARDS).find(|shard| !shards.contains(shard));
    let is_left = |(list, shard): (&str, u16)| {
        has_effects && list == "effect_due" || shards.contains(&shard) || Some(shard) == empty
    };
    calls.into_iter().filter(|call| call.partition().is_none_or(is_left)).collect()
}

/// Everything that is wrong with the tables and the calls at the end of a scenario with this fault.
fn violations_of(
    scenario: &Scenario,
    callee: &Callee,
    mut tables: Tables,
    point: Option<&(Call, WireFault)>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for record in tables.records.values() {
        let broken = invariant::violations(record, &Timing::standard());
        wrong.extend(broken.iter().map(|violation| format!("{}: {violation}", record.key)));
    }
    let effects: Vec<_> =
        tables.records.extract_if(.., |_, record| record.effect.is_some()).map(|(_, one)| one).collect();
    match scenario.forwarded {
        Some(class) => wrong.extend(callee.wrong(class, scenario, &effects, point)),
        None if effects.is_empty() => {}
        None => wrong.push(format!("{} effects that nobody asked for", effects.len())),
    }
    let verdict = tables.verdict(&scenario.facts);
    // Three copies of one hint may become dead letters before its handler ever ran. The record dies with its payload.
    let worn_out = |record: &&Record| record.status == Status::Dead && record.dead_letters >= ROUNDS_MAX;
    let dead_max = scenario.dead_max.max(tables.records.values().filter(worn_out).count());
    let kept = verdict.dead.min(dead_max);
    if verdict.is_alarming()
        || verdict.owed > 0
        || verdict.dead > kept
        || verdict.applied + kept != scenario.facts.len()
    {
        wrong.push(format!("{verdict:?}"));
    }
    wrong
}

/// The folder of the functions' binaries, if this run has them.
fn binaries() -> Option<PathBuf> {
    std::env::var_os("TEST_BINARIES").map(PathBuf::from)
}

/// Where the callee is. A deployed binary calls no destination on loopback.
fn callee_address() -> Ipv4Addr {
    let named = std::env::var_os("TEST_CALLEE_ADDRESS").map(|address| address.to_str().unwrap().parse().unwrap());
    named.unwrap_or(Ipv4Addr::LOCALHOST)
}

#[tokio::test]
async fn every_call_on_the_wire_survives_every_fault() {
    let binaries = binaries();
    let few = || vec![scenarios::one_event(), scenarios::forwarded("an effect at most once", AT_MOST_ONCE)];
    let scenarios = if binaries.is_some() { scenarios::all() } else { few() };
    let Explored { calls, points, violations } = explore(&scenarios, binaries.as_deref()).await;
    let figures = json!({
        "part": "grid-real", "servers": [urls().0, urls().1], "processes": binaries.is_some(), "documents": "table",
        "scenarios": scenarios.len(), "calls": calls, "points": points, "violations": violations,
    });
    println!("{figures}");
    assert!(violations == 0 && points > 0);
}

#[tokio::test]
async fn a_server_that_lies_is_found_out() {
    let claim = (scenarios::one_event(), point(Role::Webhook, "PutItem", 0, WireFault::FalseSuccess), "lost: 1");
    let end_of_call = point(Role::Dispatcher, "UpdateItem", 1, WireFault::FalseSuccess);
    // The effect dies. No other fault of this write may make it DEAD.
    let death = (scenarios::forwarded("an end", AT_MOST_ONCE), end_of_call, "UnknownOutcome)) after 1 calls");
    let call = |class| (scenarios::forwarded("a call", class), first_call(WireFault::FalseSuccess), "after 0 calls");
    let mut runner = Runner::new(binaries()).await;
    for (scenario, point, found) in [claim, death].into_iter().chain(CLASSES.map(call)) {
        let outcome = runner.run(&scenario, Some(point)).await;
        assert!(outcome.found_wrong(found), "{} {:?}: {:?}", scenario.name, scenario.forwarded, outcome.wrong);
    }
}

#[tokio::test]
async fn a_second_count_in_a_user_table_is_found_out() {
    let mut runner = Runner::new(binaries()).await;
    handler::count(&runner.stack).await;
    let outcome = runner.run(&scenarios::counting("a remote handler"), None).await;
    assert_eq!(outcome.wrong, ["the remote handler has counted 2 times in its table"]);
}

#[tokio::test]
async fn detects_a_second_call_of_an_at_most_once_effect() {
    let mut runner = Runner::new(binaries()).await;
    for class in CLASSES {
        let outcome = runner.run(&scenarios::forwarded("a call", class), Some(first_call(WireFault::Repeated))).await;
        assert!(outcome.struck);
        assert_eq!(outcome.found_wrong("after 2 calls"), class == AT_MOST_ONCE, "{class}: {:?}", outcome.wrong);
    }
}
