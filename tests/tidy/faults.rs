//! A fault has one name in every harness: the one that the model gives it.

use super::{Files, none, project};

/// Where faults are listed, by the text in front of the list.
const MODEL: (&str, &str) = ("tests/proof/src/model/faults.rs", "pub enum Fault {");
const OTHERS: [(&str, &str); 4] = [
    ("tests/proof/src/sim/fault.rs", "pub enum SimFault {"),
    ("tests/support/faults.rs", "pub(crate) enum Fault {"),
    ("tests/support/wire.rs", "pub(crate) enum WireFault {"),
    ("scripts/effects/wires.py", "\nFAULTS = {"),
];

/// What the model does not have.
const OWN: [&str; 5] = ["falsesuccess", "lateatrest", "noreply", "passed", "slow"];

/// The faults of a list, in small letters and without spaces. What stands behind a comma in a key says more of the same
/// fault.
fn faults(files: &Files, (path, before): (&str, &str)) -> Vec<String> {
    let (_, list) = files[path].split_once(before).unwrap_or_else(|| panic!("{path} has no {before}"));
    let (list, _) = list.split_once('}').unwrap();
    let keys = list.split('"').skip(1).step_by(2).filter_map(|key| key.split(',').next());
    let variants = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let variants = variants.filter_map(|line| line.strip_suffix(','));
    variants.chain(keys).map(|name| name.to_lowercase().replace(' ', "")).collect()
}

fn findings(files: &Files) -> Vec<String> {
    let model = faults(files, MODEL);
    let unknown = |name: &String| !model.contains(name) && !OWN.contains(&name.as_str());
    let other = |list: (&'static str, _)| {
        faults(files, list).into_iter().filter(unknown).map(move |name| format!("{}: the model has no {name}", list.0))
    };
    OTHERS.into_iter().flat_map(other).collect()
}

#[test]
fn every_harness_calls_a_fault_by_its_name_in_the_model() {
    let mut files = project();
    none(&findings(&files));
    for (path, _) in OTHERS {
        let text = files.get_mut(path).unwrap();
        *text = text.replace("ReplyLost,", "AnswerLost,").replace("reply lost", "answer lost");
        assert!(findings(&files).contains(&format!("{path}: the model has no answerlost")));
    }
}
