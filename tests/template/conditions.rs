//! The evaluator of policies decides as IAM does. Otherwise the rules that it bears would prove nothing.

use serde_json::{Value, json};

use crate::support::roles::{Request, Statements};

const KEYS: &str = "dynamodb:LeadingKeys";
const TABLE: &str = "DocumentsTable.Arn";

fn get() -> Request<'static> {
    Request::new("dynamodb:GetItem", TABLE)
}

fn under(condition: &Value) -> Statements {
    let statement =
        json!({ "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": TABLE, "Condition": condition });
    Statements::in_document(&json!({ "Statement": [statement] }))
}

fn of(statements: &Value) -> Statements {
    Statements::in_document(&json!({ "Statement": statements }))
}

#[test]
fn all_values_of_nothing_match_and_any_value_of_nothing_does_not() {
    let all = under(&json!({ "ForAllValues:StringEquals": { KEYS: ["endpoint", "key"] } }));
    for (values, expected) in [
        (&["endpoint"][..], true),
        (&["endpoint", "key"], true),
        (&["endpoint", "destination"], false),
        (&["destination"], false),
        (&[], true),
    ] {
        assert_eq!(all.allow(&get().with(KEYS, values)), expected, "{values:?}");
    }
    assert!(all.allow(&get()), "a missing key");
    let any = under(&json!({ "ForAnyValue:StringNotEquals": { KEYS: ["endpoint", "key"] } }));
    for (values, expected) in
        [(&["endpoint"][..], false), (&["endpoint", "destination"], true), (&["destination"], true), (&[], false)]
    {
        assert_eq!(any.allow(&get().with(KEYS, values)), expected, "{values:?}");
    }
    assert!(!any.allow(&get()), "a missing key");
}

#[test]
fn a_null_condition_requires_or_forbids_a_key() {
    for (wanted, with, without) in [("false", true, false), ("true", false, true)] {
        let guarded = under(&json!({ "Null": { KEYS: wanted } }));
        assert_eq!((guarded.allow(&get().with(KEYS, &["key"])), guarded.allow(&get())), (with, without), "{wanted}");
        assert_eq!(guarded.allow(&get().with(KEYS, &[])), without, "no value is no key");
    }
}

#[test]
fn a_condition_on_one_value_holds_by_its_operator() {
    let role = "arn:aws:iam::1:role/WorkerRole";
    for (operator, wanted, same, missing) in [
        ("StringEquals", json!([role, "x"]), true, false),
        ("StringNotEquals", json!([role, "x"]), false, true),
        ("StringLike", json!("arn:aws:iam::?:role/*Role"), true, false),
        ("StringNotLike", json!("arn:aws:iam::?:role/*Role"), false, true),
        ("ArnEquals", json!(role), true, false),
        ("ArnNotEquals", json!([role]), false, true),
    ] {
        let statements = under(&json!({ operator: { "aws:PrincipalArn": wanted } }));
        let by = |arn| statements.allow(&get().with("aws:PrincipalArn", &[arn]));
        assert_eq!((by(role), by("arn:aws:iam::1:user/ada")), (same, !same), "{operator}");
        assert_eq!(statements.allow(&get()), missing, "{operator} without the key");
    }
    let open = under(&json!({ "Bool": { "aws:SecureTransport": "false" } }));
    let over = |tls| open.allow(&get().with("aws:SecureTransport", &[tls]));
    assert_eq!((over("false"), over("true"), open.allow(&get())), (true, false, false));
}

#[test]
fn every_condition_of_a_statement_must_hold() {
    let both = under(&json!({
        "ForAllValues:StringEquals": { KEYS: ["key"] },
        "Bool": { "aws:SecureTransport": "true" },
    }));
    let keyed = get().with(KEYS, &["key"]);
    assert!(!both.allow(&keyed));
    assert!(both.allow(&keyed.with("aws:SecureTransport", &["true"])));
}

#[test]
fn an_explicit_denial_wins_and_nothing_is_allowed_by_itself() {
    let allow = json!({ "Effect": "Allow", "Action": "dynamodb:*", "Resource": "*" });
    let deny = json!({ "Effect": "Deny", "Action": ["dynamodb:PartiQL*", "dynamodb:Scan"], "Resource": TABLE });
    for statements in [json!([allow, deny]), json!([deny, allow])] {
        let statements = of(&statements);
        assert!(statements.allow(&get()));
        assert!(!statements.allow(&Request::new("dynamodb:Scan", TABLE)));
        assert!(!statements.allow(&Request::new("dynamodb:PartiQLSelect", TABLE)));
        assert!(statements.allow(&Request::new("dynamodb:Scan", "DomainTable.Arn")));
        assert!(!statements.allow(&Request::new("sqs:SendMessage", TABLE)), "nobody allows it");
    }
    assert!(!of(&json!([deny])).allow(&get()));
    assert!(of(&json!([deny])).and(&json!({ "Statement": [allow] })).allow(&get()), "by another policy");
    let unless =
        json!({ "Effect": "Deny", "NotAction": "dynamodb:GetItem", "Resource": [TABLE, "DocumentsTable.Arn/*"] });
    let unless = of(&json!([allow, unless]));
    assert!(unless.allow(&get()));
    assert!(!unless.allow(&Request::new("dynamodb:PutItem", TABLE)));
    assert!(!unless.allow(&Request::new("dynamodb:Query", "DocumentsTable.Arn/index/x")));
}

#[test]
fn names_of_actions_have_no_case_and_those_of_resources_do() {
    let statements =
        of(&json!([{ "Effect": "Allow", "Action": "DynamoDB:getitem", "Resource": "DocumentsTable.?rn" }]));
    assert!(statements.allow(&get()));
    assert!(!statements.allow(&Request::new("dynamodb:GetItem", "documentstable.Arn")));
}

#[test]
#[should_panic(expected = "does not know StringEqualsIgnoreCase")]
fn an_unknown_operator_is_refused() {
    under(&json!({ "StringEqualsIgnoreCase": { "kms:ViaService": "x" } })).allow(&get());
}

#[test]
#[should_panic(expected = "does not know ForEachValue:StringEquals")]
fn an_unknown_set_operator_is_refused() {
    under(&json!({ "ForEachValue:StringEquals": { KEYS: ["key"] } })).allow(&get().with(KEYS, &["key"]));
}

#[test]
#[should_panic(expected = "does not know the key dynamodb:LeadingKey")]
fn an_unknown_key_is_refused() {
    under(&json!({ "ForAllValues:StringEquals": { "dynamodb:LeadingKey": ["key"] } })).allow(&get());
}

#[test]
#[should_panic(expected = "may have several values")]
fn a_key_with_several_values_needs_an_operator_for_sets() {
    under(&json!({ "StringEquals": { KEYS: ["key"] } })).allow(&get().with(KEYS, &["key"]));
}

#[test]
#[should_panic(expected = "does not know Some(\"NotResource\")")]
fn an_unknown_part_of_a_statement_is_refused() {
    of(&json!([{ "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*", "NotResource": TABLE }]));
}

#[test]
#[should_panic(expected = "is no effect")]
fn an_unknown_effect_is_refused() {
    of(&json!([{ "Effect": "allow", "Action": "dynamodb:GetItem", "Resource": "*" }]));
}
