//! The calls of AWS that the worker makes for a batch, the dispatcher for a batch, or the relay for a run, and nothing else:
//! nothing is decompressed, planned, counted or logged. The argument says whose.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeName, SendMessageBatchRequestEntry};
use futures::StreamExt as _;
use futures::future::try_join_all;
use hookonce_benches::{Batch, Error, Stack, answer};

/// How many queries the relay has under way.
const QUERIES_AT_ONCE: usize = 8;

/// The partitions of each list of the relay.
const SHARDS: usize = 16;

/// What the relay reads of a record.
const HEAD: &str = "pk,schema_version,status,claim_id,generation,tenant,provider,event_type,body_sha256,headers,\
    secret_index,received_at,journal_shard,due_shard,due_at,attempts,resends,retries,dead_letters,dead_letter_at,\
    waits_since,not_before,parent,hookonce_expires_at,outcome,last_error,failures,dead_reason,duplicate_count,\
    last_seen_at,last_seen_by,processed_at,dead_at,discarded_at,accept_duplicate,quarantine_mismatch,effects,\
    earlier_effects,effect,destination,method,path,content_type,pass,pass_at,first_call_at,callee,not_done,key_epoch,\
    retried_at,calls,duration_ms";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let whose = std::env::args().nth(1).unwrap_or_default();
    let stack = Stack::start().await?;
    answer(async |batch: &Batch| {
        let keys: Vec<_> = batch.keys().collect();
        match whose.as_str() {
            "worker" => of_worker(&stack, &keys).await,
            "dispatcher" => try_join_all(keys.iter().map(|key| of_effect(&stack, key))).await.map(drop),
            "relay" => of_relay(&stack).await,
            _ => Err("worker, dispatcher or relay".into()),
        }
    })
    .await
}

/// One `BatchGetItem`, and a `TransactWriteItems` for each record.
async fn of_worker(stack: &Stack, keys: &[String]) -> Result<(), Error> {
    let keyed = KeysAndAttributes::builder()
        .set_keys(Some(keys.iter().map(|key| [("pk".to_owned(), s(key))].into()).collect()));
    let read = keyed.consistent_read(true).build()?;
    stack.dynamodb.batch_get_item().request_items(&stack.table, read).send().await?;
    let commits = keys.iter().map(async |key| {
        let writes = [settled(stack, key)?, note(stack, key)?, entry(stack, key)?, balance(stack, key)?];
        let token = uuid::Uuid::new_v4().to_string();
        let commit = stack.dynamodb.transact_write_items().set_transact_items(Some(writes.into()));
        commit.client_request_token(token).send().await?;
        Ok::<_, Error>(())
    });
    try_join_all(commits).await.map(drop)
}

fn settled(stack: &Stack, key: &str) -> Result<TransactWriteItem, Error> {
    let update = Update::builder()
        .table_name(&stack.table)
        .key("pk", s(key))
        .update_expression("SET #n0 = :v3, #n4 = :v4, #n5 = :v5, #n6 = :v6 REMOVE #n7, #n8, #n9, #n10, #n11, #n12 ")
        .condition_expression("#n0 = :v0 AND #n1 = :v1 AND #n2 = :v2 AND attribute_not_exists(#n3)");
    let names = "status,claim_id,generation,retries,outcome,processed_at,hookonce_expires_at,due_shard,due_at,last_error,\
         waits_since,not_before,effects";
    let update = numbered(names).fold(update, |update, (name, text)| update.expression_attribute_names(name, text));
    let values = [s("PENDING"), s(CLAIM), n("0"), s("PROCESSED"), s("APPLIED"), n(NOW), n(NOW)];
    let update = valued(values).fold(update, |update, (name, value)| update.expression_attribute_values(name, value));
    written(update)
}

fn note(stack: &Stack, key: &str) -> Result<TransactWriteItem, Error> {
    let put = absent(stack, &format!("#dk#stripe#booked#invoice.paid#{key}"))
        .item("record", s(key))
        .item("hookonce_expires_at", n(NOW))
        .item("applied_at", n(NOW))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    Ok(TransactWriteItem::builder().put(put.build()?).build())
}

fn entry(stack: &Stack, key: &str) -> Result<TransactWriteItem, Error> {
    let put = absent(stack, &format!("stripe#ledger#invoice.paid#{key}"))
        .item("minor", n("4900"))
        .item("event", s(key))
        .item("received_at", n(NOW))
        .item("kind", s("invoice.paid"))
        .item("account", s("cus_0"))
        .item("currency", s("eur"));
    Ok(TransactWriteItem::builder().put(put.build()?).build())
}

fn balance(stack: &Stack, key: &str) -> Result<TransactWriteItem, Error> {
    let update = Update::builder()
        .table_name(&stack.domain)
        .key("pk", s(&format!("stripe#balance#{key}#eur")))
        .update_expression("ADD #n0 :v0, #n1 :v1 ")
        .expression_attribute_names("#n0", "minor")
        .expression_attribute_names("#n1", "entries")
        .expression_attribute_values(":v0", n("4900"))
        .expression_attribute_values(":v1", n("1"));
    written(update)
}

fn absent(stack: &Stack, key: &str) -> PutBuilder {
    let put = Put::builder().table_name(&stack.domain).item("pk", s(key));
    put.condition_expression("attribute_not_exists(#n0)").expression_attribute_names("#n0", "pk")
}

fn written(update: UpdateBuilder) -> Result<TransactWriteItem, Error> {
    Ok(TransactWriteItem::builder().update(update.build()?).build())
}

/// `GetItem`, `UpdateItem`, `SendMessage` and `UpdateItem`, which is what an effect takes.
async fn of_effect(stack: &Stack, key: &str) -> Result<(), Error> {
    let get = stack.dynamodb.get_item().table_name(&stack.table).key("pk", s(key));
    get.consistent_read(true).send().await?;
    let pass = updating(
        stack,
        key,
        "SET #n5 = :v4, #n8 = :v5, #n9 = :v6, #n6 = :v7 ",
        "#n0 = :v0 AND #n1 = :v1 AND #n2 = :v2 AND attribute_not_exists(#n3) AND #n4 = :v3 AND attribute_not_exists(#n5) \
         AND attribute_not_exists(#n6) AND attribute_not_exists(#n7)",
        "status,claim_id,generation,retries,attempts,pass,first_call_at,not_done,pass_at,callee",
    );
    let values = [s("PENDING"), s(CLAIM), n("0"), n("0"), s(CLAIM), n(NOW), s("at_least_once"), n(NOW)];
    valued(values).fold(pass, |pass, (name, value)| pass.expression_attribute_values(name, value)).send().await?;
    let send = stack.sqs.send_message().queue_url(&stack.queue);
    let text = |value: &str| MessageAttributeValue::builder().data_type("String").string_value(value).build();
    send.message_body(r#"{"account":"cus_0","currency":"eur","invoice":"in_0","minor":"4900"}"#)
        .message_attributes("hookonce-event", text("in#receipts#evt_0")?)
        .message_attributes("content-type", text("application/json")?)
        .message_attributes("hookonce-key", text(CLAIM)?)
        .message_attributes("hookonce-hops", text("1")?)
        .send()
        .await?;
    let done = updating(
        stack,
        key,
        "SET #n0 = :v3, #n4 = :v4, #n5 = :v5, #n6 = :v6, #n7 = :v7 REMOVE #n8, #n9, #n10, #n11 ",
        "#n0 = :v0 AND #n1 = :v1 AND #n2 = :v2 AND attribute_not_exists(#n3)",
        "status,claim_id,generation,key_epoch,outcome,processed_at,hookonce_expires_at,duration_ms,due_shard,due_at,\
         not_before,last_error",
    );
    let values = [s("PENDING"), s(CLAIM), n("0"), s("PROCESSED"), s("DELIVERED"), n(NOW), n(NOW), n("1")];
    valued(values).fold(done, |done, (name, value)| done.expression_attribute_values(name, value)).send().await?;
    Ok(())
}

/// `ReceiveMessage` of the dead-letter queue, and a `Query` of each partition. What is due is read, updated and sent.
async fn of_relay(stack: &Stack) -> Result<(), Error> {
    let names = [MessageSystemAttributeName::ApproximateReceiveCount, MessageSystemAttributeName::SentTimestamp];
    let letters = stack.sqs.receive_message().queue_url(&stack.queue).max_number_of_messages(10).wait_time_seconds(0);
    letters.set_message_system_attribute_names(Some(names.into())).send().await?;
    let lists = [("due", 100), ("waiting", 100), ("effect_due", 100), ("dead", 1_000)];
    let partitions =
        lists.iter().flat_map(|(list, limit)| (0..SHARDS).map(move |shard| (format!("{list}#{shard}"), *limit)));
    let queries = partitions.map(async |(shard, limit)| query(stack, &shard, limit).await);
    let found: Vec<_> = futures::stream::iter(queries).buffer_unordered(QUERIES_AT_ONCE).collect().await;
    let mut keys = Vec::new();
    for of_shard in found {
        keys.extend(of_shard?);
    }
    if keys.is_empty() {
        return Ok(());
    }
    let heads = HEAD
        .split(',')
        .fold(KeysAndAttributes::builder(), |heads, name| heads.expression_attribute_names(format!("#{name}"), name));
    let projection = HEAD.split(',').map(|name| format!("#{name}")).collect::<Vec<_>>().join(", ");
    let keyed = keys.iter().map(|key| [("pk".to_owned(), s(key))].into()).collect();
    let heads = heads.projection_expression(projection).set_keys(Some(keyed)).consistent_read(true).build()?;
    stack.dynamodb.batch_get_item().request_items(&stack.table, heads).send().await?;
    for some in keys.chunks(10) {
        try_join_all(some.iter().map(|key| rearm(stack, key))).await?;
        let entries = some.iter().enumerate().map(|(id, key)| {
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string()).message_group_id("stripe");
            entry.message_body(format!(r#"{{"v":1,"k":"ref","pk":"{key}"}}"#)).build()
        });
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        stack.sqs.send_message_batch().queue_url(&stack.queue).set_entries(Some(entries)).send().await?;
    }
    Ok(())
}

async fn query(stack: &Stack, shard: &str, limit: i32) -> Result<Vec<String>, Error> {
    let query = stack.dynamodb.query().table_name(&stack.table).index_name("due").limit(limit);
    let answer = query
        .key_condition_expression("#shard = :shard AND #due <= :until")
        .expression_attribute_names("#shard", "due_shard")
        .expression_attribute_names("#due", "due_at")
        .expression_attribute_values(":shard", s(shard))
        .expression_attribute_values(":until", n("9223372036854775807"))
        .send()
        .await?;
    Ok(answer.items().iter().filter_map(|item| item.get("pk")?.as_s().ok().cloned()).collect())
}

async fn rearm(stack: &Stack, key: &str) -> Result<(), Error> {
    let expression = ("SET #n1 = :v2, #n2 = :v3, #n3 = :v4 ", "#n0 = :v0 AND #n1 = :v1");
    let update = updating(stack, key, expression.0, expression.1, "status,due_at,resends,hookonce_expires_at");
    let values = [s("PENDING"), n(NOW), n(NOW), n("1"), n(NOW)];
    valued(values).fold(update, |update, (name, value)| update.expression_attribute_values(name, value)).send().await?;
    Ok(())
}

/// An update under a condition, with names that are numbered in the order of this list.
fn updating(stack: &Stack, key: &str, sets: &str, condition: &str, names: &str) -> UpdateItemFluentBuilder {
    let update = stack.dynamodb.update_item().table_name(&stack.table).key("pk", s(key)).update_expression(sets);
    let update = update
        .condition_expression(condition)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    numbered(names).fold(update, |update, (name, text)| update.expression_attribute_names(name, text))
}

/// Values as long as those of the functions.
const CLAIM: &str = "0851c908-df9e-49c7-9bad-56c55d904017";
const NOW: &str = "1795944164377";

fn numbered(names: &str) -> impl Iterator<Item = (String, &str)> {
    names.split(',').enumerate().map(|(number, name)| (format!("#n{number}"), name))
}

fn valued<const N: usize>(values: [AttributeValue; N]) -> impl Iterator<Item = (String, AttributeValue)> {
    values.into_iter().enumerate().map(|(number, value)| (format!(":v{number}"), value))
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(text: &str) -> AttributeValue {
    AttributeValue::N(text.to_owned())
}
