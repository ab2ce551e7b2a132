//! A callee that counts by key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::timing::Moment;
use hookonce_runtime::destinations::{Caller, Destination};

/// Answers calls as a test says, and remembers them. Clones share what they remember.
#[derive(Debug, Clone, Default)]
pub(crate) struct Callee(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    calls: Vec<(OutboundCall, Called)>,
    answers: BTreeMap<String, Called>,
    hanging: BTreeSet<String>,
}

impl Callee {
    /// How every call of this destination ends from now on. Until then it is done.
    pub(crate) fn answers_at(&self, destination: &str, called: Called) {
        self.0.lock().unwrap().answers.insert(destination.to_owned(), called);
    }

    /// No call of this destination ends from now on.
    pub(crate) fn hangs_at(&self, destination: &str) {
        self.0.lock().unwrap().hanging.insert(destination.to_owned());
    }

    /// Every call so far.
    pub(crate) fn calls(&self) -> Vec<OutboundCall> {
        self.0.lock().unwrap().calls.iter().map(|(delivery, _)| delivery.clone()).collect()
    }

    /// How many calls this destination has done.
    pub(crate) fn done_at(&self, destination: &str) -> usize {
        let memory = self.0.lock().unwrap();
        let done = |(delivery, called): &&(OutboundCall, Called)| {
            delivery.destination.as_str() == destination && matches!(called, Called::Done { .. })
        };
        memory.calls.iter().filter(done).count()
    }

    /// The different keys of all calls.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        self.calls().into_iter().map(|delivery| delivery.idempotency_key).collect()
    }
}

impl Caller for Callee {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a OutboundCall,
        _: Moment,
    ) -> BoxFuture<'a, Called> {
        let mut memory = self.0.lock().unwrap();
        if memory.hanging.contains(destination.id.as_str()) {
            return Box::pin(std::future::pending());
        }
        let called = memory.answers.get(destination.id.as_str()).copied();
        let called = called.unwrap_or(Called::Done { status: Some(200) });
        memory.calls.push((delivery.clone(), called));
        Box::pin(async move { called })
    }
}
