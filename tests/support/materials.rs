//! Endpoint documents in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookonce_protocol::call::Unavailable;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::document::{EndpointDocument, FetchError};
use hookonce_runtime::index;
use hookonce_runtime::port::{EndpointRead, EndpointSource, INDEX_TEXTS_MAX, MaterialSource};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Documents as text, by endpoint. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryEndpoints(Arc<State>);

#[derive(Debug, Default)]
struct State {
    documents: Mutex<BTreeMap<String, String>>,
    down: Mutex<bool>,
    latency: Mutex<Duration>,
    throttles_until: Mutex<Option<Instant>>,
    fetches: AtomicUsize,
    index: Mutex<Vec<String>>,
}

impl MemoryEndpoints {
    /// Writes the document of an endpoint.
    pub(crate) fn put(&self, id: &str, document: impl Into<String>) {
        self.0.documents.lock().unwrap().insert(id.to_owned(), document.into());
    }

    /// Changes one field of a document.
    pub(crate) fn change(&self, id: &str, field: &str, value: Value) {
        let mut documents = self.0.documents.lock().unwrap();
        let mut document: Value =
            documents.get(id).map_or_else(|| json!({}), |text| serde_json::from_str(text).unwrap());
        document[field] = value;
        documents.insert(id.to_owned(), document.to_string());
    }

    /// Whether the source answers.
    pub(crate) fn set_down(&self, down: bool) {
        *self.0.down.lock().unwrap() = down;
    }

    /// How long the source takes to answer.
    pub(crate) fn set_latency(&self, latency: Duration) {
        *self.0.latency.lock().unwrap() = latency;
    }

    /// Throttles every read for this long.
    pub(crate) fn throttle_for(&self, length: Duration) {
        *self.0.throttles_until.lock().unwrap() = Some(Instant::now() + length);
    }

    /// Writes the index of all documents that are there now.
    pub(crate) fn write_index(&self) {
        let ids: Vec<_> = self.0.documents.lock().unwrap().keys().map(|id| EndpointId::parse(id).unwrap()).collect();
        *self.0.index.lock().unwrap() = index::texts(&ids);
    }

    /// How often a document was read, alone or with texts of the index.
    pub(crate) fn fetches(&self) -> usize {
        self.0.fetches.load(Ordering::SeqCst)
    }
}

impl EndpointSource for MemoryEndpoints {
    async fn fetch(&self, id: &EndpointId, shards: &[u8]) -> Result<EndpointRead, FetchError> {
        assert!(shards.len() <= INDEX_TEXTS_MAX, "Parameter Store reads ten parameters at once");
        self.0.fetches.fetch_add(1, Ordering::SeqCst);
        let latency = *self.0.latency.lock().unwrap();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if self.0.throttles_until.lock().unwrap().is_some_and(|until| Instant::now() < until) {
            return Err(FetchError::Throttled);
        }
        if *self.0.down.lock().unwrap() {
            return Err(FetchError::Unavailable("the test says so".into()));
        }
        let text = self.0.documents.lock().unwrap().get(id.as_str()).cloned();
        let texts = self.0.index.lock().unwrap();
        let index = shards.iter().map(|shard| (*shard, texts.get(usize::from(*shard)).cloned())).collect();
        Ok(EndpointRead {
            document: text.map(|text| EndpointDocument::parse(&text)).transpose().map_err(FetchError::Malformed),
            index,
        })
    }
}

/// Certificates and keys by URL. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryMaterials(Arc<Mutex<Fetched>>);

#[derive(Debug, Default)]
struct Fetched {
    bodies: BTreeMap<String, Vec<u8>>,
    urls: Vec<String>,
}

impl MemoryMaterials {
    /// Serves this body at a URL.
    pub(crate) fn put(&self, url: &str, body: impl Into<Vec<u8>>) {
        self.0.lock().unwrap().bodies.insert(url.to_owned(), body.into());
    }

    /// Serves nothing at a URL any more.
    pub(crate) fn remove(&self, url: &str) {
        self.0.lock().unwrap().bodies.remove(url);
    }

    /// The URLs that were requested, in order.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.lock().unwrap().urls.clone()
    }
}

impl MaterialSource for MemoryMaterials {
    async fn fetch(&self, url: &str, _post_body: Option<&str>) -> Result<Vec<u8>, Unavailable> {
        let mut fetched = self.0.lock().unwrap();
        fetched.urls.push(url.to_owned());
        fetched.bodies.get(url).cloned().ok_or(Unavailable)
    }
}
