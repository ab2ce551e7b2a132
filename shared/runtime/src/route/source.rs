//! Where a route set comes from, and the one that is in use.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_protocol::key::hex;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::set::{Missing, Offered, RouteSet};
use crate::file;

/// How long a batch waits for an answer of the source.
const FETCH_MAX: Duration = Duration::from_secs(3);

/// How soon the source is asked again after the first time that it had nothing to use. It doubles up to the source's
/// own pause. All instances may begin at one moment, so each adds up to a quarter at random.
const FIRST_PAUSE: Millis = Millis::seconds(1);

/// What decides where an event goes.
#[derive(Debug, Clone)]
pub enum Routing {
    /// The set in use is not known, nor whether there is one, or it is not valid. Events wait.
    Unknown,
    /// There is no set: the handlers are asked in their order.
    Handlers,
    /// This set.
    Set(Arc<RouteSet>),
}

/// What a source answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// There is no set.
    Absent,
    /// The set is the one that the caller has.
    Unchanged,
    /// Another set.
    Text {
        /// Names this very set.
        version: String,
        /// The set's text.
        text: String,
    },
}

/// A source did not answer, or not with a whole set.
#[derive(Debug, thiserror::Error)]
#[error("the route set could not be read")]
pub struct RouteFetchError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Where route sets come from.
pub trait RouteSource: Send + Sync + fmt::Debug + 'static {
    /// Fetches the set, unless it is the one with this version.
    fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>>;

    /// How long to wait before asking again.
    fn pause(&self) -> Millis;

    /// Whether its sets may name handlers at URLs on loopback: it is on a laptop.
    fn is_local(&self) -> bool;
}

/// A set in a file, for a laptop.
#[derive(Debug, Clone)]
pub struct RouteFile(PathBuf);

impl RouteFile {
    /// The set at this path. The file need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl RouteSource for RouteFile {
    fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
        Box::pin(async move {
            let read = file::read(&self.0).map_err(|error| RouteFetchError(Box::new(error)))?;
            let Some(text) = read else { return Ok(Fetched::Absent) };
            let version = hex(&Sha256::digest(text.as_bytes()).into());
            Ok(if held == Some(version.as_str()) { Fetched::Unchanged } else { Fetched::Text { version, text } })
        })
    }

    fn pause(&self) -> Millis {
        Millis::seconds(1)
    }

    fn is_local(&self) -> bool {
        true
    }
}

/// The route set in use.
#[derive(Debug)]
pub struct Routes {
    source: Option<Box<dyn RouteSource>>,
    handlers: Vec<&'static str>,
    tables: BTreeSet<TableAlias>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    routing: Routing,
    /// The version that was read last, valid or not.
    version: Option<String>,
    /// How often the source was asked without there being anything to use.
    unanswered: u32,
    ask_at: EpochMs,
}

impl State {
    /// When to ask again if this time nothing new comes.
    fn next(&mut self, moment: Moment, longest: Millis) -> EpochMs {
        if !matches!(self.routing, Routing::Unknown) {
            return moment.now.plus(longest);
        }
        let doubled = FIRST_PAUSE.0.saturating_mul(1_i64.checked_shl(self.unanswered.min(32)).unwrap_or(i64::MAX));
        let pause = Millis(doubled.min(longest.0));
        self.unanswered = self.unanswered.saturating_add(1);
        moment.now.plus(pause).plus(moment.uniform(Millis(pause.0 / 4)))
    }
}

/// What decides now, and what the source said if it was asked.
#[derive(Debug)]
pub struct Current {
    /// What decides.
    pub routing: Routing,
    /// The source has a set that is not valid: events wait. Or it has lost the set that it had, which stays in use.
    pub refused: bool,
    /// Whether the source answered.
    pub asked: Asked,
}

/// What became of a question to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It was not asked: it is not time to, or there is none.
    Not,
    /// It answered.
    Answered,
    /// It did not answer.
    Unanswered,
}

impl Routes {
    /// No set, ever: the handlers are asked in their order.
    pub fn none() -> Self {
        Self::with(None, Vec::new(), Routing::Handlers)
    }

    /// The set of this source. `handlers` are the names of the handlers of this build.
    pub fn new(source: impl RouteSource, handlers: Vec<&'static str>) -> Self {
        Self::with(Some(Box::new(source)), handlers, Routing::Unknown)
    }

    fn with(source: Option<Box<dyn RouteSource>>, handlers: Vec<&'static str>, routing: Routing) -> Self {
        let state = State { routing, version: None, unanswered: 0, ask_at: EpochMs(0) };
        Self { source, handlers, tables: BTreeSet::new(), state: Mutex::new(state) }
    }

    /// The same, for a worker with these user tables. Events of routes that list any other wait.
    #[must_use]
    pub fn with_tables(self, tables: BTreeSet<TableAlias>) -> Self {
        Self { tables, ..self }
    }

    /// What decides now. Asks the source if it is time to. Other callers use meanwhile what is in memory.
    pub async fn current(&self, moment: Moment) -> Current {
        let Some(source) = &self.source else { return Current::of(Routing::Handlers) };
        let held = {
            let mut state = self.state();
            if moment.now < state.ask_at {
                return Current::of(state.routing.clone());
            }
            state.ask_at = state.next(moment, source.pause());
            state.version.clone()
        };
        let (refused, asked) = match in_time(source.fetch(held.as_deref())).await {
            Some(fetched) => (self.take(fetched, moment.now.plus(source.pause()), source.is_local()), Asked::Answered),
            None => (false, Asked::Unanswered),
        };
        Current { routing: self.state().routing.clone(), refused, asked }
    }

    /// Takes over what was fetched. Says whether the set is refused or lost.
    ///
    /// A set that is refused ends the one before it: this process never routes by a set that is no longer in use, which
    /// may send events where nobody wants them any more.
    fn take(&self, fetched: Fetched, ask_at: EpochMs, urls: bool) -> bool {
        let mut state = self.state();
        match fetched {
            Fetched::Unchanged if matches!(state.routing, Routing::Unknown) => return true,
            Fetched::Unchanged => {}
            // A set that is gone is no decision to have none: an editor may be about to write the file again.
            Fetched::Absent if state.version.is_some() => {
                tracing::error!("the route set is gone; nothing takes its place");
                return true;
            }
            Fetched::Absent => state.routing = Routing::Handlers,
            Fetched::Text { version, text } => {
                state.version = Some(version.clone());
                let offered = Offered { handlers: &self.handlers, urls, tables: Some(&self.tables) };
                match RouteSet::parse(&text, offered) {
                    Ok(set) => {
                        tracing::info!(routes.version = version, routes.count = set.len(), "a route set is in use");
                        for Missing { route, what } in set.missing() {
                            tracing::warn!(route, missing = %what, "the events of a route wait: this worker lacks what it names");
                        }
                        (state.routing, state.unanswered) = (Routing::Set(Arc::new(set)), 0);
                    }
                    Err(error) => {
                        tracing::error!(routes.version = version, %error, "a route set is refused as a whole: all events wait");
                        state.routing = Routing::Unknown;
                        return true;
                    }
                }
            }
        }
        state.ask_at = ask_at;
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the source answers. None if it does not, or not in time.
async fn in_time(fetching: BoxFuture<'_, Result<Fetched, RouteFetchError>>) -> Option<Fetched> {
    let fetched = match timeout(FETCH_MAX, fetching).await {
        Ok(fetched) => fetched,
        Err(elapsed) => Err(RouteFetchError(Box::new(elapsed))),
    };
    fetched.inspect_err(|error| tracing::warn!(error = %Report::new(error), "reading the route set failed")).ok()
}

impl Current {
    fn of(routing: Routing) -> Self {
        Self { routing, refused: false, asked: Asked::Not }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// What a source says of its set, the last answer first. None if it does not answer.
    #[derive(Debug, Default)]
    struct Scripted {
        answers: Mutex<Vec<Option<Fetched>>>,
        /// How many sets were read that the caller did not have.
        read: AtomicUsize,
    }

    impl RouteSource for Arc<Scripted> {
        fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
            Box::pin(async move {
                let answer = self.answers.lock().unwrap().pop().expect("one question more than expected");
                let fetched = answer.ok_or_else(|| RouteFetchError("as scripted".into()))?;
                if matches!(&fetched, Fetched::Text { version, .. } if held == Some(version.as_str())) {
                    return Ok(Fetched::Unchanged);
                }
                self.read.fetch_add(1, Ordering::Relaxed);
                Ok(fetched)
            })
        }

        fn is_local(&self) -> bool {
            true
        }

        fn pause(&self) -> Millis {
            Millis::minutes(1)
        }
    }

    fn named(version: &str) -> Fetched {
        let text = if version.starts_with("bad") { "{}" } else { r#"{"version":1,"otherwise":"dead","routes":[]}"# };
        Fetched::Text { version: version.to_owned(), text: text.to_owned() }
    }

    /// A worker that starts while the set is not valid has nothing to use. Its batches must not ask each time.
    #[tokio::test]
    async fn a_refused_set_is_read_once_and_asked_about_ever_more_rarely() {
        const BATCHES: i64 = 6_000;
        let mut first = BTreeSet::new();
        for entropy in [0, 12_345, u64::MAX / 3] {
            // 1, 2, 4, 8, 16, 32 seconds, and then each minute, for ten minutes.
            let source = Arc::new(Scripted { answers: vec![Some(named("bad")); 16].into(), ..Scripted::default() });
            let routes = Routes::new(Arc::clone(&source), Vec::new());
            let mut told = Vec::new();
            for batch in 0..BATCHES {
                let current = routes.current(Moment { now: EpochMs(batch * 100), entropy }).await;
                assert!(matches!(current.routing, Routing::Unknown));
                if current.refused {
                    told.push(batch);
                }
            }
            let left = source.answers.lock().unwrap().len();
            assert_eq!(told.len() + left, 16, "each answer is told once: {told:?}");
            assert!((12..=16).contains(&told.len()), "{told:?}");
            assert_eq!(source.read.load(Ordering::Relaxed), 1);
            first.insert(told[told.len() - 1]);
        }
        assert!(first.len() > 1, "instances that begin together do not stay together");
    }

    /// What decides after each answer: the set's version, `handlers` or `wait`. And whether that was told as refused.
    async fn decided(mut answers: Vec<Option<Fetched>>) -> Vec<(String, bool)> {
        answers.reverse();
        let (questions, mut decided) = (answers.len(), Vec::new());
        let source = Arc::new(Scripted { answers: answers.into(), ..Scripted::default() });
        let routes = Routes::new(Arc::clone(&source), Vec::new());
        for question in 0..questions {
            let now = EpochMs(120_000 * i64::try_from(question).unwrap());
            let current = routes.current(Moment { now, entropy: 0 }).await;
            let by = match current.routing {
                Routing::Unknown => "wait".to_owned(),
                Routing::Handlers => "handlers".to_owned(),
                Routing::Set(_) => routes.state().version.clone().unwrap(),
            };
            decided.push((by, current.refused));
        }
        assert!(source.answers.lock().unwrap().is_empty(), "it asks once each time");
        decided
    }

    /// Whatever the source answers, events go by the set that it named last, or they wait.
    #[tokio::test]
    async fn a_process_never_routes_by_a_set_that_is_no_longer_in_use() {
        let [bad, good, other] = ["bad", "good", "other"].map(|version| move || Some(named(version)));
        let (gone, silence) = (|| Some(Fetched::Absent), || None);
        for (answers, expected) in [
            (vec![good(), good()], vec![("good", false), ("good", false)]),
            (
                vec![good(), bad(), bad(), other()],
                vec![("good", false), ("wait", true), ("wait", true), ("other", false)],
            ),
            (vec![bad(), bad(), good()], vec![("wait", true), ("wait", true), ("good", false)]),
            (vec![good(), silence(), good()], vec![("good", false), ("good", false), ("good", false)]),
            (vec![good(), gone(), good()], vec![("good", false), ("good", true), ("good", false)]),
            (vec![bad(), gone(), silence()], vec![("wait", true), ("wait", true), ("wait", false)]),
            (vec![good(), bad(), gone()], vec![("good", false), ("wait", true), ("wait", true)]),
            (vec![silence(), gone(), good()], vec![("wait", false), ("handlers", false), ("good", false)]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(by, refused)| (by.to_owned(), refused)).collect();
            assert_eq!(decided(answers.clone()).await, expected, "{answers:?}");
        }
    }
}
