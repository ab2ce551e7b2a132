//! The tables match what the adapters use, and are not lost with the stack.

use hookonce_aws::{DUE_INDEX, JOURNAL_INDEX};
use hookonce_protocol::item::{PARTITION_KEY, RESERVED_PREFIX};
use hookonce_protocol::record::attribute;
use serde_json::{Value, json};

use super::{Rule, none};
use crate::support::template::{Template, template};

const DOCUMENTS: &str = "DocumentsTable";

fn key(hash: &str, range: Option<&str>) -> Value {
    let part = |name: &str, kind| json!({"AttributeName": name, "KeyType": kind});
    let mut parts = vec![part(hash, "HASH")];
    parts.extend(range.map(|range| part(range, "RANGE")));
    json!(parts)
}

fn index(name: &str, hash: &str, range: &str) -> Value {
    json!({"IndexName": name, "KeySchema": key(hash, Some(range)), "Projection": {"ProjectionType": "KEYS_ONLY"}})
}

fn findings(template: &Template) -> Vec<String> {
    let mut findings = Vec::new();
    for table in template.resources("AWS::DynamoDB::Table") {
        let property = |path: &[&str]| template.property(table, path);
        let policies = ["DeletionPolicy", "UpdateReplacePolicy"];
        let retained = policies.iter().all(|policy| template.at(&["Resources", table, policy]) == "Retain");
        let expires = json!({"AttributeName": attribute::EXPIRES_AT, "Enabled": true});
        // Documents stay until a person removes them.
        let (ttl, own_key) = match table {
            DOCUMENTS => (Value::Null, key("kind", Some("id"))),
            _ => (expires, key(PARTITION_KEY, None)),
        };
        let rules = [
            ("is not retained", retained),
            ("is not protected", property(&["DeletionProtectionEnabled"]) == true),
            (
                "has no point-in-time recovery",
                property(&["PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"]) == true,
            ),
            ("does not expire by the attribute that is written", property(&["TimeToLiveSpecification"]) == ttl),
            ("has another key", property(&["KeySchema"]) == own_key),
            ("is not on demand", property(&["BillingMode"]) == "PAY_PER_REQUEST"),
        ];
        findings.extend(rules.iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("{table} {what}")));
    }
    // Handlers may use every other name, so the table of their items may claim none.
    let claimed = json!([{"AttributeName": PARTITION_KEY, "AttributeType": "S"}]);
    let is_free = template.property("DomainTable", &["AttributeDefinitions"]) == claimed
        && template.property("DomainTable", &["GlobalSecondaryIndexes"]).is_null()
        && attribute::EXPIRES_AT.starts_with(RESERVED_PREFIX);
    if !is_free {
        findings.push("DomainTable claims a name that a handler may use".to_owned());
    }
    if !template.property(DOCUMENTS, &["GlobalSecondaryIndexes"]).is_null() {
        findings.push("DocumentsTable has an index, whose keys no policy knows".to_owned());
    }
    let indexes = json!([
        index(DUE_INDEX, attribute::DUE_SHARD, attribute::DUE_AT),
        index(JOURNAL_INDEX, attribute::JOURNAL_SHARD, attribute::RECEIVED_AT),
    ]);
    if template.property("InboxTable", &["GlobalSecondaryIndexes"]) != indexes {
        findings.push("InboxTable has other indexes than the adapters query".to_owned());
    }
    findings
}

/// Queues are encrypted, too: the template has to ask for it.
fn queues(template: &Template) -> Vec<String> {
    let by_sqs = |queue: &str| template.raw(&["Resources", queue, "Properties", "SqsManagedSseEnabled"]);
    let open = |queue: &&str| by_sqs(queue) != &json!({"Fn::If": ["HasDataKey", false, true]});
    template.resources("AWS::SQS::Queue").into_iter().filter(open).map(|queue| format!("{queue} is open")).collect()
}

/// Every log group has a retention.
fn logs(template: &Template) -> Vec<String> {
    let endless = |logs: &&str| !template.property(logs, &["RetentionInDays"]).is_i64();
    let groups = template.resources("AWS::Logs::LogGroup").into_iter();
    groups.filter(endless).map(|logs| format!("{logs} keeps logs forever")).collect()
}

#[test]
fn tables_fit_the_adapters_and_outlive_the_stack() {
    let keys = "AttributeName: pk, AttributeType: S }\n      KeySchema:";
    let indexed = keys.replace("S }", "S }\n        - { AttributeName: due_shard, AttributeType: S }");
    Rule(findings).finds([
        ("IndexName: due", "IndexName: Due", "other indexes"),
        (
            "AttributeName: hookonce_expires_at, Enabled",
            "AttributeName: expires, Enabled",
            "InboxTable does not expire",
        ),
        ("DeletionPolicy: Retain", "DeletionPolicy: Delete", "InboxTable is not retained"),
        (keys, &indexed, "DomainTable claims"),
        ("AttributeName: kind, KeyType", "AttributeName: pk, KeyType", "DocumentsTable has another key"),
        ("        - { AttributeName: id, KeyType: RANGE }\n", "", "DocumentsTable has another key"),
        (
            ENCRYPTED_DOCUMENTS,
            &format!("      TimeToLiveSpecification: {{ AttributeName: hookonce_expires_at, Enabled: true }}\n{ENCRYPTED_DOCUMENTS}"),
            "DocumentsTable does not expire",
        ),
        (
            ENCRYPTED_DOCUMENTS,
            &format!("      GlobalSecondaryIndexes: []\n{ENCRYPTED_DOCUMENTS}"),
            "DocumentsTable has an index",
        ),
    ]);
}

const ENCRYPTED_DOCUMENTS: &str = "      SSESpecification: !If [HasDocumentKey,";

/// What holds deliveries, their traces or documents and does not take the key that a person gives for them. Documents
/// have one of their own: what it encrypts can be read by fewer people.
fn without_own_key(template: &Template) -> Vec<String> {
    let kinds = [
        ("AWS::DynamoDB::Table", &["SSESpecification", "Fn::If", "1", "KMSMasterKeyId"][..]),
        ("AWS::SQS::Queue", &["KmsMasterKeyId", "Fn::If", "1"]),
        ("AWS::Logs::LogGroup", &["KmsKeyId", "Fn::If", "1"]),
    ];
    let without = |name: &&str, path: &[&str]| {
        let parameter = if *name == DOCUMENTS { "DocumentKeyArn" } else { "DataKeyArn" };
        template.raw(&[&["Resources", name, "Properties"], path].concat()) != &json!({ "Ref": parameter })
    };
    let names = kinds.iter().flat_map(|(kind, path)| {
        template.resources(kind).into_iter().filter(move |name| without(name, path)).collect::<Vec<_>>()
    });
    names.map(|name| format!("{name} has no key of its owner")).collect()
}

#[test]
fn a_parameter_gives_documents_and_another_all_else_that_is_stored_a_key_of_its_owner() {
    let key = "      KmsMasterKeyId: !If [HasDataKey, !Ref DataKeyArn, !Ref AWS::NoValue]\n";
    let of_documents = "KMSMasterKeyId: !Ref DocumentKeyArn";
    Rule(without_own_key)
        .finds([(key, "", "HintQueue"), (of_documents, "KMSMasterKeyId: !Ref DataKeyArn", "DocumentsTable")]);
}

#[test]
fn queues_are_encrypted_and_logs_end() {
    none(&logs(&template()));
    let encrypted = "SqsManagedSseEnabled: !If [HasDataKey, false, true]";
    Rule(queues).finds([(encrypted, "SqsManagedSseEnabled: false", "HintQueue")]);
}
