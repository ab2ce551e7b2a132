//! Certificates and public keys in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hookonce_protocol::call::Unavailable;
use hookonce_runtime::port::MaterialSource;

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
