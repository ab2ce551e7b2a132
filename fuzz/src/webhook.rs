//! The whole webhook function between ports in memory: an endpoint for each provider, with the secrets of its vectors,
//! so that genuine deliveries and their mutations get as far as they can.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use hookonce_protocol::call::{Committed, DuePage, DueQuery, Unavailable, Written};
use hookonce_protocol::key::{ClaimId, RecordKey};
use hookonce_protocol::message::{HintQueue, Message};
use hookonce_protocol::place::{ItemRef, Key, KeySchema, TableAlias};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{Moment, Timing};
use hookonce_protocol::write::Write;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::config::{EdgeConfig, MESSAGE_BYTES_MAX};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::Endpoints;
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::documents::{DocumentKind, DocumentSource, DocumentsUnavailable};
use hookonce_runtime::inbox::ingest::IngressParts;
use hookonce_runtime::inbox::message_key::MessageKeys;
use hookonce_runtime::port::{MaterialSource, Queue, Store};
use hookonce_runtime::telemetry::Telemetry;
use hookonce_webhook::WebhookFunction;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// Counts what one request writes and sends. Nothing else may be called: an empty store has no loser.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<(AtomicUsize, AtomicUsize)>);

impl Counting {
    fn take(&self) -> (usize, usize) {
        (self.0.0.swap(0, Ordering::SeqCst), self.0.1.swap(0, Ordering::SeqCst))
    }
}

impl Store for Counting {
    async fn write(&self, _write: &Write) -> Written {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        Written::Applied
    }

    async fn commit(&self, _writes: &[Write]) -> Committed {
        unreachable!("the webhook function commits nothing")
    }

    async fn read(&self, _key: &RecordKey) -> Result<Found, Unavailable> {
        unreachable!("nothing is in conflict")
    }

    async fn read_each(&self, _keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        unreachable!("the webhook function reads no batch")
    }

    async fn read_heads(&self, _keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        unreachable!("the webhook function reads no heads")
    }

    async fn read_items(&self, _items: &[ItemRef]) -> Result<Snapshot, Unavailable> {
        unreachable!("the webhook function knows no business")
    }

    async fn key_schema(&self, _table: TableAlias, _named: &[&Key]) -> Result<Option<KeySchema>, Unavailable> {
        unreachable!("the webhook function knows no business")
    }

    async fn query_due(&self, _query: &DueQuery) -> Result<DuePage, Unavailable> {
        unreachable!("the webhook function is no relay")
    }

    async fn count_received(&self, _shard: u16, _from: EpochMs, _until: EpochMs) -> Result<u64, Unavailable> {
        unreachable!("the webhook function is no relay")
    }
}

impl Queue for Counting {
    async fn send(&self, message: &Message) -> Result<(), Unavailable> {
        assert!(message.is_hint(), "the store was there");
        self.0.1.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn send_each(&self, _messages: &[Message]) -> Vec<Result<(), Unavailable>> {
        unreachable!("the webhook function sends one hint")
    }

    async fn hide(&self, _lane: HintQueue, _receipt_handle: &str, _length: Millis) -> Result<(), Unavailable> {
        unreachable!("the webhook function receives nothing")
    }
}

/// The time of the vectors, and no randomness.
#[derive(Debug, Clone, Copy)]
struct Standing;

impl Ambient for Standing {
    fn moment(&self) -> Moment {
        Moment { now: crate::NOW.as_millis(), entropy: 7 }
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId("claim".to_owned())
    }
}

/// One endpoint for each provider, with what its valid vector holds.
#[derive(Debug)]
struct Vectors(BTreeMap<String, String>);

impl Vectors {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/vectors");
        Self(
            Catalog::built_in()
                .iter()
                .map(|provider| (provider.id().to_owned(), document(&folder, provider.id())))
                .collect(),
        )
    }
}

fn document(folder: &Path, provider: &str) -> String {
    let text = std::fs::read_to_string(folder.join(format!("{provider}.jsonl"))).expect("every provider has vectors");
    let vectors = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a vector is JSON"));
    let name = format!("{provider}/valid");
    let vector = vectors.into_iter().find(|vector| vector["id"] == *name).expect("every provider has a valid vector");
    let mut settings = vector["settings"].as_object().cloned().unwrap_or_default();
    settings.entry("public_url").or_insert_with(|| vector["url"].clone());
    let document = json!({ "provider": provider, "secrets": vector["secrets"], "settings": settings }).to_string();
    EndpointDocument::parse(&document).expect("a document");
    document
}

impl DocumentSource for Vectors {
    fn read<'a>(
        &'a self,
        kind: DocumentKind,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, DocumentsUnavailable>> {
        assert_eq!(kind, DocumentKind::Endpoint, "the webhook function needs no other");
        ready(Ok(self.0.get(id).cloned())).boxed()
    }

    fn create<'a>(
        &'a self,
        _kind: DocumentKind,
        _id: &'a str,
        _text: &'a str,
    ) -> BoxFuture<'a, Result<(), DocumentsUnavailable>> {
        unreachable!("there is no message key to make")
    }

    fn is_local(&self) -> bool {
        false
    }
}

/// No certificate can be fetched.
#[derive(Debug)]
struct Nowhere;

impl MaterialSource for Nowhere {
    async fn fetch(&self, _url: &str, _post_body: Option<&str>) -> Result<Vec<u8>, Unavailable> {
        Err(Unavailable)
    }
}

struct Edge {
    runtime: Runtime,
    function: Arc<WebhookFunction<Counting, Counting, Nowhere, Standing>>,
    counting: Counting,
}

impl Edge {
    fn new() -> Self {
        let counting = Counting::default();
        let ingress = IngressParts {
            store: counting.clone(),
            queue: counting.clone(),
            keys: MessageKeys::none(),
            ambient: Standing,
            timing: Timing { webhook_timeout: Millis::hours(1), ..Timing::standard() },
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let endpoints = Endpoints::new(Arc::new(Vectors::read()), Catalog::built_in());
        let telemetry = Telemetry::new(
            "webhook",
            "fuzz",
            Arc::new(|line: &str| {
                serde_json::from_str::<Value>(line).expect("a metric line is JSON");
            }),
        );
        let function = Arc::new(WebhookFunction::new(
            ingress,
            endpoints,
            Materials::new(Nowhere),
            EdgeConfig::direct(),
            telemetry,
        ));
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        Self { runtime, function, counting }
    }
}

thread_local! {
    static EDGE: RefCell<Edge> = RefCell::new(Edge::new());
}

/// Hands an event to the function. It always answers, with a status of its own; a 2xx to a delivery stands for one
/// record and one hint, and anything else for none.
pub fn webhook(data: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
    EDGE.with_borrow(|edge| {
        let answer = edge.runtime.block_on(edge.function.invoke(event));
        let status = answer["statusCode"].as_u64().expect("every answer has a status");
        let written = edge.counting.take();
        let text = answer["body"].as_str().unwrap_or_default();
        let body = serde_json::from_str::<Value>(text).unwrap_or_default();
        assert!(written == (0, 0) || written == (1, 1), "{written:?}");
        if written == (1, 1) {
            assert!((200..300).contains(&status), "{status} for a record");
        }
        if body["status"] == "accepted" {
            assert_eq!(written, (1, 1), "accepted without a record");
        }
        if let Some(code) = body["error"].as_str() {
            assert!(written == (0, 0) && status >= 400, "{status} {code}");
            assert_eq!(text, format!(r#"{{"error":"{code}"}}"#), "a refusal says its code and nothing else");
            let waits = ["material_unavailable", "endpoint_unavailable", "not_configured"].contains(&code);
            assert_eq!(status >= 500 || status == 409, waits, "{status} {code}");
        }
    });
}
