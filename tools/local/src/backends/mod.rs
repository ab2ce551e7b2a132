//! DynamoDB and SQS, embedded: two servers on free loopback ports, each on a thread and a runtime of its own.
//!
//! They stay apart from the caller's runtime because the embedded DynamoDB runs `SQLite` on the thread that serves the
//! request: shared with the functions, it would stall them and falsify every latency that is measured.

mod dynamodb;
mod server;
mod sqs;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::dynamodb::Store;
use self::server::ServerThread;

/// Where the embedded DynamoDB keeps its data. SQS is in memory in either case: its messages are only hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLocation {
    /// In memory, gone with the process.
    Memory,
    /// In this directory, created if missing and used by one process at a time.
    Directory(PathBuf),
}

/// Why the backends could not be started or asked.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// No loopback port could be opened.
    #[error("cannot listen on 127.0.0.1")]
    Listen {
        /// What the operating system said.
        source: io::Error,
    },
    /// No thread or runtime could be started for a server.
    #[error("cannot start the server thread {thread}")]
    Thread {
        /// The name of the thread.
        thread: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The data directory cannot be created or opened.
    #[error("cannot use the data directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process uses the data directory; two on one database would corrupt each other's view of it.
    #[error("the data directory {} is in use by another process", directory.display())]
    DirectoryInUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The database in the directory cannot be opened, or a sweep failed.
    #[error("the embedded DynamoDB failed")]
    Database {
        /// What the database said.
        source: Box<dynoxide::DynoxideError>,
    },
    /// The sweep did not run to its end.
    #[error("the sweep was interrupted")]
    SweepInterrupted {
        /// How it ended.
        source: tokio::task::JoinError,
    },
}

/// The running backends. Dropping them stops both servers in the background; [`shutdown`](Self::shutdown) also waits.
#[derive(Debug)]
pub struct Backends {
    store: Arc<Store>,
    dynamodb: ServerThread,
    dynamodb_url: String,
    sqs: ServerThread,
    sqs_url: String,
}

impl Backends {
    /// Starts both servers. They answer as soon as this returns.
    ///
    /// Expired items are deleted every `ttl_sweep_period`, which plays the part of DynamoDB's background deletion.
    ///
    /// # Errors
    /// See [`BackendError`]; nothing is left running.
    pub fn start(data: DataLocation, ttl_sweep_period: Duration) -> Result<Self, BackendError> {
        let store = Arc::new(Store::open(data)?);
        let (dynamodb_listener, dynamodb_address) = listen()?;
        let (sqs_listener, sqs_address) = listen()?;
        Ok(Self {
            dynamodb: dynamodb::serve(dynamodb_listener, Arc::clone(&store), ttl_sweep_period)?,
            dynamodb_url: format!("http://{dynamodb_address}"),
            sqs: sqs::serve(sqs_listener, sqs_address.port())?,
            sqs_url: format!("http://{sqs_address}"),
            store,
        })
    }

    /// The endpoint URL of DynamoDB.
    pub fn dynamodb_url(&self) -> &str {
        &self.dynamodb_url
    }

    /// The endpoint URL of SQS.
    pub fn sqs_url(&self) -> &str {
        &self.sqs_url
    }

    /// Deletes the items that have expired, now, and returns how many there were.
    ///
    /// # Errors
    /// [`BackendError::Database`] or [`BackendError::SweepInterrupted`]; items deleted until then stay deleted.
    pub async fn sweep_ttl(&self) -> Result<usize, BackendError> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || store.sweep())
            .await
            .map_err(|source| BackendError::SweepInterrupted { source })?
    }

    /// Stops both servers and waits until the data directory is free again.
    pub async fn shutdown(self) {
        let Self { store, mut dynamodb, mut sqs, .. } = self;
        drop(store);
        dynamodb.stop();
        sqs.stop();
        dynamodb.stopped().await;
        sqs.stopped().await;
    }
}

fn listen() -> Result<(TcpListener, SocketAddr), BackendError> {
    let open = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    open().map_err(|source| BackendError::Listen { source })
}
