//! Whom a function trusts when it calls AWS. The authority, the server's certificate and its key are those of
//! `tests/destinations`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hookonce_aws::{are_amazons, dynamodb_client, function_config, trusting, with_fall_back};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::Environment;
use hookonce_runtime::telemetry::Telemetry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::AMPLE;
use crate::clients::{config_at, own_partition};

const AMAZON_ROOTS: &[u8] = include_bytes!("../../shared/aws/src/amazon_roots.pem");
const AUTHORITY: &[u8] = include_bytes!("../destinations/tls/authority.pem");
const SERVER: &[u8] = include_bytes!("../destinations/tls/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../destinations/tls/server-key.pem");

/// A DynamoDB behind TLS that takes every write and closes the connection, and how many requests it got.
async fn store() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let certificates = vec![CertificateDer::from_pem_slice(SERVER).unwrap()];
    let config = config.with_single_cert(certificates, PrivateKeyDer::from_pem_slice(SERVER_KEY).unwrap()).unwrap();
    let (acceptor, requests) = (TlsAcceptor::from(Arc::new(config)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"}") {
                match stream.read_buf(&mut head).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, requests)
}

/// Puts two items with a client that knows these authorities, and falls back to those. Whether each was put, how many
/// requests the server got, and how often the authorities were outdated.
async fn put_twice(known: &[u8], system: &[u8]) -> ([bool; 2], usize, usize) {
    let ((url, requests), outdated) = (store().await, Arc::new(AtomicUsize::new(0)));
    let noted = Arc::clone(&outdated);
    let on_outdated = move || {
        noted.fetch_add(1, Ordering::Relaxed);
    };
    let client = with_fall_back(trusting(known), trusting(system), on_outdated);
    let config = config_at(&url).into_builder().http_client(client).build();
    let config = dynamodb_client(&config, AMPLE).config().to_builder().retry_partition(own_partition()).build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    let mut put = [false; 2];
    for put in &mut put {
        *put = client.put_item().table_name("inbox").send().await.is_ok();
    }
    (put, requests.load(Ordering::Relaxed), outdated.load(Ordering::Relaxed))
}

/// Each item is put once: the attempt that ends in the handshake has shown nobody a byte.
#[tokio::test]
async fn an_unknown_issuer_leads_back_to_the_system_once() {
    assert_eq!(put_twice(AUTHORITY, AMAZON_ROOTS).await, ([true; 2], 2, 0), "the issuer is known");
    assert_eq!(put_twice(AMAZON_ROOTS, AUTHORITY).await, ([true; 2], 2, 1), "the system knows the issuer");
    assert_eq!(put_twice(AMAZON_ROOTS, AMAZON_ROOTS).await, ([false; 2], 0, 1), "nobody knows the issuer");
}

/// The configuration that a function has, in a region of the commercial partition.
#[tokio::test]
async fn a_function_counts_once_that_its_roots_are_outdated() {
    let (url, requests) = store().await;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sunk = Arc::clone(&lines);
    let telemetry =
        Telemetry::new("webhook", "hookonce", Arc::new(move |line| sunk.lock().unwrap().push(line.to_owned())));
    let environment = Environment::from([("AWS_REGION".to_owned(), "eu-central-1".to_owned())]);
    let config = function_config(&environment, &telemetry).await.into_builder().endpoint_url(url);
    let credentials = config_at("http://localhost").credentials_provider().unwrap();
    let config = config.credentials_provider(credentials).build();
    let config = dynamodb_client(&config, AMPLE).config().to_builder().retry_partition(own_partition()).build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    for _ in 0..2 {
        assert!(client.put_item().table_name("inbox").send().await.is_err(), "the system does not know the issuer");
    }
    let lines = lines.lock().unwrap();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.contains(r#""aws_roots_outdated":1"#) && requests.load(Ordering::Relaxed) == 0, "{line}");
}

/// Also those that a person adds later must be roots that the operating system trusts, and go on being roots for a while.
#[test]
fn the_five_roots_are_in_the_bundle_of_the_system_for_five_years() {
    let roots: Vec<_> = CertificateDer::pem_slice_iter(AMAZON_ROOTS).map(Result::unwrap).collect();
    let bundle = rustls_native_certs::load_native_certs().certs;
    let strange: Vec<_> = roots.iter().filter(|root| !bundle.contains(root)).collect();
    assert!(roots.len() == 5 && strange.is_empty(), "{} roots, {} strangers", roots.len(), strange.len());
    let five_years = u64::try_from(System.moment().now.as_seconds().0).unwrap() + 5 * 366 * 24 * 3600;
    for root in &roots {
        let content = Certificate::from_der(root).unwrap().tbs_certificate;
        let end = content.validity.not_after.to_unix_duration().as_secs();
        assert!(end > five_years, "{} ends at {end}", content.subject);
    }
}

#[test]
fn amazons_roots_are_for_amazons_own_names_in_the_commercial_partition() {
    let environment = |pairs: &[(&str, &str)]| -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let in_region = |region: &str| are_amazons(&environment(&[("AWS_REGION", region)]));
    assert!(["eu-central-1", "us-east-1", "ap-southeast-5"].iter().all(|region| in_region(region)));
    let others = ["cn-north-1", "us-gov-west-1", "us-iso-east-1", "eu-isoe-west-1", "eusc-de-east-1", ""];
    assert!(others.iter().all(|region| !in_region(region)));
    let with = |name: &str, value: &str| are_amazons(&environment(&[("AWS_REGION", "eu-central-1"), (name, value)]));
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE"] {
        assert!(!with(name, "/etc/own.pem") && with(name, ""), "{name}");
    }
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"] {
        assert!(!with(name, "HTTPS://vpce-1.example.com"), "{name}");
        assert!(with(name, "http://127.0.0.1:8000"), "a plain address has no certificate");
    }
}
