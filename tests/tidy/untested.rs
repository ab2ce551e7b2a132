//! A target that switches its tests off has none in its sources: they would never run.

use super::{Files, none, planted, project, rust};

const UNIT_TESTS: [&str; 2] = ["#[test]", "cfg(test)"];
/// Examples in these languages are not compiled.
const OTHER_LANGUAGES: [&str; 3] = ["json", "sh", "text"];

fn findings(files: &Files) -> Vec<String> {
    files.iter().filter(|(path, _)| path.ends_with("/Cargo.toml")).flat_map(|(path, _)| of(files, path)).collect()
}

/// What is wrong with the sources of one member.
fn of(files: &Files, path: &str) -> Vec<String> {
    let manifest: toml::Table = files[path].parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let folder = path.trim_end_matches("Cargo.toml");
    let off = |target: &toml::Value, what: &str| target.get(what).and_then(toml::Value::as_bool) == Some(false);
    let bin = |bin: &toml::Value| {
        let source = bin.get("path").and_then(toml::Value::as_str).unwrap_or("src/main.rs");
        (format!("{folder}{source}"), off(bin, "test"))
    };
    let bins: Vec<_> = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten().map(bin).collect();
    let has_library = files.contains_key(&format!("{folder}src/lib.rs"));
    let library_off = |what: &str| manifest.get("lib").is_some_and(|lib| off(lib, what));
    // Modules belong to the library, or else to the binaries.
    let modules_off = if has_library { library_off("test") } else { !bins.is_empty() && bins.iter().all(|bin| bin.1) };
    let sources = rust(files).filter(|(source, _)| source.starts_with(&format!("{folder}src/")));
    sources
        .filter(|(source, text)| {
            let root = bins.iter().find(|(root, _)| root == source);
            let tests_off = root.map_or(modules_off, |(_, off)| *off);
            let docs_off = root.is_some() || !has_library || library_off("doctest");
            let has_tests = UNIT_TESTS.iter().any(|mark| text.contains(mark));
            (tests_off && has_tests) || (docs_off && has_doc_test(text))
        })
        .map(|(source, _)| format!("{source} has a test that its Cargo.toml switches off"))
        .collect()
}

fn has_doc_test(text: &str) -> bool {
    let mut inside = false;
    let mut fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("/// ```"));
    fences.any(|language| {
        inside = !inside;
        inside && !OTHER_LANGUAGES.contains(&language)
    })
}

#[test]
fn no_test_is_switched_off() {
    none(&findings(&project()));
    let (tests, example) = ("#[cfg(test)]\nmod tests {}", "/// ```\n/// a();\n/// ```");
    let planted = planted([
        ("a/Cargo.toml", "[lib]\ntest=false\n[[bin]]\nname = \"a\"\npath = \"src/main.rs\""),
        ("a/src/lib.rs", tests),
        ("a/src/main.rs", tests),
        ("a/src/shown.rs", example),
        ("a/tests/all.rs", "#[test]\nfn runs() {}"),
        ("b/Cargo.toml", "[lib]\ndoctest = false\n[[bin]]\nname = \"b\"\ntest = false"),
        ("b/src/lib.rs", tests),
        ("b/src/main.rs", tests),
        ("b/src/shown.rs", example),
        ("b/src/form.rs", "/// ```json\n/// {}\n/// ```"),
        ("c/Cargo.toml", "[[bin]]\nname = \"c\"\ntest = false"),
        ("c/src/main.rs", "mod part;"),
        ("c/src/part.rs", tests),
    ]);
    let expected = ["a/src/lib.rs", "b/src/main.rs", "b/src/shown.rs", "c/src/part.rs"];
    assert_eq!(findings(&planted), expected.map(|path| format!("{path} has a test that its Cargo.toml switches off")));
}
