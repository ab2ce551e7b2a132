//! Runs functions as separate processes, as Lambda does.
//!
//! The binaries are the deployed ones. Each process has its own Runtime API on loopback and one invocation at a time.
//! That API hands out whole events and takes answers, so it answers no web page and nobody who does not know its key,
//! and takes an answer only for the invocation that it handed out, by its id. The key is the path of the API's address:
//! clients append to the address that they are given. When a process ends or is killed, its invocation fails, and the
//! next invocation starts another process, as Lambda would. [`ProcessInvoke::renew`] does what a deployment of new code
//! does.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use uuid::Uuid;

use crate::ambient::{Ambient, unix_millis};
use crate::clients::{ACCOUNT, REGION};
use crate::invoke::{Invoke, InvokeBytes, InvokeError, function_error, function_response};
use crate::visitor;

/// The remaining time that a function is told. The caller's own timeout ends it earlier.
const DEADLINE: Duration = Duration::from_mins(15);

/// How to run a function.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// The binary.
    pub binary: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What the address of its Runtime API begins with. The client for Rust takes an address with a path only as a URL;
    /// those for other languages put `http://` before what they get.
    pub api_scheme: &'static str,
    /// Its environment variables, besides those that Lambda sets.
    pub environment: Vec<(String, String)>,
    /// Gets what it prints. Without it, only its errors are printed.
    pub lines: Option<Lines>,
    /// Most processes in parallel; further invocations wait.
    pub concurrency_max: usize,
    /// How long an invocation waits for one of them before it is throttled. Without it, as long as it takes.
    pub slot_wait_max: Option<Duration>,
}

/// Takes what a process prints, line by line.
#[derive(Clone)]
pub struct Lines(Arc<dyn Fn(&str) + Send + Sync>);

impl Lines {
    /// Passes each line to this closure.
    pub fn to(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Follows a stream until it ends.
    fn follow(&self, stream: Option<impl AsyncRead + Unpin + Send + 'static>) {
        let (Some(stream), Self(take)) = (stream, self.clone()) else { return };
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                take(&String::from_utf8_lossy(&line));
            }
        });
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Lines")
    }
}

/// A function whose invocations run in separate processes.
#[derive(Debug, Clone)]
pub struct ProcessInvoke(Arc<Fleet>);

#[derive(Debug)]
struct Fleet {
    config: ProcessConfig,
    ambient: Ambient,
    idle: Mutex<Idle>,
    free: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Idle {
    /// Processes without an invocation; the one used last is at the end.
    sandboxes: Vec<Sandbox>,
    /// How often the processes were renewed.
    renewals: u64,
}

impl ProcessInvoke {
    /// Starts nothing yet: a process starts when an invocation needs it.
    pub fn new(config: ProcessConfig, ambient: Ambient) -> Self {
        let free = Arc::new(Semaphore::new(config.concurrency_max));
        Self(Arc::new(Fleet { config, ambient, idle: Mutex::default(), free }))
    }

    /// Lets further invocations run in new processes. Those that are idle end now, the others after their invocation.
    pub fn renew(&self) {
        let mut idle = self.0.idle();
        idle.renewals += 1;
        idle.sandboxes.clear();
    }
}

impl Invoke for ProcessInvoke {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let slot = self.slot().await?;
        function_response(&self.invoke_bytes(slot, event.to_string().into()).await?)
    }
}

impl InvokeBytes for ProcessInvoke {
    type Slot = OwnedSemaphorePermit;

    async fn slot(&self) -> Result<OwnedSemaphorePermit, InvokeError> {
        let free = Arc::clone(&self.0.free).acquire_owned();
        let slot = match self.0.config.slot_wait_max {
            Some(longest) => timeout(longest, free).await.map_err(|_| InvokeError::Throttled)?,
            None => free.await,
        };
        // The semaphore is never closed.
        slot.map_err(|_| InvokeError::Throttled)
    }

    async fn invoke_bytes(&self, _slot: OwnedSemaphorePermit, event: Bytes) -> Result<Bytes, InvokeError> {
        let (renewals, living) = self.0.living();
        let mut sandbox = match living {
            Some(sandbox) => sandbox,
            None => Sandbox::start(&self.0.config, self.0.ambient.clone()).await.map_err(|source| {
                InvokeError::NotStarted { binary: self.0.config.binary.display().to_string(), source }
            })?,
        };
        let response = sandbox.invoke(event).await;
        let mut idle = self.0.idle();
        if sandbox.lives() && renewals == idle.renewals {
            idle.sandboxes.push(sandbox);
        }
        response
    }
}

impl Fleet {
    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the processes were renewed, and an idle one. Those that have ended meanwhile are removed.
    fn living(&self) -> (u64, Option<Sandbox>) {
        let mut idle = self.idle();
        idle.sandboxes.retain_mut(Sandbox::lives);
        (idle.renewals, idle.sandboxes.pop())
    }
}

/// One process and its Runtime API. Dropping it ends both.
#[derive(Debug)]
struct Sandbox {
    process: Child,
    work: mpsc::Sender<Work>,
    server: AbortHandle,
}

/// An invocation on its way to the function.
#[derive(Debug)]
struct Work {
    event: Bytes,
    done: oneshot::Sender<Result<Bytes, InvokeError>>,
}

impl Sandbox {
    async fn start(config: &ProcessConfig, ambient: Ambient) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (work, waiting) = mpsc::channel(1);
        let api = Arc::new(RuntimeApi { ambient, waiting: waiting.into(), running: Mutex::default() });
        let key = Uuid::new_v4().simple().to_string();
        let router = api.router(address.port(), &key);
        // However the server ends, the process then has no Runtime API and the invocation fails.
        let server = tokio::spawn(async move { drop(axum::serve(listener, router).await) }).abort_handle();
        let name = config.binary.file_stem().unwrap_or_default();
        let output = || config.lines.as_ref().map(|_| Stdio::piped());
        let mut process = Command::new(&config.binary)
            .args(&config.arguments)
            // As on Lambda, the function gets nothing of this process's environment.
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(config.environment.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", format!("{}{address}/{key}", config.api_scheme))
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", name)
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "local")
            .stdin(Stdio::null())
            .stdout(output().unwrap_or_else(Stdio::null))
            .stderr(output().unwrap_or_else(Stdio::inherit))
            .kill_on_drop(true)
            .spawn()
            .inspect_err(|_| server.abort())?;
        if let Some(lines) = &config.lines {
            lines.follow(process.stdout.take());
            lines.follow(process.stderr.take());
        }
        Ok(Self { process, work, server })
    }

    fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    async fn invoke(&mut self, event: Bytes) -> Result<Bytes, InvokeError> {
        let (done, response) = oneshot::channel();
        let exited = || InvokeError::Failed {
            error_type: "Runtime.ExitError".to_owned(),
            message: "the process ended without a response".to_owned(),
        };
        let handed_over = self.work.send(Work { event, done }).await;
        handed_over.map_err(|_| exited())?;
        tokio::select! {
            biased; // A response that arrived counts, even if the process has ended.
            response = response => response.unwrap_or_else(|_| Err(exited())),
            _ = self.process.wait() => Err(exited()),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Lambda's Runtime API for one process.
struct RuntimeApi {
    ambient: Ambient,
    waiting: tokio::sync::Mutex<mpsc::Receiver<Work>>,
    running: Mutex<Option<Running>>,
}

/// The invocation that the process works on.
struct Running {
    id: String,
    done: oneshot::Sender<Result<Bytes, InvokeError>>,
}

impl RuntimeApi {
    /// Below its key. Every other path is unknown.
    fn router(self: Arc<Self>, port: u16, key: &str) -> axum::Router {
        let no_page = move |request: Request, next: Next| async move {
            let headers = request.headers();
            if visitor::is_local(headers, port) {
                return next.run(request).await;
            }
            StatusCode::FORBIDDEN.into_response()
        };
        let invocations = axum::Router::new()
            .route("/next", get(next))
            .route("/{id}/response", post(response))
            .route("/{id}/error", post(error))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(self);
        axum::Router::new().nest(&format!("/{key}/2018-06-01/runtime/invocation"), invocations).layer(from_fn(no_page))
    }

    fn conclude(&self, id: &str, result: Result<Bytes, InvokeError>) -> StatusCode {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take_if(|running| running.id == id);
        // Nobody waits when the invocation was given up.
        running.map_or(StatusCode::BAD_REQUEST, |running| {
            running.done.send(result).map_or(StatusCode::GONE, |()| StatusCode::ACCEPTED)
        })
    }
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> Response {
    let Some(work) = api.waiting.lock().await.recv().await else { return StatusCode::GONE.into_response() };
    let id = api.ambient.identifier().to_string();
    *api.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { id: id.clone(), done: work.done });
    let deadline = api.ambient.now() + DEADLINE;
    let headers = [
        ("lambda-runtime-aws-request-id", id),
        ("lambda-runtime-deadline-ms", unix_millis(deadline).to_string()),
        ("lambda-runtime-invoked-function-arn", format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:local")),
        ("content-type", "application/json".to_owned()),
    ];
    (headers, work.event).into_response()
}

async fn response(State(api): State<Arc<RuntimeApi>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.conclude(&id, Ok(body))
}

async fn error(State(api): State<Arc<RuntimeApi>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.conclude(&id, Err(function_error(&body)))
}
