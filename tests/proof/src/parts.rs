//! The parts of the proof, each with its progress and its figures.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hookonce_protocol::relay::Budget;
use serde_json::{Value, json};

use crate::model::scenario;
use crate::mutant::{self, Mutant, Mutation};
use crate::search::{Counterexample, Found, explore, on_threads};
use crate::storm::storm;

/// How many explorations run at once.
const THREADS: usize = 2;

/// What a part ended with.
#[derive(Debug)]
pub struct Ended {
    /// Nothing was found wrong.
    pub holds: bool,
    /// The figures, as one JSON object.
    pub figures: Value,
}

/// Where the shortest counterexample of each mutant is kept.
pub fn traces() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces")
}

/// The scenario of a name.
pub fn scenario_named(name: &str) -> Option<scenario::Scenario> {
    scenario::all().into_iter().find(|scenario| scenario.name == name)
}

/// Explores every scenario whose name contains `only`.
pub fn model(long: bool, only: &str, say: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut scenarios = scenario::all();
    scenarios.retain(|scenario| (long || scenario.short) && scenario.name.contains(only));
    let (mut states, mut transitions, mut violations) = (0, 0, 0);
    let (count, mut labels) = (scenarios.len(), BTreeSet::new());
    let work = |scenario: scenario::Scenario| (scenario.name, explore(scenario, Mutation::default()));
    on_threads(THREADS, scenarios, work, |(name, found): (&str, Found)| {
        states += found.states;
        transitions += found.transitions;
        labels.extend(found.labels);
        let outcome = if found.counterexample.is_some() { "VIOLATED" } else { "holds" };
        say(&format!(
            "{outcome:9} {:>9} states {:>9} transitions, depth {:>2}: {name}",
            found.states, found.transitions, found.depth
        ));
        if let Some(counterexample) = found.counterexample {
            violations += 1;
            show(&counterexample, say);
        }
    });
    let figures = json!({
        "part": "model", "scenarios": count, "states": states, "transitions": transitions,
        "labels": labels.len(), "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}

fn show(counterexample: &Counterexample, say: &mut (dyn FnMut(&str) + Send)) {
    say(&format!("  broken: {}", counterexample.rule));
    for (number, step) in counterexample.steps.iter().enumerate() {
        say(&format!("  {:>3} {step}", number + 1));
    }
}

/// Searches for a counterexample of every mutant whose name contains `only`; `bless` keeps what is found.
pub fn mutants(bless: bool, only: &str, say: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut mutants = mutant::all();
    mutants.retain(|mutant| mutant.name.contains(only));
    let count = mutants.len();
    let (mut killed, mut survived, mut unexpected) = (0, 0, 0);
    on_threads(
        THREADS,
        mutants,
        |mutant| (mutant, hunt(&mutant)),
        |(mutant, found): (Mutant, Option<(&str, Found)>)| {
            let verdict = match (&found, mutant.survives) {
                (Some((scenario, found)), _) => {
                    killed += 1;
                    let (rule, steps) = found
                        .counterexample
                        .as_ref()
                        .map_or_else(Default::default, |found| (found.rule.to_string(), found.steps.len()));
                    format!("killed in {steps:>2} steps by {rule} ({scenario})")
                }
                (None, Some(reason)) => {
                    survived += 1;
                    format!("survives; {reason}")
                }
                (None, None) => {
                    unexpected += 1;
                    "SURVIVES".to_owned()
                }
            };
            say(&format!("{:32} {verdict}", mutant.name));
            if let (true, Some((scenario, Found { counterexample: Some(counterexample), .. }))) = (bless, found) {
                keep(&mutant, scenario, &counterexample);
            }
        },
    );
    let figures = json!({
        "part": "mutants", "mutants": count, "killed": killed, "cost_choices": survived, "violations": unexpected,
    });
    Ended { holds: unexpected == 0, figures }
}

fn hunt(mutant: &Mutant) -> Option<(&'static str, Found)> {
    mutant.scenarios.iter().find_map(|name| {
        let scenario = scenario_named(name).unwrap_or_else(|| panic!("no scenario {name}"));
        let found = explore(scenario, mutant.mutation);
        found.counterexample.is_some().then_some((*name, found))
    })
}

/// A trace: the scenario, the rule that breaks, and the steps, one a line.
fn keep(mutant: &Mutant, scenario: &str, counterexample: &Counterexample) {
    let text = format!("{scenario}\n{}\n{}\n", counterexample.rule, counterexample.steps.join("\n"));
    std::fs::create_dir_all(traces()).expect("the folder of traces can be made");
    std::fs::write(traces().join(format!("{}.txt", mutant.name)), text).expect("a trace can be written");
}

/// The most sends for each record.
const SENDS_MAX: f64 = 1.5;

/// How much longer than without a single duplicate a backlog may take.
const STRETCH_MAX: f64 = 1.25;

/// Simulates outages of the workers: 5 minutes to 2 hours, or to 12 hours.
pub fn storms(long: bool, say: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut outages = vec![5, 15, 30, 60, 120];
    if long {
        outages.extend([360, 720]);
    }
    let (mut violations, mut sends, mut stretch) = (0, 0.0_f64, 0.0_f64);
    for minutes in &outages {
        let outage = minutes * 60;
        let end = storm(outage, Some(Budget::standard()));
        let stretched = end.stretch(outage);
        let drained = end.drained.map_or_else(|| "never".to_owned(), |seconds| format!("after {} min", seconds / 60));
        say(&format!(
            "outage {minutes:>3} min: {:.3} sends per record, peak {}, drained {drained}, {stretched:.2} of the ideal",
            end.sends_per_record, end.peak
        ));
        violations += usize::from(end.sends_per_record >= SENDS_MAX || stretched >= STRETCH_MAX);
        (sends, stretch) = (sends.max(end.sends_per_record), stretch.max(stretched));
    }
    let figures = json!({
        "part": "storm", "outages": outages.len(), "sends_per_record_max": (sends * 1_000.0).round() / 1_000.0,
        "drain_stretch_max": (stretch * 1_000.0).round() / 1_000.0, "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}
