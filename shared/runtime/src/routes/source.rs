//! The route set that is in use, and when it is read again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use error_reporter::Report;
use hookonce_protocol::key::hex;
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::Moment;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::set::{Missing, Offered, RouteSet};
use crate::documents::{DocumentKind, DocumentSource, DocumentsUnavailable, ROUTE_SET_ID};

/// How long a batch waits for an answer of the source.
const READ_MAX: Duration = Duration::from_secs(3);

/// How soon the source is asked again after the first time that it had nothing to use. It doubles up to the longest
/// pause. All instances may begin at one moment, so each adds up to a quarter at random.
const FIRST_PAUSE: Millis = Millis::seconds(1);

/// How long a set is used until it is read again: how late a worker notices another one.
const PAUSE: Millis = Millis::seconds(60);

/// The set of a laptop without a file: the handlers of the build are asked in their order.
pub const BUILTIN_SET: &str = r#"{"version":1,"otherwise":"builtin","routes":[]}"#;

/// What decides where an event goes.
#[derive(Debug, Clone)]
pub enum Routing {
    /// The set in use is not known, or there is none, or it is not valid. Events wait.
    Unknown,
    /// This set.
    Set(Arc<RouteSet>),
}

/// The route set in use.
#[derive(Debug)]
pub struct Routes {
    /// `None` for a set that never changes.
    source: Option<Arc<dyn DocumentSource>>,
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
    next_read_at: EpochMs,
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

/// What decides now, and whether the source was read.
#[derive(Debug)]
pub struct Current {
    /// What decides.
    pub routing: Routing,
    /// The source has no set, or one that is not valid: events wait. On a laptop, a set that is gone stays in use.
    pub refused: bool,
    /// Whether the source answered.
    pub fetch: FetchOutcome,
}

/// What became of a read of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOutcome {
    /// It was not read: it is not time to, or there is none.
    Not,
    /// It answered.
    Answered,
    /// It did not answer.
    Unanswered,
}

impl Routes {
    /// The handlers of the build in their order, for ever.
    pub fn builtin() -> Self {
        let routing = RouteSet::parse(BUILTIN_SET, Offered { handlers: &[], urls: false, tables: None });
        Self::with(None, Vec::new(), routing.map_or(Routing::Unknown, |set| Routing::Set(Arc::new(set))))
    }

    /// The set of this source. `handlers` are the names of the handlers of this build.
    pub fn new(source: Arc<dyn DocumentSource>, handlers: Vec<&'static str>) -> Self {
        Self::with(Some(source), handlers, Routing::Unknown)
    }

    fn with(source: Option<Arc<dyn DocumentSource>>, handlers: Vec<&'static str>, routing: Routing) -> Self {
        let state = State { routing, version: None, unanswered: 0, next_read_at: EpochMs(0) };
        Self { source, handlers, tables: BTreeSet::new(), state: Mutex::new(state) }
    }

    /// The same, for a worker with these user tables. Events of routes that list any other wait.
    #[must_use]
    pub fn with_tables(self, tables: BTreeSet<TableAlias>) -> Self {
        Self { tables, ..self }
    }

    /// What decides now. Reads the source if it is time to. Other callers use meanwhile what is in memory.
    pub async fn current(&self, moment: Moment) -> Current {
        let Some(source) = &self.source else { return Current::of(self.state().routing.clone()) };
        let pause = if source.is_local() { Millis::seconds(1) } else { PAUSE };
        {
            let mut state = self.state();
            if moment.now < state.next_read_at {
                return Current::of(state.routing.clone());
            }
            state.next_read_at = state.next(moment, pause);
        }
        let (refused, fetch) = match read(&**source).await {
            Some(text) => (self.take(text, moment.now.plus(pause), source.is_local()), FetchOutcome::Answered),
            None => (false, FetchOutcome::Unanswered),
        };
        Current { routing: self.state().routing.clone(), refused, fetch }
    }

    /// Takes over what was read. Returns whether the set is absent, refused or lost.
    ///
    /// A set that is refused or deleted ends the one before it: this process never routes by a set that is no longer in
    /// use, which may send events where nobody wants them any more.
    fn take(&self, text: Option<String>, next_read_at: EpochMs, is_local: bool) -> bool {
        let mut state = self.state();
        let (text, version) = match text {
            Some(text) => {
                let version = hex(&Sha256::digest(text.as_bytes()).into());
                (text, Some(version))
            }
            // An editor may be about to write the file again.
            None if is_local && state.version.is_some() => {
                tracing::error!("the route set is gone; nothing takes its place");
                return true;
            }
            // The built-in set, as before.
            None if is_local && matches!(state.routing, Routing::Set(_)) => {
                state.next_read_at = next_read_at;
                return false;
            }
            None if is_local => (BUILTIN_SET.to_owned(), None),
            None => {
                (state.routing, state.version) = (Routing::Unknown, None);
                tracing::error!("there is no route set: all events wait until `hookonce route deploy FILE` writes one");
                return true;
            }
        };
        if version.is_some() && version == state.version {
            let is_refused = matches!(state.routing, Routing::Unknown);
            if !is_refused {
                state.next_read_at = next_read_at;
            }
            return is_refused;
        }
        state.version.clone_from(&version);
        let offered = Offered { handlers: &self.handlers, urls: is_local, tables: Some(&self.tables) };
        match RouteSet::parse(&text, offered) {
            Ok(set) => {
                tracing::info!(routes.version = version, routes.count = set.len(), "a route set is in use");
                for Missing { route, what } in set.missing() {
                    tracing::warn!(route, missing = %what, "the events of a route wait: this worker lacks what it names");
                }
                (state.routing, state.unanswered, state.next_read_at) = (Routing::Set(Arc::new(set)), 0, next_read_at);
                false
            }
            Err(error) => {
                tracing::error!(routes.version = version, %error, "a route set is refused as a whole: all events wait");
                state.routing = Routing::Unknown;
                true
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the source has. `None` if it does not answer, or not in time.
async fn read(source: &dyn DocumentSource) -> Option<Option<String>> {
    let read = match timeout(READ_MAX, source.read(DocumentKind::Routes, ROUTE_SET_ID)).await {
        Ok(read) => read,
        Err(elapsed) => Err(DocumentsUnavailable(Box::new(elapsed))),
    };
    read.inspect_err(|error| tracing::warn!(error = %Report::new(error), "reading the route set failed")).ok()
}

impl Current {
    fn of(routing: Routing) -> Self {
        Self { routing, refused: false, fetch: FetchOutcome::Not }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::Answering;

    /// What a source has, the last answer first. The inner `None` is no set, the outer one no answer.
    type Answers = Vec<Option<Option<&'static str>>>;

    /// A worker without handlers whose source gives these answers, and those that are left.
    fn scripted(answers: Answers, is_local: bool) -> (Arc<Mutex<Answers>>, Routes) {
        let left = Arc::new(Mutex::new(answers));
        let answers = Arc::clone(&left);
        let answer = move |kind, id: &str| {
            assert_eq!((kind, id), (DocumentKind::Routes, ROUTE_SET_ID));
            let answer = answers.lock().unwrap().pop().expect("one question more than expected");
            let answer = answer.ok_or_else(|| DocumentsUnavailable("as scripted".into()));
            answer.map(|text| text.map(ToOwned::to_owned))
        };
        (left, Routes::new(Arc::new(Answering { answer, is_local }), Vec::new()))
    }

    const BAD: &str = "{}";
    const GOOD: &str = r#"{"version":1,"otherwise":"dead","routes":[]}"#;

    #[tokio::test]
    async fn the_built_in_set_of_a_laptop_is_read_once() {
        let (_, routes) = scripted(vec![Some(None); 2], true);
        let mut sets = Vec::new();
        for second in 0..2 {
            let current = routes.current(Moment { now: EpochMs(second * 1_000), entropy: 0 }).await;
            let Routing::Set(set) = current.routing else { panic!("it waits") };
            sets.push(set);
        }
        assert!(Arc::ptr_eq(&sets[0], &sets[1]));
    }

    /// A worker that starts while the set is not valid has nothing to use. Its batches must not read each time.
    #[tokio::test]
    async fn a_refused_set_is_read_with_growing_pauses() {
        let mut first = BTreeSet::new();
        for entropy in [0, 12_345, u64::MAX / 3] {
            // 1, 2, 4, 8, 16, 32 seconds, and then each minute, for ten minutes.
            let (left, routes) = scripted(vec![Some(Some(BAD)); 16], false);
            let mut refused = Vec::new();
            for batch in 0..6_000 {
                let current = routes.current(Moment { now: EpochMs(batch * 100), entropy }).await;
                assert!(matches!(current.routing, Routing::Unknown));
                if current.refused {
                    refused.push(batch);
                }
            }
            let left = left.lock().unwrap().len();
            assert_eq!(refused.len() + left, 16, "each answer is counted once: {refused:?}");
            assert!((12..=16).contains(&refused.len()), "{refused:?}");
            first.insert(refused[refused.len() - 1]);
        }
        assert!(first.len() > 1, "instances that begin together do not stay together");
    }

    /// Each read of a stored set takes up to sixteen read units, and a thousand workers may read.
    #[tokio::test]
    async fn a_worker_with_a_set_looks_for_another_once_a_minute_and_on_a_laptop_once_a_second() {
        for (is_local, pause) in [(false, 60_000), (true, 1_000)] {
            let (_, routes) = scripted(vec![Some(Some(GOOD)); 2], is_local);
            for (at, fetch) in
                [(0, FetchOutcome::Answered), (pause - 1, FetchOutcome::Not), (pause, FetchOutcome::Answered)]
            {
                assert_eq!(routes.current(Moment { now: EpochMs(at), entropy: 0 }).await.fetch, fetch, "{at}");
            }
        }
    }

    /// What decides after each answer, and whether it counted as refused.
    async fn decided(answers: &Answers, is_local: bool) -> Vec<(&'static str, bool)> {
        let (questions, mut decided) = (answers.len(), Vec::new());
        let (left, routes) = scripted(answers.iter().rev().copied().collect(), is_local);
        for question in 0..questions {
            let now = EpochMs(120_000 * i64::try_from(question).unwrap());
            let current = routes.current(Moment { now, entropy: 0 }).await;
            let by = match (current.routing, &routes.state().version) {
                (Routing::Unknown, _) => "wait",
                (Routing::Set(_), None) => "builtin",
                (Routing::Set(_), Some(version)) => {
                    let is = |text: &str| hex(&Sha256::digest(text.as_bytes()).into()) == *version;
                    if is(GOOD) { "good" } else { "other" }
                }
            };
            decided.push((by, current.refused));
        }
        assert!(left.lock().unwrap().is_empty(), "it asks once each time");
        decided
    }

    /// Whatever the source answers, events go by the set that it named last, or they wait.
    #[tokio::test]
    async fn a_process_never_routes_by_a_set_that_is_no_longer_in_use() {
        let ignoring = r#"{"version":1,"otherwise":"ignore","routes":[]}"#;
        let [bad, good, other] = [BAD, GOOD, ignoring].map(|text| Some(Some(text)));
        let (gone, silence) = (Some(None), None);
        for (answers, expected) in [
            (vec![good, good], vec![("good", false), ("good", false)]),
            (vec![good, bad, bad, other], vec![("good", false), ("wait", true), ("wait", true), ("other", false)]),
            (vec![bad, bad, good], vec![("wait", true), ("wait", true), ("good", false)]),
            (vec![good, silence, good], vec![("good", false), ("good", false), ("good", false)]),
            (vec![good, gone, silence, good], vec![("good", false), ("wait", true), ("wait", false), ("good", false)]),
            (vec![bad, gone, silence], vec![("wait", true), ("wait", true), ("wait", false)]),
            (vec![good, bad, gone], vec![("good", false), ("wait", true), ("wait", true)]),
            // No set is a table that nobody wrote to yet, or that was emptied or restored.
            (vec![silence, gone, gone, good], vec![("wait", false), ("wait", true), ("wait", true), ("good", false)]),
        ] {
            assert_eq!(decided(&answers, false).await, expected, "{answers:?}");
        }
    }

    /// An editor deletes a file and writes it again.
    #[tokio::test]
    async fn a_laptop_keeps_a_set_whose_file_is_gone() {
        let (gone, silence) = (Some(None), None);
        let on_a_laptop = vec![silence, gone, Some(Some(GOOD)), gone];
        let expected = [("wait", false), ("builtin", false), ("good", false), ("good", true)];
        assert_eq!(decided(&on_a_laptop, true).await, expected);
    }
}
