//! The embedded SQS: rustack, which keeps each queue in an actor.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use error_reporter::Report;
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustack_sqs_core::config::SqsConfig;
use rustack_sqs_core::handler::RustackSqsHandler;
use rustack_sqs_core::provider::RustackSqs;
use rustack_sqs_http::body::SqsResponseBody;
use rustack_sqs_http::dispatch::SqsHandler;
use rustack_sqs_http::service::{SqsHttpConfig, SqsHttpService};
use rustack_sqs_model::error::SqsError;
use rustack_sqs_model::operations::SqsOperation;
use serde_json::Value;
use tokio::net::TcpStream;

use super::BackendError;
use super::server::ServerThread;
use crate::clients::{ACCOUNT, REGION};
use crate::visitor::{Guard, REFUSED};

/// Enough, because each queue's actor does little work.
const WORKERS: usize = 1;
/// Pause after a connection was not accepted, usually because file descriptors ran out.
const ACCEPT_PAUSE_MILLIS: u64 = 50;

type Service = SqsHttpService<Groups>;

/// rustack as AWS has been since July 2025: a message of a standard queue may name its group (`MessageGroupId`, fair
/// queues). rustack refuses that, so this checks the name and leaves it out. No queue here favours quiet groups.
struct Groups(RustackSqsHandler);

/// The attribute that names a message's group.
const GROUP: &str = "MessageGroupId";

/// How the name of a FIFO queue ends.
const FIFO: &str = ".fifo";

/// The longest name of a group, in bytes.
const GROUP_BYTES_MAX: usize = 128;

impl SqsHandler for Groups {
    fn handle_operation(
        &self,
        operation: SqsOperation,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Response<SqsResponseBody>, SqsError>> + Send>> {
        let sends = matches!(operation, SqsOperation::SendMessage | SqsOperation::SendMessageBatch);
        match if sends { without_groups(body) } else { Ok(body) } {
            Ok(body) => self.0.handle_operation(operation, body),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// The body of a send, without the groups of its messages. A FIFO queue needs them, and rustack takes them there.
fn without_groups(body: Bytes) -> Result<Bytes, SqsError> {
    let Ok(mut send) = serde_json::from_slice::<Value>(&body) else { return Ok(body) };
    if send.get("QueueUrl").and_then(Value::as_str).is_some_and(|url| url.ends_with(FIFO)) {
        return Ok(body);
    }
    let mut groups = Vec::from_iter(send.as_object_mut().and_then(|message| message.remove(GROUP)));
    for entry in send.get_mut("Entries").and_then(Value::as_array_mut).into_iter().flatten() {
        groups.extend(entry.as_object_mut().and_then(|message| message.remove(GROUP)));
    }
    let valid = |group: &Value| {
        group.as_str().is_some_and(|group| {
            (1..=GROUP_BYTES_MAX).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_graphic())
        })
    };
    match groups.iter().all(valid) {
        true if groups.is_empty() => Ok(body),
        true => Ok(Bytes::from(send.to_string())),
        false => Err(SqsError::invalid_parameter_value(
            "MessageGroupId can only include alphanumeric and punctuation \
            characters. 1 to 128 in length.",
        )),
    }
}

pub(super) fn serve(listener: TcpListener, guard: Guard) -> Result<ServerThread, BackendError> {
    ServerThread::start("hookonce-sqs", WORKERS, move |stop| async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        // It stops at once: a long poll could last 20 s more, and the messages are only in memory.
        tokio::select! {
            served = accept(listener, service(guard.port), guard) => served,
            () = stop.received() => Ok(()),
        }
    })
}

fn service(port: u16) -> Service {
    let provider = RustackSqs::new(SqsConfig {
        skip_signature_validation: true,
        default_region: REGION.to_owned(),
        account_id: ACCOUNT.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
    });
    let config =
        SqsHttpConfig { skip_signature_validation: true, region: REGION.to_owned(), credential_provider: None };
    SqsHttpService::new(Arc::new(Groups(RustackSqsHandler::new(Arc::new(provider)))), config)
}

async fn accept(listener: tokio::net::TcpListener, service: Service, guard: Guard) -> io::Result<()> {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => drop(tokio::spawn(connection(stream, service.clone(), guard.clone()))),
            Err(error) => {
                tracing::warn!(error = %Report::new(&error), "the embedded SQS could not accept a connection");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MILLIS)).await;
            }
        }
    }
}

/// Answers whoever the guard admits.
async fn answer(
    request: hyper::Request<Incoming>,
    service: Service,
    guard: Guard,
) -> Result<Response<SqsResponseBody>, Infallible> {
    if guard.admits(request.headers()) {
        return hyper::service::Service::call(&service, request).await;
    }
    let mut refused = Response::new(SqsResponseBody::from_bytes(REFUSED));
    *refused.status_mut() = hyper::StatusCode::FORBIDDEN;
    Ok(refused)
}

async fn connection(stream: TcpStream, service: Service, guard: Guard) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %Report::new(&error), "no TCP_NODELAY");
    }
    if let Err(error) = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(|request| answer(request, service.clone(), guard.clone())))
        .await
    {
        tracing::debug!(error = %Report::new(&error), "a connection to the embedded SQS broke off");
    }
}
