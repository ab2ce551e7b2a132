//! The documents tell how many there are of what the sources list. These counts cost no run of a proof.

use hookonce_proof::model::scenario;
use hookonce_proof::parts::{DAYS, known_transitions, transitions_of_days};
use hookonce_proof::{grid, mutant, route_cost};
use hookonce_protocol::purpose::Purpose;
use hookonce_providers::Catalog;
use hookonce_runtime::document::{BODY_BYTES_MAX, TEXT_BODY_BYTES_MAX};
use hookonce_runtime::ingest::CLAIM_BYTES_MAX;
use hookonce_runtime::route::ROUTES_MAX;

use crate::refusals::INCOMPRESSIBLE_BODY_BYTES_MAX;
use crate::support::document;
use crate::{lost_replies, real_grid};

/// The figures of one part of the proof, as `docs/reliability.md` tells them.
fn figures(part: &str) -> String {
    let document = document("docs/reliability.md");
    let (_, rows) = document.split_once("\n| part | figures |\n").unwrap();
    let row = rows.lines().find_map(|row| row.strip_prefix(&format!("| {part} | ")));
    row.unwrap_or_else(|| panic!("there are no figures of {part}")).to_owned()
}

/// The number before a text.
fn before(text: &str, what: &str) -> usize {
    let (text, _) = text.split_once(what).unwrap_or_else(|| panic!("{text:?} does not count{what}"));
    text.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn the_figures_of_the_model_are_those_of_its_sources() {
    let told = figures("model");
    let scenarios = scenario::all().iter().filter(|scenario| scenario.short).count();
    assert_eq!((before(&told, " scenarios"), before(&told, " labels")), (scenarios, known_transitions().len()));
}

#[test]
fn the_figures_of_the_mutants_are_those_of_their_list() {
    let told = figures("mutants");
    let survivors = mutant::all().iter().filter(|mutant| mutant.survives.is_some()).count();
    let (all, killed) = (mutant::all().len(), mutant::all().len() - survivors);
    let figures = format!("{all}: {killed} killed, {survivors} cost choices");
    assert!(told.starts_with(&figures), "{figures}: {told}");
}

#[test]
fn the_transitions_of_days_are_counted_right() {
    let told = figures("simulate");
    assert_eq!(u64::try_from(before(&told, " days")), Ok(DAYS));
    let (days, wanted) = (transitions_of_days(), before(&told, " transitions seen"));
    assert!(before(&told, &format!(" of {wanted} transitions seen")) <= wanted && wanted == days.len());
    assert_eq!(before(&told, " more only the model has"), known_transitions().difference(&days).count());
}

#[test]
fn the_scenarios_of_both_grids_and_of_the_wire_are_counted_right() {
    let scenarios = |part: &str| before(&figures(part), " scenarios");
    let counted =
        (grid::scenarios().len(), real_grid::scenarios::all().len(), lost_replies::scenarios::SCENARIOS.len());
    assert_eq!((scenarios("grid"), scenarios("grid on servers"), scenarios("wire")), counted);
    assert_eq!(before(&figures("wire"), " kinds of write"), Purpose::ALL.len());
    assert_eq!(before(&document("docs/reliability.md"), " kinds of write finds"), Purpose::ALL.len());
}

#[test]
fn the_readme_counts_the_providers() {
    let providers = format!("[{} providers](docs/providers.md)", Catalog::built_in().len());
    assert!(document("README.md").contains(&providers), "{providers}");
}

/// A number as the documents write it.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// How long a body may be. `the_largest_body_that_fits_one_item_goes_all_the_way` measures the one that does not
/// compress.
#[test]
fn the_documents_tell_how_long_a_body_may_be() {
    let page = document("docs/errors/body_too_large.md");
    for bytes in [BODY_BYTES_MAX, TEXT_BODY_BYTES_MAX, INCOMPRESSIBLE_BODY_BYTES_MAX] {
        assert!([&document("README.md"), &page].iter().all(|text| text.contains(&grouped(bytes))), "{bytes}");
    }
    assert!(page.contains(&grouped(CLAIM_BYTES_MAX)));
}

#[test]
fn both_pages_on_costs_tell_what_the_relay_reads_at_rest() {
    let capacity = document("docs/capacity.md");
    let (_, rows) = capacity.split_once("| shards read | read units |").unwrap();
    let row = rows.lines().find_map(|row| row.strip_prefix("| 16 | ")?.strip_suffix(" |")).unwrap();
    assert!(document("docs/deploy.md").contains(&row.replace(" | ", " read units, ")), "{row}");
}

#[test]
fn the_hints_of_a_backlog_that_a_run_sends_are_told() {
    let most = hookonce_protocol::relay::Budget::standard().backlog_max();
    assert!(document("docs/effects.md").contains(&format!("| {} a minute", grouped(most))), "{most}");
    assert!(document("docs/handlers.md").contains(&format!("up to {} events a minute", grouped(most))), "{most}");
}

/// What one costs is measured, by a bench that compares it with this limit.
#[test]
fn the_limit_of_what_a_route_set_costs_is_that_of_its_bench() {
    let (page, limit) = (document("docs/routes.md"), route_cost::MICROSECONDS_MAX);
    assert!(page.contains(&format!("more than {limit} microseconds")), "{limit}");
    let arrays = [
        (route_cost::ARRAYS_MICROSECONDS_MAX, "with two arrays"),
        (route_cost::OBJECTS_MICROSECONDS_MAX, "with an array"),
    ];
    let text = page.replace('\n', " ").replace(',', "");
    for (limit, of) in arrays {
        assert!(text.contains(&format!("more than {limit} {of}")), "{limit} {of}");
    }
    assert!(page.contains("| 1,000 routes, of which the last takes the event") && ROUTES_MAX == 1_000);
}
