//! The embedded DynamoDB: dynoxide, which keeps tables in `SQLite`.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use bytes::Bytes;
use dynoxide::Database;
use error_reporter::Report;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::server::{ServerThread, StopSignal};
use super::{BackendError, DataLocation};
use crate::visitor::{Guard, REFUSED};

/// The database inside the data directory.
const DATABASE_FILE: &str = "dynamodb.sqlite3";
/// Locked while a process uses the data directory.
const LOCK_FILE: &str = "lock";
/// Three, so that one request is parsed and another one passed on while a third uses the database, which serves one at a
/// time.
const WORKERS: usize = 3;
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

    /// Deletes expired items and returns how many. Blocks, but serves requests between pages of items.
    pub(super) fn sweep(&self) -> Result<usize, BackendError> {
        self.database.sweep_ttl().map_err(failed)
    }
}

fn failed(source: dynoxide::DynoxideError) -> BackendError {
    BackendError::Database { source: Box::new(source) }
}

/// Creates the directory for its owner only, as it holds payloads, and locks it; `None` if another process has the lock.
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
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let hidden = tokio::net::TcpListener::bind(hidden_address()).await;
        let hidden = if let Ok(hidden) = hidden {
            hidden
        } else {
            // A system where loopback is one address only.
            tracing::warn!("the tables can be reached without a key by who finds their port; use made-up data");
            tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?
        };
        let front = Front::new(guard, hidden.local_addr()?).map_err(io::Error::other)?;
        let front = tokio::spawn(async move { axum::serve(listener, front.router()).await });
        let sweeper = tokio::spawn(sweep_periodically(Arc::clone(&store), ttl_sweep_period));
        let served = serve_until(hidden, store.database.clone(), stop).await;
        front.abort();
        sweeper.abort();
        served
    })
}

/// An address of loopback that a web page does not find by trying: one of 16 million. A program of this machine can list it.
/// dynoxide's server takes requests of everybody, web pages included, and cannot be asked not to.
fn hidden_address() -> SocketAddr {
    let [one, two, three, ..] = Uuid::new_v4().into_bytes();
    SocketAddr::from(([127, one.max(1), two, three.clamp(1, 254)], 0))
}

/// What stands before dynoxide's server and passes on what the guard admits.
#[derive(Clone)]
struct Front {
    guard: Guard,
    client: reqwest::Client,
    url: String,
}

impl Front {
    fn new(guard: Guard, hidden: SocketAddr) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self { guard, client, url: format!("http://{hidden}/") })
    }

    fn router(self) -> Router {
        Router::new().fallback(pass_on).with_state(self)
    }
}

/// The headers that decide what a call does.
const ASKED: [&str; 4] = ["content-type", "x-amz-target", "authorization", "x-amz-date"];

/// The headers that a client reads.
const ANSWERED: [&str; 3] = ["content-type", "x-amzn-requestid", "x-amz-crc32"];

async fn pass_on(State(front): State<Front>, request: Request) -> (StatusCode, HeaderMap, Bytes) {
    let (Parts { headers, .. }, body) = request.into_parts();
    // Before the body: it may be long, and a stranger's.
    if !front.guard.admits(&headers) {
        return (StatusCode::FORBIDDEN, HeaderMap::new(), Bytes::from_static(REFUSED.as_bytes()));
    }
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, HeaderMap::new(), Bytes::new());
    };
    let asked = front.client.post(&front.url).headers(only(&headers, &ASKED)).body(body);
    let answered = async {
        let answer = asked.send().await?;
        Ok::<_, reqwest::Error>((answer.status(), only(answer.headers(), &ANSWERED), answer.bytes().await?))
    };
    answered.await.unwrap_or_else(|error| {
        tracing::debug!(error = %Report::new(&error), "the embedded DynamoDB did not answer");
        (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new(), Bytes::new())
    })
}

fn only(headers: &HeaderMap, names: &[&'static str]) -> HeaderMap {
    let named = |name: &&'static str| Some((HeaderName::from_static(name), headers.get(*name)?.clone()));
    names.iter().filter_map(named).collect()
}

async fn serve_until(listener: tokio::net::TcpListener, database: Database, stop: StopSignal) -> io::Result<()> {
    let (drain, draining) = tokio::sync::oneshot::channel::<()>();
    // Resolves when `drain` is dropped.
    let drained = async { drop(draining.await) };
    let mut server = std::pin::pin!(dynoxide::server::serve_with_shutdown(listener, database, drained));
    tokio::select! {
        served = &mut server => return served.map_err(io::Error::other),
        () = stop.received() => drop(drain),
    }
    match tokio::time::timeout(Duration::from_millis(DRAIN_MILLIS_MAX), server).await {
        Ok(served) => served.map_err(io::Error::other),
        // A client still holds an incomplete request open; the runtime drops it.
        Err(_elapsed) => Ok(()),
    }
}

async fn sweep_periodically(store: Arc<Store>, period: Duration) {
    let mut tick = tokio::time::interval(period.max(SWEEP_PERIOD_MIN));
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
