//! What the queue makes of every answer of SQS.

use hookonce_aws::SqsQueue;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::{HintQueue, Message, MessageKey};
use hookonce_protocol::time::Millis;
use hookonce_runtime::inbox::batch::QueueMessage;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::Queue as _;
use serde_json::{Value, json};

use super::{AMPLE, ATTEMPTS, Case, means, refusal};
use crate::clients::sqs;
use crate::fixtures::a_claim;
use crate::scripted::{Reaction, ScriptedServer};

const SERVICE: &str = "com.amazonaws.sqs";

/// What SQS documents that it answers to every call when it cannot carry it out, and how many requests the call takes.
const REFUSALS: [(&str, usize); 6] = [
    ("RequestThrottled", ATTEMPTS),
    ("OverLimit", 1),
    ("QueueDoesNotExist", 1),
    ("InvalidAddress", 1),
    ("InvalidSecurity", 1),
    ("UnsupportedOperation", 1),
];

/// What it also answers to a send, whose message it encrypts.
const OF_KEYS: [&str; 7] = [
    "KmsAccessDenied",
    "KmsDisabled",
    "KmsInvalidKeyUsage",
    "KmsInvalidState",
    "KmsNotFound",
    "KmsOptInRequired",
    "KmsThrottled",
];

/// What it also answers to a batch.
const OF_BATCHES: [&str; 5] = [
    "BatchEntryIdsNotDistinct",
    "BatchRequestTooLong",
    "EmptyBatchRequest",
    "InvalidBatchEntryId",
    "TooManyEntriesInBatchRequest",
];

fn queue_at(server: &ScriptedServer, total: Millis) -> SqsQueue {
    SqsQueue::new(sqs(server.url(), total), format!("{}/123456789012/hints", server.url()))
}

fn hints<const N: usize>() -> [Message; N] {
    std::array::from_fn(|index| Message::Ref { pk: RecordKey::parse(&format!("in#shop#{index}")).unwrap() })
}

/// The refusals of SQS, with these that not every call gets.
fn refused<T: Clone>(expected: &T, own: &[&'static str]) -> Vec<Case<T>> {
    let all = REFUSALS.into_iter().chain(own.iter().map(|code| (*code, 1)));
    all.map(|(code, requests)| Case::new(code, refusal(SERVICE, code), expected.clone(), requests)).collect()
}

#[tokio::test]
async fn each_answer_to_a_send_has_its_result() {
    let mut cases = refused(&Err(Unavailable), &[&OF_KEYS[..], &["InvalidMessageContents"]].concat());
    cases.push(Case::new("sent", (200, r#"{"MessageId":"1","MD5OfMessageBody":"2"}"#), Ok(()), 1));
    let send = async |server: &ScriptedServer, total| queue_at(server, total).send(&hints::<1>()[0]).await;
    means(SERVICE, send, Err(Unavailable), cases).await;
}

#[tokio::test]
async fn a_message_is_hidden_only_after_a_success() {
    let own = ["ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue"];
    let mut cases = refused(&Err(Unavailable), &own);
    cases.extend([
        Case::new("hidden", (200, "{}"), Ok(()), 1),
        // This answer has no content, so nobody reads it.
        Case::new("a 200 that is a page", (200, "<html>"), Ok(()), 1),
        Case::new("a 200 whose JSON ends early", (200, "{"), Ok(()), 1),
    ]);
    let hide = async |server: &ScriptedServer, total| {
        queue_at(server, total).hide(HintQueue::Main, "receipt", Millis::seconds(900)).await
    };
    means(SERVICE, hide, Err(Unavailable), cases).await;
}

/// What a received message says: its id, its receipt, its text, how often it was received, and when it was sent.
type Seen = (String, String, String, i64, Option<i64>);

/// A queue that did not answer is not an empty one.
#[tokio::test]
async fn a_message_is_received_as_an_event_source_hands_it_over() {
    let attributes = json!({ "ApproximateReceiveCount": "7", "SentTimestamp": "1767225600000" });
    let whole = json!({ "MessageId": "1", "ReceiptHandle": "r", "Body": "b", "Attributes": attributes });
    let seen = |id: &str, receipt: &str, body: &str, receives, sent_at| -> Seen {
        (id.to_owned(), receipt.to_owned(), body.to_owned(), receives, sent_at)
    };
    let mut cases = refused(&Err(Unavailable), &OF_KEYS);
    cases.extend([
        Case::new(
            "a message",
            json!({ "Messages": [whole] }),
            Ok(vec![seen("1", "r", "b", 7, Some(1_767_225_600_000))]),
            1,
        ),
        Case::new("a bare one", json!({ "Messages": [{ "Body": "b" }] }), Ok(vec![seen("", "", "b", 1, None)]), 1),
        Case::new("none", (200, "{}"), Ok(Vec::new()), 1),
    ]);
    let receive = async |server: &ScriptedServer, total| {
        let batch = queue_at(server, total).receive("https://sqs.eu-central-1.amazonaws.com/123456789012/dead").await?;
        let seen = |one: &QueueMessage| {
            seen(&one.message_id, &one.receipt_handle, &one.body, one.receives(), one.sent_at().map(|at| at.0))
        };
        Ok::<_, Unavailable>(batch.records.iter().map(seen).collect::<Vec<_>>())
    };
    means(SERVICE, receive, Err(Unavailable), cases).await;
}

/// An answer to a batch. It names entries by their place.
fn batch(sent: &[usize], failed: &[(usize, bool)]) -> Reaction {
    let sent = sent.iter().map(|id| json!({ "Id": id.to_string(), "MessageId": "1", "MD5OfMessageBody": "2" }));
    let failed = failed.iter().map(
        |(id, senders_fault)| json!({ "Id": id.to_string(), "Code": "InternalError", "SenderFault": senders_fault }),
    );
    json!({ "Successful": sent.collect::<Vec<_>>(), "Failed": failed.collect::<Vec<_>>() }).into()
}

/// A message counts as sent only by its own entry.
#[tokio::test]
async fn each_message_of_a_batch_has_the_result_of_its_entry() {
    let (sent, unknown) = (Ok(()), Err(Unavailable));
    let mut cases = refused(&vec![unknown; 3], &[&OF_KEYS[..], &OF_BATCHES].concat());
    cases.extend([
        Case::new("all sent", batch(&[0, 1, 2], &[]), vec![sent; 3], 1),
        Case::new("sent in another order", batch(&[2, 0, 1], &[]), vec![sent; 3], 1),
        Case::new("the sender's fault", batch(&[0, 2], &[(1, true)]), vec![sent, unknown, sent], 1),
        Case::new("the queue's fault", batch(&[1], &[(0, false), (2, false)]), vec![unknown, sent, unknown], 1),
        Case::new("an entry is missing", batch(&[0], &[(1, false)]), vec![sent, unknown, unknown], 1),
        Case::new("an entry of nobody", batch(&[0, 7], &[]), vec![sent, unknown, unknown], 1),
        Case::new("no entry", batch(&[], &[]), vec![unknown; 3], 1),
        Case::new("nothing at all", (200, "{}"), vec![unknown; 3], 1),
    ]);
    let send = async |server: &ScriptedServer, total| queue_at(server, total).send_each(&hints::<3>()).await;
    means(SERVICE, send, vec![unknown; 3], cases).await;
}

/// The places of a later batch begin at zero again.
#[tokio::test]
async fn entries_of_two_batches_are_kept_apart() {
    let server = ScriptedServer::start(|_, request| {
        let body = request.json();
        let entries: Vec<&Value> = body["Entries"].as_array().unwrap().iter().collect();
        let is_sent = |entry: &&&Value| !entry["MessageBody"].as_str().unwrap().contains("#13\"");
        let place = |entry: &Value| entry["Id"].as_str().unwrap().parse::<usize>().unwrap();
        batch(&entries.iter().filter(is_sent).map(|entry| place(entry)).collect::<Vec<_>>(), &[])
    })
    .await;
    let sent = queue_at(&server, AMPLE).send_each(&hints::<23>()).await;
    let expected: Vec<_> = (0..23).map(|index| if index == 13 { Err(Unavailable) } else { Ok(()) }).collect();
    assert_eq!(sent, expected);
    let sizes = server.requests().into_iter().map(|request| request.json()["Entries"].as_array().unwrap().len());
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [3, 10, 10]);
}

/// What nobody could verify is not sent.
#[tokio::test]
async fn a_payload_is_sent_sealed_or_not_at_all() {
    let server = ScriptedServer::start(|_, _| (200, r#"{"MessageId":"1","MD5OfMessageBody":"2"}"#)).await;
    let (queue, key) = (queue_at(&server, AMPLE), MessageKey::new([7; 32]));
    let payload = Message::Full(Box::new(a_claim("in#shop#evt_1")));
    assert_eq!(queue.send(&payload).await, Err(Unavailable));
    assert_eq!(queue.send_each(std::slice::from_ref(&payload)).await, [Err(Unavailable)]);
    assert_eq!(server.requests().len(), 0);
    assert_eq!(queue.with_keys(MessageKeys::fixed(key.clone())).send(&payload).await, Ok(()));
    let sent = server.requests()[0].json()["MessageBody"].as_str().unwrap().to_owned();
    assert_eq!(Message::decode(&sent, Some(&key)), Ok(payload));
}

/// Hints and effects go to queues of their own, and each result stands where its message stood.
#[tokio::test]
async fn the_answers_of_two_queues_are_kept_apart() {
    let server = ScriptedServer::start(|_, request| {
        let is_effects = request.json()["QueueUrl"].as_str().unwrap().ends_with("/effects");
        if is_effects { batch(&[1], &[(0, false)]) } else { batch(&[0, 1], &[]) }
    })
    .await;
    let queue = queue_at(&server, AMPLE).with_effects(format!("{}/123456789012/effects", server.url()));
    let message = |key: &str| Message::Ref { pk: RecordKey::parse(key).unwrap() };
    let messages = ["in#shop#fx#1#a", "in#shop#1", "in#shop#fx#2#a", "in#shop#2"].map(message);
    assert_eq!(queue.send_each(&messages).await, [Err(Unavailable), Ok(()), Ok(()), Ok(())]);
    assert_eq!(server.requests().len(), 2);
}
