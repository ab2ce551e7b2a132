//! A member that switches its test binaries off has no tests in its sources: they would never run.

use super::{Files, none, planted, project, rust};

fn findings(files: &Files) -> Vec<String> {
    let manifests = files.iter().filter(|(path, _)| path.ends_with("/Cargo.toml"));
    let without_tests = manifests.filter(|(_, text)| text.lines().any(|line| line == "test = false"));
    let sources = without_tests.map(|(path, _)| path.replace("Cargo.toml", "src/"));
    sources
        .flat_map(|sources| rust(files).filter(move |(path, _)| path.starts_with(&sources)))
        .filter(|(_, text)| ["#[test]", "cfg(test)", "/// ```"].iter().any(|mark| text.contains(mark)))
        .map(|(path, _)| format!("{path} has a test that its Cargo.toml switches off"))
        .collect()
}

#[test]
fn no_test_is_switched_off() {
    none(&findings(&project()));
    let planted = planted([
        ("a/Cargo.toml", "[lib]\ntest = false"),
        ("a/src/lib.rs", "#[cfg(test)]\nmod tests {}"),
        ("a/tests/all.rs", "#[test]\nfn runs() {}"),
        ("b/Cargo.toml", "[lib]"),
        ("b/src/lib.rs", "#[cfg(test)]\nmod tests {}"),
    ]);
    assert_eq!(findings(&planted), ["a/src/lib.rs has a test that its Cargo.toml switches off"]);
}
