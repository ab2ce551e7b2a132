//! Handlers in another language that tests write: a function from a request to an answer.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use hookonce_runtime::handlers::remote::{CallError, CallHandler, RemoteHandlers};
use serde_json::{Value, json};

/// What a fake handler does with one request.
pub(crate) enum Reaction {
    /// Answers, with the id of the request added.
    Answers(Value),
    /// Cannot be reached.
    Away,
    /// Cannot be reached, which takes this long to find out.
    AwayAfter(Duration),
    /// Crashes.
    Crashes,
    /// Answers more than a handler may.
    TooLong,
    /// Takes this long, and then answers.
    Slow(Duration, Value),
}

type Rule = dyn FnMut(&Value) -> Reaction + Send;

/// Handlers of every name, behind both kinds of target. Clones share them.
#[derive(Clone)]
pub(crate) struct FakeHandlers {
    rule: Arc<Mutex<Rule>>,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl fmt::Debug for FakeHandlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FakeHandlers")
    }
}

impl FakeHandlers {
    /// Handlers that follow this rule.
    pub(crate) fn new(rule: impl FnMut(&Value) -> Reaction + Send + 'static) -> Self {
        Self { rule: Arc::new(Mutex::new(rule)), requests: Arc::default() }
    }

    /// As a worker's.
    pub(crate) fn remote(&self) -> RemoteHandlers {
        RemoteHandlers::new(Some(Box::new(self.clone())), Some(Box::new(self.clone())))
    }

    /// What they were asked so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }
}

impl CallHandler for FakeHandlers {
    fn call<'a>(&'a self, _: &'a str, request: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            let request: Value = serde_json::from_slice(&request).unwrap();
            self.requests.lock().unwrap().push(request.clone());
            let reaction = (self.rule.lock().unwrap())(&request);
            let answer = match reaction {
                Reaction::Answers(answer) => answer,
                Reaction::Away => return Err(CallError::Away("the test says so".into())),
                Reaction::AwayAfter(length) => {
                    tokio::time::sleep(length).await;
                    return Err(CallError::Away("the test says so".into()));
                }
                Reaction::TooLong => return Err(CallError::TooLong),
                Reaction::Crashes => return Err(CallError::Crashed("the test says so".into())),
                Reaction::Slow(length, answer) => {
                    tokio::time::sleep(length).await;
                    answer
                }
            };
            Ok(to(&request, answer).to_string().into_bytes())
        })
    }
}

/// The answer with the id of its request.
pub(crate) fn to(request: &Value, mut answer: Value) -> Value {
    answer["request"] = json!(request["request"]);
    answer
}
