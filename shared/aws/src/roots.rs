//! Which certificate authorities a function trusts when it calls AWS.
//!
//! AWS says that its endpoints have certificates below five roots of Amazon. Reading only those takes a hundredth of the
//! time that the system's bundle takes, which is most of a cold start.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{TlsContext, TrustStore};
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use hookonce_runtime::config::Environment;
use tokio_rustls::rustls::{CertificateError, Error as TlsError};

use super::https::TLS;

/// An HTTPS client that trusts the system's certificate authorities.
pub(crate) fn trusting_system() -> SharedHttpClient {
    Builder::new().tls_provider(TLS).build_https()
}

/// An HTTPS client that trusts the five roots of Amazon, <https://www.amazontrust.com/repository/>.
pub(crate) fn trusting_amazon() -> SharedHttpClient {
    trusting(include_bytes!("amazon_roots.pem"))
}

/// An HTTPS client that trusts these certificate authorities and no others.
///
/// # Panics
/// When the text is not one or several certificates as PEM.
pub fn trusting(pem: &[u8]) -> SharedHttpClient {
    let context = TlsContext::builder().with_trust_store(TrustStore::empty().with_pem_certificate(pem)).build();
    let builder = Builder::new().tls_provider(TLS);
    match context {
        Ok(context) => builder.tls_context(context).build_https(),
        // It only ever holds what is given here.
        Err(_) => builder.build_https(),
    }
}

/// Whether AWS is called by its usual name in the commercial partition, and nobody asks for other certificate
/// authorities. In all other cases the system knows whom to trust: it reads `SSL_CERT_FILE` and `SSL_CERT_DIR`, and not
/// the file of `AWS_CA_BUNDLE`, which belongs into one of those.
pub fn are_amazons(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let asks = ["SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE"].iter().any(|name| is_set(name));
    let is_secure = |url: &str| url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let elsewhere = environment.iter().any(|(name, url)| name.starts_with("AWS_ENDPOINT_URL") && is_secure(url));
    // Only the commercial partition has names such as `eu-central-1`. The others have a fourth part, but for China's.
    let region = environment.get("AWS_REGION").map_or("", String::as_str);
    !asks && !elsewhere && region.split('-').count() == 3 && !region.starts_with("cn-")
}

/// A client that calls by `known` until a certificate has an issuer that `known` does not trust, and by `system` from
/// then on. `on_outdated` is called once, then. Nobody has seen a byte of the attempt: the SDK repeats it, or the caller
/// does where the SDK may not.
pub fn with_fall_back(
    known: SharedHttpClient,
    system: SharedHttpClient,
    on_outdated: impl Fn() + Send + Sync + 'static,
) -> SharedHttpClient {
    let outdated = Arc::new(Outdated { is_set: AtomicBool::new(false), on_set: Box::new(on_outdated) });
    SharedHttpClient::new(FallBack { known, system, outdated })
}

#[derive(Debug)]
struct FallBack {
    known: SharedHttpClient,
    system: SharedHttpClient,
    outdated: Arc<Outdated>,
}

/// Whether a certificate was met whose issuer is not known.
struct Outdated {
    is_set: AtomicBool,
    on_set: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Outdated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Outdated({:?})", self.is_set)
    }
}

/// The SDK asks for a connector for each attempt.
impl HttpClient for FallBack {
    fn http_connector(&self, settings: &HttpConnectorSettings, parts: &RuntimeComponents) -> SharedHttpConnector {
        if self.outdated.is_set.load(Ordering::Relaxed) {
            return self.system.http_connector(settings, parts);
        }
        let connector = self.known.http_connector(settings, parts);
        SharedHttpConnector::new(Watched { connector, outdated: Arc::clone(&self.outdated) })
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.known.connector_metadata()
    }
}

#[derive(Debug)]
struct Watched {
    connector: SharedHttpConnector,
    outdated: Arc<Outdated>,
}

impl HttpConnector for Watched {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (called, outdated) = (self.connector.call(request), Arc::clone(&self.outdated));
        HttpConnectorFuture::new(async move {
            let called = called.await;
            if called.as_ref().is_err_and(|error| has_unknown_issuer(error))
                && !outdated.is_set.swap(true, Ordering::Relaxed)
            {
                (outdated.on_set)();
            }
            called
        })
    }
}

/// Whether a call failed because nobody known has issued the server's certificate.
fn has_unknown_issuer(error: &(dyn Error + 'static)) -> bool {
    let unknown = TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
    successors(Some(error), |error| cause(*error)).any(|error| error.downcast_ref::<TlsError>() == Some(&unknown))
}

/// The next error of a chain. What an I/O error wraps is not its source: its own message is that of the wrapped one.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
