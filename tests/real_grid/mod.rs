//! The fault grid on servers: every remote call of the functions, refused, its reply lost, carried out late, and the
//! process killed before and after it; on the wire, below the SDK.
//!
//! `scripts/prove grid --real` names the functions' binaries in `TEST_BINARIES` and servers as for every other
//! test; the plays are then run by processes. Without binaries one play is run in this process, so that a change which
//! breaks the grid itself is noticed.
//!
//! How many calls there are is not written down: a play is run without a fault first, and each of its calls is a point
//! for each fault that it can meet.

mod board;
mod functions;
mod plays;
mod proxy;
mod stage;

use std::path::PathBuf;
use std::sync::Arc;

use hookonce_local::stack::Place;
use hookonce_protocol::dead_letter::UNTRIED_MAX;
use hookonce_protocol::invariant;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use serde_json::json;
use tempfile::TempDir;

use self::board::{Board, Call, Fault, Role};
use self::functions::Functions;
use self::plays::{ENQUEUING, ENQUEUING_BATCHES, Play};
use self::stage::Stage;
use crate::support::delivery::secret;
use crate::support::lab::{Lab, urls};
use crate::support::ledger::Books;

/// Tables, queues and binaries for one run after the other.
struct Theatre {
    lab: Lab,
    endpoints: TempDir,
    binaries: Option<PathBuf>,
}

/// What a run came to.
struct Told {
    /// The calls of the story, without those that brought everything to rest.
    calls: Vec<Call>,
    struck: bool,
    wrong: Vec<String>,
}

/// What all points of a play came to.
struct Explored {
    calls: usize,
    points: usize,
    violations: usize,
}

impl Theatre {
    async fn new(binaries: Option<PathBuf>) -> Self {
        let endpoints = TempDir::new().unwrap();
        let documents = [
            ("stripe", "stripe", "reject"),
            ("meta_whatsapp", "meta_whatsapp", "reject"),
            (ENQUEUING, "stripe", "enqueue"),
            (ENQUEUING_BATCHES, "meta_whatsapp", "enqueue"),
        ];
        for (id, provider, on_store_outage) in documents {
            let document =
                json!({ "provider": provider, "secrets": [secret(provider)], "on_store_outage": on_store_outage });
            std::fs::write(endpoints.path().join(format!("{id}.json")), document.to_string()).unwrap();
        }
        Self { lab: Lab::new().await, endpoints, binaries }
    }

    /// Tells a story with a fault, or without one, and lets everything come to rest.
    async fn run(&mut self, play: &Play, point: Option<(Call, Fault)>) -> Told {
        let board = Arc::new(Board::new(point, play.down));
        let (dynamodb_url, sqs_url) = urls();
        let resources = self.lab.resources.clone();
        let place = Place { dynamodb_url: dynamodb_url.to_owned(), sqs_url: sqs_url.to_owned(), resources };
        let functions = Functions::new(&place, self.endpoints.path(), self.binaries.as_deref(), &board).await;
        let stage = Stage::new(&self.lab, &board, functions);
        play.tell(&stage).await;
        let calls = board.calls();
        board.mend();
        let at_rest = stage.settle().await;
        let mut wrong = judge(play, &stage.books().await);
        if !at_rest {
            wrong.push("it did not come to rest".to_owned());
        }
        drop(stage);
        self.clear(at_rest).await;
        Told { calls, struck: board.struck(), wrong }
    }

    /// Leaves nothing for the next run to find.
    async fn clear(&mut self, at_rest: bool) {
        if at_rest {
            for table in [Table::Inbox, Table::Domain] {
                self.lab.clear(table).await;
            }
        } else {
            self.lab = Lab::new().await;
        }
    }

    /// Runs every point of a play. What is wrong without a fault is wrong with every fault, so that it ends there.
    async fn explore(&mut self, play: &Play) -> Explored {
        let plain = self.run(play, None).await;
        for wrong in &plain.wrong {
            println!("grid-real: {}, no fault: {wrong}", play.name);
        }
        let mut explored = Explored { calls: plain.calls.len(), points: 0, violations: plain.wrong.len() };
        assert!(!plain.calls.is_empty(), "{}: nobody made a call", play.name);
        let points = plain.calls.iter().flat_map(|call| call.faults().iter().map(move |fault| (call, fault)));
        for (call, fault) in points.filter(|_| plain.wrong.is_empty()) {
            let told = self.run(play, Some((call.clone(), *fault))).await;
            let missed = (!told.struck).then(|| "the fault did not strike".to_owned());
            for wrong in told.wrong.into_iter().chain(missed) {
                println!("grid-real: {}: {fault:?} at {call}: {wrong}", play.name);
                explored.violations += 1;
            }
            explored.points += 1;
        }
        let Explored { calls, points, violations } = explored;
        println!("grid-real: {}: {calls} calls, {points} points, {violations} violations", play.name);
        explored
    }
}

/// Everything that is wrong with the tables at the end of a play.
fn judge(play: &Play, books: &Books) -> Vec<String> {
    let verdict = books.verdict(&play.facts);
    // Three copies of one hint may end as dead letters, all before its handler ever ran: it dies, with its payload.
    let worn_out = |record: &&Record| record.status == Status::Dead && record.dead_letters > UNTRIED_MAX;
    let dead_max = play.dead_max.max(books.records.values().filter(worn_out).count());
    let kept = verdict.dead.min(dead_max);
    let mut wrong = Vec::new();
    if verdict.is_alarming() || verdict.owed > 0 || verdict.dead > kept || verdict.applied + kept != play.facts.len() {
        wrong.push(format!("{verdict:?}"));
    }
    for record in books.records.values() {
        let broken = invariant::violations(record, &Timing::standard());
        wrong.extend(broken.iter().map(|violation| format!("{}: {violation}", record.key)));
    }
    wrong
}

/// The folder of the functions' binaries, if this run has them.
fn binaries() -> Option<PathBuf> {
    std::env::var_os("TEST_BINARIES").map(PathBuf::from)
}

#[tokio::test]
async fn every_call_on_the_wire_survives_every_fault() {
    let binaries = binaries();
    let plays = if binaries.is_some() { plays::all() } else { vec![plays::one_event()] };
    let mut theatre = Theatre::new(binaries).await;
    let (mut calls, mut points, mut violations) = (0, 0, 0);
    for play in &plays {
        let explored = theatre.explore(play).await;
        calls += explored.calls;
        points += explored.points;
        violations += explored.violations;
    }
    let figures = json!({
        "part": "grid-real", "servers": [urls().0, urls().1], "processes": theatre.binaries.is_some(),
        "plays": plays.len(), "calls": calls, "points": points, "violations": violations,
    });
    println!("{figures}");
    assert!(violations == 0 && points > 0);
}

#[tokio::test]
async fn a_store_that_lies_is_found_out() {
    let mut theatre = Theatre::new(binaries()).await;
    let call = |role, operation: &str| Call { role, operation: operation.to_owned(), index: 0 };
    let told = theatre.run(&plays::one_event(), Some((call(Role::Webhook, "PutItem"), Fault::Lie))).await;
    assert!(told.struck && told.wrong.iter().any(|wrong| wrong.contains("lost: 1")), "{:?}", told.wrong);
}
