//! Lambda's invoke API on loopback: functions by their names.
//!
//! It knows synchronous invocations only. Whoever calls it needs the access key id that was made for this run.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use error_reporter::Report;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::invoke::{FUNCTION_ERROR, InvokeBytes, InvokeError, Isolated};
use crate::visitor::{self, Guard};

/// The longest event, in bytes: 6 MB.
const EVENT_BYTES_MAX: usize = 6 * 1024 * 1024;

/// A running invoke API. Dropping it stops it.
#[derive(Debug)]
pub struct InvokeApi {
    url: String,
    server: AbortHandle,
}

impl InvokeApi {
    /// Starts serving these functions on a free port of 127.0.0.1. An invocation has `timeout` to end.
    ///
    /// # Errors
    /// The error of the operating system, if it gives no port.
    pub async fn start<I: InvokeBytes>(
        functions: impl IntoIterator<Item = (String, I)>,
        timeout: Duration,
        access_key_id: &str,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let url = format!("http://{access_key_id}@{address}");
        let isolated = |(name, function)| (name, Isolated::new(function, timeout));
        let functions = functions.into_iter().map(isolated).collect();
        let guard = Guard { port: address.port(), access_key_id: access_key_id.to_owned() };
        let router = Router::new()
            .route("/2015-03-31/functions/{name}/invocations", post(invoke::<I>))
            .with_state(Arc::new(Functions { functions, guard }));
        // However it ends, callers then find nobody, as in an outage of Lambda.
        let server = tokio::spawn(async move { drop(axum::serve(listener, router).await) }).abort_handle();
        Ok(Self { url, server })
    }

    /// Its endpoint URL with the access key id, such as `http://KEY@127.0.0.1:9000`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for InvokeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Functions<I> {
    functions: BTreeMap<String, Isolated<I>>,
    guard: Guard,
}

async fn invoke<I: InvokeBytes>(
    State(api): State<Arc<Functions<I>>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if !api.guard.admits(&parts.headers) {
        return (StatusCode::FORBIDDEN, visitor::REFUSED).into_response();
    }
    let Some(function) = api.functions.get(plain_name(&name)) else {
        return refusal(StatusCode::NOT_FOUND, "ResourceNotFoundException", "Function not found");
    };
    let Ok(body) = axum::body::to_bytes(body, EVENT_BYTES_MAX).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", "Request must be smaller than 6 MB");
    };
    if serde_json::from_slice::<IgnoredAny>(&body).is_err() {
        let message = "Could not parse request body into json";
        return refusal(StatusCode::BAD_REQUEST, "InvalidRequestContentException", message);
    }
    let json = (CONTENT_TYPE, "application/json");
    match function.invoke_bytes(body).await {
        Ok(response) => ([json], Body::from(response)).into_response(),
        // Nobody can have seen the event.
        Err(InvokeError::NotStarted { .. }) => {
            refusal(StatusCode::BAD_GATEWAY, "InvalidRuntimeException", "The function cannot start")
        }
        Err(InvokeError::Throttled) => {
            refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsException", "Rate Exceeded.")
        }
        Err(error) => {
            tracing::warn!(function = name, error = %Report::new(&error), "the invocation failed");
            let marked = [("content-type", "application/json"), (FUNCTION_ERROR, "Unhandled")];
            (marked, error_document(&error).to_string()).into_response()
        }
    }
}

/// A function's name without what may stand around it: an ARN, and a version or an alias.
pub fn plain_name(name: &str) -> &str {
    let name = name.split_once(":function:").map_or(name, |(_, name)| name);
    name.split_once(':').map_or(name, |(name, _)| name)
}

fn refusal(status: StatusCode, kind: &'static str, message: &str) -> Response {
    (status, [("x-amzn-errortype", kind)], json!({ "Message": message }).to_string()).into_response()
}

fn error_document(error: &InvokeError) -> Value {
    match error {
        InvokeError::Failed { error_type, message } => json!({ "errorType": error_type, "errorMessage": message }),
        InvokeError::TimedOut { .. } => json!({ "errorType": "Sandbox.Timedout", "errorMessage": error.to_string() }),
        InvokeError::Panicked { .. }
        | InvokeError::NotJson { .. }
        | InvokeError::NotStarted { .. }
        | InvokeError::Throttled
        | InvokeError::Unreachable { .. } => {
            json!({ "errorType": "Unhandled", "errorMessage": error.to_string() })
        }
    }
}
