//! Each function's environment holds exactly what the function reads, without contradictions.

use std::collections::BTreeSet;

use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_runtime::config::{
    Common, ConfigError, DispatcherConfig, Environment, RelayConfig, VARIABLES, WebhookConfig, WorkerConfig,
};
use serde_json::Value;

use super::{Rule, changed, file, none, only, property_of};
use crate::support::template::{Template, template};
use crate::tidy::tokens;

/// API Gateway gives an integration up after 30 s at the latest.
const GATEWAY_SECONDS_MAX: i64 = 30;

/// Reads a function's environment: returns what every function reads, or every fault.
type Read = fn(&Environment) -> Result<Common, ConfigError>;

/// Each function, its configuration type, and how to read it.
const FUNCTIONS: [(&str, &str, Read); 4] = [
    ("WebhookFunction", "WebhookConfig", |environment| Ok(WebhookConfig::read(environment)?.common)),
    ("WorkerFunction", "WorkerConfig", |environment| Ok(WorkerConfig::read(environment)?.common)),
    ("RelayFunction", "RelayConfig", |environment| Ok(RelayConfig::read(environment)?.common)),
    ("DispatcherFunction", "DispatcherConfig", |environment| Ok(DispatcherConfig::read(environment)?.common)),
];

/// The variables that a function gets, including every optional one.
fn environment(template: &Template, function: &str) -> Environment {
    let shared = template.at(&["Globals", "Function", "Environment", "Variables"]);
    let own = template.property(function, &["Environment", "Variables"]);
    let all = [shared, own].into_iter().filter_map(|variables| variables.as_object().cloned()).flatten();
    all.map(|(name, value)| (name, text(&value))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The variables that a function reads, as the sources name them: the common ones and its own.
fn reads(config: &str) -> BTreeSet<String> {
    let path = "shared/runtime/src/config.rs";
    let tokens = tokens::product(path, &file(path));
    let mut strings = tokens::strings_of_impl(&tokens, config);
    for shared in ["common", "log", "timing"] {
        strings.extend(tokens::strings_of_function(&tokens, shared));
    }
    strings.into_iter().filter(|text| VARIABLES.contains(&text.as_str())).collect()
}

fn findings(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for (function, config, read) in FUNCTIONS {
        let environment = environment(template, function);
        match read(&environment) {
            Ok(common) if common.timing == Timing::standard() => {}
            Ok(_) => findings.push(format!("{function}: its durations are not those that the project was proven with")),
            Err(ConfigError(faults)) => findings.extend(faults.into_iter().map(|fault| format!("{function}: {fault}"))),
        }
        let set: BTreeSet<_> = environment.into_keys().collect();
        let reads = reads(config);
        findings.extend(reads.difference(&set).map(|name| format!("{function}: {name} is read and not set")));
        findings.extend(set.difference(&reads).map(|name| format!("{function}: {name} is set and not read")));
    }
    findings
}

/// Numbers that the template both uses itself and passes to the functions: resource, property and variable.
const USED_AND_PASSED: [(&str, &str, &str); 7] = [
    ("WorkerFunction", "Timeout", "HOOKONCE_WORKER_TIMEOUT_SECONDS"),
    ("DispatcherFunction", "Timeout", "HOOKONCE_DISPATCHER_TIMEOUT_SECONDS"),
    ("HintQueue", "VisibilityTimeout", "HOOKONCE_VISIBILITY_SECONDS"),
    ("SlowQueue", "VisibilityTimeout", "HOOKONCE_VISIBILITY_SECONDS"),
    ("EffectsQueue", "VisibilityTimeout", "HOOKONCE_EFFECTS_VISIBILITY_SECONDS"),
    ("HintQueue", "MessageRetentionPeriod", "HOOKONCE_QUEUE_RETENTION_SECONDS"),
    ("DeadLetterQueue", "MessageRetentionPeriod", "HOOKONCE_DEAD_LETTER_RETENTION_SECONDS"),
];

/// Numbers that the template says twice, and differently.
fn drifted(template: &Template) -> Vec<String> {
    let environment = environment(template, "WorkerFunction");
    let [(_, gateway)] = template.events("WebhookFunction", "HttpApi").try_into().unwrap();
    let [(_, hints), (_, slow_hints)] = template.events("WorkerFunction", "SQS").try_into().unwrap();
    let webhook = template.property("WebhookFunction", &["Timeout"]).as_i64();
    let window = Some(Timing::standard().batching_window.as_seconds());
    let used = USED_AND_PASSED.map(|(resource, property, variable)| {
        let passed = environment.get(variable).and_then(|text| text.parse::<i64>().ok());
        (format!("{resource}.{property}"), template.property(resource, &[property]).as_i64(), passed)
    });
    let others = [
        ("the gateway's timeout", gateway["TimeoutInMillis"].as_i64(), webhook.map(|seconds| 1_000 * seconds)),
        ("the batching window", hints["MaximumBatchingWindowInSeconds"].as_i64(), window),
        ("that of the slow queue", slow_hints["MaximumBatchingWindowInSeconds"].as_i64(), window),
    ];
    let others = others.map(|(what, done, passed)| (what.to_owned(), done, passed));
    let drifted = used.into_iter().chain(others).filter(|(_, done, passed)| done.is_none() || done != passed);
    drifted.map(|(what, done, passed)| format!("{what} is {done:?}, not {passed:?}")).collect()
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
    let first_resend = "        HOOKONCE_FIRST_RESEND_SECONDS: !FindInMap [Protocol, FirstResend, Seconds]\n";
    let without = findings(&changed(first_resend, ""));
    assert_eq!(without.len(), FUNCTIONS.len(), "{without:?}");
    assert!(without.iter().all(|finding| finding.ends_with("HOOKONCE_FIRST_RESEND_SECONDS is read and not set")));
    let own = "          HOOKONCE_RELAY_SENDS_PER_SECOND:";
    let others = format!("          HOOKONCE_PUBLIC_URL: x\n{own}");
    only(&findings(&changed(own, &others)), "RelayFunction: HOOKONCE_PUBLIC_URL is set and not read");
    let misspelt = findings(&changed("HOOKONCE_QUEUE_URL", "HOOKONCE_QUEUE_URI"));
    assert!(misspelt.iter().any(|finding| finding.contains("HOOKONCE_QUEUE_URL is not set")), "{misspelt:?}");
    assert!(misspelt.iter().any(|finding| finding.contains("HOOKONCE_QUEUE_URI is set and not read")), "{misspelt:?}");
}

#[test]
fn every_listed_variable_is_read_by_some_function() {
    let all: BTreeSet<_> = FUNCTIONS.into_iter().flat_map(|(_, config, _)| reads(config)).collect();
    assert_eq!(all, VARIABLES.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_templates_own_numbers_satisfy_the_protocol() {
    for (from, to) in [
        ("Milliseconds: 2500", "Milliseconds: 3000"),
        ("Seconds: 360 # six", "Seconds: 359 # six"),
        ("Days: 35", "Days: 30"),
        ("Days: 95", "Days: 90"),
        ("Seconds: 1209600", "Seconds: 604800"),
        ("Days: 21", "Days: 7"),
        ("Days: 30 # in", "Days: 95 # in"),
    ] {
        let found = findings(&changed(from, to));
        assert_eq!(found.len(), FUNCTIONS.len(), "{to}: {found:?}");
        assert!(found.iter().all(|finding| finding.contains("must")), "{to}: {found:?}");
    }
}

#[test]
fn what_the_functions_are_told_is_what_is_deployed() {
    Rule(drifted).finds([
        ("VisibilityTimeout: !FindInMap [Worker, Visibility, Seconds]", "VisibilityTimeout: 400", "HintQueue.Vis"),
        ("TimeoutInMillis: 10000", "TimeoutInMillis: 5000", "gateway"),
        ("Timeout: !FindInMap [Worker, Timeout, Seconds]", "Timeout: 59", "WorkerFunction.Timeout"),
        ("Timeout: !FindInMap [Dispatcher, Timeout, Seconds]", "Timeout: 59", "DispatcherFunction.Timeout"),
        ("VisibilityTimeout: !FindInMap [Dispatcher, Visibility, Seconds]", "VisibilityTimeout: 400", "EffectsQueue"),
    ]);
}
