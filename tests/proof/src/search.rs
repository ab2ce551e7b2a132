//! Explorations: one thread each, breadth first, so that each counterexample is a shortest one and the figures repeat.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::model::rule::Rule;
use crate::model::scenario::Scenario;
use crate::model::{Action, Model};
use crate::mutant::Mutation;

/// What one exploration found.
#[derive(Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Transitions.
    pub transitions: usize,
    /// The length of the longest shortest path.
    pub depth: usize,
    /// What was broken, and how to get there.
    pub counterexample: Option<Counterexample>,
    /// Whether the mutation changed anything.
    pub mutated: bool,
    /// The labels of the steps that were taken.
    pub labels: BTreeSet<String>,
}

/// A shortest way to a broken rule.
#[derive(Debug)]
pub struct Counterexample {
    /// The rule.
    pub rule: Rule,
    /// The steps, in words.
    pub steps: Vec<String>,
}

/// Explores a scenario to its end, or to the first broken rule.
pub fn explore(scenario: Scenario, mutation: Mutation) -> Found {
    let checker =
        Model::new(scenario, mutation).checker().threads(1).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let counterexample = checker.discoveries().into_values().next().map(|path| {
        let model = checker.model();
        let rule = model.violation(path.last_state()).expect("a discovery breaks a rule");
        let steps =
            path.into_vec().into_iter().filter_map(|(state, action)| Some(model.describe(&state, action?))).collect();
        Counterexample { rule, steps }
    });
    Found {
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        counterexample,
        mutated: checker.model().mutated(),
        labels: checker.model().labels(),
    }
}

/// Replays the steps of a trace. `None` if one of them cannot happen; otherwise the rule that is broken at its end.
pub fn replay(scenario: Scenario, mutation: Mutation, steps: &[String]) -> Option<Option<Rule>> {
    let model = Model::new(scenario, mutation);
    let mut state = model.init_states().into_iter().next()?;
    for step in steps {
        let mut actions: Vec<Action> = Vec::new();
        model.actions(&state, &mut actions);
        let action = actions.into_iter().find(|action| model.describe(&state, *action) == *step)?;
        state = model.next_state(&state, action)?;
    }
    Some(model.violation(&state))
}

/// Runs every task on `threads` threads, and passes each result on as soon as it is ready.
pub fn on_threads<T: Send, R: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> R + Sync,
    done: impl FnMut(R) + Send,
) {
    let tasks: Vec<Mutex<Option<T>>> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(done));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let task = task.lock().ok().and_then(|mut task| task.take());
                    if let Some(result) = task.map(&work)
                        && let Ok(mut done) = done.lock()
                    {
                        done(result);
                    }
                }
            });
        }
    });
}
