//! The table of ideas in ARCHITECTURE.md: every module stands in one row, and a new idea costs a row that a reader sees.

use std::collections::{BTreeMap, BTreeSet};

use super::{Files, has_extension, none, planted, project};

/// The most rows.
const IDEAS_MAX: usize = 60;

/// The most characters of what an idea is in one sentence.
const SENTENCE_MAX: usize = 110;

/// The crates of the product, as the table names them, and their sources.
const CRATES: [(&str, &str); 12] = [
    ("protocol", "shared/protocol/src/"),
    ("providers", "shared/providers/src/"),
    ("runtime", "shared/runtime/src/"),
    ("aws", "shared/aws/src/"),
    ("webhook", "functions/webhook/src/"),
    ("worker", "functions/worker/src/"),
    ("relay", "functions/relay/src/"),
    ("dispatcher", "functions/dispatcher/src/"),
    ("examples", "examples/src/"),
    ("local", "tools/local/src/"),
    ("cli", "tools/cli/src/"),
    ("xtask", "tools/xtask/src/"),
];

/// The modules at the top of each crate, as `crate: module`, and those in a folder there, as `crate: folder::module`. Each with how
/// many rows name it.
fn modules(files: &Files) -> BTreeMap<String, usize> {
    let mut modules = BTreeMap::new();
    for (name, folder) in CRATES {
        let paths = files.keys().filter_map(|path| path.strip_prefix(folder)).filter(|path| has_extension(path, "rs"));
        for path in paths {
            let mut parts = path.split(['/', '.']);
            let Some(top) = parts.next().filter(|top| !["lib", "main"].contains(top)) else { continue };
            modules.insert(format!("{name}: {top}"), 0);
            if let Some(inner) = parts.next().filter(|inner| !["mod", "rs"].contains(inner)) {
                modules.insert(format!("{name}: {top}::{inner}"), 0);
            }
        }
    }
    modules
}

/// What is wrong with how often the table names a module. A folder stands in one row, or each of its modules does.
fn uneven(modules: &BTreeMap<String, usize>) -> Vec<String> {
    let mut findings = Vec::new();
    for (module, rows) in modules {
        let inner = |name: &str| name.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with("::"));
        let mut inside = modules.iter().filter(|(name, _)| inner(name)).peekable();
        let divided = inside.peek().is_some() && inside.all(|(_, rows)| *rows > 0);
        let fits = if module.contains("::") { *rows <= 1 } else { *rows == 1 || (*rows == 0 && divided) };
        if !fits {
            findings.push(format!("the module {module} stands in {rows} rows"));
        }
    }
    findings
}

/// Whether this is a file, a check of `scripts/check` or a part of `scripts/prove`.
fn exists(files: &Files, shown: &str) -> bool {
    let text = |path: &str| files.get(path).map_or("", String::as_str);
    match shown.split_once(' ') {
        Some(("scripts/check", name)) => text("scripts/check").contains(&format!("\ncheck_{name}() {{\n")),
        Some(("scripts/prove", name)) => {
            let parts = text("tools/xtask/src/checks/prove.rs").split_once("enum Part {\n").unwrap_or_default().1;
            let variants = parts.lines().take_while(|line| *line != "}").filter_map(|line| line.strip_prefix("    "));
            let names = variants.filter_map(|line| line.split([' ', '(', ',']).next()).map(str::to_lowercase);
            let others = text("tests/proof/parts.txt").lines().take_while(|line| !line.is_empty());
            let others = others.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
            names.chain(others.map(ToOwned::to_owned)).any(|part| part == name)
        }
        Some(_) => false,
        None => files.contains_key(shown),
    }
}

/// The top folders of crates that the table of folders does not name.
fn unmapped(files: &Files, page: &str) -> Vec<String> {
    let table = page.split("\n## ").find(|section| section.starts_with("The folders")).unwrap_or_default();
    let named: BTreeSet<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .map(|cell| cell.trim_start_matches('[').split(['/', ']']).next().unwrap_or_default())
        .collect();
    let crates = files.keys().filter(|path| path.ends_with("/Cargo.toml")).filter_map(|path| path.split('/').next());
    let folders: BTreeSet<_> = crates.filter(|folder| !named.contains(folder)).collect();
    folders.into_iter().map(|folder| format!("the table of folders lacks {folder}")).collect()
}

fn findings(files: &Files) -> Vec<String> {
    let page = files.get("ARCHITECTURE.md").map_or("", String::as_str);
    let table = page.split("\n## ").find(|section| section.starts_with("The ideas")).unwrap_or_default();
    let rows: Vec<Vec<_>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| idea |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let (mut modules, mut findings) = (modules(files), Vec::new());
    if rows.len() > IDEAS_MAX {
        findings.push(format!("there are {} ideas, more than {IDEAS_MAX}", rows.len()));
    }
    for row in rows {
        let [idea, sentence, named, shown_by] = row[..] else {
            findings.push(format!("a row has {} cells: {row:?}", row.len()));
            continue;
        };
        if sentence.len() > SENTENCE_MAX {
            findings.push(format!("{idea}: its sentence has {} characters", sentence.len()));
        }
        let shown = shown_by.trim_matches('`');
        if !exists(files, shown) {
            findings.push(format!("{idea}: there is no {shown}"));
        }
        for (part, names) in named.split(';').filter_map(|part| part.split_once(':')) {
            for name in names.split(',') {
                let module = format!("{}: {}", part.trim(), name.trim());
                match modules.get_mut(&module) {
                    Some(count) => *count += 1,
                    None => findings.push(format!("{idea}: there is no module {module}")),
                }
            }
        }
    }
    findings.extend(uneven(&modules));
    findings.extend(unmapped(files, page));
    findings
}

#[test]
fn every_module_stands_in_one_row_of_the_table_of_ideas() {
    none(&findings(&project()));
}

#[test]
fn a_module_without_a_row_a_row_without_a_module_and_a_test_that_is_gone_are_found() {
    let row = |sentence: &str, modules: &str| format!("| x | {sentence} | {modules} | `tests/x.rs` |\n");
    let page =
        |rows: &str| format!("# A\n\n## The ideas\n\n| idea | in | modules | by |\n|---|---|---|---|\n{rows}\n## B\n");
    let of = |rows: &str| {
        let sources = [("shared/runtime/src/strict/at.rs", ""), ("shared/runtime/src/lib.rs", "")];
        let others = [("tests/x.rs", ""), ("ARCHITECTURE.md", &page(rows))];
        let check = ("scripts/check", "# Checks\ncheck_storm() {\n}\n");
        let enumeration = "enum Part {\n    /// Kills\n    Kill {\n        Deep,\n    },\n    Stop,\n}\n    Later,\n";
        let parts = [
            ("tools/xtask/src/checks/prove.rs", enumeration),
            ("tests/proof/parts.txt", "  model   every order\n          of steps\n\n  --long  more\n"),
        ];
        let mut found = findings(&planted([sources[0], sources[1], others[0], others[1], check, parts[0], parts[1]]));
        found.retain(|finding| !finding.starts_with("the module xtask: checks"));
        found
    };
    for shown in ["scripts/check storm", "scripts/prove kill", "scripts/prove stop", "scripts/prove model"] {
        none(&of(&row("s", "runtime: strict").replace("tests/x.rs", shown)));
    }
    for shown in ["scripts/check calm", "scripts/prove", "scripts/prove later", "scripts/prove of", "tests/x.rs name"] {
        let found = of(&row("s", "runtime: strict").replace("tests/x.rs", shown));
        assert_eq!(found, [format!("x: there is no {shown}")]);
    }
    none(&of(&row("s", "runtime: strict")));
    none(&of(&row("s", "runtime: strict::at")));
    let twice = row("s", "runtime: strict, strict::at") + &row("s", "runtime: strict::at");
    assert_eq!(of(&twice), ["the module runtime: strict::at stands in 2 rows"]);
    let twice = row("s", "runtime: strict").repeat(2);
    assert_eq!(of(&twice), ["the module runtime: strict stands in 2 rows"]);
    assert_eq!(of(""), ["the module runtime: strict stands in 0 rows"]);
    assert_eq!(of(&row("s", "runtime: strict, gone")), ["x: there is no module runtime: gone"]);
    assert_eq!(of(&row(&"s".repeat(111), "runtime: strict")), ["x: its sentence has 111 characters"]);
    assert_eq!(of(&row("s", "runtime: strict").replace("x.rs", "y.rs")), ["x: there is no tests/y.rs"]);
    let map = "# A\n\n## The folders\n\n| [shared/x](y) | z | |\n| tools | z | |\n";
    let crates = ["shared/x/Cargo.toml", "tools/Cargo.toml", "benches/Cargo.toml", "Cargo.toml"].map(|path| (path, ""));
    assert_eq!(unmapped(&planted(crates), map), ["the table of folders lacks benches"]);
    let many = format!("{}{}", row("s", "runtime: strict"), row("s", "").repeat(60));
    assert_eq!(of(&many), ["there are 61 ideas, more than 60"]);
}
