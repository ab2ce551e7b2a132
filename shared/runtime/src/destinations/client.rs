//! Calls over HTTP/1.1. Each call has a connection of its own, to an address that was checked, so nothing hides a
//! repeat.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::timing::Moment;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Caller;
use super::address::{Zone, zone};
use super::answer::judge;
use super::attempt::{Attempt, AttemptError, CalleeAnswer};
use super::checked::{Destination, HttpTarget};
use super::request::request;
use crate::inbox::drive::duration;

/// The most of an answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Calls URLs. It follows no redirect, uses no proxy and keeps no connection.
pub struct HttpCaller {
    /// Whether addresses of loopback may be called, where a document allows private ones: on a laptop. In a function,
    /// the interface of its runtime is there.
    loopback: bool,
    /// Made for the first call: reading the system's certificate authorities takes time.
    tls: OnceLock<Option<TlsConnector>>,
}

impl fmt::Debug for HttpCaller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpCaller").field("loopback", &self.loopback).finish_non_exhaustive()
    }
}

impl HttpCaller {
    /// A caller that trusts the system's certificate authorities.
    pub fn new() -> Self {
        Self { loopback: false, tls: OnceLock::new() }
    }

    /// A caller on a laptop: documents with `allow_private` may name addresses of loopback.
    pub fn on_loopback() -> Self {
        Self { loopback: true, ..Self::new() }
    }

    /// A caller that trusts these certificate authorities.
    #[must_use]
    pub fn with_roots(self, roots: RootCertStore) -> Self {
        Self { tls: OnceLock::from(connector(roots)), ..self }
    }

    fn tls(&self) -> Result<&TlsConnector, AttemptError> {
        let made = self.tls.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            connector(roots)
        });
        made.as_ref().ok_or(AttemptError::NoTls)
    }

    fn may_call(&self, target: &HttpTarget, address: IpAddr) -> bool {
        match zone(address) {
            Zone::Public => true,
            Zone::Private => target.allow_private,
            Zone::Loopback => target.allow_private && self.loopback,
            Zone::Forbidden => false,
        }
    }

    /// A connection to an address of the target that was checked. The name is looked up once.
    async fn connect(&self, target: &HttpTarget, end: Instant) -> Result<TcpStream, AttemptError> {
        let port = target.authority.port_u16().unwrap_or(if target.tls { 443 } else { 80 });
        let found = timeout_at(end, lookup_host((bare_host(target), port))).await.map_err(|_| AttemptError::Time)?;
        let allowed = |address: &SocketAddr| self.may_call(target, address.ip());
        // Nothing is sent before one of them takes the connection.
        let addresses: Vec<_> = found.map_err(AttemptError::Lookup)?.filter(allowed).take(4).collect();
        let mut last = AttemptError::Address;
        for (address, left) in addresses.iter().zip((1..=u32::try_from(addresses.len()).unwrap_or(1)).rev()) {
            // An address that does not answer leaves time for the next one.
            let now = Instant::now();
            let share = now + end.saturating_duration_since(now) / left;
            match timeout_at(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = AttemptError::Connect(error),
                Err(_) => last = AttemptError::Time,
            }
        }
        Err(last)
    }

    async fn send(
        &self,
        target: &HttpTarget,
        request: Request<Full<Bytes>>,
        gate: &Gate,
        end: Instant,
    ) -> Result<Exchange, AttemptError> {
        let stream = self.connect(target, end).await?;
        // The request is written at once; waiting for more gains nothing.
        let _ = stream.set_nodelay(true);
        if !target.tls {
            return exchange(Gated { stream, gate: gate.clone() }, request, end).await;
        }
        let name = ServerName::try_from(bare_host(target).to_owned())
            .map_err(|error| AttemptError::Tls(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let handshake = timeout_at(end, self.tls()?.connect(name, stream)).await.map_err(|_| AttemptError::Time)?;
        exchange(Gated { stream: handshake.map_err(AttemptError::Tls)?, gate: gate.clone() }, request, end).await
    }

    /// Makes one call, and tells of it all that is known.
    pub async fn attempt(&self, destination: &Destination, delivery: &OutboundCall, moment: Moment) -> Attempt {
        let Some(target) = destination.http() else {
            let called = Called::NotDone { status: None, retry_after: None };
            return Attempt { called, answer: Err(AttemptError::NoUrl), sent: false };
        };
        let request = match request(target, delivery, moment.now) {
            Ok(request) => request,
            Err(reason) => return Attempt::unsendable(reason),
        };
        let end = Instant::now() + duration(destination.terms().timeout);
        let gate = Gate::default();
        match self.send(target, request, &gate, end).await {
            Ok(Exchange { response, driver }) => {
                let (head, body) = response.into_parts();
                // Some servers stop their work when the caller hangs up, so the answer is read although it is dropped.
                let body = timeout_at(end, read(body)).await.ok().flatten();
                drop(driver);
                let status = head.status.as_u16();
                let called = judge(target, status, &head.headers, body.as_deref(), moment.now);
                Attempt { called, answer: Ok(CalleeAnswer::of(status)), sent: true }
            }
            Err(error) => {
                let sent = !gate.close();
                let called = if sent {
                    Called::Unclear { status: None, retry_after: None }
                } else {
                    Called::NotDone { status: None, retry_after: None }
                };
                Attempt { called, answer: Err(error), sent }
            }
        }
    }

    async fn called(&self, destination: &Destination, delivery: &OutboundCall, moment: Moment) -> Called {
        let Attempt { called, answer, sent } = self.attempt(destination, delivery, moment).await;
        match answer {
            Ok(_) => {}
            Err(AttemptError::Unsendable(reason)) => {
                tracing::error!(destination.id = %destination.id, reason, "an effect cannot be sent as it is");
            }
            Err(error) => {
                let error = error_reporter::Report::new(&error);
                tracing::warn!(destination.id = %destination.id, %error, request.sent = sent, "a call has no answer");
            }
        }
        called
    }
}

impl Default for HttpCaller {
    fn default() -> Self {
        Self::new()
    }
}

impl Caller for HttpCaller {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a OutboundCall,
        moment: Moment,
    ) -> BoxFuture<'a, Called> {
        Box::pin(self.called(destination, delivery, moment))
    }
}

fn connector(roots: RootCertStore) -> Option<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config =
        builder.with_safe_default_protocol_versions().ok()?.with_root_certificates(roots).with_no_client_auth();
    Some(TlsConnector::from(Arc::new(config)))
}

/// The host without the brackets of an IPv6 address.
fn bare_host(target: &HttpTarget) -> &str {
    let host = target.authority.host();
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// An answer's head, and the task that reads its body. The task ends when this is dropped.
struct Exchange {
    response: Response<Incoming>,
    driver: JoinSet<()>,
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
    end: Instant,
) -> Result<Exchange, AttemptError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(AttemptError::Exchange)?;
    let mut driver = JoinSet::new();
    // Its errors reach the sender.
    driver.spawn(async { drop(connection.await) });
    let response = timeout_at(end, sender.send_request(request)).await.map_err(|_| AttemptError::Time)?;
    Ok(Exchange { response: response.map_err(AttemptError::Exchange)?, driver })
}

/// The whole body. `None` if it is too long, or its end never came.
async fn read(mut body: Incoming) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return None;
        }
    }
    Some(bytes)
}

/// What the request passes on its way out. Another thread may still drive the connection when the time is over, so it
/// is closed before anybody says that no byte has left. The first caller decides whether bytes leave.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<OnceLock<bool>>);

impl Gate {
    /// Says whether bytes may leave.
    fn pass(&self) -> bool {
        *self.0.get_or_init(|| true)
    }

    /// Says whether it could be closed before a byte left.
    fn close(&self) -> bool {
        !*self.0.get_or_init(|| false)
    }
}

/// A connection whose writes pass the gate. What a TLS handshake writes below it does not.
struct Gated<S> {
    stream: S,
    gate: Gate,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gated<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.gate.pass() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the time is over")));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// The driver of a connection may run on another thread when the time is over.
    #[tokio::test]
    async fn nothing_is_sent_once_the_gate_is_closed() {
        let (stream, mut peer) = duplex(16);
        let gate = Gate::default();
        let mut gated = Gated { stream, gate: gate.clone() };
        assert!(gate.close());
        assert!(gated.write_all(b"a").await.is_err());
        assert!(gate.close());
        drop(gated);
        assert_eq!(peer.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_has_left_cannot_be_taken_back() {
        let (stream, _peer) = duplex(16);
        let gate = Gate::default();
        let mut gated = Gated { stream, gate: gate.clone() };
        gated.write_all(b"a").await.unwrap();
        assert!(!gate.close());
        gated.write_all(b"b").await.unwrap();
    }
}
