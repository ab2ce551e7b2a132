//! What DynamoDB says of a table: key, indexes, expiry, recovery, protection and policy.

use serde_json::{Value, json as object};

use crate::aws::DOCUMENTS_TABLE;

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
