//! `hookonce deploy` against a stand-in for `CloudFormation`. The check `release` runs it on another implementation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufReader, Write as _};
use std::process::Output;
use std::sync::{Arc, Mutex};

use crate::aws::{Request, SIGNED_IN};
use crate::support::{Ended as _, Workspace, listen};

const STACK_ID: &str = "arn:aws:cloudformation:us-east-1:123456789012:stack/inbox/1";

/// The answers to each action, in turn. The last one stays.
struct CloudFormation {
    answers: BTreeMap<&'static str, VecDeque<String>>,
    calls: Vec<BTreeMap<String, String>>,
}

/// The stand-in, and a folder to run commands in.
struct Account(Arc<Mutex<CloudFormation>>, String, Workspace);

impl Account {
    fn answering<const N: usize>(answers: [(&'static str, &[String]); N]) -> Self {
        let played = |(action, answers): (&'static str, &[String])| (action, answers.iter().cloned().collect());
        let mut answers: BTreeMap<_, VecDeque<_>> = answers.map(played).into();
        for action in [
            "CreateChangeSet",
            "DeleteChangeSet",
            "DeleteStack",
            "ExecuteChangeSet",
            "SetStackPolicy",
            "UpdateTerminationProtection",
        ] {
            answers.entry(action).or_insert_with(|| ["<Done/>".to_owned()].into());
        }
        answers.entry("GetTemplateSummary").or_insert_with(|| [parameters(&["AlarmTopicArn", "New", "Tables"])].into());
        let alarm = r#"{"MetricAlarms":[{"AlarmName":"hookonce/inbox/page/WebhookFails"}]}"#.to_owned();
        answers.entry("DescribeAlarms").or_insert_with(|| [alarm].into());
        answers.entry("ListTables").or_insert_with(|| [r#"{"TableNames":["other-InboxTable-1"]}"#.to_owned()].into());
        let played = Arc::new(Mutex::new(CloudFormation { answers, calls: Vec::new() }));
        let served = Arc::clone(&played);
        let address = listen(move |stream| {
            let mut stream = BufReader::new(stream);
            let Some(request) = Request::read(&mut stream) else { return };
            let mut form: BTreeMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
            if !request.operation().is_empty() {
                form = [("Action".to_owned(), request.operation().to_owned())].into();
            }
            let mut played = served.lock().unwrap();
            let answers = played.answers.get_mut(form["Action"].as_str()).unwrap_or_else(|| panic!("{form:?}"));
            let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
            played.calls.push(form);
            let status = if answer.starts_with("<ErrorResponse>") { "400 Bad Request" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close", answer.len());
            let _ = stream.get_mut().write_all(format!("{head}\r\n\r\n{answer}").as_bytes());
        });
        Self(played, format!("http://{address}"), Workspace::new())
    }

    fn deploy(&self, arguments: &[&str]) -> Output {
        let own = [
            ("AWS_ENDPOINT_URL_CLOUDFORMATION", self.1.as_str()),
            ("AWS_ENDPOINT_URL_CLOUDWATCH", self.1.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.1.as_str()),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_SHARED_CREDENTIALS_FILE", "none"),
            ("AWS_CONFIG_FILE", "none"),
        ];
        let variables: Vec<_> =
            own.iter().chain(&SIGNED_IN).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let words = [&["deploy", "--stack", "inbox", "--template", "https://bucket/template.json"], arguments].concat();
        self.2.run_with_environment(&words, &variables)
    }

    /// The actions that were called, without those that only read.
    fn acts(&self) -> Vec<String> {
        let played = self.0.lock().unwrap();
        let actions = played.calls.iter().map(|form| form["Action"].clone());
        let reads = ["Describe", "Get", "List"];
        actions.filter(|action| !reads.iter().any(|reads| action.starts_with(reads))).collect()
    }

    /// A field of the n-th call of an action. Empty if it is not there.
    fn field(&self, action: &str, nth: usize, name: &str) -> String {
        let played = self.0.lock().unwrap();
        let calls: Vec<_> = played.calls.iter().filter(|form| form["Action"] == action).collect();
        calls[nth].get(name).cloned().unwrap_or_default()
    }

    /// What the n-th change set says of alarms that roll it back.
    fn watched(&self, nth: usize) -> Vec<String> {
        let played = self.0.lock().unwrap();
        let mut calls = played.calls.iter().filter(|form| form["Action"] == "CreateChangeSet");
        let of_roll_back = |(name, value): (&String, &String)| {
            Some(format!("{}={value}", name.strip_prefix("RollbackConfiguration.")?))
        };
        calls.nth(nth).unwrap().iter().filter_map(of_roll_back).collect()
    }
}

/// A change set that removes what the stack was watched by until then.
const UNWATCHED: [&str; 2] = ["MonitoringTimeInMinutes=0", "RollbackTriggers="];

fn refusal(code: &str, message: &str) -> String {
    format!("<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>")
}

/// A list of members with these fields.
fn members(fields: &[&[(&str, &str)]]) -> String {
    let field = |(name, value): &(&str, &str)| format!("<{name}>{value}</{name}>");
    let member = |fields: &&[_]| format!("<member>{}</member>", fields.iter().map(field).collect::<Vec<_>>().concat());
    fields.iter().map(member).collect::<Vec<_>>().concat()
}

fn parameters(names: &[&str]) -> String {
    let fields: Vec<_> = names.iter().map(|name| [("ParameterKey", *name), ("ParameterValue", "set")]).collect();
    let fields: Vec<_> = fields.iter().map(<[_; 2]>::as_slice).collect();
    format!("<Answer><Parameters>{}</Parameters></Answer>", members(&fields))
}

/// A stack in a state, with a value of each of these parameters, of a release of hookonce or, with none, of something else.
fn stack(status: &str, names: &[&str], release: &str) -> String {
    let table = [("OutputKey", "InboxTable"), ("OutputValue", "inbox")];
    let version = [("OutputKey", "Version"), ("OutputValue", release)];
    let outputs = members(&[&table, &version]);
    let own = format!("<StackId>{STACK_ID}</StackId><StackStatus>{status}</StackStatus><Outputs>{outputs}</Outputs>");
    format!("<Answer><Stacks><member>{own}{}</member></Stacks></Answer>", parameters(names))
}

/// A stack of an earlier release that can be updated.
fn running() -> String {
    stack("UPDATE_COMPLETE", &["Tables", "AlarmTopicArn", "Old"], "0.0.9")
}

/// A page of a change set: of each change the action, the resource, its type and whether it is replaced.
fn page(changes: &[(&str, &str, &str, &str)], next: &str) -> String {
    let mut members = String::new();
    for (action, resource, kind, replacement) in changes {
        write!(
            members,
            "<member><Type>Resource</Type><ResourceChange><Action>{action}</Action><LogicalResourceId>{resource}</LogicalResourceId>\
             <ResourceType>AWS::{kind}</ResourceType><Replacement>{replacement}</Replacement></ResourceChange></member>"
        )
        .unwrap();
    }
    let next = if next.is_empty() { String::new() } else { format!("<NextToken>{next}</NextToken>") };
    format!("<Answer><Status>CREATE_COMPLETE</Status><Changes>{members}</Changes>{next}</Answer>")
}

/// Events, the newest first: of each the id, the resource, its state and why.
fn events(events: &[(&str, &str, &str, &str)]) -> String {
    let mut members = String::new();
    for (id, resource, status, reason) in events {
        let kind = if *resource == "inbox" { "AWS::CloudFormation::Stack" } else { "AWS::Lambda::Function" };
        write!(
            members,
            "<member><EventId>{id}</EventId><LogicalResourceId>{resource}</LogicalResourceId><ResourceType>{kind}</ResourceType>\
             <ResourceStatus>{status}</ResourceStatus><ResourceStatusReason>{reason}</ResourceStatusReason></member>"
        )
        .unwrap();
    }
    format!("<Answer><StackEvents>{members}</StackEvents></Answer>")
}

const FUNCTION: (&str, &str, &str, &str) = ("Modify", "WorkerFunction", "Lambda::Function", "False");
const ENDED: (&str, &str, &str, &str) = ("e3", "inbox", "UPDATE_COMPLETE", "");
const BEFORE: (&str, &str, &str, &str) = ("e1", "inbox", "UPDATE_COMPLETE", "");

#[test]
fn a_new_stack_is_made_and_then_protected() {
    let account = Account::answering([
        ("DescribeStacks", &[refusal("ValidationError", "Stack with id inbox does not exist")]),
        ("DescribeChangeSet", &[page(&[("Add", "InboxTable", "DynamoDB::Table", "")], "")]),
        (
            "DescribeStackEvents",
            &[
                events(&[("e1", "inbox", "REVIEW_IN_PROGRESS", "")]),
                events(&[
                    ("e3", "inbox", "CREATE_COMPLETE", ""),
                    ("e2", "InboxTable", "CREATE_COMPLETE", ""),
                    ("e1", "inbox", "REVIEW_IN_PROGRESS", ""),
                ]),
            ],
        ),
    ]);
    let deployed = account.deploy(&["AlarmTopicArn=arn:1=2"]);
    deployed.exits(0).prints_all(&[
        "the stack inbox is new in us-east-1: 1 resource; --plan lists them\nInboxTable: CREATE_COMPLETE\n",
        "the stack inbox is deployed: CREATE_COMPLETE. Next:\n",
        "\n  hookonce endpoint add github --provider github --stack inbox\n",
        "\n  hookonce route deploy routes.json --stack inbox\n",
        "\n  hookonce doctor --stack inbox\n",
    ]);
    assert_eq!(
        account.acts(),
        ["CreateChangeSet", "ExecuteChangeSet", "SetStackPolicy", "UpdateTerminationProtection"]
    );
    let field = |name: &str| account.field("CreateChangeSet", 0, name);
    assert_eq!(
        (field("ChangeSetType"), field("Capabilities.member.1")),
        ("CREATE".to_owned(), "CAPABILITY_IAM".to_owned())
    );
    assert_eq!(field("Parameters.member.1.ParameterValue"), "arn:1=2");
    assert_eq!(field("Parameters.member.2.ParameterKey"), "", "the template has its own defaults");
    assert_eq!(account.watched(0), [""; 0], "there is no alarm yet");
    assert!(account.field("SetStackPolicy", 0, "StackPolicyBody").contains("Update:Replace"));
}

/// Empty tables would apply again what was applied before the stack was deleted.
#[test]
fn a_new_stack_beside_tables_of_an_earlier_one_is_refused_unless_it_is_allowed() {
    let left =
        r#"{"TableNames":["inbox-DomainTable-1","inbox-InboxTable-1","inbox-InboxTable-2","inbox-two-InboxTable-1"]}"#;
    let new = |table| ("Add", table, "DynamoDB::Table", "");
    let answering = |changes: &[_], tables: &str| {
        Account::answering([
            ("DescribeStacks", &[refusal("ValidationError", "Stack with id inbox does not exist")]),
            ("DescribeChangeSet", &[page(changes, "")]),
            ("ListTables", &[tables.to_owned()]),
            (
                "DescribeStackEvents",
                &[
                    events(&[("e1", "inbox", "REVIEW_IN_PROGRESS", "")]),
                    events(&[("e2", "inbox", "CREATE_COMPLETE", ""), ("e1", "inbox", "REVIEW_IN_PROGRESS", "")]),
                ],
            ),
        ])
    };
    let account = answering(&[new("InboxTable"), new("DocumentsTable")], left);
    account.deploy(&[]).exits(2).prints_all(&[
        "InboxTable would be empty, and an earlier stack left InboxTableName=inbox-InboxTable-1, or inbox-InboxTable-2",
        "add one parameter for each table (docs/run/upgrade.md#after-a-stack-was-deleted), or pass --allow RESOURCE",
    ]);
    assert_eq!(account.acts(), ["CreateChangeSet", "DeleteChangeSet"]);
    account.deploy(&["--allow", "InboxTable"]).exits(0);
    // It is given to the stack, whatever the list of changes says.
    let named = answering(&[new("InboxTable")], left);
    named.0.lock().unwrap().answers.insert("GetTemplateSummary", [parameters(&["InboxTableName"])].into());
    named.deploy(&["InboxTableName=inbox-InboxTable-2"]).exits(0);
    // What is not made is not looked for.
    answering(&[new("DocumentsTable")], left).deploy(&[]).exits(0);
    let denied = refusal("AccessDeniedException", "no");
    let unknown = answering(&[new("InboxTable")], &denied);
    unknown
        .deploy(&[])
        .exits(2)
        .prints("InboxTable would be empty, and whether an earlier stack left one is not known");
    unknown.deploy(&["--allow", "InboxTable"]).exits(0);
}

/// Whoever goes back by a word pauses the worker before. Whoever takes the folder of an old archive does not.
#[test]
fn an_earlier_release_is_refused_unless_it_is_allowed() {
    let account = Account::answering([
        ("DescribeStacks", &[stack("UPDATE_COMPLETE", &["Tables"], "999.0.0")]),
        ("DescribeChangeSet", &[page(&[FUNCTION], "")]),
        ("DescribeStackEvents", &[events(&[BEFORE]), events(&[ENDED, BEFORE])]),
    ]);
    let own = env!("CARGO_PKG_VERSION");
    account.deploy(&[]).exits(2).prints_all(&[
        &format!("nothing is changed: Release would go back from 999.0.0 to {own}: pause the worker first"),
        "--allow RESOURCE",
    ]);
    account.deploy(&["--allow", "Release"]).exits(0);
    assert!(!account.field("SetStackPolicy", 1, "StackPolicyBody").contains("NotResource"), "all is held meanwhile");
}

#[test]
fn a_stack_that_could_not_be_made_can_be_deleted() {
    let account = Account::answering([
        // CloudFormation refuses to use a value of before for a stack that was never made.
        ("DescribeStacks", &[stack("REVIEW_IN_PROGRESS", &["Tables"], "")]),
        ("DescribeChangeSet", &[page(&[("Add", "InboxTable", "DynamoDB::Table", "")], "")]),
        (
            "DescribeStackEvents",
            &[
                events(&[("e1", "inbox", "REVIEW_IN_PROGRESS", "")]),
                refusal("InternalFailure", "once"),
                events(&[("e2", "inbox", "ROLLBACK_COMPLETE", ""), ("e1", "inbox", "REVIEW_IN_PROGRESS", "")]),
            ],
        ),
    ]);
    account.deploy(&[]).exits(3).prints_all(&[
        "the stack inbox is not deployed: ROLLBACK_COMPLETE",
        "remove what is left with `aws cloudformation delete-stack --stack-name inbox`, and deploy again",
    ]);
    assert_eq!(account.acts(), ["CreateChangeSet", "ExecuteChangeSet"], "it is not protected from being deleted");
    let field = |name: &str| account.field("CreateChangeSet", 0, name);
    assert_eq!(
        (field("ChangeSetType"), field("Parameters.member.1.ParameterKey")),
        ("CREATE".to_owned(), String::new())
    );
}

#[test]
fn a_stack_of_which_nothing_is_heard_any_more_is_named_as_unprotected() {
    let account = Account::answering([
        ("DescribeStacks", &[refusal("ValidationError", "Stack with id inbox does not exist")]),
        ("DescribeChangeSet", &[page(&[("Add", "InboxTable", "DynamoDB::Table", "")], "")]),
        (
            "DescribeStackEvents",
            &[events(&[("e1", "inbox", "REVIEW_IN_PROGRESS", "")]), refusal("AccessDenied", "the session is over")],
        ),
    ]);
    account.deploy(&[]).exits(3).prints_all(&[
        "CloudFormation may go on without this command. Deploy again once it has ended: the stack inbox is not protected",
        "the session is over",
    ]);
    assert_eq!(account.acts(), ["CreateChangeSet", "ExecuteChangeSet"]);
}

#[test]
fn an_update_keeps_the_values_of_parameters_and_is_watched() {
    let same = stack("UPDATE_COMPLETE", &["Tables"], env!("CARGO_PKG_VERSION"));
    let account = Account::answering([
        ("DescribeStacks", &[running(), same]),
        (
            "DescribeChangeSet",
            &["<Answer><Status>CREATE_IN_PROGRESS</Status></Answer>".to_owned(), page(&[FUNCTION], "")],
        ),
        ("DescribeStackEvents", &[events(&[BEFORE]), events(&[BEFORE]), events(&[ENDED, BEFORE])]),
    ]);
    account.deploy(&["Tables=orders"]).exits(0).prints_all(&[
        "modify",
        "WorkerFunction",
        "the template has no parameter Old, so its value ends with this update",
        "has it: Old=set\n",
        "is deployed: UPDATE_COMPLETE. Next:\n",
        "\n  hookonce doctor --stack inbox\n  hookonce status --stack inbox\n  hookonce list --stack inbox --limit 10\n",
    ]);
    let field = |name: &str| account.field("CreateChangeSet", 0, name);
    assert_eq!(field("ChangeSetType"), "UPDATE");
    assert_eq!(
        (field("Parameters.member.1.ParameterKey"), field("Parameters.member.1.UsePreviousValue")),
        ("AlarmTopicArn".to_owned(), "true".to_owned())
    );
    assert_eq!(
        (field("Parameters.member.2.ParameterKey"), field("Parameters.member.2.ParameterValue")),
        ("Tables".to_owned(), "orders".to_owned())
    );
    assert_eq!(field("Parameters.member.3.ParameterKey"), "", "the stack has no value of New, and the template no Old");
    let alarm = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:hookonce/inbox/page/WebhookFails";
    let (arn, kind) =
        (format!("RollbackTriggers.member.1.Arn={alarm}"), "RollbackTriggers.member.1.Type=AWS::CloudWatch::Alarm");
    assert_eq!(account.watched(0), ["MonitoringTimeInMinutes=5", &arn, kind]);
    let protects = ["SetStackPolicy", "UpdateTerminationProtection"];
    let acts = [&["CreateChangeSet"][..], &protects, &["ExecuteChangeSet"], &protects].concat();
    assert_eq!(account.acts(), acts, "also while it runs");
    account.deploy(&["Tables=orders", "--plan"]).exits(0);
    assert_eq!(
        account.watched(1),
        UNWATCHED,
        "the same release is not watched: nobody waits for five minutes to change a parameter"
    );
}

#[test]
fn no_alarm_undoes_a_way_back_or_an_update_that_it_rings_before() {
    let alarm = |name: &str, state: &str| {
        format!(r#"{{"MetricAlarms":[{{"AlarmName":"hookonce/inbox/page/{name}","StateValue":"{state}"}}]}}"#)
    };
    let quiet = alarm("WebhookFails", "OK");
    for (release, alarms, says) in [
        ("999.0.0", &quiet, "the stack is of release 999.0.0, no earlier one: no alarm undoes this update"),
        ("tomorrow", &quiet, "the stack is of release tomorrow, no earlier one: no alarm undoes this update"),
        ("0.0.9", &alarm("WebhookFails", "ALARM"), "the alarm WebhookFails is on already"),
        ("0.0.9", &alarm("RecordsDied", "OK"), "WorkerFunction"),
    ] {
        let account = Account::answering([
            ("DescribeStacks", &[stack("UPDATE_COMPLETE", &["Tables"], release)]),
            ("DescribeChangeSet", &[page(&[FUNCTION], "")]),
            ("DescribeAlarms", std::slice::from_ref(alarms)),
        ]);
        account.deploy(&["--plan", "--allow", "Release"]).exits(0).prints(says);
        assert_eq!(account.watched(0), UNWATCHED, "{release}: {alarms}");
    }
}

#[test]
fn what_may_cost_a_table_is_refused_on_whichever_page_it_stands_unless_it_is_allowed() {
    let danger = ("Remove", "InboxTable", "DynamoDB::Table", "");
    let pages = [page(&[FUNCTION], "2"), page(&[danger], "")];
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[pages.clone(), pages.clone()].concat()),
        ("DescribeStackEvents", &[events(&[BEFORE]), events(&[ENDED, BEFORE])]),
    ]);
    account.deploy(&[]).exits(2).prints_all(&["nothing is changed: InboxTable would be removed", "--allow RESOURCE"]);
    let acts = ["CreateChangeSet", "DeleteChangeSet", "SetStackPolicy", "UpdateTerminationProtection"];
    assert_eq!(account.acts(), acts, "an earlier one that was killed may have left it open");
    assert_eq!(account.field("DescribeChangeSet", 1, "NextToken"), "2");
    account.deploy(&["--allow", "InboxTable"]).exits(0);
    let opened = [0, 1, 2]
        .map(|nth| account.field("SetStackPolicy", nth, "StackPolicyBody").contains("LogicalResourceId/InboxTable"));
    assert_eq!(opened, [false, true, false], "from then on it holds all");
}

/// What an update lets go, nobody else may use, whatever becomes of the update.
#[test]
fn what_was_allowed_is_taken_back_after_a_deployment_that_fails() {
    let danger = ("Modify", "InboxTable", "DynamoDB::Table", "True");
    let refused = || refusal("Throttling", "it was meant to fail");
    let closed = [true, false];
    for (action, answers, is_forgotten) in [
        ("ExecuteChangeSet", vec![refused()], true),
        ("UpdateTerminationProtection", vec![refused()], false),
        ("SetStackPolicy", vec!["<Done/>".to_owned(), refused()], false),
    ] {
        let account = Account::answering([
            ("DescribeStacks", &[running()]),
            ("DescribeChangeSet", &[page(&[danger], "")]),
            ("DescribeStackEvents", &[events(&[BEFORE])]),
            ("ExecuteChangeSet", &[refused()]),
            (action, &answers),
        ]);
        let ended = account.deploy(&["--allow", "InboxTable"]).exits(3).prints("it was meant to fail");
        let opened = [0, 1].map(|nth| account.field("SetStackPolicy", nth, "StackPolicyBody").contains("InboxTable"));
        assert_eq!(opened, closed, "{action}");
        if action == "SetStackPolicy" {
            ended.prints("may still let go InboxTable");
        }
        assert!(!is_forgotten || account.acts().contains(&"DeleteChangeSet".to_owned()), "{:?}", account.acts());
    }
}

/// An update that succeeded stays, whatever becomes of its protection.
#[test]
fn what_is_deployed_stays_so_if_it_cannot_be_protected() {
    let danger = ("Modify", "InboxTable", "DynamoDB::Table", "True");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[danger], "")]),
        ("DescribeStackEvents", &[events(&[BEFORE]), events(&[ENDED, BEFORE])]),
        ("SetStackPolicy", &["<Done/>".to_owned(), refusal("ExpiredToken", "the session is over")]),
    ]);
    account.deploy(&["--allow", "InboxTable"]).exits(3).prints_all(&[
        "the stack inbox is deployed: UPDATE_COMPLETE",
        "may still let go InboxTable",
        "the session is over",
    ]);
}

/// A stack with another inbox would apply again what is delivered again.
#[test]
fn another_table_in_the_place_of_one_is_refused_unless_it_is_allowed() {
    let of_stack = |table: &str| {
        let parameter =
            "<member><ParameterKey>InboxTableName</ParameterKey><ParameterValue>NAME</ParameterValue></member>";
        let parameters = format!("<Parameters>{}", parameter.replace("NAME", table));
        running().replacen("<Parameters>", &parameters, 1)
    };
    for (before, given, is_refused) in [
        ("", "InboxTableName=copy", true),
        ("inbox", "InboxTableName=copy", true),
        ("inbox", "InboxTableName=", true),
        ("inbox", "InboxTableName=inbox", false),
        ("", "InboxTableName=", false),
        ("", "InboxTableName=inbox", false),
        ("inbox", "New=1", false),
        // A template without the parameter makes a table.
        ("inbox", "Old=1", true),
    ] {
        let made = [("Add", "InboxTable", "DynamoDB::Table", "")];
        let account = Account::answering([
            ("DescribeStacks", &[of_stack(before)]),
            ("GetTemplateSummary", &[parameters(&["InboxTableName", "New", "Old"])]),
            ("DescribeChangeSet", &[page(if given == "Old=1" { &made } else { &[FUNCTION] }, "")]),
            (
                "DescribeStackEvents",
                &[events(&[BEFORE]), events(&[ENDED, BEFORE]), events(&[BEFORE]), events(&[ENDED, BEFORE])],
            ),
        ]);
        let ended = account.deploy(&[given]);
        if is_refused {
            ended.exits(2).prints("nothing is changed: InboxTable would be another table");
            account.deploy(&[given, "--allow", "InboxTable"]).exits(0);
        } else {
            ended.exits(0);
        }
        // CloudFormation takes no policy that names what the stack has not made.
        let last = account.field("SetStackPolicy", usize::from(is_refused), "StackPolicyBody");
        assert_eq!(last.contains("LogicalResourceId/InboxTable"), is_refused && before.is_empty(), "{before} {given}");
    }
}

#[test]
fn an_arn_is_no_name_of_a_stack() {
    let words = ["deploy", "--stack", STACK_ID, "--template", "https://bucket/template.json"];
    Workspace::new().run(&words).exits(2).prints("this is not a valid stack name");
}

#[test]
fn what_is_refused_is_named_even_if_the_policy_cannot_be_set() {
    let danger = ("Remove", "InboxTable", "DynamoDB::Table", "");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[danger], "")]),
        ("SetStackPolicy", &[refusal("AccessDenied", "not authorized to set a policy")]),
    ]);
    account
        .deploy(&[])
        .exits(2)
        .prints_all(&["nothing is changed: InboxTable would be removed", "not authorized to set a policy"]);
}

#[test]
fn a_plan_and_a_stack_without_changes_change_nothing() {
    let none = "<Answer><Status>FAILED</Status><StatusReason>The submitted information didn't contain changes.</StatusReason></Answer>";
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[FUNCTION], ""), none.to_owned()]),
    ]);
    account.deploy(&["--plan"]).exits(0).prints("WorkerFunction");
    assert_eq!(account.acts(), ["CreateChangeSet", "DeleteChangeSet"]);
    account.deploy(&["--plan"]).exits(0).prints("the stack inbox is as the template says\n");
    assert_eq!(account.acts()[2..], ["CreateChangeSet", "DeleteChangeSet"]);
    account.deploy(&[]).exits(0).prints("is as the template says. Next:\n  hookonce doctor --stack inbox\n");
    account.deploy(&["Colour=red"]).exits(2).prints_all(&["has no parameter Colour", "AlarmTopicArn, New, Tables"]);
}

/// A change set of a stack that does not exist makes one that has only a name.
#[test]
fn a_plan_of_a_new_stack_leaves_nothing_of_it() {
    let none = || refusal("ValidationError", "Stack with id inbox does not exist");
    let named = || stack("REVIEW_IN_PROGRESS", &[], "");
    let planned = ["CreateChangeSet", "DeleteChangeSet"];
    for (described, then) in [
        ([none(), named()], &["DeleteStack"][..]),
        // Somebody else has it under way, or has made it meanwhile.
        ([named(), named()], &[]),
        ([none(), running()], &[]),
    ] {
        let account = Account::answering([
            ("DescribeStacks", &described),
            ("DescribeChangeSet", &[page(&[("Add", "InboxTable", "DynamoDB::Table", "")], "")]),
        ]);
        account.deploy(&["--plan"]).exits(0).prints("InboxTable");
        assert_eq!(account.acts(), [&planned[..], then].concat(), "{described:?}");
    }
    for words in [&["--plan"][..], &[]] {
        let refused = Account::answering([
            ("DescribeStacks", &[none(), named()]),
            ("CreateChangeSet", &[refusal("ValidationError", "Rule OneTable failed")]),
        ]);
        refused.deploy(words).exits(2).prints("Rule OneTable failed");
        assert_eq!(refused.acts(), ["CreateChangeSet", "DeleteChangeSet", "DeleteStack"]);
    }
}

/// Nobody may execute it later: it was never judged.
#[test]
fn a_change_set_that_cannot_be_read_is_removed() {
    let later = "<Answer><Status>DELETE_COMPLETE</Status></Answer>".to_owned();
    for (answer, exit, says) in [
        (refusal("InternalFailure", "no answer today"), 3, "no answer today"),
        (later, 2, "the change set is DELETE_COMPLETE"),
    ] {
        let account = Account::answering([
            ("DescribeStacks", &[running()]),
            ("DescribeChangeSet", &[page(&[FUNCTION], "2"), answer]),
        ]);
        account.deploy(&[]).exits(exit).prints(says);
        assert_eq!(account.acts(), ["CreateChangeSet", "DeleteChangeSet"]);
    }
}

#[test]
fn an_update_that_was_rolled_back_says_what_failed() {
    let failed = ("e2", "WorkerFunction", "UPDATE_FAILED", "its role is gone");
    let cancelled = ("e4", "RelayFunction", "UPDATE_FAILED", "Resource update cancelled");
    let back = ("e5", "inbox", "UPDATE_ROLLBACK_COMPLETE", "");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[FUNCTION], "")]),
        (
            "DescribeStackEvents",
            &[events(&[BEFORE]), events(&[failed, BEFORE]), events(&[back, cancelled, failed, BEFORE])],
        ),
    ]);
    let deployed = account.deploy(&[]).exits(3).prints_all(&[
        "WorkerFunction: UPDATE_FAILED: its role is gone",
        "UPDATE_ROLLBACK_COMPLETE; it is as it was before",
    ]);
    let printed = String::from_utf8(deployed.stderr).unwrap();
    assert!(!printed.contains("cancelled") && printed.matches("its role is gone").count() == 1, "{printed}");
}

/// No resource failed: an alarm undid the update. What came since is on two pages.
#[test]
fn an_update_that_an_alarm_undid_names_the_alarm() {
    let undone = ("e3", "inbox", "UPDATE_ROLLBACK_IN_PROGRESS", "the alarm WebhookFails is on");
    let back = ("e4", "inbox", "UPDATE_ROLLBACK_COMPLETE", "");
    let made = ("e2", "WorkerFunction", "UPDATE_COMPLETE", "");
    let first = events(&[back, undone]).replace("</Answer>", "<NextToken>2</NextToken></Answer>");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[FUNCTION], "")]),
        ("DescribeStackEvents", &[events(&[BEFORE]), first, events(&[made, BEFORE])]),
    ]);
    account.deploy(&[]).exits(3).prints_all(&[
        "WorkerFunction: UPDATE_COMPLETE\ninbox: UPDATE_ROLLBACK_IN_PROGRESS: the alarm WebhookFails is on\n",
        "UPDATE_ROLLBACK_COMPLETE; it is as it was before",
    ]);
    assert_eq!(account.field("DescribeStackEvents", 2, "NextToken"), "2");
}

#[test]
fn how_an_update_ended_is_printed_even_if_it_cannot_be_rolled_back_or_protected() {
    let failed = ("e2", "WorkerFunction", "UPDATE_FAILED", "its role is gone");
    let stuck = ("e3", "inbox", "UPDATE_ROLLBACK_FAILED", "");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[FUNCTION], "")]),
        ("DescribeStackEvents", &[events(&[BEFORE]), events(&[stuck, failed, BEFORE])]),
        ("SetStackPolicy", &["<Done/>".to_owned(), refusal("AccessDenied", "not authorized to set a policy")]),
    ]);
    account.deploy(&[]).exits(3).prints_all(&[
        "WorkerFunction: UPDATE_FAILED: its role is gone",
        "not authorized to set a policy",
        "the stack inbox is not deployed: UPDATE_ROLLBACK_FAILED",
        "go on with `aws cloudformation continue-update-rollback --stack-name inbox`, and deploy again",
    ]);
}

#[test]
fn a_stack_that_cannot_be_changed_is_left_alone() {
    for (state, release, says) in [
        ("UPDATE_IN_PROGRESS", "0.0.9", "describe-stack-events"),
        ("ROLLBACK_COMPLETE", "0.0.9", "delete-stack --stack-name inbox"),
        ("DELETE_FAILED", "", "is not one of hookonce"),
        ("UPDATE_ROLLBACK_FAILED", "0.0.9", "continue-update-rollback --stack-name inbox"),
        ("UPDATE_FAILED", "0.0.9", "rollback-stack --stack-name inbox"),
        ("UPDATE_COMPLETE", "", "is not one of hookonce"),
        ("SOMETHING_LATER", "0.0.9", "does not know"),
    ] {
        let account = Account::answering([("DescribeStacks", &[stack(state, &[], release)])]);
        account.deploy(&[]).exits(2).prints_all(&[says, state]);
        assert_eq!(account.acts(), [""; 0], "{state}");
    }
    // One that was never made has no outputs to know it by.
    let failed =
        "<Answer><Stacks><member><StackStatus>CREATE_FAILED</StackStatus></member></Stacks></Answer>".to_owned();
    let failed = Account::answering([("DescribeStacks", &[failed])]);
    failed.deploy(&[]).exits(2).prints("if it is one of hookonce, remove what is left with");
    let denied = Account::answering([("DescribeStacks", &[refusal("AccessDenied", "no")])]);
    denied.deploy(&[]).exits(3).prints("cloudformation:DescribeStacks");
}

/// The answer was lost, and the change set cannot be removed any more: it is being executed.
#[test]
fn a_deployment_whose_begin_is_not_known_is_left_to_cloudformation() {
    let danger = ("Modify", "InboxTable", "DynamoDB::Table", "True");
    let account = Account::answering([
        ("DescribeStacks", &[running()]),
        ("DescribeChangeSet", &[page(&[danger], "")]),
        ("DescribeStackEvents", &[events(&[BEFORE])]),
        ("ExecuteChangeSet", &[refusal("InternalFailure", "the answer was lost")]),
        ("DeleteChangeSet", &[refusal("InvalidChangeSetStatus", "it is being executed")]),
    ]);
    account.deploy(&["--allow", "InboxTable"]).exits(3).prints_all(&[
        "CloudFormation may go on without this command",
        "until then its policy lets go InboxTable",
        "the answer was lost",
    ]);
    let policies = account.acts().iter().filter(|act| *act == "SetStackPolicy").count();
    assert_eq!(policies, 1, "{:?}", account.acts());
}
