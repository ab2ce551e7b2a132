//! Instances of the webhook function that start together, against a model of Parameter Store's limit. In virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_capacity::ColdStarts;
use hookonce_capacity::limits::PARAMETER_READS;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::Ambient as _;
use hookonce_runtime::aws::{ATTEMPTS_MAX, FIRST_BACKOFF};
use hookonce_runtime::deadline::{Deadline, LOOKUP_RESERVE, PATIENCE_MAX};
use hookonce_runtime::document::{EndpointDocument, FetchError};
use hookonce_runtime::endpoint::Endpoints;
use hookonce_runtime::port::{EndpointRead, EndpointSource};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::support::clock::Clock;
use crate::support::delivery::secret;
use crate::template::property_of;

/// How long Parameter Store takes for an answer. Nobody has measured it here.
const ANSWERS_IN: Duration = Duration::from_millis(10);

/// A Parameter Store that answers so many reads in a second, all of them at once after a quiet second, and throttles
/// the others, behind a client that repeats a throttled read itself, as the SDK's does. Clones share it.
#[derive(Debug, Clone)]
struct Throttling {
    per_second: f64,
    state: Arc<Mutex<State>>,
    draws: Clock,
}

#[derive(Debug)]
struct State {
    left: f64,
    at: Instant,
    tried: usize,
}

impl Throttling {
    fn new(per_second: f64) -> Self {
        let state = State { left: per_second, at: Instant::now(), tried: 0 };
        Self { per_second, state: Arc::new(Mutex::new(state)), draws: Clock::new(0) }
    }

    /// One read, and whether it is answered.
    async fn answers(&self) -> bool {
        tokio::time::sleep(ANSWERS_IN).await;
        let mut state = self.state.lock().unwrap();
        state.left = (state.left + state.at.elapsed().as_secs_f64() * self.per_second).min(self.per_second);
        (state.at, state.tried) = (Instant::now(), state.tried + 1);
        let answered = state.left >= 1.0;
        state.left -= if answered { 1.0 } else { 0.0 };
        answered
    }

    /// The client's pause before this repetition, from 1: drawn below a bound that doubles.
    fn backoff(&self, repetition: u32) -> Duration {
        let bound = FIRST_BACKOFF.as_millis() << (repetition - 1);
        let drawn = self.draws.moment().uniform(Millis(i64::try_from(bound).unwrap()));
        Duration::from_millis(u64::try_from(drawn.0).unwrap())
    }
}

impl EndpointSource for Throttling {
    async fn fetch(&self, _id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
        let mut attempt = 0;
        while !self.answers().await {
            attempt += 1;
            if attempt == ATTEMPTS_MAX {
                return Err(FetchError::Throttled);
            }
            tokio::time::sleep(self.backoff(attempt)).await;
        }
        let document = json!({ "provider": "stripe", "secrets": [secret("stripe")] });
        let document = EndpointDocument::parse(&document.to_string()).map(Some).map_err(FetchError::Malformed);
        Ok(EndpointRead { document, index: shards.iter().map(|shard| (*shard, None)).collect() })
    }
}

/// Starts instances, this many per second for some seconds.
pub(super) fn cold_starts(per_second: u32, seconds: u32, reads_per_second: f64) -> ColdStarts {
    // A runtime of its own: whoever calls may be in real time.
    let run = move || {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(start(per_second, seconds, reads_per_second))
    };
    std::thread::spawn(run).join().unwrap()
}

async fn start(per_second: u32, seconds: u32, reads_per_second: f64) -> ColdStarts {
    let source = Throttling::new(reads_per_second);
    let invocation_ms = 1_000 * u64::try_from(property_of("WebhookFunction", "Timeout")).unwrap();
    let instance = async |number: u32| {
        tokio::time::sleep(Duration::from_millis((number * 1_000 / per_second).into())).await;
        let (began, clock) = (Instant::now(), Clock::new(number.into()));
        let endpoints = Endpoints::new(source.clone(), Catalog::built_in());
        let deadline = Deadline::of(&Timing::standard()).leaving(LOOKUP_RESERVE);
        let patience = Deadline::of_patience(u64::try_from(clock.now().0).unwrap() + invocation_ms, clock.now());
        let id = EndpointId::parse("stripe").unwrap();
        let found = endpoints.get(&id, clock.moment(), deadline, patience).await;
        found.is_ok().then(|| began.elapsed())
    };
    let waited = futures::future::join_all((0..per_second * seconds).map(instance)).await;
    let failed = waited.iter().filter(|waited| waited.is_none()).count();
    let mut waited: Vec<_> = waited.into_iter().flatten().collect();
    waited.sort_unstable();
    let tried = source.state.lock().unwrap().tried;
    ColdStarts { failed, half: waited[waited.len() / 2], last: waited[waited.len() - 1], tried }
}

/// A thousand is what an account may run at once by default.
#[test]
fn a_burst_of_cold_starts_waits_for_its_documents() {
    for (per_second, seconds) in [(40, 30), (80, 1), (300, 1), (1_000, 1)] {
        let started = cold_starts(per_second, seconds, PARAMETER_READS.value);
        println!("{per_second} cold starts/s for {seconds} s: {started:?}");
        assert_eq!(started.failed, 0, "{per_second}/s");
    }
}

/// Only the wait for one's turn is long: without it, the limit lets so many reads through until the last one gives up.
#[test]
fn no_burst_is_faster_than_the_limit() {
    let per_second = PARAMETER_READS.value;
    let started = cold_starts(1_000, 1, per_second);
    let least = Duration::from_secs_f64((1_000.0 - per_second) / per_second - 1.0);
    assert!(started.last >= least && started.last < least + Duration::from_secs(4), "{started:?}, at least {least:?}");
    let twice = cold_starts(2_000, 1, per_second);
    println!("2,000 in a second: {twice:?}");
    assert!(twice.failed > 0 && twice.last < PATIENCE_MAX, "nobody waits longer: {twice:?}");
}
