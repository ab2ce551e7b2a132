//! The first reply to a call is lost on the wire, the SDK repeats the call, and a write finds that it was carried out.
//!
//! Each scenario runs without a fault, and then again while every call loses its first reply. `scripts/prove wire` does
//! this on DynamoDB Local and ElasticMQ, and also once for each kind of call alone. Nothing may come out differently:
//! the answers, every attribute in both tables after each step, whether a hint waits, and how many deaths were told.
//!
//! A send that is repeated is a second message, which the contract allows. So where sends are repeated, the end is
//! judged by itself: the invariants hold, and every fact is applied as often as it should be.

mod run;
mod scenarios;

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::StreamExt as _;
use futures::stream;
use hookonce_protocol::purpose::Purpose;

use self::run::{Interference, Run, is_send};
use self::scenarios::{SCENARIOS, Scenario};
use crate::support::call_names::SEPARATOR;

/// Concurrent runs. Each mostly waits for servers and for the SDK's pauses.
const RUNNERS: usize = 4;

/// What a run did and what came out of it.
struct RunOutcome {
    log: Vec<String>,
    wrong: Vec<String>,
    /// The names of its calls, each once.
    calls: BTreeSet<String>,
    /// Calls whose first reply was lost or pretended.
    struck: usize,
}

async fn carried_out(scenario: &Scenario, interference: Interference) -> RunOutcome {
    let run = Run::new(interference).await;
    (scenario.steps)(&run).await;
    let wrong = run.violations(scenario.facts).await;
    let (calls, struck) = (run.replies.calls.lock().unwrap().clone(), *run.replies.struck.lock().unwrap());
    RunOutcome { log: run.log.into_inner().unwrap(), wrong, calls, struck }
}

/// What is wrong with a run, by itself and compared with the run without a fault.
fn findings(scenario: &Scenario, fault: &str, ended: &RunOutcome, undisturbed: &RunOutcome) -> Vec<String> {
    let place = |what: &str| format!("{}, {fault}: {what}", scenario.name);
    let mut findings: Vec<_> = ended.wrong.iter().map(|wrong| place(wrong)).collect();
    let (expected, got) = (&undisturbed.log, &ended.log);
    let differs = expected.iter().zip(got).find(|(expected, got)| expected != got);
    findings.extend(differs.map(|(expected, got)| place(&format!("\n  expected {expected}\n  got      {got}"))));
    if differs.is_none() && expected.len() != got.len() {
        findings.push(place(&format!("{} lines instead of {}", got.len(), expected.len())));
    }
    findings
}

/// Every scenario with every kind of its calls disturbed.
#[derive(Default)]
struct Explored {
    calls: usize,
    findings: Vec<String>,
    /// The runs that nobody would have noticed.
    unnoticed: Vec<String>,
    purposes: BTreeSet<String>,
}

/// Runs a scenario without a fault, and then with each of these.
async fn explore(scenario: &Scenario, faults: impl Fn(&BTreeSet<String>) -> Vec<(String, Interference)>) -> Explored {
    let undisturbed = carried_out(scenario, Interference::None).await;
    let purposes = undisturbed.calls.iter().flat_map(|name| name.split(SEPARATOR)).map(str::to_owned).collect();
    let mut explored = Explored { purposes, ..Explored::default() };
    explored.findings = findings(scenario, "no fault", &undisturbed, &undisturbed);
    let again = carried_out(scenario, Interference::None).await;
    explored.findings.extend(findings(scenario, "no fault, again", &again, &undisturbed));
    for (name, interference) in faults(&undisturbed.calls) {
        let sends = interference == Interference::LostSends;
        let ended = carried_out(scenario, interference).await;
        let found = findings(scenario, &name, &ended, if sends { &ended } else { &undisturbed });
        if ended.struck == 0 {
            explored.findings.push(format!("{}, {name}: no call was disturbed", scenario.name));
        }
        if found.is_empty() {
            explored.unnoticed.push(format!("{}, {name}", scenario.name));
        }
        explored.calls += ended.struck;
        explored.findings.extend(found);
    }
    explored
}

async fn explore_all(faults: impl Fn(&BTreeSet<String>) -> Vec<(String, Interference)>) -> Explored {
    let explored = stream::iter(SCENARIOS).map(|scenario| explore(scenario, &faults)).buffer_unordered(RUNNERS);
    let merge = |mut all: Explored, one: Explored| async move {
        all.calls += one.calls;
        all.findings.extend(one.findings);
        all.unnoticed.extend(one.unnoticed);
        all.purposes.extend(one.purposes);
        all
    };
    explored.fold(Explored::default(), merge).await
}

/// Whether each kind of call is to lose its replies alone, too.
fn each_kind_alone() -> bool {
    std::env::var_os("TEST_EACH_KIND").is_some()
}

#[tokio::test]
async fn a_call_whose_first_reply_is_lost_changes_nothing() {
    let faults = |names: &BTreeSet<String>| {
        let lost = |name: &str, interference| (format!("{name} loses its first reply"), interference);
        let (sends, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_send(name));
        let mut faults = vec![lost("every call that sends nothing", Interference::LostOthers)];
        faults.extend((!sends.is_empty()).then(|| lost("every send", Interference::LostSends)));
        if each_kind_alone() {
            faults.extend(others.into_iter().map(|name| lost(name, Interference::Lost(name.clone()))));
        }
        faults
    };
    let mut explored = explore_all(faults).await;
    let made = |purpose: &&Purpose| explored.purposes.contains(purpose.as_str());
    let missing = Purpose::ALL.iter().filter(|purpose| !made(purpose)).map(|missing| format!("no scenario: {missing}"));
    explored.findings.extend(missing.collect::<Vec<_>>());
    for finding in &explored.findings {
        println!("wire: {finding}");
    }
    println!("wire: {} scenarios, {} kinds of write", SCENARIOS.len(), Purpose::ALL.len());
    println!(
        r#"{{"part":"wire","documents":"table","calls":{},"violations":{}}}"#,
        explored.calls,
        explored.findings.len()
    );
    assert!(explored.findings.is_empty() && explored.calls > 0);
}

/// A comparison that would notice nothing proves nothing: a write that was only pretended must be found out.
#[tokio::test]
async fn every_write_that_is_only_pretended_is_found_out() {
    let tried = Mutex::new(BTreeSet::new());
    let writes = |names: &BTreeSet<String>| {
        let is_write = |name: &&String| name.split(SEPARATOR).all(|purpose| Purpose::parse(purpose).is_some());
        let is_new = |name: &&String| tried.lock().unwrap().insert((*name).clone());
        let pretended = |name: &String| (format!("{name} is pretended"), Interference::Pretended(name.clone()));
        names.iter().filter(is_write).filter(is_new).map(pretended).collect()
    };
    let explored = explore_all(writes).await;
    assert!(!tried.lock().unwrap().is_empty());
    assert_eq!(explored.unnoticed, Vec::<String>::new());
}
