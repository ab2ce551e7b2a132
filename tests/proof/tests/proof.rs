//! What runs with `cargo test`: small explorations, the trace of every mutant, the storm. The rest is `scripts/prove`.
#![cfg(test)]

use hookonce_proof::mutant::{self, Mutation};
use hookonce_proof::parts::{scenario_named, traces};
use hookonce_proof::search::{explore, replay};
use hookonce_proof::storm::storm;
use hookonce_protocol::relay::Budget;

fn holds(name: &str) {
    let found = explore(scenario_named(name).unwrap(), Mutation::default());
    assert!(found.counterexample.is_none(), "{name}: {:?}", found.counterexample);
    assert!(found.states > 1_000, "{name} explores {} states only", found.states);
}

#[test]
fn the_protocol_holds_with_forces_and_duplicates() {
    holds("one fact under two ids, forced");
}

#[test]
fn the_protocol_holds_while_the_ttl_is_renewed() {
    holds("TTL with renewal");
}

#[test]
fn the_protocol_holds_for_operators_and_dead_letters() {
    holds("operators and dead letters");
}

/// One trace: its scenario, the rule that breaks, its steps.
fn trace(name: &str) -> (String, String, Vec<String>) {
    let text =
        std::fs::read_to_string(traces().join(format!("{name}.txt"))).unwrap_or_else(|_| panic!("no trace {name}"));
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.next().unwrap(), lines.collect())
}

#[test]
fn every_mutant_is_broken_by_its_trace_and_the_protocol_is_not() {
    for mutant in mutant::all().into_iter().filter(|mutant| mutant.survives.is_none()) {
        let (scenario, rule, steps) = trace(mutant.name);
        let scenario = || scenario_named(&scenario).unwrap();
        let broken = replay(scenario(), mutant.mutation, &steps);
        let broken = broken.unwrap_or_else(|| panic!("{}: the trace does not fit the mutant", mutant.name));
        assert_eq!(broken.map(|rule| rule.to_string()), Some(rule), "{}", mutant.name);
        let intact = replay(scenario(), Mutation::default(), &steps).flatten();
        assert_eq!(intact, None, "{}: the trace breaks the protocol as it is", mutant.name);
    }
}

#[test]
fn every_trace_belongs_to_a_mutant() {
    let names: Vec<String> = mutant::all().iter().map(|mutant| format!("{}.txt", mutant.name)).collect();
    for file in std::fs::read_dir(traces()).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&file), "no mutant for the trace {file}");
    }
}

#[test]
fn an_outage_of_the_workers_does_not_grow_by_itself() {
    for outage in [300, 1_800] {
        let end = storm(outage, Some(Budget::standard()));
        assert!(end.sends_per_record < 1.5, "{outage} s: {end:?}");
        assert!(end.stretch(outage) < 1.25, "{outage} s: {end:?}");
    }
}

#[test]
fn without_a_budget_it_would() {
    let end = storm(7_200, None);
    assert!(end.sends_per_record > 1.5, "{end:?}");
}
