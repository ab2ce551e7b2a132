//! Documents in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_runtime::documents::{DocumentKind, DocumentSource, DocumentsUnavailable, ROUTE_SET_ID};
use serde_json::{Value, json};

/// Documents of all kinds. A test writes those of one kind; functions read all of them. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct MemoryDocuments {
    kind: DocumentKind,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    texts: BTreeMap<(DocumentKind, String), String>,
    down: BTreeSet<DocumentKind>,
    latency: BTreeMap<DocumentKind, Duration>,
    reads: BTreeMap<DocumentKind, usize>,
    is_deployed: bool,
}

impl MemoryDocuments {
    /// No documents. What a test writes is of this kind.
    pub(crate) fn of(kind: DocumentKind) -> Self {
        Self { kind, state: Arc::default() }
    }

    /// The same documents. What a test writes is of this kind.
    pub(crate) fn and_of(&self, kind: DocumentKind) -> Self {
        Self { kind, state: Arc::clone(&self.state) }
    }

    /// Writes a document.
    #[expect(clippy::needless_pass_by_value, reason = "a test writes a text or JSON, and has no more use for it")]
    pub(crate) fn put(&self, id: &str, document: impl ToString) {
        self.state.lock().unwrap().texts.insert(self.key(id), document.to_string());
    }

    /// Writes the route set.
    pub(crate) fn put_set(&self, set: &Value) {
        self.put(ROUTE_SET_ID, set);
    }

    /// Changes one field of a document.
    pub(crate) fn change(&self, id: &str, field: &str, value: Value) {
        let mut state = self.state.lock().unwrap();
        let text = state.texts.get(&self.key(id));
        let mut document: Value = text.map_or_else(|| json!({}), |text| serde_json::from_str(text).unwrap());
        document[field] = value;
        state.texts.insert(self.key(id), document.to_string());
    }

    /// Removes a document.
    pub(crate) fn remove(&self, id: &str) {
        self.state.lock().unwrap().texts.remove(&self.key(id));
    }

    /// Whether documents of this kind are answered.
    pub(crate) fn set_down(&self, down: bool) {
        let mut state = self.state.lock().unwrap();
        if down {
            state.down.insert(self.kind);
        } else {
            state.down.remove(&self.kind);
        }
    }

    /// How long an answer about a document of this kind takes.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.state.lock().unwrap().latency.insert(self.kind, latency);
    }

    /// Says that the documents are not those of a laptop.
    pub(crate) fn deployed(self) -> Self {
        self.state.lock().unwrap().is_deployed = true;
        self
    }

    /// How often a document of this kind was read.
    pub(crate) fn reads(&self) -> usize {
        self.state.lock().unwrap().reads.get(&self.kind).copied().unwrap_or_default()
    }

    /// Every document: kind, id and text.
    pub(crate) fn all(&self) -> Vec<(DocumentKind, String, String)> {
        let state = self.state.lock().unwrap();
        state.texts.iter().map(|((kind, id), text)| (*kind, id.clone(), text.clone())).collect()
    }

    /// As a function gets them.
    pub(crate) fn source(&self) -> Arc<dyn DocumentSource> {
        Arc::new(self.clone())
    }

    fn key(&self, id: &str) -> (DocumentKind, String) {
        (self.kind, id.to_owned())
    }
}

impl DocumentSource for MemoryDocuments {
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
        let latency = {
            let mut state = self.state.lock().unwrap();
            *state.reads.entry(kind).or_default() += 1;
            state.latency.get(&kind).copied().unwrap_or_default()
        };
        async move {
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let state = self.state.lock().unwrap();
            if state.down.contains(&kind) {
                Err(DocumentsUnavailable("the test says so".into()))
            } else {
                Ok(state.texts.get(&(kind, id.to_owned())).cloned())
            }
        }
        .boxed()
    }

    fn create<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
        let mut state = self.state.lock().unwrap();
        let created = if state.down.contains(&kind) {
            Err(DocumentsUnavailable("the test says so".into()))
        } else {
            state.texts.entry((kind, id.to_owned())).or_insert_with(|| text.to_owned());
            Ok(())
        };
        std::future::ready(created).boxed()
    }

    fn is_local(&self) -> bool {
        !self.state.lock().unwrap().is_deployed
    }
}
