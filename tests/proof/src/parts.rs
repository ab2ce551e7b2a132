//! The parts of the proof, each with its progress and its figures.

use std::collections::BTreeSet;
use std::ops::Range;

use hookonce_protocol::relay::Budget;
use serde_json::{Value, json};

use crate::grid::{self, Explored};
use crate::model::scenario;
use crate::mutant::{self, Mutant, Mutation};
use crate::outage::{ARRIVALS, AfterOutage, FEWER_ARRIVALS, after_outage};
use crate::search::{Counterexample, Found, explore, on_threads};
use crate::sim::checker::Verdict;
use crate::sim::simulate;
use crate::table;

/// How many explorations run at once.
const THREADS: usize = 2;

/// The result of a part.
#[derive(Debug)]
pub struct Ended {
    /// Nothing was found wrong.
    pub holds: bool,
    /// The figures, as one JSON object.
    pub figures: Value,
}

/// The file of the model's transitions, one label per line. The simulator must see them, too.
const LABELS: &str = "transitions.txt";

/// The file of the dispatcher's transitions that days must see besides the model's, one label per line.
const LABELS_OF_DAYS: &str = "transitions-of-days.txt";

fn kept_labels(file: &str) -> BTreeSet<String> {
    std::fs::read_to_string(table::path(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn keep_labels<'a>(file: &str, labels: impl Iterator<Item = &'a String>) {
    let lines: Vec<_> = labels.map(|label| format!("{label}\n")).collect();
    std::fs::write(table::path(file), lines.concat()).expect("the file of transitions can be written");
}

/// The labels of all transitions that the model takes in the set that runs per change.
fn known_transitions() -> BTreeSet<String> {
    kept_labels(LABELS)
}

/// The labels of all transitions that days must see.
fn transitions_of_days() -> BTreeSet<String> {
    let mut wanted = known_transitions();
    wanted.retain(|label| !NOT_IN_DAYS.contains(&label.as_ref()) && !of_effects(label));
    wanted.extend(kept_labels(LABELS_OF_DAYS));
    wanted
}

/// Transitions that only the model has: the doubts of a day are part of a restore, and the last six need
/// so much bad luck at once that ten thousand days have none.
const NOT_IN_DAYS: [&str; 8] = [
    "operator: doubt -> applied",
    "operator: doubt -> cancelled by the doubt",
    "worker: die of rewind -> invalid",
    "worker: die of rewind -> lost to PENDING",
    "dead-letter: die of dead letter -> invalid",
    "dead-letter: quarantine -> found itself",
    "worker: mark ignored -> lost to nothing",
    "worker: quarantine -> found itself",
];

/// The transitions of effects. The days' own ones are not compared with the model's.
fn of_effects(label: &str) -> bool {
    label.starts_with("dispatcher: ") || label.contains("create effect") || label.starts_with("operator: read heads")
}

/// The scenario of a name.
pub fn scenario_named(name: &str) -> Option<scenario::Scenario> {
    scenario::all().into_iter().find(|scenario| scenario.name == name)
}

/// Explores every scenario whose name contains `only`; `bless` keeps the labels of the transitions that are taken.
pub fn model(long: bool, bless: bool, only: &str, print: &mut (dyn FnMut(&str) + Send)) -> Ended {
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
        print(&format!(
            "{outcome:9} {:>9} states {:>9} transitions, depth {:>2}: {name}",
            found.states, found.transitions, found.depth
        ));
        if let Some(counterexample) = found.counterexample {
            violations += 1;
            show(&counterexample, print);
        }
    });
    let whole = only.is_empty() && !long;
    if whole && bless {
        keep_labels(LABELS, labels.iter());
    }
    let known = known_transitions();
    let missed = if whole { known.difference(&labels).collect() } else { Vec::new() };
    let strange = labels.difference(&known).map(|label| ("is not", label));
    for (fault, label) in strange.chain(missed.into_iter().map(|label| ("is still", label))) {
        violations += 1;
        print(&format!("{label}: {fault} in tests/proof/transitions.txt; if it is right that way, run with --bless"));
    }
    let figures = json!({
        "part": "model", "scenarios": count, "states": states, "transitions": transitions,
        "labels": labels.len(), "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}

fn show(counterexample: &Counterexample, print: &mut (dyn FnMut(&str) + Send)) {
    print(&format!("  broken: {}", counterexample.rule));
    for (number, step) in counterexample.steps.iter().enumerate() {
        print(&format!("  {:>3} {step}", number + 1));
    }
}

/// How the search for a counterexample of a mutant ended.
enum MutantOutcome {
    /// A counterexample.
    Killed(&'static str, Counterexample),
    /// It changed something, and nothing broke.
    Survived,
    /// It changed nothing, so that its survival says nothing.
    Idle,
}

/// Searches for a counterexample of every mutant whose name contains `only`; `bless` keeps what is found. A mutant that
/// never changed anything is a violation, whatever its reason to survive.
pub fn mutants(bless: bool, only: &str, print: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut mutants = mutant::all();
    mutants.retain(|mutant| mutant.name.contains(only));
    let count = mutants.len();
    let (mut killed, mut survived, mut violations) = (0, 0, 0);
    on_threads(
        THREADS,
        mutants,
        |mutant| (mutant, hunt(&mutant)),
        |(mutant, hunted): (Mutant, MutantOutcome)| {
            let verdict = match (hunted, mutant.survives) {
                (MutantOutcome::Killed(scenario, found), reason) => {
                    killed += 1;
                    if bless {
                        keep(&mutant, scenario, &found);
                    }
                    violations += usize::from(reason.is_some());
                    let verdict = if reason.is_some() { "KILLED, and should survive," } else { "killed" };
                    format!("{verdict} in {:>2} steps by {} ({scenario})", found.steps.len(), found.rule)
                }
                (MutantOutcome::Survived, Some(reason)) => {
                    survived += 1;
                    format!("survives; {reason}")
                }
                (MutantOutcome::Survived, None) => {
                    violations += 1;
                    "SURVIVES".to_owned()
                }
                (MutantOutcome::Idle, _) => {
                    violations += 1;
                    "CHANGES NOTHING: it needs a scenario that makes the write that it is about".to_owned()
                }
            };
            print(&format!("{:32} {verdict}", mutant.name));
        },
    );
    if bless {
        let document = std::fs::read_to_string(table::document()).expect("docs/trust/reliability.md can be read");
        let written = table::written_into(&document).expect("docs/trust/reliability.md has a place for the table");
        std::fs::write(table::document(), written).expect("docs/trust/reliability.md can be written");
    }
    let figures = json!({
        "part": "mutants", "mutants": count, "killed": killed, "cost_choices": survived, "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}

/// Days in which a mutant is tried that no scenario of the model is about.
const DAYS_IN_PLACE_OF_A_SCENARIO: u64 = 3;

fn hunt(mutant: &Mutant) -> MutantOutcome {
    let mut mutated = false;
    for name in mutant.scenarios {
        let scenario = scenario_named(name).unwrap_or_else(|| panic!("no scenario {name}"));
        let found = explore(scenario, mutant.mutation);
        if let Some(counterexample) = found.counterexample {
            return MutantOutcome::Killed(name, counterexample);
        }
        mutated |= found.mutated;
    }
    if mutant.scenarios.is_empty() {
        mutated = (0..DAYS_IN_PLACE_OF_A_SCENARIO).any(|seed| simulate(seed, mutant.mutation).mutated);
    }
    if mutated { MutantOutcome::Survived } else { MutantOutcome::Idle }
}

/// A trace: the scenario, the rule that breaks, and the steps, one a line.
fn keep(mutant: &Mutant, scenario: &str, counterexample: &Counterexample) {
    let text = format!("{scenario}\n{}\n{}\n", counterexample.rule, counterexample.steps.join("\n"));
    std::fs::create_dir_all(table::traces()).expect("the folder of traces can be made");
    std::fs::write(table::traces().join(format!("{}.txt", mutant.name)), text).expect("a trace can be written");
}

/// The most sends for each record.
const SENDS_MAX: f64 = 1.5;

/// How much longer a backlog may take at a load of 67 % than without a single duplicate.
const STRETCH_MAX: f64 = 1.25;

/// How many times as long as the outage a backlog may take at a load of 60 %.
const OUTAGES_MAX: f64 = 2.0;

/// Outages of the workers, in minutes.
const OUTAGES: [u64; 7] = [5, 15, 30, 60, 120, 360, 720];

/// Simulates outages of the workers.
pub fn outages(print: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let (mut violations, mut sends, mut stretch, mut outages) = (0, 0.0_f64, 0.0_f64, 0.0_f64);
    let runs = OUTAGES.into_iter().flat_map(|minutes| [ARRIVALS, FEWER_ARRIVALS].map(|arrivals| (minutes, arrivals)));
    let work =
        |(minutes, arrivals)| (minutes, arrivals, after_outage(minutes * 60, arrivals, Some(Budget::standard())));
    on_threads(THREADS, runs.collect(), work, |(minutes, arrivals, end): (u64, u64, AfterOutage)| {
        let (end_stretch, end_outages) = (end.stretch(), end.outages());
        print(&format!(
            "outage {minutes:>3} min, {arrivals:>3}/s: {:.3} sends per record, peak {:>7}, drained after {end_outages:.2} \
             outages, {end_stretch:.2} of the ideal",
            end.sends_per_record, end.peak
        ));
        sends = sends.max(end.sends_per_record);
        let slow = if arrivals == ARRIVALS {
            stretch = stretch.max(end_stretch);
            end_stretch >= STRETCH_MAX
        } else {
            outages = outages.max(end_outages);
            end_outages >= OUTAGES_MAX
        };
        violations += usize::from(slow || end.sends_per_record >= SENDS_MAX);
    });
    let figures = json!({
        "part": "outage", "outages": OUTAGES.len(), "sends_per_record_max": rounded(sends),
        "drain_stretch_max": rounded(stretch), "drain_outages_max_at_60_percent": rounded(outages),
        "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}

/// To a thousandth.
fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0
}

/// The word after a flag.
pub fn behind<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    words.iter().skip_while(|word| *word != flag).nth(1).map(String::as_str)
}

/// The seeds that a command line asks for: one, a range, or this many from 0 on.
pub fn seeds(words: &[String]) -> Option<Range<u64>> {
    if let Some(seed) = behind(words, "--seed") {
        let seed: u64 = seed.parse().ok()?;
        return Some(seed..seed.checked_add(1)?);
    }
    let span = behind(words, "--seeds")?;
    match span.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => Some(0..span.parse().ok()?),
    }
}

/// The mutation that a command line names. Without `--mutant`, it changes nothing.
pub fn mutation_named(words: &[String]) -> Option<Mutation> {
    let Some(name) = behind(words, "--mutant") else { return Some(Mutation::default()) };
    mutant::all().into_iter().find(|mutant| mutant.name == name).map(|mutant| mutant.mutation)
}

/// Days that are simulated per change.
pub const DAYS: u64 = 3_000;

/// This many days must see every transition; fewer may miss one.
const DAYS_OF_ALL_TRANSITIONS: u64 = 10_000;

/// Simulates the days of these seeds; `bless` keeps the labels of the dispatcher's transitions that are seen.
pub fn days(seeds: Range<u64>, mutation: Mutation, bless: bool, print: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let count = seeds.end.saturating_sub(seeds.start);
    let (mut done, mut violations, mut deliveries, mut calls, mut effect_calls) = (0_u64, 0_u64, 0, 0, 0);
    let (mut total, mut seen) = (Verdict::default(), BTreeSet::new());
    let (mut cold_enqueue, mut cold_enqueue_refused, mut restored) = (0, 0, 0);
    let run = |seed: u64| (seed, simulate(seed, mutation));
    on_threads(THREADS, seeds.collect(), run, |(seed, day): (u64, crate::sim::Day)| {
        done += 1;
        deliveries += day.deliveries;
        calls += day.edges.len();
        effect_calls += day.effect_calls;
        cold_enqueue += day.cold_enqueue;
        cold_enqueue_refused += day.cold_enqueue_refused;
        restored += usize::from(day.restored);
        total.add(&day.verdict);
        seen.extend(day.labels);
        if !day.violations.is_empty() {
            violations += 1;
            for violation in &day.violations {
                print(&format!("seed {seed}: {}: {}", violation.rule, violation.what));
            }
            print(&format!("replay it with: scripts/prove simulate --seed {seed}"));
        }
        if done.is_multiple_of(500) {
            print(&format!("{done} of {count} days, {deliveries} deliveries, {violations} days with a violation"));
        }
    });
    if bless {
        keep_labels(LABELS_OF_DAYS, seen.iter().filter(|label| label.starts_with("dispatcher: ")));
    }
    let wanted = transitions_of_days();
    let missed: Vec<_> = wanted.difference(&seen).collect();
    for label in &missed {
        print(&format!("not seen: {label}"));
    }
    let may_miss = done < DAYS_OF_ALL_TRANSITIONS;
    let meets_all = done < DAYS || (cold_enqueue_refused > 0 && restored > 0);
    if !meets_all {
        print("no cold instance refused a delivery for `enqueue`, or no table was restored");
    }
    let figures = json!({
        "part": "simulate", "days": done, "deliveries": deliveries, "calls": calls, "facts": total.facts,
        "ok": total.ok, "lost": total.lost, "duplicated": total.duplicated, "unexpected": total.unexpected,
        "recovered": total.recovered, "dead": total.dead, "effects": total.effects, "effects_delivered": total.delivered,
        "effects_dead": total.effects_dead, "effect_calls": effect_calls,
        "cold_enqueue": cold_enqueue, "cold_enqueue_refused": cold_enqueue_refused, "restored": restored,
        "transitions_seen": seen.intersection(&wanted).count(), "transitions": wanted.len(), "violations": violations,
    });
    Ended { holds: violations == 0 && meets_all && (may_miss || missed.is_empty()), figures }
}

/// The first of these seeds whose day breaks a rule with this mutant.
pub fn first_broken(mutant: &Mutant, seeds: Range<u64>) -> Option<u64> {
    seeds.into_iter().find(|seed| !simulate(*seed, mutant.mutation).violations.is_empty())
}

/// Days in which the simulator looks for a mutant.
pub const MUTANT_DAYS: u64 = 150;

/// How soon the simulator notices each mutant whose name contains `only`. It need not notice all: what it misses is
/// rare, and left to the model.
pub fn simulated_mutants(only: &str, print: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut mutants = mutant::all();
    mutants.retain(|mutant| mutant.survives.is_none() && mutant.name.contains(only));
    let (count, mut found) = (mutants.len(), 0);
    let hunt = |mutant| (mutant, first_broken(&mutant, 0..MUTANT_DAYS));
    on_threads(THREADS, mutants, hunt, |(mutant, seed): (Mutant, Option<u64>)| {
        found += usize::from(seed.is_some());
        let day = seed.map_or_else(|| format!("not within {MUTANT_DAYS} days"), |seed| format!("day {seed}"));
        print(&format!("{:32} {day}", mutant.name));
    });
    let figures = json!({ "part": "simulated-mutants", "mutants": count, "found": found, "days": MUTANT_DAYS });
    Ended { holds: true, figures }
}

/// Runs the fault grid: every point, and every pair of points. A scenario without a call is a violation.
pub fn fault_grid(only: &str, print: &mut (dyn FnMut(&str) + Send)) -> Ended {
    let mut scenarios = grid::scenarios();
    scenarios.retain(|scenario| scenario.name.contains(only));
    let (count, mut edges) = (scenarios.len(), BTreeSet::new());
    let (mut points, mut pairs, mut violations) = (0, 0, 0);
    let work = |scenario: grid::GridScenario| (scenario.name, scenario.explore());
    on_threads(THREADS, scenarios, work, |(name, explored): (&str, Explored)| {
        let wrong = explored.broken.len() + usize::from(explored.points == 0);
        violations += wrong;
        let outcome = if wrong == 0 { "holds" } else { "VIOLATED" };
        print(&format!("{outcome:9} {:>4} points {:>6} pairs: {name}", explored.points, explored.pairs));
        for broken in explored.broken.iter().take(5) {
            for (edge, fault) in &broken.faults {
                print(&format!("  {}: {} meets {fault:?}", edge.role, edge.purpose));
            }
            for violation in &broken.violations {
                print(&format!("  broken: {}: {}", violation.rule, violation.what));
            }
        }
        points += explored.points;
        pairs += explored.pairs;
        edges.extend(explored.edges);
    });
    let figures = json!({
        "part": "grid", "scenarios": count, "edges": edges.len(), "points": points, "pairs": pairs,
        "violations": violations,
    });
    Ended { holds: violations == 0, figures }
}
