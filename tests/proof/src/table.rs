//! The table of mutants in `docs/trust/reliability.md`.

use std::path::PathBuf;

use crate::mutant;

const BEGIN: &str = "<!-- mutants: begin -->\n";
const END: &str = "<!-- mutants: end -->\n";

/// A path from the folder of the proof.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// The document that holds the table.
pub fn document() -> PathBuf {
    path("../../docs/trust/reliability.md")
}

/// Where the shortest counterexample of each mutant is kept.
pub fn traces() -> PathBuf {
    path("traces")
}

/// One row for each mutant: what is taken out, and what the model answers.
pub fn mutants() -> String {
    let mut table = String::from("| clause that is taken out | what the model finds |\n|---|---|\n");
    for mutant in mutant::all() {
        let found = mutant.survives.map_or_else(|| counterexample(mutant.name), |reason| format!("nothing: {reason}"));
        table.extend(["| ", mutant.clause, " (`", mutant.name, "`) | ", &found, " |\n"]);
    }
    table
}

/// What the kept trace of a mutant says: the rule that breaks, after how many steps.
fn counterexample(name: &str) -> String {
    let trace = trace(name);
    trace.map_or_else(|| "no trace is kept".to_owned(), |(_, rule, steps)| format!("{rule}, in {} steps", steps.len()))
}

/// The trace of a mutant: its scenario, the rule that breaks, its steps. `None` if none is kept.
pub fn trace(name: &str) -> Option<(String, String, Vec<String>)> {
    let text = std::fs::read_to_string(traces().join(format!("{name}.txt"))).ok()?;
    let mut lines = text.lines().map(str::to_owned);
    Some((lines.next()?, lines.next()?, lines.collect()))
}

/// The document with the table as it is now; `None` where it has no place for it.
pub fn written_into(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", mutants()))
}
