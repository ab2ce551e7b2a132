//! How the functions are invoked.

use hookonce_protocol::relay::Budget;
use hookonce_protocol::timing::Timing;
use serde_json::{Value, json};

use super::{Rule, file};
use crate::support::template::Template;

/// Every event source mapping of a queue.
fn mappings(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    let mut count = 0;
    for function in template.resources("AWS::Serverless::Function") {
        let timeout = template.property(function, &["Timeout"]).as_i64().unwrap_or(i64::MAX / 6);
        for (name, mapping) in template.events(function, "SQS") {
            count += 1;
            let mut require = |holds: bool, what: &str| {
                if !holds {
                    findings.push(format!("{function}.{name}: {what}"));
                }
            };
            // A misspelt response type acknowledges every message of a batch, whatever its result.
            require(mapping["FunctionResponseTypes"] == json!(["ReportBatchItemFailures"]), "no partial failures");
            require(mapping["ScalingConfig"]["MaximumConcurrency"].as_i64().is_some_and(|max| max >= 2), "no bound");
            require(mapping["BatchSize"].as_i64().is_some_and(|size| size <= 10), "batches of more than ten");
            let queue = mapping["Queue"].as_str().unwrap_or_default().trim_end_matches(".Arn").to_owned();
            let visibility = template.property(&queue, &["VisibilityTimeout"]).as_i64().unwrap_or(0);
            let window = mapping["MaximumBatchingWindowInSeconds"].as_i64().unwrap_or(i64::MAX / 2);
            require(visibility >= 6 * timeout + window, "visibility below six timeouts and the batching window");
        }
    }
    if count != 3 {
        findings.push(format!("{count} mappings, of the three queues of hints"));
    }
    findings
}

/// The rules that do not hold.
fn broken<const N: usize>(rules: [(&str, bool); N]) -> Vec<String> {
    rules.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what.to_owned()).collect()
}

/// What else the protocol relies on.
fn surroundings(template: &Template) -> Vec<String> {
    let schedule = template.events("RelayFunction", "Schedule");
    let rates: Vec<_> = schedule.iter().map(|(_, schedule)| schedule["Schedule"].clone()).collect();
    let [(_, run)] = &schedule[..] else { panic!("one schedule") };
    let input = run["Input"].as_str().unwrap_or_default();
    let property = |resource: &str, name: &str| template.property(resource, &[name]).as_i64().unwrap_or(0);
    let hidden = property("DeadLetterQueue", "VisibilityTimeout");
    let redrives = ["HintQueue", "SlowQueue", "EffectsQueue"].map(|queue| template.property(queue, &["RedrivePolicy"]));
    let receives = |redrive: &Value| redrive["maxReceiveCount"].as_i64().unwrap_or(0);
    let receives_min = redrives.iter().map(receives).min().unwrap_or(0);
    let routes = template.events("WebhookFunction", "HttpApi");
    let route = routes.iter().map(|(_, route)| (&route["Path"], &route["PayloadFormatVersion"])).collect::<Vec<_>>();
    broken([
        ("the relay's budget is for one run a minute", rates == [json!("rate(1 minute)")]),
        ("the relay's budget is for one run a minute", Budget::standard().period.as_seconds() == 60),
        ("the queue must not give up before the record does", receives_min > 4 * Timing::standard().attempts_max),
        (
            "given-up messages go to the dead-letter queue",
            redrives.iter().all(|redrive| redrive["deadLetterTargetArn"] == "DeadLetterQueue.Arn"),
        ),
        ("the relay's run gets the address of the dead letters", input == r#"{"dead_letters":"DeadLetterQueue"}"#),
        ("a dead letter is hidden until the run has ended", hidden >= property("RelayFunction", "Timeout")),
        ("one route, payload 2.0", route == [(&json!("/webhooks/{endpoint}"), &json!("2.0"))]),
    ])
}

/// The function is built from the crate that its handler names.
fn builds(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for function in template.resources("AWS::Serverless::Function") {
        let word = |name: &str| template.property(function, &[name]).as_str().unwrap_or_default().to_owned();
        let manifest: toml::Table = file(&format!("{}/Cargo.toml", word("CodeUri"))).parse().unwrap();
        let package = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        if package != Some(word("Handler").as_str()) {
            findings.push(format!("{function}: its handler is not the binary of {}", word("CodeUri")));
        }
        if template.at(&["Resources", function, "Metadata", "BuildMethod"]) != "rust-cargolambda" {
            findings.push(format!("{function}: nothing builds it"));
        }
    }
    findings
}

#[test]
fn every_queue_reports_partial_failures_and_waits_six_time_outs() {
    let visibility = "VisibilityTimeout: !FindInMap [Queue, Visibility, Seconds]";
    Rule(mappings).finds([
        ("[ReportBatchItemFailures]", "[ReportBatchItemFailure]", "no partial failures"),
        ("            FunctionResponseTypes: [ReportBatchItemFailures]\n", "", "no partial failures"),
        (visibility, "VisibilityTimeout: 359", "WorkerFunction.Hints: visibility"),
        ("ScalingConfig: { MaximumConcurrency: !Ref SlowConcurrencyMax }", "Enabled: true", "no bound"),
    ]);
}

#[test]
fn the_surroundings_are_as_the_protocol_counts_on() {
    Rule(surroundings).finds([
        ("rate(1 minute)", "rate(5 minutes)", "minute"),
        ("\"${DeadLetterQueue}\"", "\"${HintQueue}\"", "address of the dead letters"),
        (
            "VisibilityTimeout: !FindInMap [Queue, Visibility, Seconds]\n      MessageRetentionPeriod: 1209600",
            "VisibilityTimeout: 59\n      MessageRetentionPeriod: 1209600",
            "hidden until the run has ended",
        ),
        ("maxReceiveCount: 100", "maxReceiveCount: 3", "give up"),
        ("deadLetterTargetArn: !GetAtt Dead", "deadLetterTargetArn: !GetAtt Hint", "given-up"),
    ]);
}

/// What a real account refuses or reads differently, and no linter finds.
fn accepted(template: &Template) -> Vec<String> {
    let raw = |path: &[&str]| template.raw(path);
    let group = template.property("GatewayLogs", &["LogGroupName"]);
    let route = ["Resources", "WebhookFunction", "Properties", "Events", "Delivery", "Properties", "TimeoutInMillis"];
    broken([
        // `sam deploy` keeps the parameters of the last deployment, `sam build` does not.
        ("the build and the deployment may differ", raw(&["Globals", "Function", "Architectures", "0"]).is_string()),
        ("a value of Mappings is a text, the import wants a number", raw(&route).is_number()),
        ("a warning of the import stops the deployment", template.property("Gateway", &["FailOnWarnings"]).is_null()),
        // Any other name is added to a policy of the account, which has room for a few.
        ("the access log's name", group.as_str().is_some_and(|name| name.starts_with("/aws/vendedlogs/"))),
    ])
}

#[test]
fn an_account_accepts_the_template_and_reads_it_as_meant() {
    Rule(accepted).finds([
        ("Architectures: [arm64]", "Architectures: [!Ref Architecture]", "build"),
        ("TimeoutInMillis: 10000", "TimeoutInMillis: !FindInMap [Queue, Visibility, Seconds]", "number"),
        ("      StageName: $default\n", "      StageName: $default\n      FailOnWarnings: true\n", "warning"),
        ("/aws/vendedlogs/hookonce/", "/hookonce/", "access log"),
    ]);
}

#[test]
fn each_function_is_built_from_its_crate() {
    Rule(builds).finds([("Handler: hookonce-relay", "Handler: bootstrap", "RelayFunction")]);
}

/// What is wrong with what a function logs. Lambda's own lines for each invocation that ends well cost more than the
/// function's. A line without a level, as those with metrics, counts as INFO: a higher level would drop them.
fn logged(template: &Template) -> Vec<String> {
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let wrong = functions.filter(|function| {
        let config = template.property(function, &["LoggingConfig"]);
        let group = function.replace("Function", "Logs");
        config
            != json!({ "LogGroup": group, "LogFormat": "JSON", "SystemLogLevel": "WARN", "ApplicationLogLevel": "TRACE" })
    });
    wrong.map(|function| format!("{function}: its log")).collect()
}

#[test]
fn lambda_logs_what_fails_and_drops_no_line_of_a_function() {
    Rule(logged).finds([
        ("ApplicationLogLevel: TRACE", "ApplicationLogLevel: WARN", "WebhookFunction: its log"),
        ("SystemLogLevel: WARN", "SystemLogLevel: INFO", "WebhookFunction: its log"),
        ("LogGroup: !Ref RelayLogs", "LogGroup: !Ref WorkerLogs", "RelayFunction: its log"),
    ]);
}

/// What a stack's outputs lack or say wrongly. The command line reads them and the parameters from `CloudFormation`
/// (`tools/cli/src/stack/connection/outputs.rs`), and people and their own templates read the rest.
fn misnamed(template: &Template) -> Vec<String> {
    let functions = ["WebhookFunction", "WorkerFunction", "RelayFunction", "DispatcherFunction"];
    let tables = ["InboxTable", "DomainTable", "DocumentsTable"];
    let named = tables.into_iter().chain(functions).map(|name| (name, json!(name)));
    let others = [
        ("QueueUrl", json!("HintQueue")),
        ("SlowQueueUrl", json!("SlowQueue")),
        ("DeadLetterQueueUrl", json!("DeadLetterQueue")),
        ("EffectsQueueUrl", json!("EffectsQueue")),
        ("WebhookUrl", json!("PublicUrl/webhooks/")),
        ("Version", json!(env!("CARGO_PKG_VERSION"))), // Mappings, Release
    ];
    let outputs = template.at(&["Outputs"]);
    let wrong = named.chain(others).filter(|(name, expected)| outputs[name]["Value"] != *expected);
    let parameters = template.parameters();
    let read = ["Tables", "DocumentKeyArn"];
    let unknown = read.into_iter().filter(|name| !parameters.contains(name));
    wrong
        .map(|(name, _)| format!("the output {name}"))
        .chain(unknown.map(|name| format!("no parameter {name}")))
        .collect()
}

#[test]
fn outputs_and_parameters_name_what_people_and_commands_need() {
    Rule(misnamed).finds([
        (
            "    Value: !If [MakesDocumentsTable, !Ref DocumentsTable,",
            "    Value: !If [MakesDocumentsTable, !Ref DomainTable,",
            "the output DocumentsTable",
        ),
        ("  SlowQueueUrl:\n", "  SlowQueue:\n", "the output SlowQueueUrl"),
        (concat!("      Text: ", env!("CARGO_PKG_VERSION")), "      Text: 0.0.9", "the output Version"),
        ("  DocumentKeyArn:\n    Type", "  DocumentsKeyArn:\n    Type", "no parameter DocumentKeyArn"),
    ]);
}
