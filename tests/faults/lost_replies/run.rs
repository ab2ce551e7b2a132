//! One run: a stack whose functions reach their servers through proxies, and what is looked at after each step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hookonce_protocol::invariant;
use hookonce_protocol::time::Millis;
use hookonce_protocol::write::Table;
use serde_json::{Value, json};

use crate::contract::{dynamodb, sqs};
use crate::effects::keyed;
use crate::remote::count_at_once;
use crate::support::Harness;
use crate::support::call_names::name_of;
use crate::support::counting::counting;
use crate::support::remote::{FakeHandlers, Reaction};
use crate::support::stack::urls;
use crate::support::wire::{HttpMessage, Injector, Proxy, WireFault};

/// Long enough that only the lost reply ends an attempt.
const CALL_MAX: Millis = Millis::seconds(20);

/// What happens to the calls of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interference {
    None,
    /// Those of this name lose their first reply.
    Lost(String),
    /// Those that send messages lose their first reply.
    LostSends,
    /// Those that send nothing lose their first reply.
    LostOthers,
    /// Those of this name are not carried out, and their replies say that they were.
    Pretended(String),
}

impl Interference {
    /// What a request of a call of this name meets.
    fn fault(&self, name: &str, is_first: bool) -> Option<WireFault> {
        let (strikes, fault) = match self {
            Self::None => return None,
            Self::Lost(lost) => (is_first && lost == name, WireFault::ReplyLost),
            Self::LostSends => (is_first && is_send(name), WireFault::ReplyLost),
            Self::LostOthers => (is_first && !is_send(name), WireFault::ReplyLost),
            Self::Pretended(pretended) => (pretended == name, WireFault::FalseSuccess),
        };
        strikes.then_some(fault)
    }
}

/// Whether calls of this name send messages.
pub(crate) fn is_send(name: &str) -> bool {
    ["SendMessage", "SendMessageBatch"].contains(&name)
}

/// Decides over replies, and remembers the calls.
#[derive(Debug)]
pub(crate) struct Replies {
    interference: Interference,
    /// Their names, each once.
    pub(crate) calls: Mutex<BTreeSet<String>>,
    /// How many were disturbed.
    pub(crate) struck: Mutex<usize>,
}

impl Injector for Replies {
    async fn fault(&self, request: &HttpMessage) -> Option<WireFault> {
        let name = name_of(request)?;
        self.calls.lock().unwrap().insert(name.to_owned());
        let is_first = request.header("amz-sdk-request").unwrap().contains("attempt=1");
        let fault = self.interference.fault(name, is_first)?;
        *self.struck.lock().unwrap() += 1;
        Some(fault)
    }
}

/// A run, while it runs.
pub(crate) struct Run {
    pub(crate) harness: Harness,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) replies: Arc<Replies>,
    proxies: [Proxy; 2],
}

impl Run {
    pub(crate) async fn new(interference: Interference) -> Self {
        let mut harness = Harness::with(counting).await;
        let replies = Arc::new(Replies { interference, calls: Mutex::default(), struck: Mutex::default() });
        let proxies = [Proxy::start(urls().0, &replies).await, Proxy::start(urls().1, &replies).await];
        harness.stack.dynamodb = dynamodb(proxies[0].url(), CALL_MAX);
        harness.stack.sqs = sqs(proxies[1].url(), CALL_MAX);
        let first = AtomicBool::new(true);
        harness.remote = Some(FakeHandlers::new(move |request| {
            if first.swap(false, Ordering::SeqCst) { Reaction::Away } else { Reaction::Answers(count_at_once(request)) }
        }));
        let handler = json!({ "lambda": "count" });
        let route = json!({ "name": "n", "consumer": "counting", "types": ["away.*"], "handler": handler });
        let forward = json!({ "name": "f", "consumer": "crm", "types": ["forward.*"], "forward": ["crm"] });
        harness.destinations.put("crm", keyed(24));
        let harness = harness.routed(&json!({ "version": 1, "otherwise": "builtin", "routes": [route, forward] }));
        let harness = harness.reading_table().await;
        Self { harness, log: Mutex::default(), replies, proxies }
    }

    /// Changes one field of an endpoint's document.
    pub(crate) async fn change(&self, id: &str, field: &str, value: Value) {
        self.harness.endpoints.change(id, field, value);
        self.harness.write_documents().await;
    }

    /// Notes what a step answered, and everything that can be seen after it.
    pub(crate) async fn note(&self, step: &str, answer: impl std::fmt::Debug) {
        // A best-effort write may still be under way: its caller does not wait for long.
        for proxy in &self.proxies {
            proxy.at_rest().await;
        }
        self.harness.observe().await;
        let stack = &self.harness.stack;
        let (inbox, domain) = (stack.scan(Table::Inbox).await, stack.scan(Table::Domain).await);
        let items: BTreeSet<_> = inbox.iter().chain(&domain).map(|item| json!(item).to_string()).collect();
        let waits = stack.messages().await > 0;
        let dead = self.harness.metric("record_dead");
        let seen = format!("{step}: {answer:?}, a hint waits: {waits}, deaths told: {dead}");
        let mut log = self.log.lock().unwrap();
        log.push(seen);
        log.extend(items.into_iter().map(|item| format!("after {step}: {item}")));
    }

    /// Everything that is wrong with the tables at the end, where these facts and no others must have been applied.
    pub(crate) async fn violations(&self, facts: &[&str]) -> Vec<String> {
        let tables = self.harness.tables().await;
        let verdict = tables.verdict(facts);
        let mut wrong = Vec::new();
        if verdict.is_alarming() || verdict.applied != facts.len() {
            wrong.push(format!("{verdict:?}"));
        }
        for record in tables.records.values() {
            let broken = invariant::violations(record, &self.harness.timing);
            wrong.extend(broken.iter().map(|violation| format!("{}: {violation}", record.key)));
        }
        wrong
    }
}
