//! The commands on a named stack: by its tables, or by the parameter that the template writes.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};

use serde_json::json as object;

use crate::aws::{Alarm, Aws, CALLER, Deployed, Interception, Request, SIGNED_IN, now, of_the_template};
use crate::stacks::{Stack, Tables};
use crate::support::{Ended, Workspace, json, listen, text, wait_until};

const FILE: &str = "events/deliveries/stripe-invoice-paid.json";
const KEY: &str = "evt_1SampleInvoicePaid";

#[test]
fn a_named_stack_is_read_as_the_running_one() {
    let stack = Stack::new();
    stack.run(&["send", "--provider", "stripe", "--file", FILE]).exits(0);
    stack.wait_for("APPLIED", 1);
    let here = json(&stack.run(&["list", "--since", "1h", "--json"]));
    let (aws, variables) = Aws::of_running(&stack, &[]);
    // A folder without a running stack.
    let elsewhere = Workspace::new();
    let listed = elsewhere.run_with_environment(&["list", "--since", "1h", "--json", "--stack", "inbox"], &variables);
    assert_eq!(json(&listed), here);
    let show = ["show", "stripe", KEY, "--json", "--stack", "inbox"];
    let shown = json(&elsewhere.run_with_environment(&show, &variables));
    let same = here[0].as_object().unwrap().iter().all(|(name, value)| shown[name] == *value);
    assert!(same, "{shown}");
    assert_eq!(aws.account().requests[0].body["StackName"], "inbox");
}

#[test]
fn a_stack_that_is_not_found_is_refused_with_the_next_step() {
    let workspace = Workspace::new();
    for (aws, exit, expected) in [
        (Aws::with_stack(BTreeMap::new()), 2, "deploy it again from this release's template.yaml"),
        (Aws::start(), 2, "check the stack's name and the AWS region"),
        (Aws::refusing("AccessDenied"), 3, "ask for the permission cloudformation:DescribeStacks"),
        (Aws::refusing("ExpiredToken"), 3, "sign in again"),
        (Aws::refusing("InternalFailure"), 3, "check the region, the credentials"),
    ] {
        workspace.run_with_environment(&["list", "--stack", "inbox"], &aws.signed_in()).exits(exit).prints(expected);
    }
    let named = |name: &str| workspace.run_with_environment(&["list", "--stack", name], &Aws::start().signed_in());
    named("arn:aws:cloudformation:eu-west-1:123456789012:stack/inbox/1").exits(2).prints("pass the stack's name alone");
    // CloudFormation answers a few of these calls in a second, for a whole account.
    let busy = Aws::with_stack(of_the_template(&[]));
    busy.account().snags.extend([(); 2].map(|()| ("DescribeStacks", Interception::Answered("Throttling"))));
    let route = ["route", "show", "--stack", "inbox"];
    workspace.run_with_environment(&route, &busy.signed_in()).exits(1).prints("there is no route set");
    assert_eq!(busy.account().count("DescribeStacks"), 3);
    let mut away = Aws::start();
    "http://127.0.0.1:9".clone_into(&mut away.url);
    workspace.run_with_environment(&["list", "--stack", "inbox"], &away.signed_in()).exits(3);
    let nowhere = workspace.run_with_environment(&["list", "--stack", "inbox"], &away.environment(&SIGNED_IN[..2]));
    nowhere.exits(2).prints("set AWS_DEFAULT_REGION");
}

/// A release that came later may have given what this one writes another meaning.
#[test]
fn a_stack_of_a_later_release_is_read_and_not_changed() {
    let stack = Stack::with(0, 1);
    let deployed = Deployed::of(&stack, &[("Version", "100.0.0")]);
    let discard = ["discard", "--key", "stripe", "evt_0", "--reason", "test data"];
    let refused = "the stack is of release 100.0.0, and this command of";
    for changing in [
        &[&discard[..], &["--yes"]].concat()[..],
        &["pause", "worker", "--reason", "a test", "--yes"],
        &["resume", "worker"],
        &["endpoint", "add", "shop", "--provider", "github"],
        &["endpoint", "remove", "stripe", "--yes"],
        &["route", "deploy", "routes.json"],
    ] {
        deployed.workspace.write("routes.json", br#"{"version": 1, "otherwise": "dead", "routes": []}"#);
        deployed.aws.account().put("endpoint", "stripe", r#"{"provider": "github", "secrets": ["0123456789abcdef"]}"#);
        deployed.run(changing).exits(2).prints_all(&[refused, "use the hookonce of the deployed release"]);
    }
    assert_eq!(stack.show("evt_0")["state"], "DEAD");
    deployed.run(&["list"]).exits(0).prints("evt_0");
    deployed.run(&["endpoint", "list"]).exits(0).prints("stripe");
    deployed.run(&discard).exits(0).prints("would discard 1 record");
}

/// A discarded record expires as the stack's records do, and the trail names the caller's AWS identity.
#[test]
fn an_order_keeps_to_the_retention_of_records() {
    let stack = Stack::with(0, 2);
    let deployed = Deployed::of(&stack, &[]);
    let discard = |key: &str| deployed.run(&["discard", "--key", "stripe", key, "--reason", "test data", "--yes"]);
    discard("evt_0").exits(0);
    let shown = stack.show("evt_0");
    let tables = Tables::of(&stack);
    let expires_at = tables.number(&tables.inbox, "in#stripe#evt_0", "hookonce_expires_at");
    let left = expires_at - i64::try_from(now()).unwrap();
    assert!((35 * 86_400 - 600..=35 * 86_400).contains(&left), "{left} s");
    assert_eq!(shown["operations"][0]["by"], CALLER);

    let expired = ("GetCallerIdentity", Interception::Answered("ExpiredToken"));
    deployed.aws.account().snags.push_back(expired);
    discard("evt_1").exits(3).prints("sign in again");
    assert_eq!(stack.show("evt_1")["state"], "DEAD");
}

/// The environment of someone who is not signed in, on a machine whose metadata service answers every request with 403:
/// that of a container, say.
fn signed_out(workspace: &Workspace, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let refusing = listen(|stream| {
        let mut stream = BufReader::new(stream);
        while Request::read(&mut stream).is_some() {
            let _ = stream.get_mut().write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let empty = workspace.write("empty", b"");
    let files = [("AWS_CONFIG_FILE", empty.as_str()), ("AWS_SHARED_CREDENTIALS_FILE", &empty), ("HOME", "none")];
    let mut variables = Aws::start().environment(&[more, &files].concat());
    variables.retain(|(name, _)| name != "AWS_EC2_METADATA_DISABLED");
    variables.push(("AWS_EC2_METADATA_SERVICE_ENDPOINT".to_owned(), format!("http://{refusing}")));
    variables
}

#[test]
fn a_missing_region_or_profile_is_one_error_line() {
    let workspace = Workspace::new();
    let nowhere = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let region = ("AWS_REGION", "us-east-1");
    let stderr_of = |arguments: &[&str], more: &[(&str, &str)]| {
        let output = workspace.run_with_environment(arguments, &signed_out(&workspace, more));
        String::from_utf8(output.stderr).unwrap()
    };
    for command in ["list", "status"] {
        let stderr = stderr_of(&[command, "--stack", "nope"], &nowhere);
        assert!(stderr.starts_with("error: no AWS region is set\n") && stderr.lines().count() == 2, "{stderr}");
        for more in [&[("AWS_PROFILE", "zz")][..], &[("AWS_PROFILE", "zz"), region]] {
            let stderr = stderr_of(&[command, "--stack", "nope"], more);
            assert!(stderr.starts_with("error: the AWS profile zz does not exist\n"), "{stderr}");
            assert_eq!(stderr.lines().count(), 2, "{stderr}");
        }
    }
    let stderr = stderr_of(&["doctor", "--stack", "nope"], &nowhere);
    assert!(!stderr.contains("WARN"), "{stderr}");
}

#[test]
fn missing_credentials_are_one_error_line() {
    let workspace = Workspace::new();
    let refused = signed_out(&workspace, &[("AWS_REGION", "us-east-1")]);
    let off = ("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned());
    let absent = [refused.clone(), vec![off]].concat();
    for (variables, expected) in
        [(&absent, "error: no AWS credentials were found"), (&refused, "error: the AWS credentials cannot be used: ")]
    {
        let listed = workspace.run_with_environment(&["list", "--stack", "inbox"], variables).exits(3);
        let stderr = String::from_utf8(listed.stderr).unwrap();
        let lines: Vec<_> = stderr.lines().collect();
        assert!(lines[0].starts_with(expected), "{stderr}");
        assert!(lines[1].starts_with("  try: sign in") && lines.len() == 2, "{stderr}");
    }
}

/// The signatures that the command makes with this profile, and its output.
fn listed_under(profile: &str) -> (Vec<String>, String) {
    let workspace = Workspace::new();
    let aws = Aws::with_stack(BTreeMap::new());
    let config = workspace.write("config", format!("[profile test]\nregion = eu-central-1\n{profile}").as_bytes());
    // The person who runs the tests may be signed in. The command must not find those credentials.
    let variables = aws.environment(&[("AWS_CONFIG_FILE", &config), ("AWS_PROFILE", "test"), ("HOME", "none")]);
    let listed = workspace.run_with_environment(&["list", "--stack", "inbox"], &variables);
    let signed = aws.account().requests.iter().map(|request| request.authorization.clone()).collect();
    (signed, text(&listed))
}

#[cfg(unix)]
#[test]
fn a_profile_may_get_its_credentials_from_a_process() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let credentials = object!({ "Version": 1, "AccessKeyId": "AKIDOFTHEPROCESS", "SecretAccessKey": "secret" });
    std::fs::write(script.path(), format!("echo '{credentials}'")).unwrap();
    let (signed, stderr) = listed_under(&format!("credential_process = sh {}\n", script.path().display()));
    assert!(signed.len() == 1 && signed[0].contains("Credential=AKIDOFTHEPROCESS/"), "{signed:?}\n{stderr}");
    assert!(signed[0].contains("/eu-central-1/cloudformation/aws4_request"), "{signed:?}");
}

/// Nobody is signed in, so the command must fail, but not because the SDK lacks a feature for this profile.
#[test]
fn a_profile_may_sign_in_on_a_web_page() {
    for (profile, expected) in [
        (
            "sso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Reader\n\n[sso-session corp]\n\
             sso_region = us-east-1\nsso_start_url = https://example.invalid/start\n",
            "failed to load the cached SSO token",
        ),
        ("login_session = arn:aws:iam::123456789012:user/reader\n", "/.aws/login/cache/"),
    ] {
        let (signed, answer) = listed_under(profile);
        assert!(signed.is_empty(), "{signed:?}");
        assert!(answer.contains(expected) && !answer.contains("feature"), "{answer}");
    }
}

#[test]
fn status_prints_alarms_the_relay_and_the_caller() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let aws = &deployed.aws;
    let status = |more: &[&str]| deployed.run(&[&["status"], more].concat());
    aws.account().relay_ran_at = Some(now() - 20);
    let calm = status(&[]).exits(0).prints_all(&["nothing needs a person", CALLER, env!("CARGO_PKG_VERSION")]);
    calm.prints_all(&["alarms", "relay ran", "0 of 14 raised"]);

    let alarm = |name: &str, what: &str| Alarm::new(&format!("hookonce/{name}"), what, true);
    let raised = [
        alarm("inbox-2/page/RecordsDied", "of another stack"),
        alarm("inbox/notice/NeedsALook", "See docs/run/runbook.md#needs-a-look"),
        alarm("inbox/page/RelayDoesNotRun", "See docs/run/runbook.md#the-relay-does-not-run"),
    ];
    aws.account().alarms.extend(raised);
    aws.account().relay_ran_at = Some(now() - 660);
    aws.account().oldest_messages.insert("hookonce-hints".to_owned(), 754);
    let shown = json(&status(&["--json"]).exits(1));
    assert_eq!(shown["needs"], object!(["alarm:RelayDoesNotRun", "alarm:NeedsALook", "relay_away"]));
    assert_eq!(shown["aws"]["alarms"][0], object!({ "name": "RelayDoesNotRun", "severity": "page" }));
    let ages = ["queue", "effects_queue"].map(|queue| shown[queue]["oldest_age_ms"].clone());
    assert_eq!(ages, [object!(754_000), object!(null)]);
    status(&[]).prints_all(&[
        "the oldest is 12m 34s old",
        "page RelayDoesNotRun, raised for 10m",
        "See docs/run/runbook.md#the-relay-does-not-run",
    ]);

    // The rest is shown.
    aws.account().snags.push_back(("DescribeAlarms", Interception::Answered("AccessDenied")));
    status(&[]).exits(3).prints_all(&["ask for the permission cloudwatch:DescribeAlarms", "none is dead"]);

    aws.account().alarms.iter_mut().for_each(|alarm| alarm.actions.clear());
    status(&[]).prints("16 notify nobody");
    aws.account().alarms.clear();
    aws.account().relay_ran_at = Some(now() - 20);
    assert_eq!(json(&status(&["--json"]).exits(1))["needs"], object!(["no_alarms"]));
}

/// Whoever looks does so in an outage: what answers is told, and what does not is named.
#[test]
fn status_prints_what_it_can_when_a_table_or_the_caller_is_not_known() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[("InboxTable", "gone")]);
    let aws = &deployed.aws;
    let status = || deployed.run(&["status", "--json"]);
    aws.account().relay_ran_at = Some(now() - 20);
    aws.account().alarms.push(Alarm::new("hookonce/inbox/page/WebhookFails", "See docs/run/runbook.md", true));
    aws.account().snags.push_back(("GetCallerIdentity", Interception::Answered("ExpiredToken")));
    wait_until("the queue is empty", || json(&stack.run(&["status", "--json"]))["queue"]["in_flight"] == 0);
    let shown = status().exits(3);
    let unknown = ["pending", "waiting", "effects", "dead", "caller"].map(|part| format!("{part}_unknown"));
    let needs: Vec<_> = std::iter::once("alarm:WebhookFails".to_owned()).chain(unknown).collect();
    assert_eq!(json(&shown)["needs"], object!(needs), "{}", text(&shown));
    assert_eq!((&json(&shown)["dead"], &json(&shown)["queue"]["in_flight"]), (&object!(null), &object!(0)));
    let printed = String::from_utf8(deployed.run(&["status"]).stdout).unwrap();
    let unknown: Vec<_> = printed.lines().filter(|line| line.starts_with("not known: ")).collect();
    assert!(
        matches!(unknown.as_slice(), [one] if one.starts_with("not known: pending, waiting, effects, dead: ")),
        "each cause once: {printed}"
    );
    aws.account().stack = None;
    status().exits(2).prints("check the stack's name");
}

/// After a containment, or a deployment that spoils events: what runs since when, and whether anything runs.
#[test]
fn status_prints_what_code_runs_since_when_and_what_is_off() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let aws = &deployed.aws;
    aws.account().relay_ran_at = Some(now() - 20);
    let status = |more: &[&str]| deployed.run(&[&["status"], more].concat());
    let shown = json(&status(&["--json"]).exits(0))["aws"].clone();
    assert_eq!((&shown["worker_is_on"], &shown["dispatcher_is_on"]), (&object!(true), &object!(true)));
    for role in ["webhook", "worker", "relay", "dispatcher"] {
        let code = object!({ "changed_at_ms": 1_795_356_000_000_i64, "code_sha256": format!("hash-of-inbox-{role}") });
        assert_eq!(shown["functions"][role], code);
    }
    for (function, need, advice) in [
        ("inbox-worker", "worker_off", "  hookonce resume worker --stack inbox\n"),
        ("inbox-dispatcher", "dispatcher_off", "  hookonce resume dispatcher --stack inbox\n"),
    ] {
        aws.account().off = Some(function);
        assert_eq!(json(&status(&["--json"]).exits(1))["needs"], object!([need]));
        status(&[]).prints_all(&[&format!("code hash-of-{function}, off"), "code hash-of-inbox-relay\n", advice]);
    }
    aws.account().off = None;
    aws.account().snags.push_back(("ListEventSourceMappings", Interception::Answered("AccessDeniedException")));
    status(&[]).exits(3).prints("ask for the permission lambda:ListEventSourceMappings");
}

/// Without a set that workers take, all events wait.
#[test]
fn status_prints_that_a_route_set_is_gone_or_refused() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let account = || deployed.aws.account();
    account().relay_ran_at = Some(now() - 20);
    let needs = || json(&deployed.run(&["status", "--json"]).exits(1))["needs"].clone();
    account().put("routes", "set", r#"{"version": 1, "otherwise": "perhaps", "routes": []}"#);
    assert_eq!(needs(), object!(["routes_refused"]));
    account().remove("routes", "set");
    assert_eq!(needs(), object!(["routes_refused"]));
    deployed.run(&["status"]).prints_all(&[
        "there is no route set, so all events wait\n  hookonce doctor --stack inbox\n",
        "hookonce explain routes-are-refused",
    ]);
    account().snags.push_back(("GetItem", Interception::Answered("AccessDeniedException")));
    let refused = json(&deployed.run(&["status", "--json"]).exits(3));
    assert_eq!(refused["needs"], object!(["routes_unknown"]));
}

/// A minute has peaks, so 429 comes before the minute is full.
#[test]
fn status_prints_that_requests_come_near_the_limit_of_the_gateway() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let account = || deployed.aws.account();
    account().relay_ran_at = Some(now() - 20);
    account().requests_of_minute = Some(4_799);
    let shown = json(&deployed.run(&["status", "--json"]).exits(0));
    assert_eq!(shown["aws"]["requests"], object!({ "busiest_minute": 4_799, "limit_per_minute": 6_000 }));
    account().requests_of_minute = Some(4_800);
    assert_eq!(json(&deployed.run(&["status", "--json"]).exits(1))["needs"], object!(["requests_near_limit"]));
    let shown = deployed.run(&["status"]);
    // The second may change between the command's start and AWS's answer.
    let sentence =
        |ago: &str| format!("a minute had 4800 requests, {ago} ago: 80 % of what the gateway's limit allows");
    assert!(["10m", "9m 59s"].iter().any(|ago| text(&shown).contains(&sentence(ago))), "{}", text(&shown));
    shown.prints_all(&[
        "deploy the stack with a higher RequestsPerSecondMax and RequestBurstMax\n  hookonce explain the-gateway-refuses\n",
    ]);
    account().stack.as_mut().unwrap().remove("RequestsPerSecondMax");
    deployed.run(&["status"]).exits(0);
}

const EXPECTING: &str = r#"{"provider": "github", "secrets": ["0123456789abcdef"], "expect_every": "26h"}"#;

/// A duplicate shows that the provider still calls, so the log is asked for both.
#[test]
fn status_names_an_endpoint_that_is_silent_for_longer_than_its_document_expects() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let account = || deployed.aws.account();
    let status = |more: &[&str]| deployed.run(&[&["status"], more].concat());
    account().relay_ran_at = Some(now() - 20);
    let usual = r#"{"provider": "github", "secrets": ["0123456789abcdef"]}"#;
    account().put("endpoint", "usual", usual);
    account().age("endpoint", "usual", 400_000);
    status(&[]).exits(0);
    assert_eq!(account().count("StartQuery"), 0, "no document expects deliveries, so no log is searched");
    for endpoint in ["busy", "never", "quiet"] {
        account().put("endpoint", endpoint, EXPECTING);
        account().age("endpoint", endpoint, 400_000);
    }
    account().put("endpoint", "new", EXPECTING);
    let weekly = EXPECTING.replace("26h", "7days");
    account().put("endpoint", "weekly", &weekly);
    account().age("endpoint", "weekly", 700_000);
    let hours = |hours: u64| now() - hours * 3_600;
    account().taken = [("busy", hours(25)), ("quiet", hours(27)), ("weekly", hours(150))].into();
    let shown = json(&status(&["--json"]).exits(1));
    assert_eq!(shown["needs"], object!(["silent:never", "silent:quiet"]), "{shown}");
    assert_eq!(account().count("StartQuery"), 1);
    let quiet = &shown["silent"][1];
    assert_eq!((&quiet["endpoint"], &quiet["expect_every_ms"]), (&object!("quiet"), &object!(93_600_000)));
    status(&[]).exits(1).prints_all(&[
        "the endpoint never is silent: it expects a delivery every 1day 2h, and none came in that time",
        "the endpoint quiet is silent: it expects a delivery every 1day 2h, and the last one came 1day 3h ago",
        "  hookonce endpoint list --stack inbox\n  hookonce explain an-endpoint-is-silent\n",
    ]);
    deployed.run(&["doctor"]).prints("endpoints: the endpoint quiet is silent");
    account().snags.push_back(("StartQuery", Interception::Answered("AccessDeniedException")));
    let refused = json(&status(&["--json"]).exits(3));
    assert_eq!((&refused["needs"], &refused["silent"]), (&object!(["silent_endpoints_unknown"]), &object!(null)));
    account().snags.push_back(("StartQuery", Interception::Answered("AccessDeniedException")));
    deployed.run(&["doctor"]).prints("whether one is silent is not known: ");
}

/// Endpoints hold secrets. Who may not read them is told all the rest.
#[test]
fn status_without_a_right_to_endpoints_does_not_know_which_are_silent() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    deployed.aws.account().relay_ran_at = Some(now() - 20);
    wait_until("the queue is empty", || json(&stack.run(&["status", "--json"]))["queue"]["in_flight"] == 0);
    // The first query of the run is that of the documents.
    let refused = |refusal: &'static str| {
        deployed.aws.account().snags.push_back(("Query", Interception::Answered(refusal)));
        deployed.run(&["status", "--json"])
    };
    let denied = json(&refused("AccessDeniedException").exits(0));
    assert_eq!((&denied["silent"], &denied["needs"]), (&object!(null), &object!([])), "{denied}");
    deployed.aws.account().snags.push_back(("Query", Interception::Answered("AccessDeniedException")));
    deployed.run(&["status"]).exits(0).prints("you have no right to read the endpoints");
    let failed = json(&refused("ResourceNotFoundException").exits(3));
    assert_eq!(failed["needs"], object!(["silent_endpoints_unknown", "documents_unknown"]), "{failed}");
}
