//! Dependencies point one way: protocol <- providers <- runtime <- functions <- examples <- tools.

use super::{Files, none, planted, project, rust};
use crate::support::tokens::{identifiers, product};

/// Which crates the manifests below one folder may name.
struct Arrow {
    folder: &'static str,
    /// The only members of this workspace that they may name.
    members: &'static [&'static str],
    /// Other people's crates that they must not name, with a space between; a name that ends in `-` stands for a
    /// family.
    foreign: &'static str,
}

const ARROWS: &[Arrow] = &[
    // No async, no clock, no randomness, no network, no SDK: what is model-checked is what runs.
    Arrow {
        folder: "shared/protocol/",
        members: &[],
        foreign: "aws-config aws-sdk- aws-smithy- aws_ futures http hyper lambda_ rand reqwest time tokio tracing uuid",
    },
    // No storage and no waiting: a certificate is requested, not fetched.
    Arrow {
        folder: "shared/providers/",
        members: &["hookonce-protocol"],
        foreign: "aws-config aws-sdk- aws-smithy- aws_ futures hyper lambda_ rand reqwest tokio tracing zstd",
    },
    Arrow {
        folder: "shared/runtime/",
        members: &["hookonce-protocol", "hookonce-providers"],
        foreign: "aws-config aws-sdk- axum clap dynoxide lambda_ rustack-",
    },
    Arrow {
        folder: "shared/aws/",
        members: &["hookonce-protocol", "hookonce-runtime"],
        foreign: "axum clap dynoxide lambda_ rustack-",
    },
    Arrow {
        folder: "functions/",
        members: &["hookonce-aws", "hookonce-protocol", "hookonce-providers", "hookonce-runtime"],
        foreign: "aws-config aws-sdk- aws-smithy- axum clap dynoxide rustack-",
    },
    // As a project of one's own would: what handlers are written with, and the worker.
    Arrow {
        folder: "examples/",
        members: &["hookonce-protocol", "hookonce-runtime", "hookonce-worker"],
        foreign: "aws-config aws-sdk- aws-smithy- axum clap dynoxide rustack-",
    },
    // AWS on loopback: it runs any function and knows none.
    Arrow { folder: "tools/local/", members: &[], foreign: "clap" },
    // What the functions are compared with has nothing of them.
    Arrow { folder: "benches/", members: &[], foreign: "axum clap dynoxide rustack-" },
    // Every script builds it first, so it must build in seconds.
    Arrow { folder: "tools/xtask/", members: &[], foreign: "aws-config aws-sdk- aws-smithy- tokio" },
];

/// Adapters are chosen where a process is put together. Nothing else names them, or the crates that they rest on.
const SDK: [&str; 3] = ["aws_config", "aws_sdk_dynamodb", "aws_sdk_sqs"];
const ADAPTERS_AT: &[&str] = &["shared/aws/", "tools/", "tests/", "benches/"];

/// Identifiers that a pure crate must not use.
const IMPURE: &[&str] = &["async", "await", "Instant", "SystemTime", "Uuid", "thread"];

fn manifests(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let Some(arrow) = ARROWS.iter().find(|arrow| path.starts_with(arrow.folder)) else { continue };
        let manifest: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let own = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        for name in dependencies(&manifest).into_iter().filter(|name| Some(name.as_str()) != own) {
            let member = name.starts_with("hookonce");
            let foreign = arrow.foreign.split(' ').any(|other| is_of(&name, other));
            if (member && !arrow.members.contains(&name.as_str())) || foreign {
                findings.push(format!("{path} must not depend on {name}"));
            }
        }
    }
    findings
}

/// Names in every table of dependencies, those of a target included.
fn dependencies(table: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            names.extend(inner.keys().cloned());
        } else {
            names.extend(dependencies(inner));
        }
    }
    names
}

fn is_of(name: &str, other: &str) -> bool {
    name == other || (other.ends_with(['-', '_']) && name.starts_with(other))
}

fn adapters(files: &Files) -> Vec<String> {
    let offered = include_str!("../../shared/aws/src/lib.rs").split("\npub use ").skip(1);
    let names = offered.filter_map(|line| Some(line.split_once(';')?.0.split(|c| !char::is_alphanumeric(c)))).flatten();
    let types = names.filter(|name| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase));
    let adapters: Vec<_> = types.chain(SDK).collect();
    let allowed = |path: &str| {
        ADAPTERS_AT.iter().any(|at| path.starts_with(at))
            || (path.starts_with("functions/") && path.ends_with("/src/start.rs"))
    };
    naming(files, |path| !allowed(path), &adapters)
}

fn impure(files: &Files) -> Vec<String> {
    naming(files, |path| path.starts_with("shared/protocol/src/"), IMPURE)
}

/// Product code below some paths that uses one of these identifiers.
fn naming(files: &Files, looked_at: impl Fn(&str) -> bool, unwanted: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in rust(files).filter(|(path, _)| looked_at(path)) {
        let used = identifiers(&product(path, text));
        let found = unwanted.iter().filter(|name| used.iter().any(|used| used == *name));
        findings.extend(found.map(|name| format!("{path} must not name {name}")));
    }
    findings
}

#[test]
fn no_dependency_runs_back() {
    none(&manifests(&project()));
    for (path, name) in [
        ("shared/protocol/Cargo.toml", "hookonce-providers"),
        ("tools/xtask/Cargo.toml", "hookonce-protocol"),
        ("shared/protocol/Cargo.toml", "aws-sdk-dynamodb"),
        ("shared/providers/Cargo.toml", "hookonce-runtime"),
        ("shared/runtime/Cargo.toml", "hookonce-worker"),
        ("shared/runtime/Cargo.toml", "hookonce-aws"),
        ("functions/relay/Cargo.toml", "hookonce-local"),
        ("functions/worker/Cargo.toml", "hookonce-examples"),
        ("examples/Cargo.toml", "hookonce-aws"),
        ("tools/local/Cargo.toml", "hookonce-webhook"),
    ] {
        for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.build-dependencies"] {
            let found = manifests(&planted([(path, &format!("[{table}]\n{name}.workspace = true\n"))]));
            assert_eq!(found, [format!("{path} must not depend on {name}")]);
        }
    }
    none(&manifests(&planted([(
        "functions/worker/Cargo.toml",
        "[dependencies]\nhookonce-runtime.workspace = true\n",
    )])));
}

#[test]
fn adapters_are_named_only_where_a_process_is_put_together() {
    none(&adapters(&project()));
    let text = "use hookonce_aws::{DynamoStore, LoopbackHandlers, SqsQueue};";
    assert_eq!(adapters(&planted([("functions/worker/src/lib.rs", text)])).len(), 3);
    none(&adapters(&planted([("functions/worker/src/start.rs", text)])));
}

#[test]
fn the_protocol_is_pure() {
    none(&impure(&project()));
    assert_eq!(impure(&planted([("shared/protocol/src/a.rs", "async fn a() {}")])).len(), 1);
    none(&impure(&planted([("shared/protocol/src/a.rs", "//! nothing async here")])));
}
