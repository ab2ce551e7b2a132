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

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
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

/// Runs at once: each mostly waits for servers and for the SDK's retries.
const THEATRES: usize = 4;

/// What all runs came to.
#[derive(Default)]
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
}

/// Runs every play without a fault, then with every fault in every call that it made. What is wrong without a fault is
/// wrong with every fault, so that such a play ends there.
async fn explore(plays: &[Play], binaries: Option<&Path>) -> Explored {
    let theatre = |_| Theatre::new(binaries.map(Path::to_owned));
    let mut theatres = join_all((0..THEATRES).map(theatre)).await;
    let (mut explored, mut points) = (Explored::default(), Vec::new());
    let stories = plays.iter().map(|play| (play, None)).collect();
    for (play, _, told) in tell(&mut theatres, stories, |_| ()).await {
        assert!(!told.calls.is_empty(), "{}: nobody made a call", play.name);
        println!("grid-real: {}: {} calls", play.name, told.calls.len());
        explored.calls += told.calls.len();
        for wrong in &told.wrong {
            println!("grid-real: {}, no fault: {wrong}", play.name);
        }
        explored.violations += told.wrong.len();
        if told.wrong.is_empty() {
            let every_fault = |call: Call| call.faults().iter().map(move |fault| Some((call.clone(), *fault)));
            points.extend(told.calls.into_iter().flat_map(every_fault).map(|point| (play, point)));
        }
    }
    explored.points = points.len();
    let say = |done: usize| {
        if done.is_multiple_of(100) {
            println!("grid-real: {done} of {} points", explored.points);
        }
    };
    for (play, point, told) in tell(&mut theatres, points, say).await {
        let missed = (!told.struck).then(|| "the fault did not strike".to_owned());
        for wrong in told.wrong.into_iter().chain(missed) {
            let at = point.as_ref().map(|(call, fault)| format!("{fault:?} at {call}")).unwrap_or_default();
            println!("grid-real: {}: {at}: {wrong}", play.name);
            explored.violations += 1;
        }
    }
    explored
}

/// A play, and the fault in it.
type Story<'a> = (&'a Play, Option<(Call, Fault)>);

/// Tells these stories, each where there is room; after each, says how many are done.
async fn tell<'a>(
    theatres: &mut [Theatre],
    stories: Vec<Story<'a>>,
    say: impl Fn(usize),
) -> Vec<(&'a Play, Option<(Call, Fault)>, Told)> {
    let (stories, told) = (Mutex::new(stories.into_iter()), Mutex::new(Vec::new()));
    let tell = async |theatre: &mut Theatre| {
        loop {
            let Some((play, point)) = stories.lock().unwrap().next() else { return };
            let ended = theatre.run(play, point.clone()).await;
            let mut told = told.lock().unwrap();
            told.push((play, point, ended));
            say(told.len());
        }
    };
    join_all(theatres.iter_mut().map(tell)).await;
    told.into_inner().unwrap()
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
    let Explored { calls, points, violations } = explore(&plays, binaries.as_deref()).await;
    let figures = json!({
        "part": "grid-real", "servers": [urls().0, urls().1], "processes": binaries.is_some(),
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
