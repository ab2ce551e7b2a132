//! A fault has one name in every harness: the one that the model gives it.

use super::{Files, none, project};

/// Where faults are listed, by the text in front of the list.
const MODEL: (&str, &str) = ("tests/proof/src/model/faults.rs", "pub enum Fault {");
const OTHERS: [(&str, &str); 3] = [
    ("tests/proof/src/sim/fault.rs", "pub enum SimFault {"),
    ("tests/support/faults.rs", "pub(crate) enum Fault {"),
    ("tests/support/wire.rs", "pub(crate) enum WireFault {"),
];

/// What the model does not have.
const OWN: [&str; 3] = ["falsesuccess", "lateatrest", "noreply"];

/// The faults of a list, in small letters.
fn faults(files: &Files, (path, before): (&str, &str)) -> Vec<String> {
    let (_, list) = files[path].split_once(before).unwrap_or_else(|| panic!("{path} has no {before}"));
    let (list, _) = list.split_once("\n}").unwrap();
    let variants = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    variants.filter_map(|line| line.strip_suffix(',')).map(str::to_lowercase).collect()
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
        *text = text.replace("ReplyLost,", "AnswerLost,");
        assert!(findings(&files).contains(&format!("{path}: the model has no answerlost")));
    }
}
