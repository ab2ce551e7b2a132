//! Small explorations, for whoever edits the protocol. Other tests show that the proof can find errors, and that the
//! files it keeps are up to date. The whole proof is `scripts/prove`.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use hookonce_proof::label::Role;
use hookonce_proof::mutant::{self, Mutant, Mutation};
use hookonce_proof::outage::{ARRIVALS, after_outage};
use hookonce_proof::parts::{first_broken, scenario_named};
use hookonce_proof::search::{explore, replay};
use hookonce_proof::sim::config::Config;
use hookonce_proof::sim::rng::Rng;
use hookonce_proof::sim::simulate;
use hookonce_proof::table;
use hookonce_protocol::call::Call;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::timing::TimingViolation;
use hookonce_protocol::write::{Clause, Condition, Write};

#[test]
fn the_protocol_holds_in_small_scenarios() {
    for name in ["one fact under two ids, forced", "TTL with renewal", "operators and dead letters"] {
        let found = explore(scenario_named(name).unwrap(), Mutation::default());
        assert!(found.counterexample.is_none(), "{name}: {:?}", found.counterexample);
        assert!(found.states > 1_000, "{name} explores {} states only", found.states);
    }
}

#[test]
fn simulated_days_end_well() {
    for seed in 0..10 {
        let day = simulate(seed, Mutation::default());
        assert!(day.violations.is_empty(), "scripts/prove simulate --seed {seed}: {:?}", day.violations);
    }
}

#[test]
fn every_mutant_is_broken_by_its_trace_and_the_protocol_is_not() {
    for mutant in mutant::all().into_iter().filter(|mutant| mutant.survives.is_none()) {
        let (scenario, rule, steps) = table::trace(mutant.name).unwrap_or_else(|| panic!("no trace {}", mutant.name));
        let scenario = || scenario_named(&scenario).unwrap();
        let broken = replay(scenario(), mutant.mutation, &steps);
        let broken = broken.unwrap_or_else(|| panic!("{}: the trace does not fit the mutant", mutant.name));
        assert_eq!(broken.map(|rule| rule.to_string()), Some(rule), "{}", mutant.name);
        let intact = replay(scenario(), Mutation::default(), &steps).flatten();
        assert_eq!(intact, None, "{}: the trace breaks the protocol as it is", mutant.name);
    }
}

/// A clause of a write: who writes, what for, and the attribute that the clause is about.
type ClauseOf = (Role, Purpose, String);

/// The writes of a call that the protocol decides on: those that a plan adds to a commit are its handler's.
fn writes(call: &Call) -> &[Write] {
    let writes = hookonce_proof::call::writes(call);
    if matches!(call, Call::Commit(_)) { &writes[..2] } else { writes }
}

fn clauses(role: Role, write: &Write) -> BTreeSet<ClauseOf> {
    let attribute = |clause: &Clause| (role, write.purpose, clause.attribute().to_owned());
    write.condition.0.iter().map(attribute).collect()
}

/// A write that is added to the protocol needs a mutant that removes its condition, alone or clause by clause. This
/// does not ask for a mutant of each clause where one mutant removes the whole condition.
#[test]
fn every_condition_of_every_write_has_its_mutant() {
    static CALLS: Mutex<Vec<(Role, Call)>> = Mutex::new(Vec::new());
    fn record(role: Role, call: &mut Call) {
        CALLS.lock().unwrap().push((role, call.clone()));
    }
    for seed in 0..10 {
        simulate(seed, Mutation { call: Some(record), ..Mutation::default() });
    }
    let mut examples: BTreeMap<Vec<ClauseOf>, (Role, Call)> = BTreeMap::new();
    for (role, call) in CALLS.lock().unwrap().drain(..) {
        let key = writes(&call).iter().flat_map(|write| clauses(role, write)).collect();
        examples.entry(key).or_insert((role, call));
    }
    let mut open: BTreeSet<ClauseOf> = examples.keys().flatten().cloned().collect();
    assert!(open.len() > 30, "ten days hold few writes only: {open:?}");
    for change in mutant::all().iter().filter_map(|mutant| mutant.mutation.call) {
        for (role, call) in examples.values() {
            let mut mutated = call.clone();
            change(*role, &mut mutated);
            for (whole, weakened) in writes(call).iter().zip(writes(&mutated)) {
                let left = clauses(*role, weakened);
                open.retain(|clause| left.contains(clause) || !clauses(*role, whole).contains(clause));
            }
        }
    }
    assert_eq!(open, BTreeSet::new(), "no mutant removes these clauses");
}

#[test]
fn every_trace_belongs_to_a_mutant() {
    let names: Vec<String> = mutant::all().iter().map(|mutant| format!("{}.txt", mutant.name)).collect();
    for file in std::fs::read_dir(table::traces()).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&file), "no mutant for the trace {file}");
    }
}

#[test]
fn without_a_budget_records_are_sent_too_often() {
    let end = after_outage(7_200, ARRIVALS, None);
    assert!(end.sends_per_record > 1.5, "{end:?}");
}

#[test]
fn a_seed_always_gives_the_same_run() {
    let day = |seed| simulate(seed, Mutation::default());
    let all = day(17);
    assert!(all.restored && all.cold_enqueue > 0 && all.cold_enqueue_refused > 0, "a day with everything");
    assert!(all == day(17) && day(12) == day(12));
    assert_ne!(all.edges, day(18).edges);
}

fn named(name: &str) -> Mutant {
    mutant::all().into_iter().find(|mutant| mutant.name == name).unwrap()
}

/// Of events: a claim that overwrites, an acknowledgement without a record, a commit without a condition on the domain
/// key, a failed claim read as won, a relay that sends without a re-arm, a child or a retry that nobody would send. Of
/// effects: two processes that call at once, a call without its guard, a first call that nobody notes, an unclear call
/// that counts as not made, a window that never ends.
#[test]
fn the_simulator_notices_what_is_taken_out() {
    let of_events = "claim-unconditional claim-not-due unknown-claim-counts-as-won payload-read-as-hint \
                     domain-key-unconditional domain-key-without-generation any-cancellation-is-a-duplicate \
                     death-keeps-expiry child-unconditional child-not-due send-without-re-arm retry-not-due \
                     dead-letter-read-as-hint";
    let of_effects = "guard-unconditional unconfirmed-guard-counts-as-won guard-notes-no-first-call \
                      unclear-counts-as-not-done window-ignored";
    for (names, days) in [(of_events, 16), (of_effects, 32)] {
        for name in names.split(' ') {
            assert!(first_broken(&named(name), 0..days).is_some(), "{name} is not noticed within {days} days");
        }
    }
}

#[test]
fn the_simulator_notices_a_relay_that_never_sends() {
    fn never(role: Role, call: &mut Call) {
        if let (Role::Relay, Call::WriteEach(writes)) = (role, call) {
            for write in writes {
                write.condition = Condition(vec![Clause::Present("never".into())]);
            }
        }
    }
    let mutation = Mutation { call: Some(never), ..Mutation::default() };
    assert!((0..8).any(|seed| !simulate(seed, mutation).violations.is_empty()));
}

#[test]
fn the_durations_of_days_satisfy_the_inequalities_of_effects() {
    let of_effects = [
        TimingViolation::EffectRetentionTooShort,
        TimingViolation::DispatcherTimeoutTooShort,
        TimingViolation::EffectsVisibilityTooShort,
        TimingViolation::KeyMarginTooShort,
        TimingViolation::EffectAge,
    ];
    for seed in 0..500 {
        let violations = Config::draw(&mut Rng::new(seed)).timing.violations();
        assert!(!violations.iter().any(|violation| of_effects.contains(violation)), "seed {seed}: {violations:?}");
    }
}

#[test]
fn the_table_of_mutants_is_up_to_date() {
    let document = std::fs::read_to_string(table::document()).unwrap();
    let written = table::written_into(&document).expect("the document has a place for the table");
    assert!(written == document, "run scripts/prove mutants --bless");
}
