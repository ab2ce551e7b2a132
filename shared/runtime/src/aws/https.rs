//! The one HTTPS client: for calls to AWS, and for fetching certificates and public keys.

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use error_reporter::Report;
use hookonce_protocol::call::Unavailable;

use crate::port::MaterialSource;

/// The longest certificate, certificate chain or key set, in bytes.
pub const MATERIAL_BYTES_MAX: usize = 64 * 1024;

pub(super) const TLS: Provider = Provider::Rustls(CryptoMode::Ring);

/// An HTTPS client that does not follow redirects.
#[derive(Debug)]
pub struct HttpsMaterials(Connector);

impl HttpsMaterials {
    /// Creates a client that trusts the system's certificate authorities.
    pub fn new() -> Self {
        Self(Connector::builder().tls_provider(TLS).build())
    }
}

impl Default for HttpsMaterials {
    fn default() -> Self {
        Self::new()
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
        let response = self.0.call(request).await.map_err(|error| {
            tracing::warn!(error = %Report::new(&error), "fetching a provider's certificate or key failed");
            Unavailable
        })?;
        if !response.status().is_success() {
            return Err(Unavailable);
        }
        let mut stream = ByteStream::new(response.into_body());
        let mut body = Vec::new();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|_| Unavailable)?);
            if body.len() > MATERIAL_BYTES_MAX {
                return Err(Unavailable);
            }
        }
        Ok(body)
    }
}
