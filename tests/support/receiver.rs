//! A receiver of effects on loopback: it keeps what it is sent, and answers byte by byte as a test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What the receiver does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Sends these bytes after a while, and closes the connection.
    Bytes(Duration, String),
    /// Sends these bytes, and then others without end.
    Endless(String),
    /// Sends nothing, and keeps the connection.
    Silence,
}

impl Reply {
    /// An answer with this status, these further lines of its head, and this body.
    pub(crate) fn status(status: u16, head: &str, body: &str) -> Self {
        let text = format!("HTTP/1.1 {status} A\r\ncontent-length: {}\r\n{head}\r\n{body}", body.len());
        Self::Bytes(Duration::ZERO, text)
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The request line.
    pub(crate) line: String,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        value
    }
}

/// A receiver, which keeps every request.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    requests: Vec<Received>,
}

impl Receiver {
    /// Starts a receiver that answers every request alike.
    pub(crate) async fn start(reply: Reply) -> Self {
        Self::answering(move |_| reply.clone()).await
    }

    /// Starts a receiver that answers each request as this says.
    pub(crate) async fn answering(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let (seen, answer) = (Arc::clone(&receiver.seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                seen.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, Arc::clone(&seen), Arc::clone(&answer)));
            }
        });
        receiver
    }

    /// Its address, with a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections it took.
    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Seen>>, answer: Arc<impl Fn(&Received) -> Reply>) {
    let Some(received) = receive(&mut stream).await else { return };
    let reply = answer(&received);
    seen.lock().unwrap().requests.push(received);
    match reply {
        Reply::Bytes(after, bytes) => {
            tokio::time::sleep(after).await;
            let _ = stream.write_all(bytes.as_bytes()).await;
        }
        Reply::Endless(bytes) => {
            let mut chunk = bytes.into_bytes();
            while stream.write_all(&chunk).await.is_ok() {
                chunk = vec![b'a'; 1_024];
            }
        }
        Reply::Silence => {
            // Until the caller hangs up.
            let _ = stream.read(&mut [0]).await;
        }
    }
}

async fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4_096];
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let mut lines = head.split("\r\n");
        let line = lines.next()?.to_owned();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: Vec<_> = lines.filter_map(header).collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, value)| value.parse().unwrap());
        if bytes.len() >= end + 4 + length {
            return Some(Received { line, headers, body: bytes[end + 4..].to_vec() });
        }
    }
}
