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

use super::fault::RouteSetError;
use super::set::{Offered, RouteSet};
use crate::file;

/// How long a batch waits for an answer of the source.
const FETCH_MAX: Duration = Duration::from_secs(3);

/// How soon the source is asked again after the first time that it had nothing to use. It doubles up to the source's
/// own pause. All instances may begin at one moment, so each adds up to a quarter at random.
const FIRST_PAUSE: Millis = Millis::seconds(1);

/// What decides where an event goes.
#[derive(Debug, Clone)]
pub enum Routing {
    /// No valid route set has been read yet, nor is it known that there is none. Events wait.
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

    /// Fetches the set that was in use before the one with this version. [`Fetched::Absent`] if the source keeps none,
    /// or if another set is in use by now.
    fn fetch_previous<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<Fetched, RouteFetchError>>;

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

    /// A file holds one set.
    fn fetch_previous<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
        Box::pin(async { Ok(Fetched::Absent) })
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
    /// The version of the set in use.
    version: Option<String>,
    /// The version that was refused last.
    refused: Option<String>,
    /// The refused version whose predecessor cannot be used, either.
    nothing_before: Option<String>,
    /// How often the source was asked before there was anything to use.
    unanswered: u32,
    ask_at: EpochMs,
}

impl State {
    /// The version that was refused, if nothing is in use and the previous set is not known to be unusable.
    fn may_go_back_from(&self) -> Option<String> {
        let refused = self.refused.as_ref().filter(|refused| self.nothing_before.as_ref() != Some(refused));
        refused.filter(|_| matches!(self.routing, Routing::Unknown)).cloned()
    }

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
    /// The source has a set that is not valid, or has lost its set. The last good one stays in use, or the one before.
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
        let state =
            State { routing, version: None, refused: None, nothing_before: None, unanswered: 0, ask_at: EpochMs(0) };
        Self { source, handlers, tables: BTreeSet::new(), state: Mutex::new(state) }
    }

    /// The same, for a worker with these user tables. A set that names any other is refused.
    #[must_use]
    pub fn with_tables(self, tables: BTreeSet<TableAlias>) -> Self {
        Self { tables, ..self }
    }

    /// Checks a set as a whole.
    fn checked(&self, text: &str, urls: bool) -> Result<RouteSet, RouteSetError> {
        let set = RouteSet::parse(text, Offered { handlers: &self.handlers, urls })?;
        set.check_tables(&self.tables).map(|()| set)
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
            // A set that was refused is not read again.
            state.refused.clone().or_else(|| state.version.clone())
        };
        let (refused, asked) = match in_time(source.fetch(held.as_deref())).await {
            Some(fetched) => (self.take(fetched, moment.now.plus(source.pause()), source.is_local()), Asked::Answered),
            None => (false, Asked::Unanswered),
        };
        if refused {
            self.go_back(source.as_ref()).await;
        }
        Current { routing: self.state().routing.clone(), refused, asked }
    }

    /// Uses the set before the one that was refused, if nothing is in use. The processes that run for longer have kept
    /// it, so this one does as they do.
    async fn go_back(&self, source: &dyn RouteSource) {
        let Some(refused) = self.state().may_go_back_from() else { return };
        let Some(fetched) = in_time(source.fetch_previous(&refused)).await else { return };
        let mut state = self.state();
        // Another caller may have found another set meanwhile.
        if state.may_go_back_from().as_ref() != Some(&refused) {
            return;
        }
        let Fetched::Text { version, text } = fetched else {
            state.nothing_before = Some(refused);
            return;
        };
        match self.checked(&text, source.is_local()) {
            Ok(set) => {
                tracing::warn!(routes.version = version, routes.count = set.len(), "the previous route set is in use");
                state.routing = Routing::Set(Arc::new(set));
                state.version = Some(version);
            }
            Err(error) => {
                tracing::error!(routes.version = version, %error, "the previous route set is refused, too");
                state.nothing_before = Some(refused);
            }
        }
    }

    /// Takes over what was fetched. Says whether it is refused.
    fn take(&self, fetched: Fetched, ask_at: EpochMs, urls: bool) -> bool {
        let mut state = self.state();
        match fetched {
            Fetched::Unchanged if state.refused.is_some() => return true,
            Fetched::Unchanged => {}
            // A set that is gone is no decision to have none: an editor may be about to write the file again.
            Fetched::Absent if matches!(state.routing, Routing::Set(_)) => {
                tracing::error!("the route set is gone; the last good one stays in use");
                state.refused = None;
                return true;
            }
            Fetched::Absent => {
                state.routing = Routing::Handlers;
                state.refused = None;
            }
            Fetched::Text { version, text } => match self.checked(&text, urls) {
                Ok(set) => {
                    tracing::info!(routes.version = version, routes.count = set.len(), "a route set is in use");
                    state.routing = Routing::Set(Arc::new(set));
                    state.version = Some(version);
                    state.refused = None;
                }
                Err(error) => {
                    if state.refused.as_ref() != Some(&version) {
                        tracing::error!(routes.version = version, %error, "a route set is refused as a whole");
                    }
                    state.refused = Some(version);
                    return true;
                }
            },
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

    /// What a source says of its sets, in the order of its answers. None if it does not answer.
    #[derive(Debug, Default)]
    struct Scripted {
        now: Mutex<Vec<Option<Fetched>>>,
        before: Mutex<Vec<Option<Fetched>>>,
        /// How many sets were read that the caller did not have.
        read: AtomicUsize,
        /// What happens to the routes while the set before is on its way.
        meanwhile: Mutex<Option<(Arc<Routes>, Fetched)>>,
    }

    fn answer(script: &Mutex<Vec<Option<Fetched>>>) -> Result<Fetched, RouteFetchError> {
        let answer = script.lock().unwrap().pop().expect("one question more than expected");
        answer.ok_or_else(|| RouteFetchError("as scripted".into()))
    }

    impl RouteSource for Arc<Scripted> {
        fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
            Box::pin(async move {
                let fetched = answer(&self.now)?;
                if matches!(&fetched, Fetched::Text { version, .. } if held == Some(version.as_str())) {
                    return Ok(Fetched::Unchanged);
                }
                self.read.fetch_add(1, Ordering::Relaxed);
                Ok(fetched)
            })
        }

        fn fetch_previous<'a>(&'a self, version: &'a str) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
            assert_eq!(version, "bad");
            if let Some((routes, fetched)) = self.meanwhile.lock().unwrap().take() {
                routes.take(fetched, EpochMs(0), true);
            }
            Box::pin(async { answer(&self.before) })
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
            let (now, before) = (vec![Some(named("bad")); 16].into(), vec![Some(Fetched::Absent)].into());
            let source = Arc::new(Scripted { now, before, ..Scripted::default() });
            let routes = Routes::new(Arc::clone(&source), Vec::new());
            let mut told = Vec::new();
            for batch in 0..BATCHES {
                let current = routes.current(Moment { now: EpochMs(batch * 100), entropy }).await;
                assert!(matches!(current.routing, Routing::Unknown));
                if current.refused {
                    told.push(batch);
                }
            }
            let left = source.now.lock().unwrap().len();
            assert_eq!(told.len() + left, 16, "each answer is told once: {told:?}");
            assert!((12..=16).contains(&told.len()), "{told:?}");
            assert_eq!(source.read.load(Ordering::Relaxed), 1);
            assert!(source.before.lock().unwrap().is_empty(), "the set before was asked for once");
            first.insert(told[told.len() - 1]);
        }
        assert!(first.len() > 1, "instances that begin together do not stay together");
    }

    /// Asks once for each answer of the source, and returns the version in use after each.
    async fn asked(source: &Arc<Scripted>, routes: &Routes) -> Vec<(Option<String>, bool)> {
        source.now.lock().unwrap().reverse();
        source.before.lock().unwrap().reverse();
        let (questions, mut versions) = (source.now.lock().unwrap().len(), Vec::new());
        for question in 0..questions {
            let now = EpochMs(120_000 * i64::try_from(question).unwrap());
            let current = routes.current(Moment { now, entropy: 0 }).await;
            let version = routes.state().version.clone();
            assert_eq!(matches!(current.routing, Routing::Set(_)), version.is_some());
            versions.push((version, current.refused));
        }
        assert!(
            source.now.lock().unwrap().is_empty() && source.before.lock().unwrap().is_empty(),
            "what was not asked"
        );
        versions
    }

    /// The processes that run for longer have kept the set before. Nothing is asked twice, and nothing more while all
    /// is well.
    #[tokio::test]
    async fn a_process_that_starts_with_a_refused_set_uses_the_one_before() {
        let [bad, good, old] = ["bad", "good", "old"].map(|version| move || Some(named(version)));
        let in_use = |version: &str, refused| (Some(version.to_owned()), refused);
        let waits = (None, true);
        for (now, before, expected) in [
            (vec![good(), good()], vec![], vec![in_use("good", false), in_use("good", false)]),
            (vec![good(), bad()], vec![], vec![in_use("good", false), in_use("good", true)]),
            (
                vec![bad(), bad(), good()],
                vec![old()],
                vec![in_use("old", true), in_use("old", true), in_use("good", false)],
            ),
            (
                vec![bad(), bad(), bad()],
                vec![None, old()],
                vec![waits.clone(), in_use("old", true), in_use("old", true)],
            ),
            (vec![bad(), bad(), bad()], vec![Some(named("bad-too"))], vec![waits.clone(); 3]),
            (vec![bad(), bad()], vec![Some(Fetched::Absent)], vec![waits.clone(); 2]),
        ] {
            let source = Arc::new(Scripted { now: now.into(), before: before.into(), ..Scripted::default() });
            let routes = Routes::new(Arc::clone(&source), Vec::new());
            assert_eq!(asked(&source, &routes).await, expected);
        }
    }

    /// Whoever asks meanwhile may find a set that was deployed since. The one before must not take its place.
    #[tokio::test]
    async fn the_set_before_never_takes_the_place_of_a_newer_one() {
        for (found, expected) in [("good", Some("good")), ("bad-again", None)] {
            let (now, before) = (vec![Some(named("bad"))].into(), vec![Some(named("old"))].into());
            let source = Arc::new(Scripted { now, before, ..Scripted::default() });
            let routes = Arc::new(Routes::new(Arc::clone(&source), Vec::new()));
            *source.meanwhile.lock().unwrap() = Some((Arc::clone(&routes), named(found)));
            let versions = asked(&source, &routes).await;
            assert_eq!(versions, [(expected.map(str::to_owned), true)], "{found}");
        }
    }
}
