//! The embedded SQS: rustack, which keeps each queue in an actor.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use error_reporter::Report;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rustack_sqs_core::config::SqsConfig;
use rustack_sqs_core::handler::RustackSqsHandler;
use rustack_sqs_core::provider::RustackSqs;
use rustack_sqs_http::service::{SqsHttpConfig, SqsHttpService};
use tokio::net::TcpStream;

use super::BackendError;
use super::server::ServerThread;
use crate::clients::{ACCOUNT, REGION};

/// Enough, because each queue's actor does little work.
const WORKERS: usize = 1;
/// Pause after a connection was not accepted, usually because file descriptors ran out.
const ACCEPT_PAUSE_MILLIS: u64 = 50;

type Service = SqsHttpService<RustackSqsHandler>;

pub(super) fn serve(listener: TcpListener, port: u16) -> Result<ServerThread, BackendError> {
    ServerThread::start("hookonce-sqs", WORKERS, move |stop| async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        // It stops at once: a long poll could last 20 s more, and the messages are only in memory.
        tokio::select! {
            served = accept(listener, service(port)) => served,
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
    SqsHttpService::new(Arc::new(RustackSqsHandler::new(Arc::new(provider))), config)
}

async fn accept(listener: tokio::net::TcpListener, service: Service) -> io::Result<()> {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => drop(tokio::spawn(connection(stream, service.clone()))),
            Err(error) => {
                tracing::warn!(error = %Report::new(&error), "the embedded SQS could not accept a connection");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MILLIS)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, service: Service) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %Report::new(&error), "no TCP_NODELAY");
    }
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error = %Report::new(&error), "a connection to the embedded SQS broke off");
    }
}
