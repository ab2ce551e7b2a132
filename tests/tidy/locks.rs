//! What pages, scripts and workflows install is named by its hash, its lock or its commit, and runs no script.

use super::{Files, has_extension, none, planted, project};

/// How our own packages are installed. No registry has them, so no hash or lock can name them. What pip builds one with
/// is not locked either.
const OWN: [&str; 3] = [
    "pip install CHECKOUT/clients/python",
    "pip install --target BUNDLE CHECKOUT/clients/python",
    "npm install \"$(npm pack CHECKOUT/clients/typescript)\"",
];

fn fault(path: &str, line: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    // With `--no-index`, pip takes a file that was made here.
    let own = OWN.contains(&line.trim());
    if !own && line.contains("pip") && has(&[" install "]) && !has(&["--require-hashes", "--no-index"]) {
        return Some("installs without hashes");
    }
    let fetches = has(&["npm install", "npm i "]) || line.replace("npx --no-install ", "").contains("npx ");
    if !own && fetches {
        return Some("has no lock for");
    }
    if has(&["npm ci", "\"$npm\" ci", "\"npm\", \"ci\""]) && !has(&["--ignore-scripts"]) {
        return Some("runs the scripts of packages");
    }
    // A tag or a branch can be moved. A workflow of this repository is of the same commit.
    let (_, action) = line.split_once("uses: ").filter(|_| path.starts_with(".github/"))?;
    let action = Some(action).filter(|action| !action.starts_with("./"))?;
    let commit = action.trim().rsplit_once('@').map_or("", |(_, commit)| commit);
    let is_commit = commit.len() == 40 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
    (!is_commit).then_some("does not name the commit of")
}

fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    // What providers send may speak of an installation. Nobody runs it.
    let is_run = |path: &str| !has_extension(path, "rs") && !path.starts_with("events/");
    for (path, text) in files.iter().filter(|(path, _)| is_run(path)) {
        let faults = text.lines().filter_map(|line| Some((fault(path, line)?, line.trim())));
        findings.extend(faults.map(|(fault, line)| format!("{path} {fault}: {line}")));
        let lock = path.strip_suffix("package.json").map(|folder| format!("{folder}package-lock.json"));
        if lock.is_some_and(|lock| text.contains("ependencies\"") && !files.contains_key(&lock)) {
            findings.push(format!("{path} has no lock"));
        }
    }
    findings
}

#[test]
fn everything_that_is_installed_is_locked_and_runs_no_script() {
    none(&findings(&project()));
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let workflow = format!("uses: a/b@{commit}\n- uses: a/c@v4\nuses: ./.github/workflows/b.yml\n");
    let files = planted([
        (".github/workflows/a.yml", workflow.as_str()),
        ("a/package.json", r#"{ "devDependencies": { "b": "1.0.0" } }"#),
        ("b/Makefile", "\tnpm ci --ignore-scripts\n\tnpm install --ignore-scripts"),
        ("c/package-lock.json", "{}"),
        ("c/package.json", r#"{ "dependencies": { "b": "1.0.0" } }"#),
        ("d.md", "pip install CHECKOUT/clients/python\npip install CHECKOUT/clients/python other"),
        (
            "e.md",
            "pip install --require-hashes --requirement a.txt\npip install --no-index a.whl\nnpx --no-install cdk\nnpx aws-cdk@2 deploy",
        ),
        ("f", "  \"$tools/bin/pip\" install cargo-lambda==1.2.3\n  \"$node\" \"$npm\" ci --silent"),
        ("g.py", "run([\"npm\", \"ci\"])\nrun([\"npm\", \"ci\", \"--ignore-scripts\"])"),
    ]);
    let found = findings(&files);
    let expected = [
        ".github/workflows/a.yml does not name the commit of: - uses: a/c@v4",
        "a/package.json has no lock",
        "b/Makefile has no lock for: npm install --ignore-scripts",
        "d.md installs without hashes: pip install CHECKOUT/clients/python other",
        "e.md has no lock for: npx aws-cdk@2 deploy",
        "f installs without hashes: \"$tools/bin/pip\" install cargo-lambda==1.2.3",
        "f runs the scripts of packages: \"$node\" \"$npm\" ci --silent",
        "g.py runs the scripts of packages: run([\"npm\", \"ci\"])",
    ];
    assert_eq!(found, expected);
}
