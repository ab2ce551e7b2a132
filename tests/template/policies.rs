//! Each function may do exactly what its adapters call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hookonce_examples::handlers;
use hookonce_protocol::key::{DomainKey, RecordKey};
use hookonce_protocol::message::Message;
use hookonce_protocol::plan::{Check, DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::relay::Budget;
use hookonce_protocol::time::Millis;
use hookonce_runtime::handlers::{Handler, HandlerError};
use hookonce_runtime::port::Queue as _;
use serde_json::{Value, json};

use super::{Rule, changed, none, only};
use crate::effects::{applied, keyed};
use crate::support::counting::{Counting, count, counted};
use crate::support::roles::{Allowed, allowed, list, texts};
use crate::support::samples::whatsapp;
use crate::support::template::{Template, template};
use crate::support::{Harness, Script};

/// What no test calls: Lambda itself, the start of a process, and sources that the tests replace.
const ELSEWHERE: [(&str, &str); 17] = [
    // Before the first invocation, `main` reads an item and an attribute of the queue to open the connections.
    ("HintQueue.Arn", "sqs:GetQueueAttributes"),
    ("InboxTable.Arn", "dynamodb:GetItem"),
    // The event source mapping uses the rights of the function that it invokes.
    ("HintQueue.Arn", "sqs:ReceiveMessage"),
    ("HintQueue.Arn", "sqs:DeleteMessage"),
    ("SlowQueue.Arn", "sqs:ReceiveMessage"),
    ("SlowQueue.Arn", "sqs:DeleteMessage"),
    ("SlowQueue.Arn", "sqs:GetQueueAttributes"),
    ("EffectsQueue.Arn", "sqs:ReceiveMessage"),
    ("EffectsQueue.Arn", "sqs:DeleteMessage"),
    ("EffectsQueue.Arn", "sqs:GetQueueAttributes"),
    // Kind by kind, documents.rs decides what each function may do with documents.
    ("DocumentsTable.Arn", "dynamodb:GetItem"),
    ("DocumentsTable.Arn", "dynamodb:PutItem"),
    // The keys are parameters, which are empty here. The services call KMS with the rights of the function.
    ("", "kms:*"),
    ("WebhookLogs.Arn", "logs:*"),
    ("WorkerLogs.Arn", "logs:*"),
    ("RelayLogs.Arn", "logs:*"),
    ("DispatcherLogs.Arn", "logs:*"),
];

/// What a role allows although no test used it and `ELSEWHERE` does not list it.
fn unused(allowed: &Allowed, used: &BTreeSet<(String, String)>) -> Vec<String> {
    let pairs = allowed.iter().flat_map(|(on, actions)| actions.iter().map(move |what| (on.clone(), what.clone())));
    let elsewhere = |(on, what): &(String, String)| {
        let same =
            |wanted: &str| wanted == what || wanted.strip_suffix('*').is_some_and(|start| what.starts_with(start));
        ELSEWHERE.iter().any(|(there, wanted)| there == on && same(wanted))
    };
    pairs.filter(|pair| !used.contains(pair) && !elsewhere(pair)).map(|(on, what)| format!("{what} on {on}")).collect()
}

/// A handler that deletes, and checks. No shipped handler does, but a user's may.
#[derive(Debug)]
struct Forgetting;

impl Handler for Forgetting {
    type Fact = String;

    fn name(&self) -> &'static str {
        "forgetting"
    }

    fn recognise(&self, event: &Event) -> Result<Option<String>, HandlerError> {
        Ok((event.event_type == "forget").then(|| event.key.clone()))
    }

    fn domain_key(&self, fact: &String) -> DomainKey {
        DomainKey::of([fact])
    }

    fn plan(&self, event: &Event, fact: &String, _: &Snapshot) -> Result<Plan, HandlerError> {
        let key = event.item_key("forgotten", [fact]);
        let account = Check::as_seen(event.item_key("account", [fact]), &Snapshot::default(), ["closed_at"]);
        Ok(Plan::default().with(DomainWrite::delete(key)).with_check(account))
    }
}

/// Makes the functions do everything at least once. The harness lets each do only what its role allows.
async fn a_bit_of_everything() -> Harness {
    let mut harness = Harness::with(|| handlers().with(Counting).with(Forgetting)).await;
    // Less than is due, so that the relay samples the journal.
    harness.budget = Budget { sends_per_second_min: 1, period: Millis::seconds(1), ..harness.budget };
    harness.endpoints.change("standard_webhooks", "on_store_outage", "enqueue".into());
    for delivery in [whatsapp(&["a", "b"]), count("msg_1", "one"), counted("msg_2", "count.later", "two")] {
        assert_eq!(harness.deliver(&delivery).await.status_code, 200);
        harness.deliver(&delivery).await;
    }
    harness.deliver(&counted("msg_3", "forget", "three")).await;
    harness.deliver_under(&Script::store_outage(), &count("msg_4", "four")).await;
    harness.work().await;
    // The hints are lost; the relay sends again.
    harness.deliver(&count("msg_7", "seven")).await;
    harness.deliver(&count("msg_8", "eight")).await;
    harness.clock.advance(Millis::hours(1));
    harness.relay().await;
    // An effect waits for its destination, and is sent. The hint of another one is lost.
    applied(&harness, "msg_9", &["receipts"]).await;
    harness.dispatch().await;
    harness.destinations.put("receipts", keyed(24));
    harness.redeliver().await;
    harness.dispatch().await;
    applied(&harness, "msg_10", &["receipts"]).await;
    harness.lose_effects().await;
    harness.clock.advance(Millis::hours(1));
    harness.relay().await;
    // A slow handler: its event moves, fails and is hidden there.
    harness.deliver(&counted("msg_11", "count.later", "eleven")).await;
    harness.lose_hints().await;
    let moved = Message::Slow { pk: RecordKey::parse("in#standard_webhooks#msg_11").unwrap(), handler: "plan".into() };
    harness.queue("WorkerFunction", &Script::none()).send(&moved).await.unwrap();
    let slow_queue = &harness.stack.resources.slow_queue;
    assert!(harness.work_on(&harness.worker(&Script::none()), slow_queue, &Script::none()).await);
    // The relay takes what is in the dead-letter queue.
    let letters = &harness.stack.resources.dead_letter_queue.url;
    let hint = r#"{"v":1,"k":"ref","pk":"in#standard_webhooks#msg_1"}"#;
    harness.stack.sqs.send_message().queue_url(letters).message_body(hint).send().await.unwrap();
    harness.relay_with_letters(letters).await;
    // A hint and a payload that were received too often.
    let delivery = counted("msg_5", "count.later", "five");
    for (script, delivery) in [(Script::none(), delivery), (Script::store_outage(), count("msg_6", "six"))] {
        harness.deliver_under(&script, &delivery).await;
        for message in harness.batch().await.unwrap().0 {
            harness.bury_under(&Script::none(), message.body().unwrap()).await;
        }
    }
    harness
}

#[tokio::test]
async fn each_role_allows_exactly_what_its_function_calls() {
    let harness = a_bit_of_everything().await;
    let unused = |template: &Template| {
        let functions = template.resources("AWS::Serverless::Function").into_iter();
        let unused = |function: &str| -> Vec<String> {
            let unused = unused(&allowed(template, function), &harness.used(function));
            unused.into_iter().map(|finding| format!("{function} need not {finding}")).collect()
        };
        functions.flat_map(unused).collect::<Vec<_>>()
    };
    none(&unused(&template()));
    let wider = changed(
        "Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem]",
        "Action: [dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem, dynamodb:DeleteItem]",
    );
    only(&unused(&wider), "WebhookFunction need not dynamodb:DeleteItem");
}

#[test]
fn a_function_has_no_rights_beside_its_role() {
    let template = template();
    for function in template.resources("AWS::Serverless::Function") {
        // Its own policies, or a role that the transform makes, would add to what is compared here.
        for property in ["Policies", "ManagedPolicyArns"] {
            assert!(template.property(function, &[property]).is_null(), "{function} has its own {property}");
        }
    }
}

/// A wildcard in place of a name, in any role or policy of the template.
fn wildcards(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for role in template.resources("AWS::IAM::Role") {
        // What handlers need beyond the template, such as user tables, is the user's to allow, and the worker's alone.
        // The same holds of what effects need, and the dispatcher.
        let managed = template.raw(&["Resources", role, "Properties", "ManagedPolicyArns"]);
        let users_own = |condition: &str, parameter: &str| json!({ "Fn::If": [condition, [{ "Ref": parameter }], { "Ref": "AWS::NoValue" }] });
        let of_handlers = users_own("HasHandlerPolicy", "HandlerPolicyArn");
        let of_destinations = users_own("HasDestinationPolicy", "DestinationPolicyArn");
        let known = [("WorkerRole", &of_handlers), ("DispatcherRole", &of_destinations)];
        if !managed.is_null() && !known.contains(&(role, managed)) {
            findings.push(format!("{role} uses a managed policy"));
        }
        for policy in list(&template.property(role, &["Policies"])) {
            let statements = list(&policy["PolicyDocument"]["Statement"]).into_iter();
            for statement in statements.filter(|statement| statement["Effect"] == "Allow") {
                let actions = texts(&statement["Action"]).into_iter().filter(|action| action.contains('*'));
                let resources = texts(&statement["Resource"]).into_iter().filter(|resource| resource.contains('*'));
                findings.extend(actions.chain(resources).map(|wild| format!("{role}: {wild}")));
            }
        }
    }
    findings
}

/// Roles that an organisation could not bound.
fn unbounded(template: &Template) -> Vec<String> {
    let boundary =
        json!({ "Fn::If": ["HasPermissionsBoundary", { "Ref": "PermissionsBoundaryArn" }, { "Ref": "AWS::NoValue" }] });
    let is_loose = |role: &&str| template.raw(&["Resources", role, "Properties", "PermissionsBoundary"]) != &boundary;
    template.resources("AWS::IAM::Role").into_iter().filter(is_loose).map(str::to_owned).collect()
}

#[test]
fn each_role_takes_the_boundary_of_an_organisation() {
    let boundary =
        "      PermissionsBoundary: !If [HasPermissionsBoundary, !Ref PermissionsBoundaryArn, !Ref AWS::NoValue]\n";
    Rule(unbounded).finds([(boundary, "", "WebhookRole")]);
}

/// The other templates that make roles, or a stack with roles in it: those beside the stack, and those of `hookonce new`.
#[test]
fn every_other_template_with_roles_takes_the_boundary_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let of_projects =
        ["none", "python", "rust", "typescript"].map(|kind| format!("tools/cli/project/{kind}/template.yaml"));
    let beside = fs::read_dir(root.join("deploy")).unwrap().map(|entry| entry.unwrap().path());
    let beside = beside.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let mut found = 0;
    for path in of_projects.iter().map(|path| root.join(path)).chain(beside) {
        let text = fs::read_to_string(&path).unwrap();
        let count = |line: &str| text.lines().filter(|it| it.trim() == line).count();
        // Of a function that names no role, SAM makes the role.
        let roles = count("Type: AWS::IAM::Role") + count("Type: AWS::Serverless::Function");
        let nested = count("Type: AWS::Serverless::Application");
        let bounded =
            count("PermissionsBoundary: !If [HasPermissionsBoundary, !Ref PermissionsBoundaryArn, !Ref AWS::NoValue]");
        let handed_on = count("PermissionsBoundaryArn: !Ref PermissionsBoundaryArn");
        assert_eq!((bounded, handed_on), (roles, nested), "{}", path.display());
        assert_eq!(count("PermissionsBoundaryArn:"), usize::from(roles + nested > 0), "{}", path.display());
        found += roles + nested;
    }
    assert_eq!(found, 7, "three roles and four stacks");
}

/// Uses of a key that are not bound to the service that stores the data.
fn loose_keys(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    let mut uses = 0;
    for role in template.resources("AWS::IAM::Role") {
        let policies = list(&template.property(role, &["Policies"]));
        let statements = policies.iter().flat_map(|policy| list(&policy["PolicyDocument"]["Statement"]));
        let uses_key =
            |statement: &Value| !statement["Action"].is_null() && texts(&statement["Action"])[0].starts_with("kms:");
        for statement in statements.filter(uses_key) {
            uses += 1;
            let condition = &statement["Condition"]["StringEquals"];
            let via = list(&condition["kms:ViaService"]);
            let only_dynamodb =
                via.iter().all(|service| service.as_str().is_some_and(|name| name.starts_with("dynamodb.")));
            let of_documents = texts(&statement["Action"]) == ["kms:Decrypt"];
            let of_their_table = condition["kms:EncryptionContext:aws:dynamodb:tableName"] == "DocumentsTable";
            if via.is_empty() || of_documents && !(only_dynamodb && of_their_table) {
                findings.push(format!("{role} may use a key outside its service"));
            }
        }
    }
    if uses != 8 {
        findings.push(format!("{uses} uses of keys; each role uses that of the data and that of the documents"));
    }
    findings
}

/// The stack's own functions that a managed policy of the user's could let a role invoke.
fn invocable(template: &Template) -> Vec<String> {
    let policy = |part: &str| template.property("OwnFunctionsPolicy", &[part]);
    let statements = list(&policy("PolicyDocument")["Statement"]);
    let denied: Vec<_> = statements
        .iter()
        .filter(|statement| statement["Effect"] == "Deny" && texts(&statement["Action"]) == ["lambda:InvokeFunction"])
        .flat_map(|statement| texts(&statement["Resource"]))
        .collect();
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let arns = functions.flat_map(|function| [format!("{function}.Arn"), format!("{function}.Arn:*")]);
    let open = arns.filter(|arn| !denied.contains(arn)).map(|arn| format!("{arn} may be invoked"));
    let with_managed = template.resources("AWS::IAM::Role").into_iter();
    let with_managed =
        with_managed.filter(|role| !template.raw(&["Resources", role, "Properties", "ManagedPolicyArns"]).is_null());
    let bound = texts(&policy("Roles"));
    let unbound = with_managed.filter(|role| !bound.iter().any(|bound| bound == role));
    open.chain(unbound.map(|role| format!("{role} is not bound"))).collect()
}

#[test]
fn no_managed_policy_lets_a_role_invoke_the_stacks_own_functions() {
    Rule(invocable).finds([
        ("              - !Sub ${RelayFunction.Arn}:*\n", "", "RelayFunction.Arn:* may be invoked"),
        ("Roles: [!Ref WorkerRole, !Ref DispatcherRole]", "Roles: [!Ref WorkerRole]", "DispatcherRole is not bound"),
    ]);
}

/// AWS's own policies allow far more than a handler or a destination needs, and some of them everything.
#[test]
fn no_policy_of_aws_is_taken_for_one_of_the_users() {
    let template = template();
    for parameter in ["HandlerPolicyArn", "DestinationPolicyArn"] {
        let pattern = template.at(&["Parameters", parameter, "AllowedPattern"]);
        assert_eq!(pattern, "^$|^arn:[a-z-]+:iam::[0-9]{12}:policy/.+$", "{parameter}");
    }
}

#[test]
fn a_key_is_used_only_through_the_service_that_stores_the_data() {
    Rule(loose_keys).finds([
        ("kms:EncryptionContext:aws:dynamodb:tableName", "kms:EncryptionContext:tableName", "WebhookRole"),
        ("!Sub \"dynamodb.${AWS::Region}.amazonaws.com\"", "!Sub \"ssm.${AWS::Region}.amazonaws.com\"", "WebhookRole"),
        ("\"kms:ViaService\":\n", "\"kms:ViaServices\":\n", "WebhookRole"),
    ]);
}

#[test]
fn no_wildcard_stands_where_a_name_could() {
    let of_destinations = "!If [HasDestinationPolicy, [!Ref DestinationPolicyArn]";
    let of_handlers = "!If [HasHandlerPolicy, [!Ref HandlerPolicyArn]";
    Rule(wildcards).finds([
        ("Action: dynamodb:Query", "Action: dynamodb:*", "dynamodb:*"),
        ("Resource: !GetAtt RelayLogs.Arn", "Resource: \"*\"", "RelayRole: *"),
        ("[!Ref HandlerPolicyArn]", "[!Ref OperatorArn]", "WorkerRole uses a managed policy"),
        (of_destinations, of_handlers, "DispatcherRole uses a managed policy"),
    ]);
}
