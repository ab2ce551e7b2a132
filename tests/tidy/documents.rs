//! Documents link only to what exists, and tables of modules leave none out.

use std::collections::BTreeMap;

use super::{Files, has_extension, none, planted, project, rust};

/// Relative links of Markdown files that lead nowhere.
fn dead_links(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| has_extension(path, "md")) {
        for target in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            let outside = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            if !outside && !exists(files, &resolve(path, file)) {
                findings.push(format!("{path} links to {target}, which does not exist"));
            }
        }
    }
    findings
}

/// How our own packages are installed. No registry has them, so no hash or lock can name them. What pip builds one with
/// is not locked either.
const OWN: [&str; 3] = [
    "pip install CHECKOUT/clients/python",
    "pip install --target BUNDLE CHECKOUT/clients/python",
    "npm install \"$(npm pack CHECKOUT/clients/typescript)\"",
];

fn is_own(line: &str) -> bool {
    OWN.contains(&line.trim())
}

/// Python packages that a document or a script installs without their hashes.
fn unlocked(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !has_extension(path, "rs")) {
        let installs = |line: &&str| line.contains("pip") && line.contains(" install ") && !is_own(line);
        for line in text.lines().filter(installs).filter(|line| !line.contains("--require-hashes")) {
            findings.push(format!("{path} installs without hashes: {}", line.trim()));
        }
    }
    findings
}

/// npm packages that a document, a script or a project installs without their lock.
fn unlocked_npm(files: &Files) -> Vec<String> {
    let fetches = |line: &&str| {
        (line.contains("npm install") && !is_own(line))
            || line.contains("npm i ")
            || line.replace("npx --no-install ", "").contains("npx ")
    };
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !has_extension(path, "rs")) {
        findings.extend(text.lines().filter(fetches).map(|line| format!("{path} has no lock for: {}", line.trim())));
        let lock = path.strip_suffix("package.json").map(|folder| format!("{folder}package-lock.json"));
        if lock.is_some_and(|lock| text.contains("ependencies\"") && !files.contains_key(&lock)) {
            findings.push(format!("{path} has no lock"));
        }
    }
    findings
}

/// Installations of npm packages that would run the packages' own scripts.
fn running_scripts(files: &Files) -> Vec<String> {
    let installs = |line: &&str| ["npm ci", "\"$npm\" ci", "\"npm\", \"ci\""].iter().any(|words| line.contains(words));
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !has_extension(path, "rs")) {
        for line in text.lines().filter(installs).filter(|line| !line.contains("--ignore-scripts")) {
            findings.push(format!("{path} runs the scripts of packages: {}", line.trim()));
        }
    }
    findings
}

/// Tools that two environments have in different versions.
fn differing_pins(files: &Files) -> Vec<String> {
    let mut versions = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("scripts/locks/") && has_extension(path, "in"))
    {
        for (package, version) in text.lines().filter_map(|line| line.split_once("==")) {
            let first = *versions.entry(package).or_insert(version);
            if first != version {
                findings.push(format!("{path} has {package} {version}, another environment has {first}"));
            }
        }
    }
    findings
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

pub(super) fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn exists(files: &Files, path: &str) -> bool {
    files.contains_key(path)
        || files.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

#[test]
fn every_link_leads_somewhere() {
    none(&dead_links(&project()));
    let files = planted([
        ("docs/a.md", "[b](b.md) [c](../c/d.md#part) [here](#part) [web](https://example.com)"),
        ("docs/b.md", ""),
    ]);
    assert_eq!(dead_links(&files), ["docs/a.md links to ../c/d.md#part, which does not exist"]);
}

#[test]
fn every_python_package_is_installed_by_its_hash() {
    none(&unlocked(&project()));
    let files = planted([
        ("docs/a.md", "pip install --require-hashes --no-deps --requirement scripts/locks/a.txt"),
        ("docs/b.md", "pip install CHECKOUT/clients/python\npip install CHECKOUT/clients/python other"),
        ("scripts/b", "  \"$tools/bin/pip\" install cargo-lambda==1.2.3"),
    ]);
    assert_eq!(unlocked(&files).len(), 2);
}

#[test]
fn no_npm_package_runs_a_script_at_its_installation() {
    none(&running_scripts(&project()));
    let files = planted([
        ("docs/a.md", "npm ci\nnpx --no-install cdk deploy"),
        ("scripts/b", "  \"$node\" \"$npm\" ci --silent"),
        ("scripts/c.py", "run([\"npm\", \"ci\", \"--silent\"])\nrun([\"npm\", \"ci\", \"--ignore-scripts\"])"),
        ("d/Makefile", "\tnpm ci --ignore-scripts --no-audit"),
    ]);
    assert_eq!(running_scripts(&files).len(), 3);
}

#[test]
fn every_npm_package_is_installed_by_its_lock() {
    none(&unlocked_npm(&project()));
    let files = planted([
        ("docs/a.md", "npm ci\nnpx --no-install cdk deploy\nnpx aws-cdk@2 deploy"),
        ("a/package.json", r#"{ "devDependencies": { "b": "1.0.0" } }"#),
        ("b/Makefile", "\tnpm install --ignore-scripts"),
        ("b/README.md", "npm install \"$(npm pack CHECKOUT/clients/typescript)\""),
        ("c/package.json", r#"{ "dependencies": { "b": "1.0.0" } }"#),
        ("c/package-lock.json", "{}"),
    ]);
    let found = unlocked_npm(&files);
    assert_eq!(found.len(), 3, "{found:?}");
    for part in ["docs/a.md has no lock for: npx aws-cdk@2", "a/package.json has no lock", "b/Makefile has no lock"] {
        assert!(found.iter().any(|finding| finding.starts_with(part)), "{part}: {found:?}");
    }
}

/// Actions of workflows that are named by something that can be moved: a tag or a branch.
fn moving_actions(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with(".github/")) {
        for action in text.lines().filter_map(|line| line.split_once("uses: ")).map(|(_, action)| action.trim()) {
            let commit = action.rsplit_once('@').map_or("", |(_, commit)| commit);
            if commit.len() != 40 || !commit.chars().all(|digit| digit.is_ascii_hexdigit()) {
                findings.push(format!("{path} uses {action}"));
            }
        }
    }
    findings
}

#[test]
fn every_action_is_named_by_its_commit() {
    none(&moving_actions(&project()));
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let files = planted([(".github/workflows/a.yml", &format!("uses: a/b@{commit}\n- uses: a/c@v4\n"))]);
    assert_eq!(moving_actions(&files), [".github/workflows/a.yml uses a/c@v4"]);
}

/// Tests that the threat model names and nobody wrote.
fn imagined_tests(files: &Files) -> Vec<String> {
    let named = files.get("docs/security.md").map_or("", String::as_str).split('`').skip(1).step_by(2);
    // A name with fewer words is a metric.
    let named = named.filter(|name| name.matches('_').count() > 2 && !name.contains('/'));
    let exists = |name: &str| rust(files).any(|(_, text)| text.contains(&format!("fn {name}(")));
    named.filter(|name| !exists(name)).map(|name| format!("there is no test {name}")).collect()
}

#[test]
fn the_threat_model_names_tests_that_exist() {
    none(&imagined_tests(&project()));
    let files = planted([
        ("docs/security.md", "`it_is_so_here`, `it_is_not_so`, `a_metric`"),
        ("tests/a.rs", "fn it_is_so_here() {}"),
    ]);
    assert_eq!(imagined_tests(&files), ["there is no test it_is_not_so"]);
}

#[test]
fn a_tool_has_one_version() {
    none(&differing_pins(&project()));
    let files = planted([("scripts/locks/a.in", "one==1.0\ntwo==2.0"), ("scripts/locks/b.in", "one==1.1\ntwo==2.0")]);
    assert_eq!(differing_pins(&files), ["scripts/locks/b.in has one 1.1, another environment has 1.0"]);
}

/// Modules that the table at the top of their file leaves out, if it has one of modules.
fn unlisted_modules(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in rust(files).filter(|(_, text)| text.contains("\n//! | module |")) {
        let table: String = text.lines().filter(|line| line.starts_with("//! |")).collect();
        let modules = text.lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'));
        findings.extend(
            modules
                .filter(|name| !table.contains(&format!("`{name}`")) && !table.contains(&format!("`mod@{name}`")))
                .map(|name| format!("{path} has no row for {name}")),
        );
    }
    findings
}

#[test]
fn a_table_of_modules_has_each_of_them() {
    none(&unlisted_modules(&project()));
    let table = "//! A.\n//!\n//! | module | holds |\n//! |---|---|\n//! | [`a`], [`mod@b`] | c |\n";
    let files = planted([("a/src/lib.rs", &format!("{table}\npub mod a;\nmod b;\n#[cfg(test)]\npub mod c;\n"))]);
    assert_eq!(unlisted_modules(&files), ["a/src/lib.rs has no row for c"]);
}

/// The boxes, arrows and words of the README's picture: as `flow.dot` describes them, and as `flow.svg` shows them.
fn pictured(files: &Files) -> [Vec<String>; 2] {
    let dot = &files["docs/flow.dot"];
    let things = dot.lines().filter_map(|line| {
        let thing = line.trim().split(['[', ';']).next()?.replace('>', "&gt;").replace(' ', "");
        (line.contains("pos=") || line.contains("->")).then_some(thing)
    });
    let labels = dot.split("label=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let words = labels.flat_map(|label| label.split("\\n")).map(|words| words.replace("  ", " "));
    let described = things.chain(words).map(|thing| thing.replace('-', "&#45;")).collect();
    let shown = files["docs/flow.svg"].lines().filter_map(|line| {
        let inside =
            line.strip_prefix("<title>").or_else(|| line.starts_with("<text").then_some(line.split_once('>')?.1));
        Some(inside?.split('<').next()?.replace("&#160;", " ").replace("  ", " "))
    });
    let mut both = [described, shown.skip(1).collect::<Vec<_>>()];
    for things in &mut both {
        things.sort();
    }
    both
}

#[test]
fn the_picture_shows_what_its_source_describes() {
    let mut files = project();
    let [described, shown] = pictured(&files);
    assert_eq!(described, shown, "scripts/picture draws it again");
    files.get_mut("docs/flow.dot").unwrap().push_str("relay -> worker;\n");
    let [described, shown] = pictured(&files);
    assert_eq!(described.len(), shown.len() + 1);
}
