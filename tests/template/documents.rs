//! Who may read and write which kinds of documents. No local server enforces IAM, so these rules stand in for it.

use std::collections::BTreeSet;

use hookonce_local::tables::documents_policy;
use serde_json::{Value, json};

use super::Rule;
use crate::support::roles::{Request, Statements, list};
use crate::support::template::{Template, template};

const TABLE: &str = "DocumentsTable.Arn";
const LEADING_KEYS: &str = "dynamodb:LeadingKeys";
const GET: &str = "dynamodb:GetItem";
const PUT: &str = "dynamodb:PutItem";

/// The kinds that are there, and one that nobody may read.
const KINDS: [&str; 5] = ["endpoint", "destination", "routes", "key", "another"];

/// All that a function may do with documents.
const RIGHTS: [(&str, &str, &[&str]); 5] = [
    ("WebhookFunction", GET, &["endpoint", "key"]),
    // It makes the message key, once.
    ("WebhookFunction", PUT, &["key"]),
    ("WorkerFunction", GET, &["routes", "key"]),
    ("RelayFunction", GET, &["key"]),
    ("DispatcherFunction", GET, &["destination"]),
];

/// Returns items of every kind, or a copy of them, whatever kinds a policy names.
const READS_ALL: [&str; 6] = [
    "dynamodb:Scan",
    "dynamodb:PartiQLSelect",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PartiQLDelete",
    "dynamodb:ExportTableToPointInTime",
];

/// What else can be done with a table or its items.
const OTHERS: [&str; 14] = [
    GET,
    PUT,
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchGetItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:Query",
    "dynamodb:CreateBackup",
    "dynamodb:RestoreTableToPointInTime",
    "dynamodb:UpdateTable",
    "dynamodb:DeleteTable",
    "dynamodb:PutResourcePolicy",
    "dynamodb:DeleteResourcePolicy",
];

fn may(function: &str, action: &str, kind: &str) -> bool {
    RIGHTS.iter().any(|(whose, what, kinds)| (*whose, *what) == (function, action) && kinds.contains(&kind))
}

fn has_managed_policy(template: &Template, function: &str) -> bool {
    let role = template.property(function, &["Role"]);
    let role = role.as_str().unwrap().trim_end_matches(".Arn");
    !template.raw(&["Resources", role, "Properties", "ManagedPolicyArns"]).is_null()
}

/// What a function may do beyond its rights or not do within them, by its statements.
fn differs(function: &str, statements: &Statements) -> Vec<String> {
    let actions = OTHERS.into_iter().chain(READS_ALL);
    let pairs = actions.flat_map(|action| KINDS.map(|kind| (action, kind)));
    let differs = pairs.filter_map(|(action, kind)| {
        let allowed = statements.allow(&Request::new(action, TABLE).with(LEADING_KEYS, &[kind]));
        (allowed != may(function, action, kind)).then(|| format!("{} {action} of {kind}", verb(allowed)))
    });
    differs.collect()
}

const fn verb(allowed: bool) -> &'static str {
    if allowed { "may" } else { "may not" }
}

/// Each function for itself, by the template alone.
fn by_the_template(template: &Template) -> Vec<String> {
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let found = functions.filter_map(|function| {
        let statements = Statements::of(template, function);
        let mut found = differs(function, &statements);
        // A condition on all values also holds where there is none.
        let unguarded = OTHERS.into_iter().filter(|action| statements.allow(&Request::new(action, TABLE)));
        found.extend(unguarded.map(|action| format!("may {action} without a kind")));
        // It would read one kind along with the other.
        for mixed in KINDS.map(|kind| ["endpoint", kind]) {
            let allowed = statements.allow(&Request::new(GET, TABLE).with(LEADING_KEYS, &mixed));
            if allowed != mixed.iter().all(|kind| may(function, GET, kind)) {
                found.push(format!("{} {GET} of {mixed:?} together", verb(allowed)));
            }
        }
        found.extend(elsewhere(&statements));
        (!found.is_empty()).then(|| format!("{function} {}", found.join(", ")))
    });
    found.collect()
}

/// What a function may do with an index, a backup or an export of the table.
fn elsewhere(statements: &Statements) -> Vec<String> {
    let places = ["index/due", "stream/now", "backup/one", "export/one"].map(|place| format!("{TABLE}/{place}"));
    let pairs = places.iter().flat_map(|place| {
        ["dynamodb:Query", "dynamodb:GetRecords", "dynamodb:RestoreTableFromBackup"].map(|action| (action, place))
    });
    let allowed = pairs.filter(|(action, place)| statements.allow(&Request::new(action, place)));
    allowed.map(|(action, place)| format!("may {action} on {place}")).collect()
}

/// A person gives a role a policy of their own that allows every table. That must change nothing here.
fn by_a_broad_policy(template: &Template) -> Vec<String> {
    let broad = json!({ "Statement": [{ "Effect": "Allow", "Action": "dynamodb:*", "Resource": "*" }] });
    let functions = template.resources("AWS::Serverless::Function").into_iter();
    let with_managed = functions.filter(|function| has_managed_policy(template, function));
    let found = with_managed.filter_map(|function| {
        let statements = Statements::of(template, function).and(&broad);
        let mut found = differs(function, &statements);
        found.extend(elsewhere(&statements));
        (!found.is_empty()).then(|| format!("{function} {}", found.join(", ")))
    });
    found.collect()
}

/// Whoever reads this key can forge a delivery in a queue.
fn readers_of_the_message_key(template: &Template) -> Vec<String> {
    let broad = json!({ "Statement": [{ "Effect": "Allow", "Action": "dynamodb:*", "Resource": "*" }] });
    let reads = |function: &&str| {
        let own = Statements::of(template, function);
        let all = if has_managed_policy(template, function) { own.and(&broad) } else { own };
        all.allow(&Request::new(GET, TABLE).with(LEADING_KEYS, &["key"]))
    };
    let found: BTreeSet<_> = template.resources("AWS::Serverless::Function").into_iter().filter(reads).collect();
    let expected = BTreeSet::from(["RelayFunction", "WebhookFunction", "WorkerFunction"]);
    found.symmetric_difference(&expected).map(|function| format!("{function}: message key")).collect()
}

/// The table's own policy holds for everybody, also for principals whom IAM allows everything.
fn by_the_table(template: &Template) -> Vec<String> {
    let policy = template.property("DocumentsTable", &["ResourcePolicy", "PolicyDocument"]);
    let statements = Statements::in_document(&policy);
    let denied = |action: &&str| statements.deny(&Request::new(action, TABLE).with(LEADING_KEYS, &["endpoint"]));
    let open = READS_ALL.into_iter().filter(|action| !denied(action)).map(|action| format!("{action} is open"));
    // Commands need some of these.
    let closed = OTHERS.into_iter().filter(denied).map(|action| format!("{action} is denied to all"));
    // A role would wait for the table, and the table for the role.
    let of_all = |statement: &Value| statement["Principal"] == "*" && statement["Condition"].is_null();
    let named = list(&policy["Statement"]).into_iter().filter(|statement| !of_all(statement));
    open.chain(closed).chain(named.map(|statement| format!("not for everybody: {statement}"))).collect()
}

const WEBHOOK_READS: &str = "\"ForAllValues:StringEquals\": { \"dynamodb:LeadingKeys\": [endpoint, key] }";

const OF_DOCUMENTS: &str = "Resource: !If [MakesDocumentsTable, !GetAtt DocumentsTable.Arn, !Sub \"arn:${AWS::Partition}:\
                            dynamodb:${AWS::Region}:${AWS::AccountId}:table/${DocumentsTableName}\"]";

#[test]
fn each_function_reads_its_own_kinds_of_documents() {
    let with_destinations = WEBHOOK_READS.replace("endpoint, key", "endpoint, destination, key");
    let for_any = WEBHOOK_READS.replace("ForAllValues", "ForAnyValue");
    let guard = "\n                  \"Null\": { \"dynamodb:LeadingKeys\": \"false\" }";
    let guarded = format!("{WEBHOOK_READS}{guard}");
    let of_destinations = "\"ForAllValues:StringEquals\": { \"dynamodb:LeadingKeys\": [destination] }";
    let of_another = of_destinations.replace("destination]", "another]");
    let unbound = format!("{OF_DOCUMENTS}\n                Condition:\n                  {guarded}\n");
    let bare = format!("{OF_DOCUMENTS}\n");
    Rule(by_the_template).finds([
        (WEBHOOK_READS, &with_destinations, "WebhookFunction may dynamodb:GetItem of destination"),
        (&guarded, WEBHOOK_READS, "WebhookFunction may dynamodb:GetItem without a kind"),
        (WEBHOOK_READS, &for_any, "WebhookFunction may dynamodb:GetItem of [\"endpoint\", \"destination\"] together"),
        (&unbound, &bare, "WebhookFunction may dynamodb:GetItem of destination"),
        (of_destinations, &of_another, "DispatcherFunction may not dynamodb:GetItem of destination"),
        (
            "Action: dynamodb:PutItem\n",
            "Action: [dynamodb:PutItem, dynamodb:UpdateItem]\n",
            "WebhookFunction may dynamodb:UpdateItem of key",
        ),
    ]);
}

#[test]
fn no_managed_policy_lets_a_role_write_documents_or_read_other_kinds() {
    let of_worker = "\"ForAnyValue:StringNotEquals\": { \"dynamodb:LeadingKeys\": [routes, key] }";
    let of_dispatcher = "\"ForAnyValue:StringNotEquals\": { \"dynamodb:LeadingKeys\": [destination] }";
    let below = ", !If [MakesDocumentsTable, !Sub \"${DocumentsTable.Arn}/*\", !Sub \"arn:${AWS::Partition}:dynamodb:\
                 ${AWS::Region}:${AWS::AccountId}:table/${DocumentsTableName}/*\"]]";
    Rule(by_a_broad_policy).finds([
        ("NotAction: dynamodb:GetItem", "Action: dynamodb:Scan", "WorkerFunction may dynamodb:PutItem of endpoint"),
        (
            "NotAction: dynamodb:GetItem",
            "NotAction: [dynamodb:GetItem, dynamodb:PutItem]",
            "WorkerFunction may dynamodb:PutItem of endpoint",
        ),
        (
            of_worker,
            &of_worker.replace("routes", "routes, endpoint"),
            "WorkerFunction may dynamodb:GetItem of endpoint",
        ),
        (of_dispatcher, &of_dispatcher.replace('[', "[routes, "), "DispatcherFunction may dynamodb:GetItem of routes"),
        (below, "]", "WorkerFunction may dynamodb:Query on DocumentsTable.Arn/index"),
    ]);
}

#[test]
fn only_who_makes_or_takes_a_payload_reads_the_message_key() {
    let of_dispatcher = "\"ForAnyValue:StringNotEquals\": { \"dynamodb:LeadingKeys\": [destination] }";
    Rule(readers_of_the_message_key).finds([
        (of_dispatcher, &of_dispatcher.replace("destination", "destination, key"), "DispatcherFunction"),
        (WEBHOOK_READS, &WEBHOOK_READS.replace("endpoint, key", "endpoint"), "WebhookFunction"),
    ]);
}

#[test]
fn nobody_reads_all_kinds_of_documents_at_once() {
    let mut policy = template().property("DocumentsTable", &["ResourcePolicy", "PolicyDocument"]);
    policy["Statement"][0].as_object_mut().unwrap().remove("Sid");
    assert_eq!(policy, documents_policy(), "doctor compares with it");
    let deny = "Sid: NobodyReadsAllKinds\n              Effect: Deny";
    Rule(by_the_table).finds([
        ("                - dynamodb:Scan\n", "", "dynamodb:Scan is open"),
        ("                - dynamodb:PartiQLDelete\n", "", "dynamodb:PartiQLDelete is open"),
        (
            "                - dynamodb:Scan\n",
            "                - dynamodb:Scan\n                - dynamodb:Query\n",
            "dynamodb:Query is denied",
        ),
        (
            deny,
            &format!("{deny}\n              Condition: {{ \"Null\": {{ \"dynamodb:LeadingKeys\": \"false\" }} }}"),
            "not for everybody",
        ),
    ]);
}
