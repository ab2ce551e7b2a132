//! The embedded DynamoDB: dynoxide, which keeps tables in `SQLite`.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dynoxide::Database;
use error_reporter::Report;
use tokio::time::MissedTickBehavior;

use super::server::{ServerThread, StopSignal};
use super::{BackendError, DataLocation};

/// The database inside the data directory.
const DATABASE_FILE: &str = "dynamodb.sqlite3";
/// Locked while a process uses the data directory.
const LOCK_FILE: &str = "lock";
/// Two, so that one request is parsed while another uses the database, which serves one at a time.
const WORKERS: usize = 2;
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
    store: Arc<Store>,
    ttl_sweep_period: Duration,
) -> Result<ServerThread, BackendError> {
    ServerThread::start("hookonce-dynamodb", WORKERS, move |stop| async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let sweeper = tokio::spawn(sweep_periodically(Arc::clone(&store), ttl_sweep_period));
        let served = serve_until(listener, store.database.clone(), stop).await;
        sweeper.abort();
        served
    })
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
