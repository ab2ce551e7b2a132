//! Each function's environment holds exactly what the function reads, without contradictions.

use std::collections::BTreeSet;

use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_runtime::config::{
    ConfigError, DispatcherConfig, Environment, RelayConfig, VARIABLES, WebhookConfig, WorkerConfig,
};
use serde_json::Value;

use super::{Rule, changed, file, none, only, property_of};
use crate::support::template::{Template, template};
use crate::support::tokens;

/// API Gateway gives an integration up after 30 s at the latest.
const GATEWAY_SECONDS_MAX: i64 = 30;

/// Reads a function's environment, or every fault in it.
pub(crate) type Read = fn(&Environment) -> Result<(), ConfigError>;

/// Each function, its configuration type, and how to read it.
pub(crate) const FUNCTIONS: [(&str, &str, Read); 4] = [
    ("WebhookFunction", "WebhookConfig", |environment| WebhookConfig::read(environment).map(drop)),
    ("WorkerFunction", "WorkerConfig", |environment| WorkerConfig::read(environment).map(drop)),
    ("RelayFunction", "RelayConfig", |environment| RelayConfig::read(environment).map(drop)),
    ("DispatcherFunction", "DispatcherConfig", |environment| DispatcherConfig::read(environment).map(drop)),
];

/// Variables that no function reads any more. Code of the release before may run with this template, so it sets them for one
/// release, and `VARIABLES` lists them so that they are not counted as unknown.
pub(crate) const LEAVING: [&str; 0] = [];

/// The variables that a function gets, including every optional one.
pub(crate) fn environment(template: &Template, function: &str) -> Environment {
    let shared = template.at(&["Globals", "Function", "Environment", "Variables"]);
    let own = template.property(function, &["Environment", "Variables"]);
    let all = [shared, own].into_iter().filter_map(|variables| variables.as_object().cloned()).flatten();
    all.map(|(name, value)| (name, text(&value))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The variables that a function reads, as the sources name them: the common ones and its own. The one that only tests
/// set is not among them.
fn reads(config: &str) -> BTreeSet<String> {
    let path = "shared/runtime/src/config.rs";
    let tokens = tokens::product(path, &file(path));
    let mut strings = tokens::strings_of_impl(&tokens, config);
    for shared in ["common", "log"] {
        strings.extend(tokens::strings_of_function(&tokens, shared));
    }
    strings.into_iter().filter(|text| VARIABLES.contains(&text.as_str())).collect()
}

fn findings(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for (function, config, read) in FUNCTIONS {
        let environment = environment(template, function);
        if let Err(ConfigError(faults)) = read(&environment) {
            findings.extend(faults.into_iter().map(|fault| format!("{function}: {fault}")));
        }
        let set: BTreeSet<_> = environment.into_keys().collect();
        let reads = reads(config);
        findings.extend(reads.difference(&set).map(|name| format!("{function}: {name} is read and not set")));
        let unread = set.difference(&reads).filter(|name| !LEAVING.contains(&name.as_str()));
        findings.extend(unread.map(|name| format!("{function}: {name} is set and not read")));
    }
    findings
}

/// Numbers of the template that the protocol has as constants.
fn drifted(template: &Template) -> Vec<String> {
    let timing = Timing::standard();
    let [(_, gateway)] = template.events("WebhookFunction", "HttpApi").try_into().unwrap();
    let [(_, hints), (_, slow_hints)] = template.events("WorkerFunction", "SQS").try_into().unwrap();
    let webhook = template.property("WebhookFunction", &["Timeout"]).as_i64();
    let properties = [
        ("WorkerFunction", "Timeout", timing.worker_timeout),
        ("DispatcherFunction", "Timeout", timing.dispatcher_timeout),
        ("HintQueue", "VisibilityTimeout", timing.visibility_timeout),
        ("SlowQueue", "VisibilityTimeout", timing.visibility_timeout),
        ("EffectsQueue", "VisibilityTimeout", timing.effects_visibility_timeout),
        ("HintQueue", "MessageRetentionPeriod", timing.queue_retention),
        ("SlowQueue", "MessageRetentionPeriod", timing.queue_retention),
        ("EffectsQueue", "MessageRetentionPeriod", timing.queue_retention),
        ("DeadLetterQueue", "MessageRetentionPeriod", timing.dead_letter_retention),
    ]
    .map(|(resource, property, length)| {
        let deployed = template.property(resource, &[property]).as_i64();
        (format!("{resource}.{property}"), deployed, Some(length.as_seconds()))
    });
    let window = Some(timing.batching_window.as_seconds());
    let others = [
        ("the gateway's timeout", gateway["TimeoutInMillis"].as_i64(), webhook.map(|seconds| 1_000 * seconds)),
        ("the batching window", hints["MaximumBatchingWindowInSeconds"].as_i64(), window),
        ("that of the slow queue", slow_hints["MaximumBatchingWindowInSeconds"].as_i64(), window),
    ];
    let others = others.map(|(what, deployed, proven)| (what.to_owned(), deployed, proven));
    let all = properties.into_iter().chain(others);
    let drifted = all.filter(|(_, deployed, proven)| deployed.is_none() || deployed != proven);
    drifted.map(|(what, deployed, proven)| format!("{what} is {deployed:?}, not {proven:?}")).collect()
}

/// An invocation of the webhook function answers long before its timeout. So Lambda ends only one that hangs, before
/// the gateway gives it up, and before the relay takes its record for stuck.
#[test]
fn an_invocation_that_hangs_is_ended_before_anybody_else_acts() {
    let timing = Timing::standard();
    let timeout = Millis::seconds(property_of("WebhookFunction", "Timeout"));
    assert!(timeout > timing.webhook_timeout && timeout < timing.first_resend, "{timeout:?}");
    assert!(timeout < Millis::seconds(GATEWAY_SECONDS_MAX), "{timeout:?}");
}

#[test]
fn every_variable_that_a_function_reads_is_set_and_none_else() {
    none(&findings(&template()));
    let without = findings(&changed("        HOOKONCE_LOG: !Ref LogLevel\n", ""));
    assert_eq!(without.len(), FUNCTIONS.len(), "{without:?}");
    assert!(without.iter().all(|finding| finding.ends_with("HOOKONCE_LOG is read and not set")));
    let own = "          HOOKONCE_SLOW_QUEUE_URL:";
    let others = format!("          HOOKONCE_PUBLIC_URL: x\n{own}");
    only(&findings(&changed(own, &others)), "WorkerFunction: HOOKONCE_PUBLIC_URL is set and not read");
    let test = format!("          HOOKONCE_TEST_TIMING: first_resend=1\n{own}");
    let tested = findings(&changed(own, &test));
    assert!(tested.iter().any(|finding| finding.contains("HOOKONCE_TEST_TIMING is set and not read")), "{tested:?}");
    let misspelt = findings(&changed("HOOKONCE_QUEUE_URL", "HOOKONCE_QUEUE_URI"));
    assert!(misspelt.iter().any(|finding| finding.contains("HOOKONCE_QUEUE_URL is not set")), "{misspelt:?}");
    assert!(misspelt.iter().any(|finding| finding.contains("HOOKONCE_QUEUE_URI is set and not read")), "{misspelt:?}");
}

#[test]
fn every_listed_variable_is_read_by_some_function() {
    let all: BTreeSet<_> = FUNCTIONS.into_iter().flat_map(|(_, config, _)| reads(config)).collect();
    let deployed = VARIABLES.iter().filter(|name| **name != "HOOKONCE_TEST_TIMING" && !LEAVING.contains(name));
    assert_eq!(all, deployed.map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_templates_numbers_are_those_of_the_protocol() {
    let dispatcher =
        "Handler: hookonce-dispatcher\n      RecursiveLoop: Allow # see the worker\n      MemorySize: 256\n      ";
    Rule(drifted).finds([
        (
            "VisibilityTimeout: !FindInMap [Queue, Visibility, Seconds]",
            "VisibilityTimeout: 359",
            "HintQueue.Visibility",
        ),
        (
            "MessageRetentionPeriod: !FindInMap [Queue, Retention, Seconds]",
            "MessageRetentionPeriod: 60",
            "HintQueue.Mess",
        ),
        ("MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 604800", "DeadLetterQueue"),
        ("TimeoutInMillis: 10000", "TimeoutInMillis: 5000", "gateway"),
        ("MemorySize: 512\n      Timeout: 60", "MemorySize: 512\n      Timeout: 59", "WorkerFunction.Timeout"),
        (&format!("{dispatcher}Timeout: 60"), &format!("{dispatcher}Timeout: 61"), "DispatcherFunction.Timeout"),
    ]);
}
