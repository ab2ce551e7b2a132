//! A receiver of effects on loopback: it keeps what it is sent, and answers byte by byte as a test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::wire::HttpMessage;

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

/// A receiver, which keeps every request.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    requests: Vec<HttpMessage>,
}

impl Receiver {
    /// Starts a receiver that answers every request alike.
    pub(crate) async fn start(reply: Reply) -> Self {
        Self::answering(move |_| reply.clone()).await
    }

    /// Starts a receiver that answers each request as this says.
    pub(crate) async fn answering(answer: impl Fn(&HttpMessage) -> Reply + Send + Sync + 'static) -> Self {
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
    pub(crate) fn requests(&self) -> Vec<HttpMessage> {
        self.seen.lock().unwrap().requests.clone()
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Seen>>, answer: Arc<impl Fn(&HttpMessage) -> Reply>) {
    let mut stream = BufReader::new(stream);
    let Some(received) = HttpMessage::read(&mut stream).await else { return };
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
