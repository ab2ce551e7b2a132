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
    // A list of Rust may have braces within a line, and that of Python is one line.
    let end = if before.starts_with("pub") { "\n}" } else { "}" };
    let (list, _) = list.split_once(end).unwrap();
    let keys = list.split('"').skip(1).step_by(2).filter_map(|key| key.split(',').next());
    let variants = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let variants = variants.filter_map(|line| line.strip_suffix(','));
    variants.chain(keys).map(|name| name.to_lowercase().replace(' ', "")).collect()
}

fn findings(files: &Files) -> Vec<String> {
    let model = faults(files, MODEL);
    let others: Vec<_> =
        OTHERS.iter().flat_map(|list| faults(files, *list).into_iter().map(|name| (list.0, name))).collect();
    let unknown = others.iter().filter(|(_, name)| !model.contains(name) && !OWN.contains(&name.as_str()));
    let stale = OWN.iter().filter(|own| others.iter().all(|(_, name)| name != *own));
    let unknown = unknown.map(|(path, name)| format!("{path}: the model has no {name}"));
    unknown.chain(stale.map(|own| format!("no harness has {own}"))).collect()
}

#[test]
fn every_harness_calls_a_fault_by_its_name_in_the_model() {
    let mut files = project();
    none(&findings(&files));
    let wire = files.get_mut(OTHERS[2].0).unwrap();
    let before = wire.clone();
    *wire = wire.replace("FalseSuccess,", "");
    assert_eq!(findings(&files), ["no harness has falsesuccess"]);
    files.insert(OTHERS[2].0.to_owned(), before);
    for (path, _) in OTHERS {
        let text = files.get_mut(path).unwrap();
        *text = text.replace("ReplyLost,", "AnswerLost,").replace("reply lost", "answer lost");
        assert!(findings(&files).contains(&format!("{path}: the model has no answerlost")));
    }
}
