//! The adapters below the real SDK: what they put on the wire, and what they make of every answer that AWS documents.
//! Local servers give few of these answers. `scripts/check adapters` breaks the adapters in every place that it knows
//! and expects this suite to fail.
#![cfg(test)]

mod account;
mod clients;
mod documents;
mod failed_calls;
mod fixtures;
mod hand_overs;
mod handlers;
mod logs;
mod materials;
mod own_tables;
mod queue;
mod reads;
mod requests;
mod roots;
mod scripted;
mod sdk;
mod signed;
mod writes;

use futures::future::join_all;
use hookonce_aws::DynamoStore;
use hookonce_protocol::ingress::claim_write;
use hookonce_protocol::item::{Item, PARTITION_KEY};
use hookonce_protocol::time::Millis;
use hookonce_protocol::write::Write;
use serde_json::{Value, json};

use crate::clients::dynamodb;
use crate::fixtures::a_record;
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

/// Long enough that no call in a test takes as long. What ends a call is then the answer, not a timeout.
const AMPLE: Millis = Millis::minutes(2);

/// How long a call may take where nothing answers. The attempts share it.
const SHORT: Millis = Millis(800);

/// Attempts of one call: the first and two retries by the SDK.
const ATTEMPTS: usize = 3;

/// Attempts of one call if none is answered: each may take half of the call's time.
const SILENT_ATTEMPTS: usize = 2;

const STORE: &str = "com.amazonaws.dynamodb.v20120810";

/// The store on a scripted server.
fn store_at(server: &ScriptedServer, total: Millis) -> DynamoStore {
    DynamoStore::new(dynamodb(server.url(), total), "inbox", "domain")
}

/// An error as the JSON services of AWS answer it.
fn error(status: u16, code: &str) -> Reaction {
    (status, json!({ "__type": code, "message": "a message" }).to_string()).into()
}

/// The refusal of a call by this service.
fn refusal(service: &str, code: &str) -> Reaction {
    error(400, &format!("{service}#{code}"))
}

/// DynamoDB's refusal of a call that a role does not allow.
fn denied() -> Reaction {
    refusal(STORE, "AccessDeniedException")
}

/// A server that gives these answers in this order.
async fn answering<const N: usize>(answers: [Reaction; N]) -> ScriptedServer {
    ScriptedServer::start(move |index, _| answers[index].clone()).await
}

/// The claim of the record `in#shop#evt_1`.
fn claim() -> Write {
    claim_write(&a_record("in#shop#evt_1"))
}

/// What every service can answer to every call, and how many requests the call then takes. None of it is a result, and
/// all of it means the same to a call.
fn failing<T: Clone>(service: &str, expected: &T) -> Vec<Case<T>> {
    let common = [
        (400, "ThrottlingException", ATTEMPTS),
        // DynamoDB's own, but the SDK knows it wherever it comes from.
        (400, "ProvisionedThroughputExceededException", ATTEMPTS),
        (400, "RequestLimitExceeded", ATTEMPTS),
        (500, "InternalServerError", ATTEMPTS),
        (503, "ServiceUnavailable", ATTEMPTS),
        (400, "ResourceNotFoundException", 1),
        (400, "AccessDeniedException", 1),
        (400, "ExpiredTokenException", 1),
        (400, "UnrecognizedClientException", 1),
        (400, "InvalidSignatureException", 1),
        (400, "MissingAuthenticationTokenException", 1),
        (400, "AnErrorOfTomorrow", 1),
    ];
    let on_the_wire = [
        ("a 502 that is a page", Reaction::from((502, "<html>")), ATTEMPTS),
        ("a 400 without a body", (400, "").into(), 1),
        ("a 200 that is a page", (200, "<html>").into(), 1),
        ("a 200 whose JSON ends early", (200, r#"{"ConsumedCapacity":{"#).into(), 1),
        ("a connection that breaks in the body", Reaction::Break(whole()), ATTEMPTS),
        ("a connection that closes", Reaction::Close, ATTEMPTS),
    ];
    let named = common.map(|(status, code, requests)| (code, error(status, &format!("{service}#{code}")), requests));
    let all = named.into_iter().chain(on_the_wire);
    all.map(|(name, answer, requests)| Case::new(name, answer, expected.clone(), requests)).collect()
}

/// An answer with a body.
fn whole() -> HttpMessage {
    HttpMessage::reply(("200 OK", r#"{"ConsumedCapacity":{"TableName":"inbox"}}"#))
}

/// One answer, what a call makes of it, and how many requests that takes.
struct Case<T> {
    name: String,
    answer: Reaction,
    expected: T,
    requests: usize,
}

impl<T> Case<T> {
    fn new(name: &str, answer: impl Into<Reaction>, expected: T, requests: usize) -> Self {
        Self { name: name.to_owned(), answer: answer.into(), expected, requests }
    }
}

/// Makes a call once for each case, against a server that gives the case's answer to every request.
async fn hold<T: PartialEq + std::fmt::Debug>(call: impl AsyncFn(&ScriptedServer) -> T, cases: Vec<Case<T>>) {
    let wrong = join_all(cases.into_iter().map(async |case| {
        let Case { name, answer, expected, requests } = case;
        let server = ScriptedServer::start(move |_, _| answer.clone()).await;
        let got = call(&server).await;
        let sent = server.requests().len();
        (got != expected || sent != requests)
            .then(|| format!("{name}: {got:?} after {sent} requests, not {expected:?} after {requests}"))
    }));
    let wrong: Vec<_> = wrong.await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Makes a call against servers that let it wait. It ends, after no more requests than fit into its time.
async fn ends<T: PartialEq + std::fmt::Debug>(call: impl AsyncFn(&ScriptedServer) -> T, expected: T) {
    let silences = [("silence", Reaction::Silence), ("silence in the body", Reaction::Stall(whole()))];
    let all = silences.map(async |(name, silence)| {
        let server = ScriptedServer::start(move |_, _| silence.clone()).await;
        // Many times the call's own limit: a call that ignores it would wait for ever.
        let limit = std::time::Duration::from_mins(5);
        let got = tokio::time::timeout(limit, call(&server)).await.unwrap_or_else(|_| panic!("{name}: it hangs"));
        assert_eq!(got, expected, "{name}");
        assert!(server.requests().len() <= SILENT_ATTEMPTS, "{name}: {} requests", server.requests().len());
    });
    join_all(all).await;
}

/// Runs both checks of one call, which takes its time limit as an argument: what each answer means, and how the call
/// ends without an answer. What every service can answer means that it `failed`, unless a case of the same name says
/// something else.
async fn means<T: Clone + PartialEq + std::fmt::Debug>(
    service: &str,
    call: impl AsyncFn(&ScriptedServer, Millis) -> T,
    failed: T,
    cases: Vec<Case<T>>,
) {
    let mut all = failing(service, &failed);
    all.retain(|common| cases.iter().all(|case| case.name != common.name));
    all.extend(cases);
    hold(async |server: &ScriptedServer| call(server, AMPLE).await, all).await;
    ends(async |server: &ScriptedServer| call(server, SHORT).await, failed).await;
}

/// An item as it stands on the wire.
fn on_the_wire(key: &str, item: &Item) -> Value {
    let mut item = item.clone();
    item.insert(PARTITION_KEY.to_owned(), key.into());
    json!(item)
}
