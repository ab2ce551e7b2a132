//! A route set in memory.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use hookonce_protocol::time::Millis;
use hookonce_runtime::route::{Fetched, RouteFetchError, RouteSource};
use serde_json::Value;

/// A source of routes that tests write. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryRoutes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    text: Option<String>,
    down: bool,
    number: usize,
}

impl MemoryRoutes {
    /// Writes another set.
    pub(crate) fn put(&self, set: &Value) {
        let mut state = self.0.lock().unwrap();
        state.text = Some(set.to_string());
        state.number += 1;
    }

    /// Removes the set.
    pub(crate) fn remove(&self) {
        self.0.lock().unwrap().text = None;
    }

    /// Whether the source answers.
    pub(crate) fn set_down(&self, down: bool) {
        self.0.lock().unwrap().down = down;
    }
}

impl RouteSource for MemoryRoutes {
    fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
        let state = self.0.lock().unwrap();
        let version = state.number.to_string();
        let fetched = match &state.text {
            _ if state.down => Err(RouteFetchError("the test says so".into())),
            None => Ok(Fetched::Absent),
            Some(_) if held == Some(version.as_str()) => Ok(Fetched::Unchanged),
            Some(text) => Ok(Fetched::Text { version, text: text.clone() }),
        };
        Box::pin(async move { fetched })
    }

    fn pause(&self) -> Millis {
        Millis::minutes(1)
    }

    fn is_local(&self) -> bool {
        true
    }
}
