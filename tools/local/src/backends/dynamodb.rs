//! The embedded DynamoDB: dynoxide, which keeps tables in `SQLite`.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::serve::ListenerExt as _;
use dynoxide::{Database, DynoxideError, ImportOptions};
use error_reporter::Report;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::server::ServerThread;
use super::{BackendError, DataLocation, operations};
use crate::visitor::{Guard, REFUSED};

/// The database inside the data directory.
const DATABASE_FILE: &str = "dynamodb.sqlite3";
/// Locked while a process uses the data directory.
const LOCK_FILE: &str = "lock";
/// Two, so that one request is read while another one uses the database, which serves one at a time.
const WORKERS: usize = 2;
/// The content type of requests and answers.
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
/// What stands before an operation's name in the header that names it.
const TARGET_PREFIX: &str = "DynamoDB_20120810.";
/// The longest request that DynamoDB takes, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Shortest time between two sweeps.
const SWEEP_PERIOD_MIN: Duration = Duration::from_millis(10);
/// How long running requests may take to end when the server stops.
const DRAIN_MILLIS_MAX: u64 = 1_000;

/// The open database. Fields drop in this order: the directory is released after the database is closed.
pub(super) struct Store {
    database: Database,
    _lock: Option<File>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn open(data: DataLocation) -> Result<Self, BackendError> {
        match data {
            DataLocation::Memory => Ok(Self { database: Database::memory().map_err(failed)?, _lock: None }),
            DataLocation::Directory(directory) => Self::open_directory(directory),
        }
    }

    fn open_directory(directory: PathBuf) -> Result<Self, BackendError> {
        let path = directory.join(DATABASE_FILE);
        let lock = match lock_directory(&directory) {
            Ok(Some(lock)) => lock,
            Ok(None) => return Err(BackendError::DirectoryInUse { directory }),
            Err(source) => return Err(BackendError::Directory { directory, source }),
        };
        let Some(path) = path.to_str() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8");
            return Err(BackendError::Directory { directory, source });
        };
        Ok(Self { database: Database::new(path).map_err(failed)?, _lock: Some(lock) })
    }

    /// Writes items, a list of DynamoDB's JSON, in one transaction. Blocks.
    pub(super) fn import(&self, table: &str, items: &str) -> Result<(), BackendError> {
        let items =
            serde_json::from_str(items).map_err(|error| DynoxideError::SerializationException(error.to_string()));
        items.and_then(|items| self.database.import_items(table, items, ImportOptions::default())).map_err(failed)?;
        Ok(())
    }

    /// Deletes expired items and returns how many. Blocks, but serves requests between pages of items.
    pub(super) fn sweep(&self) -> Result<usize, BackendError> {
        self.database.sweep_ttl().map_err(failed)
    }
}

fn failed(source: DynoxideError) -> BackendError {
    BackendError::Database { source: Box::new(source) }
}

/// Creates the directory for its owner only, as it holds payloads, and locks it; `None` if another process has the
/// lock.
fn lock_directory(directory: &Path) -> io::Result<Option<File>> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    let lock = File::create(directory.join(LOCK_FILE))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(source),
    }
}

pub(super) fn serve(
    listener: TcpListener,
    guard: Guard,
    store: Arc<Store>,
    ttl_sweep_period: Duration,
) -> Result<ServerThread, BackendError> {
    ServerThread::start("hookonce-dynamodb", WORKERS, move |stop| async move {
        let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(error = %Report::new(&error), "no TCP_NODELAY");
            }
        });
        let server = StoreServer { guard, database: store.database.clone() };
        let sweeper = tokio::spawn(sweep_periodically(store, ttl_sweep_period));
        let (drain, draining) = tokio::sync::oneshot::channel::<()>();
        // Resolves when `drain` is dropped.
        let drained = async { drop(draining.await) };
        let server = axum::serve(listener, server.router()).with_graceful_shutdown(drained);
        let mut server = std::pin::pin!(async { server.await });
        let served = tokio::select! {
            served = &mut server => served,
            () = stop.received() => {
                drop(drain);
                // A client may still hold an incomplete request open; the runtime drops it.
                tokio::time::timeout(Duration::from_millis(DRAIN_MILLIS_MAX), server).await.unwrap_or(Ok(()))
            }
        };
        sweeper.abort();
        served
    })
}

/// Checks who asks, and asks the database. Dynoxide has a server of its own, which answers everybody.
#[derive(Clone)]
struct StoreServer {
    guard: Guard,
    database: Database,
}

impl StoreServer {
    fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }
}

/// What a client reads of an answer.
type Answer = (StatusCode, [(&'static str, String); 2], String);

async fn answer(State(server): State<StoreServer>, request: Request) -> Answer {
    let (Parts { headers, .. }, body) = request.into_parts();
    let answer = |status: StatusCode, body: String| {
        let id = Uuid::new_v4().simple().to_string().to_uppercase();
        (status, [("content-type", CONTENT_TYPE.to_owned()), ("x-amzn-requestid", id)], body)
    };
    // Before the body: it may be long, and its sender is not authenticated.
    if !server.guard.admits(&headers) {
        return answer(StatusCode::FORBIDDEN, REFUSED.to_owned());
    }
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return answer(StatusCode::PAYLOAD_TOO_LARGE, String::new());
    };
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(TARGET_PREFIX)).unwrap_or_default();
    match operations::carry_out(&server.database, operation, &body) {
        Ok(json) => answer(StatusCode::OK, json),
        Err(error) => answer(
            StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            error.to_json(),
        ),
    }
}

async fn sweep_periodically(store: Arc<Store>, period: Duration) {
    let period = period.max(SWEEP_PERIOD_MIN);
    let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let store = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || store.sweep()).await {
            Ok(Ok(0)) => {}
            Ok(Ok(deleted)) => tracing::debug!(deleted, "expired items deleted"),
            Ok(Err(error)) => tracing::warn!(error = %Report::new(&error), "deleting expired items failed"),
            Err(_stopping) => return,
        }
    }
}
