//! Functions as processes, with scripts instead of binaries.

use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use hookonce_local::ambient::Ambient;
use hookonce_local::invoke::{Invoke as _, InvokeError};
use hookonce_local::process::{ProcessConfig, ProcessInvoke};
use serde_json::json;
use uuid::Uuid;

/// Speaks to the Runtime API as a function would. `take` leaves the invocation in `$id` and `$event`.
const RUNTIME: &str = r#"#!/usr/bin/env bash
api=${AWS_LAMBDA_RUNTIME_API/://}
path=/2018-06-01/runtime/invocation
take() {
    exec 3<>"/dev/tcp/$api"
    printf 'GET %s/next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' "$path" >&3
    while IFS= read -r line <&3 && line=${line%$'\r'} && [ -n "$line" ]; do
        case $line in
            lambda-runtime-aws-request-id:*) id=${line#*: } ;;
            content-length:*) length=${line#*: } ;;
        esac
    done
    IFS= read -r -N "$length" event <&3
}
answer() {
    exec 3<>"/dev/tcp/$api"
    printf 'POST %s/%s/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' \
        "$path" "$id" "$1" "${#2}" "$2" >&3
    cat <&3 >/dev/null
}
"#;

/// A function that does this with each invocation.
fn function(then: &str) -> (tempfile::TempDir, ProcessInvoke) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("function");
    std::fs::write(&binary, format!("{RUNTIME}while take; do\n{then}\ndone\n")).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let environment = vec![("GREETING".to_owned(), "hello".to_owned())];
    (folder, invoke(ProcessConfig { binary, environment, concurrency_max: 2 }))
}

#[expect(clippy::disallowed_methods, reason = "the deadline is passed to a separate process")]
fn invoke(config: ProcessConfig) -> ProcessInvoke {
    ProcessInvoke::new(config, Ambient::new(SystemTime::now, Uuid::new_v4))
}

#[tokio::test]
async fn a_process_gets_the_event_and_its_environment_and_answers() {
    let (_folder, function) =
        function(r#"answer response "{\"$GREETING\":$event,\"name\":\"$AWS_LAMBDA_FUNCTION_NAME\"}""#);
    for number in [1, 2] {
        let response = function.invoke(json!({ "number": number })).await.unwrap();
        assert_eq!(response, json!({ "hello": { "number": number }, "name": "function" }));
    }
}

#[tokio::test]
async fn an_error_that_a_process_reports_fails_the_invocation() {
    let (_folder, function) = function(r#"answer error '{"errorType":"Boom","errorMessage":"it broke"}'"#);
    let error = function.invoke(json!(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "the function failed with Boom: it broke");
}

#[tokio::test]
async fn a_process_that_is_killed_fails_its_invocation_and_the_next_starts_another() {
    let (folder, function) = function(r#"[ "$event" = '"live"' ] || kill -KILL $$; answer response '"alive"'"#);
    let error = function.invoke(json!("die")).await.unwrap_err();
    assert!(matches!(&error, InvokeError::Failed { error_type, .. } if error_type == "Runtime.ExitError"), "{error}");
    assert_eq!(function.invoke(json!("live")).await.unwrap(), json!("alive"));
    drop(folder);
}

#[tokio::test]
async fn a_binary_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("absent");
    let function = invoke(ProcessConfig { binary, environment: Vec::new(), concurrency_max: 1 });
    let error = function.invoke(json!(1)).await.unwrap_err();
    assert!(error.to_string().contains("absent failed"), "{error}");
}
