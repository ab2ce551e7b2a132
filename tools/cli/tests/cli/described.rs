//! What AWS says of a table (key, indexes, expiry, recovery, protection and policy), of an event source, and of a stack's
//! policy; and what it says of a queue, whose policy no other server keeps. And how it refuses.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use hookonce_local::tables::documents_policy;
use serde_json::{Value, json as object};

use crate::aws::{DESCRIBE, DOCUMENTS_TABLE, Request};
use crate::support::root;

/// The operations that describe a table.
pub(crate) const DESCRIBING: [&str; 4] =
    ["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "GetResourcePolicy"];

/// Answers one of them, with what is not as it should be: an index, `type`, `expiry`, `recovery`, `protection`, `policy`,
/// which is gone, `table policy`, which denies less, or `own policy` of a table that has none.
pub(crate) fn description(drift: &[&str], operation: &str, body: &Value) -> Result<Value, Value> {
    let table = body["TableName"].as_str().unwrap_or(DOCUMENTS_TABLE);
    let has = |what: &str| !drift.contains(&what);
    let of_documents = table == DOCUMENTS_TABLE;
    let key = |names: &[&str]| -> Vec<Value> {
        let kinds = names.iter().zip(["HASH", "RANGE"]);
        kinds.map(|(name, kind)| object!({ "AttributeName": name, "KeyType": kind })).collect()
    };
    let index = |name: &str, names: &[&str]| object!({ "IndexName": name, "KeySchema": key(names), "Projection": { "ProjectionType": "KEYS_ONLY" } });
    let indexes = [index("due", &["due_shard", "due_at"]), index("journal", &["journal_shard", "received_at"])];
    let indexes: Vec<_> = indexes.into_iter().filter(|it| has(it["IndexName"].as_str().unwrap())).collect();
    let status = |is_on: bool| if is_on { "ENABLED" } else { "DISABLED" };
    match operation {
        "DescribeTable" => Ok(object!({ "Table": {
            "TableName": table, "TableArn": format!("arn:aws:dynamodb:us-east-1:123456789012:table/{table}"),
            "AttributeDefinitions": [{ "AttributeName": "due_at", "AttributeType": if has("type") { "N" } else { "S" } }],
            "KeySchema": key(if of_documents { &["kind", "id"] } else { &["pk"] }),
            "GlobalSecondaryIndexes": indexes, "DeletionProtectionEnabled": has("protection"), "ItemCount": 0,
        } })),
        "DescribeTimeToLive" => {
            let expiry = object!({ "TimeToLiveStatus": "ENABLED", "AttributeName": "hookonce_expires_at" });
            let none = object!({ "TimeToLiveStatus": "DISABLED" });
            let expires = !of_documents && has("expiry");
            Ok(object!({ "TimeToLiveDescription": if expires { expiry } else { none } }))
        }
        "DescribeContinuousBackups" => Ok(object!({ "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": { "PointInTimeRecoveryStatus": status(has("recovery")) },
        } })),
        _ if body["ResourceArn"].as_str().is_some_and(|arn| arn.ends_with(DOCUMENTS_TABLE)) && has("policy") => {
            let policy = documents_policy().to_string();
            let policy =
                if has("table policy") { policy } else { policy.replace("dynamodb:PartiQLSelect", "dynamodb:Query") };
            Ok(object!({ "Policy": policy }))
        }
        _ if !has("own policy") => Ok(object!({ "Policy": r#"{"Statement":[]}"# })),
        _ => Err(object!({ "__type": "PolicyNotFoundException", "message": "" })),
    }
}

/// An event source of a queue, with what is not as it should be: `source`, `batch`, `window`, `report`, `filter`, or
/// `hidden filter`, which the caller may not decrypt.
pub(crate) fn event_source(drift: &[&str], uuid: &str, state: &str, queue: &str) -> Value {
    let has = |what: &str| !drift.contains(&what);
    let queue = if has("source") { queue.rsplit('/').next().unwrap() } else { "another" };
    object!({
        "UUID": uuid, "State": state, "EventSourceArn": format!("arn:aws:sqs:us-east-1:123456789012:{queue}"),
        "BatchSize": if has("batch") { 10 } else { 100 },
        "MaximumBatchingWindowInSeconds": if has("window") { 0 } else { 300 },
        "FunctionResponseTypes": if has("report") { &["ReportBatchItemFailures"][..] } else { &[] },
        "ScalingConfig": { "MaximumConcurrency": 2 },
        "FilterCriteria": if has("filter") { object!({ "Filters": [] }) } else { object!({ "Filters": [{ "Pattern": "{}" }] }) },
        "FilterCriteriaError": if has("hidden filter") { Value::Null } else { object!({ "ErrorCode": "KMSAccessDenied" }) },
    })
}

/// The filters of a template that count a metric, in two pages. That of the gateway's log may be gone (`filter of logs`),
/// or count something else (`pattern`).
pub(crate) fn metric_filters(drift: &[&str], body: &Value) -> Value {
    assert_eq!(body["metricNamespace"], "hookonce/inbox");
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let blocks = template.split("Type: AWS::Logs::MetricFilter").skip(1);
    let of = |block: &str| block.split("MetricName: ").nth(1).unwrap().split(',').next().unwrap() == body["metricName"];
    let pattern = |block: &str| block.split("FilterPattern: '").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let mut patterns: Vec<_> = blocks.filter(|block| of(block)).map(pattern).collect();
    if drift.contains(&"filter of logs") {
        patterns.pop();
    }
    if drift.contains(&"pattern") {
        patterns[0] = patterns[0].replace(" > 0", " > 1");
    }
    let filters: Vec<_> = patterns.iter().map(|pattern| object!({ "filterPattern": pattern })).collect();
    let (first, second) = filters.split_at(filters.len() / 2);
    if body["nextToken"] == "second" {
        object!({ "metricFilters": second })
    } else {
        object!({ "metricFilters": first, "nextToken": "second" })
    }
}

/// The environment of a function. One variable names another table (`variable`) or is gone (`no variable`), or the caller may
/// not decrypt them (`encrypted`), or nobody (`no key`).
pub(crate) fn environment_of(drift: &[&str], outputs: &BTreeMap<String, String>) -> Value {
    let output = |name: &str| outputs.get(name).cloned().unwrap_or_default();
    let domain = if drift.contains(&"variable") { "other".to_owned() } else { output("DomainTable") };
    let domain = (!drift.contains(&"no variable")).then_some(domain);
    for (what, code) in [("encrypted", "AccessDeniedException"), ("no key", "KMSDisabledException")] {
        if drift.contains(&what) {
            return object!({ "Error": { "ErrorCode": code, "Message": "kms:Decrypt" } });
        }
    }
    object!({ "Variables": {
        "HOOKONCE_LOG": "info", "OTHER": "1", "HOOKONCE_INBOX_TABLE": output("InboxTable"), "HOOKONCE_DOMAIN_TABLE": domain,
        "HOOKONCE_DOCUMENTS": format!("table:{}", output("DocumentsTable")), "HOOKONCE_QUEUE_URL": output("QueueUrl"),
        "HOOKONCE_SLOW_QUEUE_URL": output("SlowQueueUrl"), "HOOKONCE_EFFECTS_QUEUE_URL": output("EffectsQueueUrl"),
    } })
}

/// The outermost stack of a nested one (`nested`).
pub(crate) fn root_of(drift: &[&str]) -> &'static str {
    let root = "<RootId>arn:aws:cloudformation:us-east-1:123456789012:stack/shop/1</RootId>";
    if drift.contains(&"nested") { root } else { "" }
}

/// What is known of a stack's policy, and of a topic.
const STACK_POLICY: &str = "GetStackPolicy";
const TOPIC: &str = "GetTopicAttributes";

/// Answers one of these.
pub(crate) fn in_xml(drift: &[&str], operation: &str) -> Option<(&'static str, String)> {
    match operation {
        STACK_POLICY => Some(("200 OK", stack_policy(drift))),
        TOPIC => Some(topic(drift)),
        _ => None,
    }
}

/// A refusal in the form of the service. A message may follow the code.
pub(crate) fn refusal(operation: &str, refusal: &str) -> (&'static str, String) {
    let (code, message) = refusal.split_once(": ").unwrap_or((refusal, ""));
    let of_lambda = [
        "GetAccountSettings",
        "GetFunctionConcurrency",
        "GetFunctionConfiguration",
        "Invoke",
        "ListEventSourceMappings",
        "UpdateEventSourceMapping",
    ];
    if of_lambda.contains(&operation) {
        // As Lambda names it: in a header.
        let status = match code {
            "ResourceNotFoundException" => "404 Not Found\r\nx-amzn-errortype: ResourceNotFoundException",
            "RequestTooLargeException" => "413 -\r\nx-amzn-errortype: RequestTooLargeException",
            "AccessDenied" | "AccessDeniedException" => "403 Forbidden\r\nx-amzn-errortype: AccessDeniedException",
            other => panic!("{other} is not played"),
        };
        return (status, object!({ "Message": message }).to_string());
    }
    let answer = if ["GetCallerIdentity", DESCRIBE, STACK_POLICY, TOPIC].contains(&operation) {
        refused_in_xml(code, message)
    } else {
        object!({ "__type": code, "message": message }).to_string()
    };
    ("400 Bad Request", answer)
}

fn refused_in_xml(code: &str, message: &str) -> String {
    let error = format!("<Type>Sender</Type><Code>{code}</Code><Message>{message}</Message>");
    format!("<ErrorResponse><Error>{error}</Error></ErrorResponse>")
}

/// A topic: with two subscriptions, one of them confirmed, or with none (`subscribers`), or one that waits (`confirmed`), or
/// gone (`topic`), or with a key that CloudWatch cannot use (`topic key`).
fn topic(drift: &[&str]) -> (&'static str, String) {
    let has = |what: &str| !drift.contains(&what);
    if !has("topic") {
        return ("404 Not Found", refused_in_xml("NotFound", "Topic does not exist"));
    }
    let (confirmed, pending) = if has("subscribers") { (u8::from(has("confirmed")), 1) } else { (0, 0) };
    let entry = |name: &str, value: &str| format!("<entry><key>{name}</key><value>{value}</value></entry>");
    let key = if has("topic key") { "" } else { "alias/aws/sns" };
    let [pending, confirmed] = [pending, confirmed].map(|count| count.to_string());
    let entries = [("SubscriptionsPending", pending.as_str()), ("SubscriptionsConfirmed", &confirmed)];
    let entries: String = entries.iter().chain([&("KmsMasterKeyId", key)]).map(|(name, it)| entry(name, it)).collect();
    let result = format!("<GetTopicAttributesResult><Attributes>{entries}</Attributes></GetTopicAttributesResult>");
    let space = "http://sns.amazonaws.com/doc/2010-03-31/";
    ("200 OK", format!("<GetTopicAttributesResponse xmlns=\"{space}\">{result}</GetTopicAttributesResponse>"))
}

/// The policy of a stack: that of a release, none (`no stack policy`), or one that lets a table go (`stack policy`).
fn stack_policy(drift: &[&str]) -> String {
    let policy = std::fs::read_to_string(root().join("deploy/stack-policy.json")).unwrap();
    let policy = if drift.contains(&"stack policy") { policy.replace("AWS::DynamoDB::Table", "") } else { policy };
    let body = format!("<StackPolicyBody>{policy}</StackPolicyBody>");
    let body = if drift.contains(&"no stack policy") { String::new() } else { body };
    format!("<GetStackPolicyResponse><GetStackPolicyResult>{body}</GetStackPolicyResult></GetStackPolicyResponse>")
}

/// The role that a function runs with.
pub(crate) fn role_of(function: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{function}")
}

/// What a server of queues answered, with the policies of the template: those of a stack without an operator. With what is
/// not as it should be: `no queue policy`, or `queue policy`, which lets somebody else in, `sources`, which lets messages of
/// another queue in, or `message size`.
pub(crate) fn with_policy(drift: &[&str], request: &Request, answer: &[u8]) -> Vec<u8> {
    let at = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let Ok(mut fields) = serde_json::from_slice::<Value>(&answer[at..]) else { return answer.to_vec() };
    let has = |what: &str| !drift.contains(&what);
    if request.operation() != "GetQueueAttributes" || fields["Attributes"].is_null() || !has("no queue policy") {
        return answer.to_vec();
    }
    let arn = fields["Attributes"]["QueueArn"].as_str().unwrap_or_default().to_owned();
    fields["Attributes"]["MaximumMessageSize"] = if has("message size") { "1048576" } else { "262144" }.into();
    if let Some(stack) = arn.strip_suffix("-hints-dead") {
        let sources = ["hints", "effects", if has("sources") { "slow" } else { "other" }];
        let sources = sources.map(|name| format!("{stack}-{name}"));
        fields["Attributes"]["RedriveAllowPolicy"] =
            object!({ "redrivePermission": "byQueue", "sourceQueueArns": sources }).to_string().into();
    }
    let users = match arn.rsplit('-').next().unwrap() {
        "hints" => &["webhook", "worker", "relay"][..],
        "slow" => &["worker"],
        "dead" => &["relay"],
        _ => &["worker", "relay", "dispatcher"],
    };
    let mut users: Vec<_> = users.iter().map(|user| role_of(&format!("inbox-{user}"))).collect();
    if !has("queue policy") {
        users.push(role_of("somebody"));
    }
    let deny = |actions: &str, condition: Value| {
        let actions: Vec<_> = actions.split(' ').map(|action| format!("sqs:{action}")).collect();
        object!({ "Sid": "One", "Effect": "Deny", "Principal": "*", "Action": actions, "Resource": arn, "Condition": condition })
    };
    let moves = "SendMessage ReceiveMessage DeleteMessage ChangeMessageVisibility";
    let mut statements = vec![
        deny(moves, object!({ "Bool": { "aws:SecureTransport": "false" } })),
        deny(
            &format!("{moves} PurgeQueue"),
            object!({ "Null": { "aws:PrincipalArn": "false" }, "ArnNotEquals": { "aws:PrincipalArn": users } }),
        ),
    ];
    if arn.ends_with("-effects") {
        let dispatcher = role_of("inbox-dispatcher");
        statements.push(deny("SendMessage", object!({ "ArnEquals": { "aws:PrincipalArn": dispatcher } })));
    }
    fields["Attributes"]["Policy"] = object!({ "Version": "2012-10-17", "Statement": statements }).to_string().into();
    let body = fields.to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

/// The answer about a table where no stack runs.
pub(crate) const NO_SERVER: &[u8] = b"HTTP/1.1 500 -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Sends a request on to another server, and returns its answer.
pub(crate) fn relayed(request: &Request, server: &str) -> Vec<u8> {
    let mut stream = BufReader::new(TcpStream::connect(server).unwrap());
    stream.get_mut().write_all(&[&request.head[..], b"\r\n", &request.body].concat()).unwrap();
    let (mut answer, mut length, mut line) = (Vec::new(), 0, String::new());
    while stream.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        answer.extend_from_slice(line.as_bytes());
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    [&answer[..], b"connection: close\r\n\r\n", &body].concat()
}

/// The names of the alarms of a stack that is called `inbox`.
pub(crate) fn alarms_of_the_template() -> Vec<String> {
    let template = std::fs::read_to_string(crate::support::root().join("template.yaml")).unwrap();
    let names = template.lines().filter_map(|line| line.split_once("AlarmName: !Sub hookonce/${AWS::StackName}/"));
    names.map(|(_, name)| format!("hookonce/inbox/{name}")).collect()
}
