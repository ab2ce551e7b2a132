//! Functions as processes, with scripts instead of binaries.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hookonce_local::ambient::Ambient;
use hookonce_local::invoke::{Invoke as _, InvokeBytes as _, InvokeError, Isolated};
use hookonce_local::process::{Lines, ProcessConfig, ProcessInvoke};
use serde_json::json;
use uuid::Uuid;

const RUNTIME: &str = include_str!("runtime.bash");

/// A function that does this with each invocation.
fn function(then: &str) -> (tempfile::TempDir, ProcessInvoke) {
    let folder = tempfile::tempdir().unwrap();
    let [source, binary] = ["source", "function"].map(|name| folder.path().join(name));
    std::fs::write(&source, format!("{RUNTIME}while take; do\n{then}\ndone\n")).unwrap();
    // By another process: while this one has a file open for writing, a test beside this one may hand that on to a
    // child, and then nobody can run it.
    let installed = std::process::Command::new("install").args(["-m", "755"]).args([&source, &binary]).status();
    assert!(installed.unwrap().success());
    let environment = vec![("GREETING".to_owned(), "hello".to_owned())];
    (folder, invoke(ProcessConfig { environment, concurrency_max: 2, ..config(binary) }))
}

fn config(binary: PathBuf) -> ProcessConfig {
    let (arguments, environment) = (Vec::new(), Vec::new());
    ProcessConfig {
        binary,
        arguments,
        api_scheme: "",
        environment,
        lines: None,
        concurrency_max: 1,
        slot_wait_max: None,
    }
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
    let function = invoke(config(binary));
    let error = function.invoke(json!(1)).await.unwrap_err();
    assert!(error.to_string().contains("absent failed"), "{error}");
}

#[tokio::test]
async fn renewed_processes_run_the_new_code_and_are_given_their_arguments() {
    let (folder, _) = function(r#"answer response "\"$1 $$\"""#);
    let binary = folder.path().join("function");
    let function = invoke(ProcessConfig { arguments: vec!["first".to_owned()], ..config(binary) });
    let answer = async || function.invoke(json!(1)).await.unwrap().as_str().unwrap().to_owned();
    let first = answer().await;
    assert!(first.starts_with("first "), "{first}");
    assert_eq!(answer().await, first, "one process answers one invocation after the other");
    function.renew();
    assert_ne!(answer().await, first, "another process answers");
}

#[tokio::test]
async fn a_process_that_is_busy_when_all_are_renewed_ends_its_invocation_and_takes_no_further_one() {
    let wait = r#"[ "$event" = 2 ] || until [ -e "${0%/*}/gate" ]; do sleep 0.01; done"#;
    let (folder, function) = function(&format!("{wait}\nanswer response $$"));
    let busy = tokio::spawn({
        let function = function.clone();
        async move { function.invoke(json!(1)).await.unwrap() }
    });
    // Another process answers meanwhile, so the first one is busy.
    let other = function.invoke(json!(2)).await.unwrap();
    function.renew();
    std::fs::write(folder.path().join("gate"), "").unwrap();
    let first = busy.await.unwrap();
    let next = function.invoke(json!(2)).await.unwrap();
    assert!(next != first && next != other, "{next}");
}

/// Notes each event in a file beside the function, and ends those that are not 0 at once. The 0 waits for another file.
const NOTING: &str = r#"cd "${0%/*}"
echo $event >>noted
[ $event != 0 ] || until [ -e gate ]; do sleep 0.01; done
answer response $event"#;

/// A handler must not be blamed for the time that a call waits.
#[tokio::test]
async fn an_invocation_without_a_free_process_is_throttled_and_never_begins() {
    let (folder, _) = function(NOTING);
    let config = config(folder.path().join("function"));
    let function = invoke(ProcessConfig { slot_wait_max: Some(Duration::from_millis(20)), ..config });
    let slot = function.slot().await.unwrap();
    let busy = tokio::spawn({
        let function = function.clone();
        async move { function.invoke_bytes(slot, "0".into()).await.unwrap() }
    });
    // The limit is for the wait alone: what runs takes as long as it does.
    let isolated = Isolated::new(function.clone(), Duration::from_mins(1));
    let throttled = tokio::time::timeout(Duration::from_secs(10), isolated.invoke_bytes("1".into())).await;
    assert!(matches!(throttled, Ok(Err(InvokeError::Throttled))), "{throttled:?}");
    std::fs::write(folder.path().join("gate"), "").unwrap();
    assert_eq!(busy.await.unwrap(), "0");
    assert_eq!(function.invoke(json!(2)).await.unwrap(), json!(2));
    assert_eq!(std::fs::read_to_string(folder.path().join("noted")).unwrap(), "0\n2\n");
}

#[tokio::test]
async fn an_invocation_whose_caller_has_gone_while_it_waited_never_begins() {
    let (folder, _) = function(NOTING);
    let function = Isolated::new(invoke(config(folder.path().join("function"))), Duration::from_mins(1));
    let mut busy = std::pin::pin!(function.invoke_bytes("0".into()));
    assert!(futures::poll!(&mut busy).is_pending());
    let gone = tokio::time::timeout(Duration::from_millis(20), function.invoke_bytes("1".into())).await;
    assert!(gone.is_err());
    std::fs::write(folder.path().join("gate"), "").unwrap();
    assert_eq!(busy.await.unwrap(), "0");
    assert_eq!(function.invoke_bytes("2".into()).await.unwrap(), "2");
    assert_eq!(std::fs::read_to_string(folder.path().join("noted")).unwrap(), "0\n2\n");
}

#[tokio::test]
async fn what_a_process_prints_is_passed_on_line_by_line() {
    let (folder, _) = function("echo out; echo error >&2; answer response 1");
    let (sender, mut printed) = tokio::sync::mpsc::unbounded_channel();
    let lines = Some(Lines::to(move |line| sender.send(line.to_owned()).unwrap()));
    let function = invoke(ProcessConfig { lines, ..config(folder.path().join("function")) });
    function.invoke(json!(1)).await.unwrap();
    let mut both = [printed.recv().await.unwrap(), printed.recv().await.unwrap()];
    both.sort();
    assert_eq!(both, ["error", "out"]);
}

/// A page's image and link come without an origin. Each request here knows the key.
#[tokio::test]
async fn a_web_page_gets_no_event_and_gives_no_answer_and_neither_does_another_invocation() {
    let (_folder, function) = function(
        r#"next="GET $path/next" own="POST $path/$id/response"
for site in "Host: evil.example" "Host: $host"$'\r\n'{"Origin: http://evil.example","Sec-Fetch-Site: cross-site"}; do
    statuses+=$(status_of "$next" "$site"),$(status_of "$own" "$site"),
done
answer response "[$statuses$(status_of "POST $path/other/response" "Host: $host")]""#,
    );
    assert_eq!(function.invoke(json!(1)).await.unwrap(), json!([403, 403, 403, 403, 403, 403, 400]));
}

/// It finds the port in the list of sockets, and may even have seen the id of the invocation.
#[tokio::test]
async fn a_program_without_the_key_gets_no_event_and_gives_no_answer() {
    let (_folder, function) = function(
        r#"for key in "" /0123456789abcdef0123456789abcdef "${path%%/2018*}0" //; do
    for request in "GET $key$invocations/next" "POST $key$invocations/$id/response" "POST $key$invocations/$id/error"
    do statuses+=$(status_of "$request" "Host: $host"),; done
done
answer response "[${statuses%,}]""#,
    );
    assert_eq!(function.invoke(json!(1)).await.unwrap(), json!(vec![404; 12]));
}
