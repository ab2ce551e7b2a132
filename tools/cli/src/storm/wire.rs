//! Requests on connections of their own: held back before the last byte, raced, and cut before the answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::event::Request;
use super::guard::{Pace, Target};
use crate::failure::Failure;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most that is read of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What the storm calls itself.
const USER_AGENT: &str = concat!("hookonce-storm/", env!("CARGO_PKG_VERSION"));

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered with this status.
    Answered(u16),
    /// The sender went away before the answer.
    HungUp,
    /// There was no connection, or it ended without an answer.
    Unanswered,
}

impl Outcome {
    /// Whether a provider would call it delivered.
    pub(crate) const fn is_taken(self) -> bool {
        matches!(self, Self::Answered(200..=299))
    }

    /// Whether a provider would try again: as other senders do, not after a refusal.
    pub(crate) const fn asks_again(self) -> bool {
        matches!(self, Self::Unanswered | Self::Answered(409 | 429 | 500..))
    }
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// When its last byte went out, after the beginning of the storm.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) request: Arc<Request>,
}

/// The way to the receiver.
pub(crate) struct Wire {
    pub(crate) target: Target,
    pub(crate) pace: Pace,
    pub(crate) started: Instant,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    tls: Option<TlsConnector>,
}

/// A request that is out, but for its last byte.
struct Held {
    stream: Box<dyn Stream>,
    last: Vec<u8>,
}

impl Wire {
    /// # Errors
    /// [`Failure::Unavailable`] where TLS is needed and cannot be set up.
    pub(crate) fn new(target: Target, patience: Duration) -> Result<Self, Failure> {
        let tls = if target.is_tls { Some(connector()?) } else { None };
        let pace = Pace::of(&target);
        Ok(Self { target, pace, started: Instant::now(), patience, tls })
    }

    /// Whether something listens.
    pub(crate) async fn is_up(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// A connection to one of the addresses that were looked up.
    async fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &self.target.addresses {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    /// Sends all of a request but its last byte: a receiver does not begin before.
    async fn hold(&self, request: &Request) -> io::Result<Held> {
        let stream = self.connect().await?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = self.target.host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(io::Error::other)?;
                Box::new(timeout(CONNECT_TIMEOUT, tls.connect(name, stream)).await??)
            }
        };
        let mut bytes = head(&self.target, request).into_bytes();
        bytes.extend_from_slice(&request.body);
        let last = bytes.split_off(bytes.len().saturating_sub(1));
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        Ok(Held { stream, last })
    }

    /// Sends a request and waits for its answer, or goes away after this time. `None` if no more may be sent.
    pub(crate) async fn send(&self, request: &Arc<Request>, leaves_after: Option<Duration>) -> Option<Exchange> {
        if !self.pace.turn(1).await {
            return None;
        }
        let held = timeout(self.patience, self.hold(request)).await.unwrap_or_else(|late| Err(late.into()));
        Some(self.release(request, held, leaves_after).await)
    }

    /// Sends requests at once, this far apart: first all but the last byte of each.
    pub(crate) async fn race(&self, requests: &[Arc<Request>], gap: Duration) -> Option<Vec<Exchange>> {
        if !self.pace.turn(requests.len()).await {
            return None;
        }
        let held = requests.iter().map(|request| async {
            timeout(self.patience, self.hold(request)).await.unwrap_or_else(|late| Err(late.into()))
        });
        let held = futures::future::join_all(held).await;
        let begin = Instant::now();
        let sent = requests.iter().zip(held).zip(0_u32..).map(|((request, held), place)| async move {
            tokio::time::sleep_until(begin + gap * place).await;
            self.release(request, held, None).await
        });
        Some(futures::future::join_all(sent).await)
    }

    /// Sends the last byte and waits.
    async fn release(
        &self,
        request: &Arc<Request>,
        held: io::Result<Held>,
        leaves_after: Option<Duration>,
    ) -> Exchange {
        let begin = Instant::now();
        let outcome = match held {
            Err(_) => Outcome::Unanswered,
            Ok(held) => {
                let answer = timeout(leaves_after.unwrap_or(self.patience), answer(held)).await;
                match (answer, leaves_after) {
                    (Ok(Some(status)), _) => Outcome::Answered(status),
                    (Err(_), Some(_)) => Outcome::HungUp,
                    (Ok(None) | Err(_), _) => Outcome::Unanswered,
                }
            }
        };
        let at = begin.duration_since(self.started);
        Exchange { at, took: begin.elapsed(), outcome, request: Arc::clone(request) }
    }
}

fn connector() -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::unavailable(format!("TLS cannot be set up: {error}"), "pass a URL with http"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The request line and the headers, with the empty line.
pub(crate) fn head(target: &Target, request: &Request) -> String {
    let mut lines = vec![
        format!("POST {} HTTP/1.1", target.path),
        format!("host: {}", target.authority()),
        format!("user-agent: {USER_AGENT}"),
    ];
    let has = |wanted: &str| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if !has("content-type") {
        lines.push("content-type: application/json".to_owned());
    }
    // A line break would begin another header.
    let plain = |text: &str| text.replace(['\r', '\n'], " ");
    lines.extend(request.headers.iter().map(|(name, value)| format!("{}: {}", plain(name), plain(value))));
    lines.push(format!("content-length: {}", request.body.len()));
    lines.push("connection: close".to_owned());
    lines.join("\r\n") + "\r\n\r\n"
}

/// The status of the answer. A redirect is a status like any other: nothing follows it.
async fn answer(held: Held) -> Option<u16> {
    let Held { mut stream, last } = held;
    stream.write_all(&last).await.ok()?;
    stream.flush().await.ok()?;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part).await.unwrap_or(0);
        bytes.extend_from_slice(part.get(..read).unwrap_or_default());
        if read == 0 || bytes.len() > ANSWER_BYTES_MAX || is_whole(&bytes) {
            return status(&bytes);
        }
    }
}

/// The status of the last head: others, such as 100, only come before it.
fn status(bytes: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(bytes);
    let heads = text.split("\r\n\r\n").filter_map(|head| head.strip_prefix("HTTP/1."));
    let mut statuses = heads.filter_map(|head| head.split(' ').nth(1)?.parse::<u16>().ok());
    statuses.find(|status| *status >= 200)
}

/// Whether an answer is there with its whole body, where its head says how long that is.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A receiver that answers each connection with this text, and what it read.
    async fn receiver(answer: &'static str) -> (Wire, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut read = Vec::new();
            while let Ok(Ok((mut stream, _))) = timeout(Duration::from_millis(500), listener.accept()).await {
                let mut bytes = vec![0; 64 * 1024];
                let mut length = 0;
                while !bytes[..length].ends_with(b"}") {
                    match stream.read(&mut bytes[length..]).await {
                        Ok(0) | Err(_) => break,
                        Ok(more) => length += more,
                    }
                }
                read.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                // Whoever went away reads no answer.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
            read
        });
        (Wire::new(Target::of(&url, "").await.unwrap(), Duration::from_secs(5)).unwrap(), task)
    }

    fn request() -> Arc<Request> {
        let headers = vec![("x-a".to_owned(), "b\r\nx-evil: 1".to_owned())];
        Arc::new(Request { headers, own_headers: 1, body: b"{\"id\":1}".to_vec() })
    }

    #[tokio::test]
    async fn a_request_is_sent_as_it_is_and_its_status_is_read() {
        let (wire, task) =
            receiver("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok").await;
        let sent = wire.send(&request(), None).await.unwrap();
        assert_eq!(sent.outcome, Outcome::Answered(202));
        let read = task.await.unwrap().concat();
        assert!(
            read.starts_with("POST /in HTTP/1.1\r\nhost: 127.0.0.1:") && read.ends_with("\r\n\r\n{\"id\":1}"),
            "{read}"
        );
        assert!(read.contains("user-agent: hookonce-storm/") && !read.contains("\r\nx-evil"), "{read}");
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let (other, others) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let location = format!("HTTP/1.1 307 Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.target.url);
        let (wire, task) = receiver(location.leak()).await;
        let sent = wire.send(&request(), None).await.unwrap();
        assert_eq!(sent.outcome, Outcome::Answered(307));
        assert!(!sent.outcome.is_taken());
        assert_eq!((task.await.unwrap().len(), others.await.unwrap().len()), (1, 0));
    }

    #[tokio::test]
    async fn a_sender_that_goes_away_has_no_answer() {
        let (wire, task) = receiver("").await;
        let gone = wire.send(&request(), Some(Duration::from_millis(20))).await.unwrap();
        assert!(matches!(gone.outcome, Outcome::HungUp | Outcome::Unanswered), "{gone:?}");
        assert_eq!(task.await.unwrap().len(), 1, "the whole request went out first");
    }

    #[tokio::test]
    async fn racing_requests_go_out_together() {
        let (wire, task) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let sent = wire.race(&[request(), request(), request()], Duration::from_millis(1)).await.unwrap();
        let latest = sent.first().unwrap().at + Duration::from_millis(100);
        assert!(sent.iter().all(|sent| sent.at < latest), "{sent:?}");
        assert!(sent.iter().all(|sent| sent.outcome == Outcome::Answered(200)));
        assert_eq!(task.await.unwrap().len(), 3);
    }

    #[test]
    fn an_answer_is_whole_once_it_has_what_its_head_promises() {
        for whole in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ] {
            assert!(is_whole(whole.as_bytes()), "{whole}");
        }
        for part in ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", "HTTP/1.1 200 OK\r\n\r\nok"] {
            assert!(!is_whole(part.as_bytes()), "{part}");
        }
        assert_eq!(status(b"junk"), None);
    }
}
