//! Embedded DynamoDB and SQS: two servers on free loopback ports, each with its own thread and runtime.
//!
//! Both take only requests of this machine's programs that know the access key id of the run; see
//! [`clients`](crate::clients).
//!
//! They do not share the caller's runtime, because the embedded DynamoDB runs `SQLite` on the thread that serves the
//! request. On a shared runtime it would block the functions and distort every measured latency.

mod dynamodb;
mod operations;
mod server;
mod sqs;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::dynamodb::Store;
use self::server::ServerThread;
use crate::visitor::{self, Guard};

/// Where the embedded DynamoDB keeps its data. SQS is always in memory, because its messages are only hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLocation {
    /// In memory, lost when the process ends.
    Memory,
    /// In this directory. It is created if missing, and one process at a time may use it.
    Directory(PathBuf),
}

/// Why the backends could not start, or a sweep failed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// No loopback port could be opened.
    #[error("cannot listen on 127.0.0.1")]
    Listen {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A server's thread or runtime could not start.
    #[error("cannot start the server thread {thread}")]
    Thread {
        /// The name of the thread.
        thread: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The data directory cannot be created or opened.
    #[error("cannot use the data directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process uses the data directory. Two on one database would corrupt each other's view of it.
    #[error("the data directory {} is in use by another process", directory.display())]
    DirectoryInUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The database in the directory cannot be opened, or an import or a sweep failed.
    #[error("the embedded DynamoDB failed")]
    Database {
        /// The error of the database.
        source: Box<dynoxide::DynoxideError>,
    },
    /// The sweep was interrupted.
    #[error("the sweep was interrupted")]
    SweepInterrupted {
        /// How its task ended.
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
    /// Expired items are deleted every `ttl_sweep_period`, as DynamoDB does in the background.
    ///
    /// # Errors
    /// See [`BackendError`]; nothing is left running.
    pub fn start(data: DataLocation, ttl_sweep_period: Duration) -> Result<Self, BackendError> {
        let store = Arc::new(Store::open(data)?);
        let access_key_id = visitor::random_access_key_id();
        let (dynamodb_listener, dynamodb_address) = listen()?;
        let (sqs_listener, sqs_address) = listen()?;
        let guard = |address: SocketAddr| Guard { port: address.port(), access_key_id: access_key_id.clone() };
        let url = |address: SocketAddr| format!("http://{access_key_id}@{address}");
        Ok(Self {
            dynamodb: dynamodb::serve(
                dynamodb_listener,
                guard(dynamodb_address),
                Arc::clone(&store),
                ttl_sweep_period,
            )?,
            dynamodb_url: url(dynamodb_address),
            sqs: sqs::serve(sqs_listener, guard(sqs_address))?,
            sqs_url: url(sqs_address),
            store,
        })
    }

    /// The endpoint URL of DynamoDB, with the access key id of this run.
    pub fn dynamodb_url(&self) -> &str {
        &self.dynamodb_url
    }

    /// The endpoint URL of SQS, with the access key id of this run.
    pub fn sqs_url(&self) -> &str {
        &self.sqs_url
    }

    /// Writes items, a list of DynamoDB's JSON, far faster than a client can, as no request is made. Blocks.
    ///
    /// # Errors
    /// [`BackendError::Database`]; nothing is written.
    pub fn import(&self, table: &str, items: &str) -> Result<(), BackendError> {
        self.store.import(table, items)
    }

    /// Deletes the expired items now, and returns how many.
    ///
    /// # Errors
    /// [`BackendError::Database`] or [`BackendError::SweepInterrupted`]; items that are deleted by then stay deleted.
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
