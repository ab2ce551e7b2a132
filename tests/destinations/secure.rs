//! Calls over TLS: the certificate of the receiver is verified. The authority, the certificate for `localhost` and
//! `127.0.0.1`, and its key were made for this test and are used nowhere else.

use std::net::SocketAddr;
use std::sync::Arc;

use hookonce_protocol::destination::Called;
use hookonce_runtime::destinations::{Caller as _, HttpCaller};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::calls::at;
use super::{MOMENT, delivery};

const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("tls/server-key.pem");

fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY).unwrap()).unwrap();
    roots
}

/// A receiver that answers every request with 200.
async fn receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let certificates = vec![CertificateDer::from_pem_slice(SERVER).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(certificates, key).unwrap()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut chunk = [0; 4_096];
            let read = stream.read(&mut chunk).await.unwrap_or(0);
            if read > 0 {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_certificate_is_verified_for_the_host_of_the_url() {
    let address = receiver().await;
    let trusting = HttpCaller::on_loopback().with_roots(roots());
    let url = |host: &str| at(&format!("https://{host}:{}", address.port()), &json!({}));
    for host in ["localhost", "127.0.0.1"] {
        let called = trusting.call(&url(host), &delivery(), MOMENT).await;
        assert_eq!(called, Called::Done { status: Some(200) }, "{host}");
    }
    // Another name of the same address, and an authority that nobody trusts. What breaks before TLS stands has shown no
    // byte of the request to anybody.
    let stranger = HttpCaller::on_loopback().with_roots(RootCertStore::empty());
    for (caller, host) in [(&trusting, "127.1"), (&stranger, "localhost")] {
        let attempt = caller.attempt(&url(host), &delivery(), MOMENT).await;
        let ended = (attempt.called, attempt.answer.unwrap_err().word(), attempt.sent);
        assert_eq!(ended, (Called::NotDone { status: None, retry_after: None }, "tls", false), "{host}");
    }
}
