//! A loopback server that answers as a script says: what AWS documents and no local server does.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One HTTP/1.1 message with a `content-length`, as it came.
#[derive(Debug, Clone)]
pub(crate) struct HttpMessage {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl HttpMessage {
    /// Reads one message; `None` at the end of the connection.
    pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let length = header(&head, "content-length").map(|length| length.parse().unwrap());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.ok()?;
        Some(Self { head, body })
    }

    pub(crate) async fn write(&self, stream: &mut BufReader<TcpStream>) -> Option<()> {
        // In one write: the second of two small ones would wait until the other side has confirmed the first.
        stream.write_all(&[self.head.as_bytes(), &self.body].concat()).await.ok()?;
        stream.flush().await.ok()
    }

    /// A reply with this status line and JSON body.
    pub(crate) fn reply((status, body): (&str, &str)) -> Self {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        Self { head, body: body.as_bytes().to_vec() }
    }

    /// The same with one more header.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.head.insert_str(self.head.len() - 2, &format!("{name}: {value}\r\n"));
        self
    }

    /// The same without the second half of its body. The head still promises all of it.
    fn cut(mut self) -> Self {
        self.body.truncate(self.body.len() / 2);
        self
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The operation of an AWS JSON service that this is a request for.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.header("x-amz-target")?.rsplit_once('.').map(|(_, operation)| operation)
    }

    /// Whether this is a request for this operation.
    pub(crate) fn is_for(&self, operation: &str) -> bool {
        self.operation() == Some(operation)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut values = fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} is there twice");
    value
}

/// An address on loopback where nothing listens.
pub(crate) async fn nowhere() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Holds the connection open until the caller closes it.
pub(crate) async fn closed(caller: &mut BufReader<TcpStream>) -> Option<()> {
    HttpMessage::read(caller).await.map(drop)
}

/// What a [`ScriptedServer`] does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// It answers.
    Answer(HttpMessage),
    /// It answers, and then closes the connection without having said so.
    AnswerAndClose(HttpMessage),
    /// It closes the connection in the middle of the body of this answer.
    Break(HttpMessage),
    /// It falls silent in the middle of the body of this answer.
    Stall(HttpMessage),
    /// It closes the connection without an answer.
    Close,
    /// It says nothing, and keeps the connection open.
    Silence,
}

impl<B: AsRef<str>> From<(u16, B)> for Reaction {
    fn from((status, body): (u16, B)) -> Self {
        Self::Answer(HttpMessage::reply((&format!("{status} -"), body.as_ref())))
    }
}

/// A success with this body.
impl From<Value> for Reaction {
    fn from(body: Value) -> Self {
        (200, body.to_string()).into()
    }
}

/// Decides how a [`ScriptedServer`] reacts to the request with this number, from 0.
type Answers = dyn Fn(usize, &HttpMessage) -> Reaction + Send + Sync;

/// A server that reacts to each request as a function says, and records the requests. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ScriptedServer {
    url: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Mutex<Vec<HttpMessage>>,
    connections: AtomicUsize,
}

impl ScriptedServer {
    /// A server that decides by the number of the request, from 0, and the request itself.
    pub(crate) async fn start<R: Into<Reaction>>(
        answer: impl Fn(usize, &HttpMessage) -> R + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Arc<Answers> = Arc::new(move |index, request| answer(index, request).into());
        let seen = Arc::new(Seen::default());
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                noted.connections.fetch_add(1, Ordering::SeqCst);
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&noted));
                tokio::spawn(async move { react(stream, &*answers, &seen).await });
            }
        });
        Self { url, seen, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<HttpMessage> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// How many connections were opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one connection. `None` once either side has closed it.
async fn react(stream: TcpStream, answers: &Answers, seen: &Seen) -> Option<()> {
    let mut caller = BufReader::new(stream);
    loop {
        let request = HttpMessage::read(&mut caller).await?;
        let index = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        match answers(index, &request) {
            Reaction::Answer(answer) => answer.write(&mut caller).await?,
            Reaction::AnswerAndClose(answer) => return answer.write(&mut caller).await,
            Reaction::Break(answer) => return answer.cut().write(&mut caller).await,
            Reaction::Stall(answer) => {
                answer.cut().write(&mut caller).await?;
                return closed(&mut caller).await;
            }
            Reaction::Close => return None,
            Reaction::Silence => return closed(&mut caller).await,
        }
    }
}
