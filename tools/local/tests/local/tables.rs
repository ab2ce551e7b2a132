//! The stack's tables and queues, as created.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ProjectionType, ScalarAttributeType, TimeToLiveStatus,
};
use aws_sdk_sqs::types::QueueAttributeName;
use hookonce_local::tables::{CreateError, StackShape, create_stack};
use serde_json::{Value, json};

use crate::support::stack;

#[tokio::test]
async fn creating_the_stack_again_changes_nothing() {
    let stack = stack(30, 3).await;
    stack.send("still here").await;
    let shape = StackShape { visibility_seconds: 30, receive_count_max: 3, ..StackShape::deployed("test") };
    let again = create_stack(&stack.dynamodb, &stack.sqs, &shape).await.unwrap();
    assert_eq!(again, stack.resources);
    assert_eq!(stack.receive().await.len(), 1);
}

#[tokio::test]
async fn both_tables_expire_and_only_the_inbox_has_indexes() {
    let stack = stack(30, 3).await;
    let indexes = vec![("due", vec!["due_shard", "due_at"]), ("journal", vec!["journal_shard", "received_at"])];
    for (table, indexes) in [(&stack.resources.inbox_table, indexes), (&stack.resources.domain_table, Vec::new())] {
        let described = stack.dynamodb.describe_table().table_name(table).send().await.unwrap().table.unwrap();
        let billing = described.billing_mode_summary().unwrap().billing_mode();
        assert_eq!(billing, Some(&BillingMode::PayPerRequest), "{table}");
        let ttl = stack.dynamodb.describe_time_to_live().table_name(table).send().await.unwrap();
        let ttl = ttl.time_to_live_description.unwrap();
        assert_eq!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled), "{table}");
        assert_eq!(ttl.attribute_name.as_deref(), Some("hookonce_expires_at"), "{table}");
        let found = described.global_secondary_indexes().iter().map(|index| {
            assert_eq!(index.projection().unwrap().projection_type(), Some(&ProjectionType::KeysOnly));
            let keys: Vec<_> = index.key_schema().iter().map(KeySchemaElement::attribute_name).collect();
            (index.index_name().unwrap(), keys)
        });
        let mut found: Vec<_> = found.collect();
        found.sort();
        assert_eq!(found, indexes, "{table}");
    }
}

#[tokio::test]
async fn a_table_of_another_kind_is_refused() {
    let stack = stack(30, 3).await;
    let attribute = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S).build();
    stack
        .dynamodb
        .create_table()
        .table_name("other-inbox")
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute.unwrap())
        .key_schema(KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build().unwrap())
        .send()
        .await
        .unwrap();
    let refused = create_stack(&stack.dynamodb, &stack.sqs, &StackShape::deployed("other")).await.unwrap_err();
    assert!(matches!(refused, CreateError::TableDiffers { difference: "key", .. }), "{refused}");

    let shape = StackShape { inbox_table: stack.resources.domain_table.clone(), ..StackShape::deployed("test") };
    let refused = create_stack(&stack.dynamodb, &stack.sqs, &shape).await.unwrap_err();
    assert!(matches!(refused, CreateError::TableDiffers { difference: "set of indexes", .. }), "{refused}");
}

#[tokio::test]
async fn the_queues_have_the_sizes_of_the_shape_and_follow_a_change() {
    let stack = stack(30, 3).await;
    let shape = StackShape::deployed("test");
    let resources = create_stack(&stack.dynamodb, &stack.sqs, &shape).await.unwrap();
    let attributes = async |url: &str| {
        let request = stack.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        request.send().await.unwrap().attributes.unwrap()
    };
    for queue in [&resources.queue, &resources.effects_queue] {
        let found = attributes(&queue.url).await;
        assert_eq!(found[&QueueAttributeName::VisibilityTimeout], "360");
        assert_eq!(found[&QueueAttributeName::MessageRetentionPeriod], "604800");
        let redrive: Value = serde_json::from_str(&found[&QueueAttributeName::RedrivePolicy]).unwrap();
        assert_eq!(redrive, json!({ "deadLetterTargetArn": resources.dead_letter_queue.arn, "maxReceiveCount": 100 }));
    }
    let dead = attributes(&resources.dead_letter_queue.url).await;
    assert_eq!(dead[&QueueAttributeName::MessageRetentionPeriod], "1209600");
    assert_eq!(dead.get(&QueueAttributeName::RedrivePolicy), None);
}
