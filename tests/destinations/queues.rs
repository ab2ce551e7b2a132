//! A hand-over to a queue of the run's SQS server.

use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use hookonce_aws::AccountCaller;
use hookonce_local::clients;
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_runtime::destinations::Caller as _;
use serde_json::json;
use uuid::Uuid;

use super::{MOMENT, delivery, destination};
use crate::contract::config_at;
use crate::support::stack::urls;

#[tokio::test]
async fn a_queue_stores_the_payload_with_its_key_and_a_fifo_queue_stores_it_once() {
    let (_, sqs_url) = urls();
    let (sqs, caller) = (clients::sqs(sqs_url), AccountCaller::new(&config_at(sqs_url)));
    let delivery = OutboundCall { path: String::new(), ..delivery() };
    for (suffix, stored) in [("", 2), (".fifo", 1)] {
        let name = format!("jobs-{}{suffix}", Uuid::new_v4());
        let url = format!("https://sqs.eu-central-1.amazonaws.com/000000000000/{name}");
        let queue = destination(&json!({"kind": "sqs", "url": url, "class": "at_least_once"})).unwrap();
        let missing = caller.call(&queue, &delivery, MOMENT).await;
        assert!(matches!(missing, Called::NotDone { status: Some(400), .. }), "{name}: {missing:?}");
        let mut create = sqs.create_queue().queue_name(&name);
        if suffix == ".fifo" {
            create = create.attributes(QueueAttributeName::FifoQueue, "true");
        }
        let url = create.send().await.unwrap().queue_url.unwrap();
        for _ in 0..2 {
            assert_eq!(caller.call(&queue, &delivery, MOMENT).await, Called::Done { status: Some(200) }, "{name}");
        }
        let mut messages = Vec::new();
        // A receive may return fewer messages than there are.
        for _ in 0..4 {
            let receive = sqs.receive_message().queue_url(&url).max_number_of_messages(10).wait_time_seconds(1);
            let receive = receive.message_attribute_names("All");
            let receive = receive.message_system_attribute_names(MessageSystemAttributeName::All);
            messages.extend(receive.send().await.unwrap().messages.unwrap_or_default());
            if messages.len() >= 2 {
                break;
            }
        }
        assert_eq!(messages.len(), stored, "{name}");
        let attributes = messages[0].message_attributes().unwrap();
        let text = |name: &str| attributes[name].string_value().unwrap();
        assert_eq!(text("hookonce-key"), delivery.idempotency_key);
        assert_eq!((text("content-type"), messages[0].body().unwrap()), ("application/json", r#"{"amount": 10.50}"#));
        sqs.delete_queue().queue_url(url).send().await.unwrap();
    }
}
