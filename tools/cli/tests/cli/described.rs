//! What AWS says of a table (key, indexes, expiry, recovery, protection and policy), of an event source, and of a stack's
//! policy.

use serde_json::{Value, json as object};

use crate::aws::DOCUMENTS_TABLE;
use crate::support::root;

/// The operations that describe a table.
pub(crate) const DESCRIBING: [&str; 4] =
    ["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "GetResourcePolicy"];

/// Answers one of them, with what is not as it should be: an index, `expiry`, `recovery`, `protection` or `policy`.
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
        _ if has("policy") => {
            Ok(object!({ "Policy": r#"{"Statement":[{"Effect":"Deny","Principal":"*","Action":["dynamodb:Scan"]}]}"# }))
        }
        _ => Err(object!({ "__type": "PolicyNotFoundException", "message": "" })),
    }
}

/// An event source of a queue, with what is not as it should be: `source`, `batch` or `report`.
pub(crate) fn event_source(drift: &[&str], uuid: &str, state: &str, queue: &str) -> Value {
    let has = |what: &str| !drift.contains(&what);
    let queue = if has("source") { queue.rsplit('/').next().unwrap() } else { "another" };
    object!({
        "UUID": uuid, "State": state, "EventSourceArn": format!("arn:aws:sqs:us-east-1:123456789012:{queue}"),
        "BatchSize": if has("batch") { 10 } else { 100 },
        "FunctionResponseTypes": if has("report") { &["ReportBatchItemFailures"][..] } else { &[] },
        "ScalingConfig": { "MaximumConcurrency": 2 },
    })
}

/// The policy of a stack: that of a release, none (`no stack policy`), or one that lets a table go (`stack policy`).
pub(crate) fn stack_policy(drift: &[&str]) -> String {
    let policy = std::fs::read_to_string(root().join("deploy/stack-policy.json")).unwrap();
    let policy = if drift.contains(&"stack policy") { policy.replace("AWS::DynamoDB::Table", "") } else { policy };
    let body = format!("<StackPolicyBody>{policy}</StackPolicyBody>");
    let body = if drift.contains(&"no stack policy") { String::new() } else { body };
    format!("<GetStackPolicyResponse><GetStackPolicyResult>{body}</GetStackPolicyResult></GetStackPolicyResponse>")
}
