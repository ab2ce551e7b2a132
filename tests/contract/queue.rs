//! What the protocol needs from a queue.

use std::collections::BTreeMap;

use hookonce_local::tables::QueueRef;
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::{ClaimId, RecordKey, RecordKind};
use hookonce_protocol::message::{Lane, Message};
use hookonce_protocol::time::Millis;
use hookonce_runtime::port::Queue;

use crate::support::stack::{TestStack, urls};

/// The whole suite on the deployed adapter, against the servers at these addresses.
async fn sqs_queue_keeps_the_contract(dynamodb_url: &str, sqs_url: &str) {
    let stack = TestStack::at(dynamodb_url, sqs_url).await;
    let queue = stack.queue();
    what_is_sent_is_received(&stack, &queue).await;
    hints_of_effects_go_to_their_own_queue(&stack, &queue).await;
    hints_of_slow_handlers_have_their_own_queue(&stack, &queue).await;
    a_hidden_message_is_not_received_until_it_is_shown(&stack, &queue).await;
    a_quiet_endpoint_waits_for_a_noisy_one(&stack, &queue).await;
}

#[tokio::test]
async fn the_queue_on_the_embedded_server_keeps_the_contract() {
    let (dynamodb_url, sqs_url) = urls();
    sqs_queue_keeps_the_contract(dynamodb_url, sqs_url).await;
}

fn hint(id: &str) -> Message {
    Message::Ref { pk: RecordKey::parse(&format!("in#contract#{id}")).unwrap() }
}

async fn drain(stack: &TestStack) -> BTreeMap<String, usize> {
    drain_of(stack, &stack.resources.queue).await
}

async fn drain_of(stack: &TestStack, queue: &QueueRef) -> BTreeMap<String, usize> {
    let mut received = BTreeMap::new();
    loop {
        let messages = stack.receive(queue).await;
        if messages.is_empty() {
            return received;
        }
        stack.delete_from(&queue.url, &messages.iter().collect::<Vec<_>>()).await;
        for message in messages {
            *received.entry(message.body().unwrap().to_owned()).or_default() += 1;
        }
    }
}

async fn what_is_sent_is_received(stack: &TestStack, queue: &impl Queue) {
    // A provider's id may contain any character; SQS accepts only those that XML allows.
    for id in ["one, \"quoted\" and λ", "\u{0}\u{8}\u{1b}\u{7f}", "\u{fffd}\u{fffe}\u{ffff}\u{1fffe}😀"] {
        queue.send(&hint(id)).await.unwrap();
        let received = drain(stack).await;
        let (text, count) = received.iter().next().unwrap();
        assert_eq!((Message::decode(text), *count), (Ok(hint(id)), 1));
    }
}

async fn hints_of_effects_go_to_their_own_queue(stack: &TestStack, queue: &impl Queue) {
    let effect = |index: usize| {
        let Message::Ref { pk } = hint(&format!("event-{index}")) else { unreachable!() };
        Message::Ref { pk: RecordKey::effect(&pk, &ClaimId("claim".to_owned()), 0, "receipt") }
    };
    queue.send(&effect(0)).await.unwrap();
    // More than a batch of each kind, mixed.
    let of_both = |index: usize| if index.is_multiple_of(2) { effect(index) } else { hint(&format!("event-{index}")) };
    let messages: Vec<_> = (1..=24).map(of_both).collect();
    assert_eq!(queue.send_each(&messages).await, vec![Ok(()); 24]);
    let events: BTreeMap<_, _> = messages
        .iter()
        .filter(|message| message.record_key().kind() != RecordKind::Effect)
        .map(|message| (message.encode(), 1))
        .collect();
    let effects: BTreeMap<_, _> = (0..=24).step_by(2).map(|index| (effect(index).encode(), 1)).collect();
    assert_eq!(drain(stack).await, events);
    assert_eq!(drain_of(stack, &stack.resources.effects_queue).await, effects);
}

async fn hints_of_slow_handlers_have_their_own_queue(stack: &TestStack, queue: &impl Queue) {
    let Message::Ref { pk } = hint("slow") else { unreachable!() };
    queue.send(&Message::Slow { pk, handler: "plan".into() }).await.unwrap();
    assert!(stack.receive(&stack.resources.queue).await.is_empty());
    let received = stack.receive(&stack.resources.slow_queue).await;
    let receipt = received[0].receipt_handle().unwrap();
    queue.hide(Lane::SlowEvents, receipt, Millis::seconds(900)).await.unwrap();
    queue.hide(Lane::SlowEvents, receipt, Millis(0)).await.unwrap();
    assert_eq!(drain_of(stack, &stack.resources.slow_queue).await.len(), 1);
}

async fn a_hidden_message_is_not_received_until_it_is_shown(stack: &TestStack, queue: &impl Queue) {
    queue.send(&hint("hidden")).await.unwrap();
    let first = stack.receive(&stack.resources.queue).await;
    let receipt = first[0].receipt_handle().unwrap();
    queue.hide(Lane::Events, receipt, Millis::seconds(900)).await.unwrap();
    assert!(stack.receive(&stack.resources.queue).await.is_empty());
    assert_eq!(stack.messages().await, 1, "hidden, not gone");
    queue.hide(Lane::Events, receipt, Millis(0)).await.unwrap();
    let again = stack.receive(&stack.resources.queue).await;
    assert_eq!(again.len(), 1);
    stack.delete(&[&again[0]]).await;
}

/// SQS prefers the endpoints whose messages are few. No server for a laptop does, as docs/capacity.md says. One that
/// begins to could measure it.
async fn a_quiet_endpoint_waits_for_a_noisy_one(stack: &TestStack, queue: &impl Queue) {
    const NOISY: usize = 500;
    let of = |endpoint: &str, number: usize| Message::Ref {
        pk: RecordKey::parse(&format!("in#{endpoint}#{number}")).unwrap(),
    };
    let noisy: Vec<_> = (0..NOISY).map(|number| of("noisy", number)).collect();
    assert_eq!(queue.send_each(&noisy).await, vec![Ok(()); NOISY]);
    queue.send(&of("quiet", 0)).await.unwrap();
    let mut order = Vec::new();
    loop {
        let messages = stack.receive(&stack.resources.queue).await;
        if messages.is_empty() {
            break;
        }
        stack.delete(&messages.iter().collect::<Vec<_>>()).await;
        order.extend(messages.iter().map(|message| message.body().unwrap().to_owned()));
    }
    let before = order.iter().position(|body| *body == of("quiet", 0).encode()).unwrap();
    println!("contract: a quiet endpoint's message came after {before} of {NOISY} messages of a noisy one");
    assert!(order.len() == NOISY + 1 && before > NOISY / 2, "{before} of {}", order.len());
}

#[tokio::test]
async fn a_message_that_is_too_long_is_not_confirmed() {
    let stack = TestStack::new().await;
    // Longer than any of the servers accepts, which is at most 1 MiB.
    let long = hint(&"x".repeat(1_100 * 1024));
    assert_eq!(stack.queue().send(&long).await, Err(Unavailable));
    assert_eq!(stack.messages().await, 0);
}
