//! One suite per port, generic over the implementation. Here each suite runs on the deployed adapters against the
//! embedded servers. The same functions accept the addresses of other servers. What no local server does is in
//! [`wire`].

mod endpoints;
mod queue;
mod store;
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use hookonce_local::clients;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::{retries, timeouts};

/// A client with the time-outs and retries of the deployed functions, whose calls may take `total`.
pub(crate) fn dynamodb(url: &str, total: Millis) -> Client {
    let config = clients::dynamodb(url).config().to_builder();
    let config = config.timeout_config(timeouts(total)).retry_config(retries());
    Client::from_conf(config.retry_partition(own_partition()).build())
}

/// A client with the time-outs and retries of the deployed functions, whose calls may take `total`.
pub(crate) fn sqs(url: &str, total: Millis) -> aws_sdk_sqs::Client {
    let config = clients::sqs(url).config().to_builder();
    let config = config.timeout_config(timeouts(total)).retry_config(retries());
    aws_sdk_sqs::Client::from_conf(config.retry_partition(own_partition()).build())
}

/// Clients of one partition share a budget of retries. One test must not use up the retries of another.
fn own_partition() -> RetryPartition {
    static PARTITIONS: AtomicUsize = AtomicUsize::new(0);
    RetryPartition::new(format!("test-{}", PARTITIONS.fetch_add(1, Ordering::Relaxed)))
}

/// An address on loopback where nothing listens.
async fn nowhere() -> String {
    let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}
