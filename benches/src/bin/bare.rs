//! The two calls of a delivery, and nothing else: no signature is verified, nothing is compressed, nothing is logged.

use aws_sdk_dynamodb::types::AttributeValue;
use hookonce_benches::{Error, Event, Stack, answer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let stack = Stack::start().await?;
    answer(async |event: &Event| {
        let key = uuid::Uuid::new_v4().to_string();
        let put = stack.dynamodb.put_item().table_name(&stack.table).condition_expression("attribute_not_exists(pk)");
        put.item("pk", AttributeValue::S(key.clone()))
            .item("body", AttributeValue::S(event.body.clone()))
            .send()
            .await?;
        stack.sqs.send_message().queue_url(&stack.queue).message_body(key).send().await?;
        Ok(())
    })
    .await
}
