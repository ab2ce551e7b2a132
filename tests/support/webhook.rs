//! A webhook function, called as a gateway calls it: an event as JSON in, an answer as JSON out.

use std::collections::BTreeMap;
use std::sync::Arc;

use hookonce_local::gateway::answer::http_answer;
use hookonce_webhook::WebhookFunction;
use serde_json::Value;

use super::clock::Clock;
use super::faults::{TestQueue, TestStore};
use super::materials::MemoryMaterials;

type Function = WebhookFunction<TestStore, TestQueue, MemoryMaterials, Clock>;

/// A webhook function behind a gateway.
#[derive(Debug)]
pub(crate) struct Webhook(Arc<Function>);

impl Webhook {
    pub(crate) fn new(function: Function) -> Self {
        Self(Arc::new(function))
    }

    /// The answer as the gateway gets it.
    pub(crate) async fn invoke(&self, event: Value) -> Value {
        self.0.invoke(event).await
    }

    /// The answer as the sender gets it.
    pub(crate) async fn handle(&self, event: Value) -> Answer {
        Answer::read(&self.invoke(event).await)
    }
}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status_code: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    fn read(answer: &Value) -> Self {
        let (parts, body) = http_answer(answer).unwrap_or_else(|error| panic!("{error}: {answer}")).into_parts();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = String::from_utf8(body.into()).unwrap();
        Self { status_code: parts.status.as_u16(), headers: headers.collect(), body }
    }
}
