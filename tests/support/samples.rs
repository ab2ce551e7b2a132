//! Sample deliveries from `events/`, and variations of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::delivery::Delivery;

/// The folder of all recorded files.
pub(crate) fn events_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../events")
}

/// The bytes of a recorded file.
pub(crate) fn bytes(path: &str) -> Vec<u8> {
    let path = events_folder().join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A recorded file as JSON.
pub(crate) fn json(path: &str) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The conformance vectors of a provider.
pub(crate) fn vectors(provider: &str) -> Vec<Value> {
    let file = bytes(&format!("vectors/{provider}.jsonl"));
    let vectors = serde_json::Deserializer::from_slice(&file).into_iter();
    vectors.map(|vector| vector.unwrap_or_else(|error| panic!("{provider}: {error}"))).collect()
}

/// A Stripe event of a paid invoice.
pub(crate) fn invoice_paid(event: &str, invoice: &str, amount: i64) -> Delivery {
    stripe("deliveries/stripe-invoice-paid.json", event, invoice, ("amount_paid", amount))
}

/// A Stripe event of a charge, with the total refunded so far.
pub(crate) fn charge_refunded(event: &str, charge: &str, refunded: i64) -> Delivery {
    stripe("deliveries/stripe-charge-refunded.json", event, charge, ("amount_refunded", refunded))
}

fn stripe(sample: &str, event: &str, object: &str, (field, amount): (&str, i64)) -> Delivery {
    let mut body = json(sample);
    body["id"] = json!(event);
    body["data"]["object"]["id"] = json!(object);
    body["data"]["object"][field] = json!(amount);
    Delivery::new("stripe", body.to_string())
}

/// The fact that an invoice was paid, as the tables name it.
pub(crate) fn paid(invoice: &str) -> String {
    format!("stripe#payments#invoice.paid#{invoice}")
}

/// A WhatsApp delivery that holds these messages, in this order. A message is the same text in any company.
pub(crate) fn whatsapp(messages: &[&str]) -> Delivery {
    let messages = messages.iter().map(|id| whatsapp_message(id));
    whatsapp_of(messages.collect())
}

/// A WhatsApp message with this id.
pub(crate) fn whatsapp_message(id: &str) -> Value {
    let mut message =
        json("deliveries/meta_whatsapp-messages.json")["entry"][0]["changes"][0]["value"]["messages"][0].take();
    message["id"] = json!(format!("wamid.{id}"));
    message
}

/// A WhatsApp delivery that holds these messages as they are.
pub(crate) fn whatsapp_of(messages: Vec<Value>) -> Delivery {
    let mut body = json("deliveries/meta_whatsapp-messages.json");
    body["entry"][0]["changes"][0]["value"]["messages"] = Value::Array(messages);
    Delivery::new("meta_whatsapp", body.to_string())
}

/// A WhatsApp delivery with these statuses, each a message and a word.
pub(crate) fn whatsapp_statuses(statuses: &[(&str, &str)]) -> Delivery {
    let mut body = json("deliveries/meta_whatsapp-statuses.json");
    let list = &mut body["entry"][0]["changes"][0]["value"]["statuses"];
    let sample = list[0].take();
    let status = |(id, word): &(&str, &str)| {
        let mut status = sample.clone();
        status["id"] = json!(format!("wamid.{id}"));
        status["status"] = json!(word);
        status
    };
    *list = statuses.iter().map(status).collect();
    Delivery::new("meta_whatsapp", body.to_string())
}

/// The fact that a message arrived, as the tables name it.
pub(crate) fn messaged(id: &str) -> String {
    format!("meta_whatsapp#messages#message#wamid.{id}")
}

/// A GitHub push of this commit.
pub(crate) fn push(delivery: &str, commit: &str) -> Delivery {
    let mut body = json("deliveries/github-push.json");
    body["after"] = json!(commit);
    Delivery::new("github", body.to_string()).header("x-github-delivery", delivery).header("x-github-event", "push")
}

/// The fact that a commit is to be built, as the tables name it.
pub(crate) fn built(commit: &str) -> String {
    format!("github#builds#build#17273051#{commit}")
}

/// Incompressible bytes, the same each time.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[3]
    };
    (0..length).map(|_| byte()).collect()
}
