//! That a queue carries any text, and in which order. `fakes` compares receives, hiding and dead letters;
//! `tests/adapters` has the queues of effects and of slow handlers.

use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use hookonce_runtime::port::Queue as _;

use crate::support::stack::TestStack;

fn hint(endpoint: &str, id: &str) -> Message {
    Message::Ref { pk: RecordKey::parse(&format!("in#{endpoint}#{id}")).unwrap() }
}

/// Takes every message out of the queue, in the order in which they come.
async fn drain(stack: &TestStack) -> Vec<String> {
    let mut received = Vec::new();
    loop {
        let messages = stack.receive(&stack.resources.queue).await;
        if messages.is_empty() {
            return received;
        }
        stack.delete(&messages.iter().collect::<Vec<_>>()).await;
        received.extend(messages.into_iter().map(|message| message.body.unwrap()));
    }
}

#[tokio::test]
async fn what_is_sent_is_received() {
    let stack = TestStack::new().await;
    // A provider's id may contain any character; SQS accepts only those that XML allows.
    for id in ["one, \"quoted\" and λ", "\u{0}\u{8}\u{1b}\u{7f}", "\u{fffd}\u{fffe}\u{ffff}\u{1fffe}😀"] {
        let hint = hint("contract", id);
        stack.queue().send(&hint).await.unwrap();
        let received: Vec<_> = drain(&stack).await.iter().map(|text| Message::decode(text, None)).collect();
        assert_eq!(received, [Ok(hint)]);
    }
}

/// SQS prefers the endpoints whose messages are few. No server for a laptop does, as docs/run/capacity.md says. One that
/// begins to could measure it.
#[tokio::test]
async fn a_quiet_endpoint_waits_for_a_noisy_one() {
    const NOISY: usize = 500;
    let stack = TestStack::new().await;
    let (queue, quiet) = (stack.queue(), hint("quiet", "0"));
    let noisy: Vec<_> = (0..NOISY).map(|number| hint("noisy", &number.to_string())).collect();
    assert_eq!(queue.send_each(&noisy).await, vec![Ok(()); NOISY]);
    queue.send(&quiet).await.unwrap();
    let order = drain(&stack).await;
    let before = order.iter().position(|body| *body == quiet.encode(None).unwrap()).unwrap();
    println!("contract: a quiet endpoint's message came after {before} of {NOISY} messages of a noisy one");
    assert!(order.len() == NOISY + 1 && before > NOISY / 2, "{before} of {}", order.len());
}
