//! The HTTP gateway: an API Gateway HTTP API with one route, `ANY /{proxy+}`, that invokes one function.
//!
//! A signature verifies only if the function receives the exact event. So the events are those that AWS was observed to
//! deliver, with their oddities ([`event`]), and so are the answers when a function fails, hangs or returns an invalid
//! response ([`answer`]).

pub mod answer;
pub mod event;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use axum::serve::ListenerExt;
use error_reporter::Report;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::event::Arrival;
use crate::ambient::Ambient;
use crate::invoke::{Invoke, Isolated};
use crate::visitor;

/// Largest request body: the quota of HTTP APIs, 10 MB.
pub const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Largest event: the quota of synchronous Lambda invocations, slightly above 6 MiB. Base64 makes a binary body a third
/// larger, so one above about 4.5 MB never reaches a function.
pub const EVENT_BYTES_MAX: usize = 6_291_556;
/// How long running requests may take to end when the gateway stops.
const DRAIN_SECONDS_MAX: u64 = 10;
/// The answer's header with the request id, to find the request in logs.
const REQUEST_ID_HEADER: &str = "apigw-requestid";

/// The configuration of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The loopback port to listen on; 0 takes a free one.
    pub port: u16,
    /// How long a request waits for the function; AWS allows 30 s at most. This does not stop the function.
    pub integration_timeout: Duration,
    /// How long the function may run.
    pub function_timeout: Duration,
    /// The name under which a tunnel leads here. Requests under any other name than that and this machine's are
    /// refused.
    pub public_host: Option<String>,
}

/// Why the gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The port could not be opened, usually because another process uses it.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The requested port.
        port: u16,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A running gateway. Dropping it stops it in the background, after the running requests.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Gateway {
    /// Starts serving `function` on 127.0.0.1. It answers as soon as this returns.
    ///
    /// # Errors
    /// [`GatewayError::Listen`].
    pub async fn start(function: impl Invoke, config: GatewayConfig, ambient: Ambient) -> Result<Self, GatewayError> {
        let port = config.port;
        let listen_failed = |source| GatewayError::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(listen_failed)?;
        let address = listener.local_addr().map_err(listen_failed)?;
        let integration = Integration {
            function: Isolated::new(function, config.function_timeout),
            timeout: config.integration_timeout,
            ambient,
            port: address.port(),
            public_host: config.public_host,
        };
        let (stop, stopping) = watch::channel(false);
        let server = tokio::spawn(serve(listener, integration, stopping));
        Ok(Self { address, stop, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its root, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops accepting requests and waits a limited time for the running ones.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // The server logs its own errors. It has ended in any case.
        drop(self.server.await);
    }
}

struct Integration<I> {
    function: Isolated<I>,
    timeout: Duration,
    ambient: Ambient,
    port: u16,
    public_host: Option<String>,
}

async fn serve<I: Invoke>(listener: TcpListener, integration: Integration<I>, stopping: watch::Receiver<bool>) {
    let service = Router::new()
        .fallback(handle::<I>)
        .with_state(Arc::new(integration))
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %Report::new(&error), "no TCP_NODELAY");
        }
    });
    let server = axum::serve(listener, service).with_graceful_shutdown(stopped(stopping.clone()));
    let served = tokio::select! {
        served = async { server.await } => served,
        () = drain_limit(stopping) => Ok(()),
    };
    if let Err(error) = served {
        tracing::error!(error = %Report::new(&error), "the gateway ended");
    }
}

/// Resolves when the gateway is stopped or dropped.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    drop(stopping.wait_for(|stop| *stop).await);
}

/// Resolves a limited time after the gateway was stopped.
async fn drain_limit(stopping: watch::Receiver<bool>) {
    stopped(stopping).await;
    tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS_MAX)).await;
}

async fn handle<I: Invoke>(
    State(integration): State<Arc<Integration<I>>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let arrival = Arrival {
        request_id: integration.ambient.identifier(),
        at: integration.ambient.now(),
        source_ip: peer.ip(),
        port: integration.port,
    };
    let mut response = match integration.respond(&parts, body, &arrival).await {
        Ok(response) => response.map(Body::from),
        Err(refusal) => refusal.into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(&arrival.request_id()) {
        response.headers_mut().insert(REQUEST_ID_HEADER, value);
    }
    response
}

impl<I: Invoke> Integration<I> {
    async fn respond(&self, parts: &Parts, body: Body, arrival: &Arrival) -> Result<Response<Bytes>, Refusal> {
        if visitor::is_foreign_page(&parts.headers, self.port) {
            return Err(Refusal::Foreign);
        }
        if !visitor::names_us(&parts.headers, self.public_host.as_deref()) {
            tracing::warn!(
                "refused a request under another name: if it came through a tunnel, say its address (--public)"
            );
            return Err(Refusal::Foreign);
        }
        let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| Refusal::TooLarge)?;
        let event = event::http_event(parts, &body, arrival).map_err(|_| Refusal::MalformedPath)?;
        if event.to_string().len() > EVENT_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let request_id = arrival.request_id();
        let waited = tokio::time::timeout(self.timeout, self.function.invoke(event)).await;
        let response = waited.map_err(|_elapsed| Refusal::IntegrationTimeout)?.map_err(|error| {
            tracing::warn!(request.id = request_id, error = %Report::new(&error), "the function failed");
            Refusal::FunctionFailed
        })?;
        answer::http_answer(&response).map_err(|error| {
            tracing::warn!(request.id = request_id, error = %Report::new(&error), "the function's response is no HTTP answer");
            Refusal::FunctionFailed
        })
    }
}

/// The gateway's own answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// From a web page of another origin, or under a name that is not ours: a page's, made to point here.
    Foreign,
    MalformedPath,
    TooLarge,
    FunctionFailed,
    IntegrationTimeout,
}

impl Refusal {
    /// The status and message of HTTP APIs. A timeout is 503 there; 504 belongs to REST APIs.
    fn status_and_message(self) -> (StatusCode, &'static str) {
        match self {
            Self::Foreign => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::MalformedPath => (StatusCode::BAD_REQUEST, "Bad Request"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"),
            Self::FunctionFailed => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
            Self::IntegrationTimeout => (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"message":"{}"}}"#, self.status_and_message().1)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let json = [("content-type", "application/json")];
        (self.status_and_message().0, json, self.to_string()).into_response()
    }
}
