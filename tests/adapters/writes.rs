//! What the store makes of every answer to a write and to a transaction.

use hookonce_protocol::call::{CancellationReason, Committed, Written};
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::Item;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::{Found, Record, attribute, equals, set};
use hookonce_protocol::write::{Action, Condition, Table, Write};
use hookonce_runtime::port::Store as _;
use serde_json::{Value, json};

use super::{AMPLE, ATTEMPTS, Case, STORE, answering, claim, error, hold, means, on_the_wire, refusal, store_at};
use crate::fixtures::a_record;
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

fn record() -> Record {
    a_record("in#shop#evt_1")
}

/// A put, an update and a delete of the record, each under a condition.
fn writes() -> [Write; 3] {
    let put = claim();
    let condition = Condition(vec![equals(attribute::CLAIM_ID, "another")]);
    let update = Action::Update(vec![set(attribute::LAST_SEEN_AT, 1)]);
    let update = Write { purpose: Purpose::CountDuplicate, action: update, condition, ..put.clone() };
    let delete = Write { purpose: Purpose::DomainWrite, action: Action::Delete, ..update.clone() };
    [put, update, delete]
}

/// An error of DynamoDB's own.
fn refused(code: &str) -> Reaction {
    refusal(STORE, code)
}

/// A failed condition, with the item that stands there.
fn condition_failed(item: Option<Value>) -> Reaction {
    let mut body = json!({ "__type": format!("{STORE}#ConditionalCheckFailedException"), "message": "failed" });
    if let Some(item) = item {
        body["Item"] = item;
    }
    (400, body.to_string()).into()
}

/// The claim of another delivery with the same key.
fn claim_of_another() -> (Record, Item) {
    let mut record = record();
    record.claim_id.0 = "another".to_owned();
    let Action::Put(item) = claim_write(&record).action else { panic!("a claim is a put") };
    (record, item)
}

/// The item as this write leaves it.
fn left_by(write: &Write) -> Value {
    let (_, another) = claim_of_another();
    let before = (write.purpose != Purpose::Claim).then_some(&another);
    on_the_wire(write.key.as_str(), &write.apply(before).unwrap().unwrap())
}

#[tokio::test]
async fn each_answer_to_a_write_has_its_result() {
    let (another, item) = claim_of_another();
    let stands = on_the_wire(another.key.as_str(), &item);
    let mut newer = stands.clone();
    newer[attribute::SCHEMA_VERSION] = json!({ "N": "2" });
    for write in &writes()[..2] {
        let body = another.body.clone().filter(|_| write.purpose == Purpose::Claim);
        let cases = vec![
            Case::new("applied", (200, "{}"), Written::Applied, 1),
            Case::new("applied, no body", (200, ""), Written::Applied, 1),
            Case::new("no item", condition_failed(None), Written::ConditionFailed(Found::Nothing), 1),
            Case::new(
                "another's item",
                condition_failed(Some(stands.clone())),
                Written::ConditionFailed(Found::Record(Box::new(Record { body, ..another.clone() }))),
                1,
            ),
            Case::new("its own item", condition_failed(Some(left_by(write))), Written::Applied, 1),
            Case::new("a transaction", refused("TransactionConflictException"), Written::TransactionConflict, 1),
            Case::new("not a request", refused("ValidationException"), Written::Invalid, 1),
            Case::new("too many items", refused("ItemCollectionSizeLimitExceededException"), Written::Invalid, 1),
            Case::new(
                "another region's write",
                refused("ReplicatedWriteConflictException"),
                Written::Unavailable,
                ATTEMPTS,
            ),
        ];
        let written = async |server: &ScriptedServer, total| store_at(server, total).write(write).await;
        means(STORE, written, Written::Unavailable, cases).await;

        let unreadable = async |server: &ScriptedServer| match store_at(server, AMPLE).write(write).await {
            Written::ConditionFailed(Found::Unreadable(unreadable)) => unreadable.schema_version,
            other => panic!("{other:?}"),
        };
        hold(unreadable, vec![Case::new("a newer record", condition_failed(Some(newer.clone())), Some(2), 1)]).await;
    }
}

/// The codes of a cancelled transaction, and what each means.
const REASONS: [(Option<&str>, CancellationReason); 10] = [
    (Some("None"), CancellationReason::None),
    (None, CancellationReason::None),
    (Some("ConditionalCheckFailed"), CancellationReason::ConditionFailed),
    (Some("TransactionConflict"), CancellationReason::Transient),
    (Some("ProvisionedThroughputExceeded"), CancellationReason::Transient),
    (Some("ThrottlingError"), CancellationReason::Transient),
    (Some("InternalServerError"), CancellationReason::Transient),
    (Some("AReasonOfTomorrow"), CancellationReason::Transient),
    (Some("ItemCollectionSizeLimitExceeded"), CancellationReason::Invalid),
    (Some("ValidationError"), CancellationReason::Invalid),
];

fn cancelled(codes: &[Option<&str>]) -> Reaction {
    let reason = |code: Option<&str>| code.map_or_else(|| json!({}), |code| json!({ "Code": code, "Message": "x" }));
    let reasons: Vec<_> = codes.iter().copied().map(reason).collect();
    let code = format!("{STORE}#TransactionCanceledException");
    (400, json!({ "__type": code, "Message": "x", "CancellationReasons": reasons }).to_string()).into()
}

#[tokio::test]
async fn each_answer_to_a_commit_has_its_result() {
    let unavailable = |code: &str, requests| Case::new(code, refused(code), Committed::Unavailable, requests);
    let denied = |code: &str| Case::new(code, refused(code), Committed::Denied, 1);
    let mut cases = vec![
        Case::new("applied", (200, "{}"), Committed::Applied, 1),
        denied("AccessDeniedException"),
        denied("ResourceNotFoundException"),
        // An earlier attempt under the same token still runs. Nobody knows yet how it ends.
        unavailable("TransactionInProgressException", ATTEMPTS),
        unavailable("IdempotentParameterMismatchException", 1),
        Case::new("not a request", refused("ValidationException"), Committed::Invalid, 1),
        Case::new("cancelled without a reason", cancelled(&[]), Committed::Cancelled(Vec::new()), 1),
    ];
    for (code, reason) in REASONS {
        for position in 0..3 {
            let (mut codes, mut reasons) = ([Some("None"); 3], vec![CancellationReason::None; 3]);
            (codes[position], reasons[position]) = (code, reason);
            let name = format!("{code:?} for write {position}");
            cases.push(Case::new(&name, cancelled(&codes), Committed::Cancelled(reasons), 1));
        }
    }
    let commit = async |server: &ScriptedServer, total| store_at(server, total).commit(&writes()).await;
    means(STORE, commit, Committed::Unavailable, cases).await;
}

/// A delete is a transaction of its own, because only a handler's plan has deletes.
#[tokio::test]
async fn each_answer_to_a_delete_has_its_result() {
    let [_, _, delete] = writes();
    let mut cases = vec![
        Case::new("applied", (200, "{}"), Written::Applied, 1),
        Case::new("not a request", refused("ValidationException"), Written::Invalid, 1),
    ];
    for (code, reason) in REASONS {
        let expected = match reason {
            CancellationReason::ConditionFailed | CancellationReason::OwnFact { .. } => {
                Written::ConditionFailed(Found::Nothing)
            }
            CancellationReason::Invalid => Written::Invalid,
            CancellationReason::None | CancellationReason::Transient => Written::Unavailable,
        };
        cases.push(Case::new(&format!("{code:?}"), cancelled(&[code]), expected, 1));
    }
    let written = async |server: &ScriptedServer, total| store_at(server, total).write(&delete).await;
    means(STORE, written, Written::Unavailable, cases).await;
}

/// The token is what makes the SDK's repeat of a transaction harmless.
#[tokio::test]
async fn the_sdks_repeats_of_a_commit_have_its_token_and_no_other_commit_has() {
    let faults = [Reaction::Close, error(500, "InternalServerError"), refused("TransactionInProgressException")];
    for fault in faults {
        let shown = format!("{fault:?}");
        let done = || Reaction::from((200, "{}"));
        let server = answering([fault.clone(), fault, done(), done()]).await;
        let store = store_at(&server, AMPLE);
        let write = [Write { table: Table::Domain, ..writes()[0].clone() }];
        assert_eq!(store.commit(&write).await, Committed::Applied, "{shown}");
        assert_eq!(store.commit(&write).await, Committed::Applied, "{shown}");
        let bodies: Vec<_> = server.requests().iter().map(HttpMessage::json).collect();
        let token = |index: usize| bodies[index]["ClientRequestToken"].as_str().unwrap();
        assert_eq!(bodies.len(), 4, "{shown}: two faults, and one answer for each commit");
        assert!(bodies[..3].iter().all(|body| *body == bodies[0]), "{shown}: a repeat is the same request");
        assert_ne!(token(0), token(3), "{shown}: another commit of the same writes");
    }
}
