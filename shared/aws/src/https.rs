//! The HTTPS client of what is fetched without an SDK: certificates and public keys.

use std::sync::OnceLock;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::byte_stream::error::Error as ByteStreamError;
use error_reporter::Report;
use hookonce_protocol::call::Unavailable;

use hookonce_runtime::port::MaterialSource;

/// The longest certificate, certificate chain or key set, in bytes.
pub const MATERIAL_BYTES_MAX: usize = 64 * 1024;

pub(super) const TLS: Provider = Provider::Rustls(CryptoMode::Ring);

/// An HTTPS client that does not follow redirects.
///
/// It is made for the first fetch: reading the system's certificate authorities, which it trusts, takes time, and most
/// processes fetch nothing.
#[derive(Debug, Default)]
pub struct HttpsMaterials(OnceLock<Connector>);

impl HttpsMaterials {
    /// Creates a client.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MaterialSource for HttpsMaterials {
    async fn fetch(&self, url: &str, post_body: Option<&str>) -> Result<Vec<u8>, Unavailable> {
        let mut request = HttpRequest::new(post_body.map_or_else(SdkBody::empty, SdkBody::from));
        request.set_uri(url).map_err(|_| Unavailable)?;
        if post_body.is_some() {
            request.set_method("POST").map_err(|_| Unavailable)?;
            request.headers_mut().insert("content-type", "application/json");
        }
        let response =
            self.0.get_or_init(|| Connector::builder().tls_provider(TLS).build()).call(request).await.map_err(
                |error| {
                    tracing::warn!(error = %Report::new(&error), "fetching a provider's certificate or key failed");
                    Unavailable
                },
            )?;
        if !response.status().is_success() {
            return Err(Unavailable);
        }
        read(response.into_body(), MATERIAL_BYTES_MAX).await.map_err(|_| Unavailable)
    }
}

/// Why the body of a response could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It is longer than allowed.
    TooLong,
    /// The connection broke.
    Broken(ByteStreamError),
}

/// Reads the body of a response.
pub(super) async fn read(body: SdkBody, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    let mut stream = ByteStream::new(body);
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(ReadError::Broken)?);
        if bytes.len() > bytes_max {
            return Err(ReadError::TooLong);
        }
    }
    Ok(bytes)
}
