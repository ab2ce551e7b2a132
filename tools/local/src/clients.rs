//! SDK clients for servers on loopback.
//!
//! They use plain HTTP and credentials without a secret. They work with the embedded backends, DynamoDB Local,
//! `ElasticMQ` or any other server that does not verify signatures, and never with AWS. The embedded backends take only
//! requests that are signed with the access key id of their run. It stands in their URLs, as the user:
//! `http://KEY@127.0.0.1:8000`.

use std::time::Duration;

use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::Builder;
use aws_types::SdkConfig;

/// The region of all local resources. It appears in ARNs and in the events of the event source.
pub const REGION: &str = "us-east-1";
/// The account of all local resources. It appears next to the region.
pub const ACCOUNT: &str = "000000000000";

/// Longest wait for one operation, with retries. Above the 20 s of the longest long poll.
const OPERATION_SECONDS_MAX: u64 = 30;

/// A `DynamoDB` client for the server at `endpoint_url`, such as `http://127.0.0.1:8000`.
pub fn dynamodb(endpoint_url: &str) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::new(&config(endpoint_url))
}

/// An SQS client for the server at `endpoint_url`.
pub fn sqs(endpoint_url: &str) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::new(&config(endpoint_url))
}

fn config(endpoint_url: &str) -> SdkConfig {
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_secs(OPERATION_SECONDS_MAX)).build();
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials(endpoint_url)))
        .endpoint_url(without_key(endpoint_url))
        .timeout_config(timeouts)
        // It would look twice a second at each poll that waits at an empty queue.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(Builder::new().build_http())
        .build()
}

/// The credentials that a server takes.
pub fn credentials(url: &str) -> Credentials {
    Credentials::new(access_key_id(url), "local", None, None, "hookonce-local")
}

/// The access key id in a server's URL. Without one, the server takes any.
pub fn access_key_id(url: &str) -> &str {
    parts(url).1.unwrap_or("local")
}

/// A server's URL without the access key id.
pub fn without_key(url: &str) -> String {
    let (scheme, _, authority) = parts(url);
    format!("{scheme}{authority}")
}

/// The scheme, the access key id and what follows.
fn parts(url: &str) -> (&str, Option<&str>, &str) {
    let (scheme, rest) = url.find("://").map_or(("", url), |at| url.split_at(at + 3));
    rest.split_once('@').map_or((scheme, None, rest), |(key, authority)| (scheme, Some(key), authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_run_stands_in_the_url() {
        for (url, key, bare) in [
            ("http://KEY@127.0.0.1:8000", "KEY", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/", "local", "http://127.0.0.1:8000/"),
            ("127.0.0.1:8000", "local", "127.0.0.1:8000"),
        ] {
            assert_eq!((access_key_id(url), without_key(url)), (key, bare.to_owned()), "{url}");
        }
    }
}
