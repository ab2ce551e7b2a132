//! Servers on loopback that misbehave on the wire, where no decorator of a port can reach: below the SDK.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

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
        // At once: the second of two small writes would wait until the other side has confirmed the first.
        stream.write_all(&[self.head.as_bytes(), &self.body].concat()).await.ok()?;
        stream.flush().await.ok()
    }

    /// A reply with this status line and JSON body.
    pub(crate) fn reply((status, body): (&str, &str)) -> Self {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        Self { head, body: body.as_bytes().to_vec() }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The operation of an AWS JSON service that this is a request for.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.header("x-amz-target")?.rsplit_once('.').map(|(_, operation)| operation)
    }

    /// Whether this is a request for this operation.
    pub(crate) fn asks_for(&self, operation: &str) -> bool {
        self.operation() == Some(operation)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// What becomes of a request that the proxy is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is carried out; the connection breaks instead of the reply.
    ReplyLost,
    /// Nothing is carried out, and nobody ever answers.
    Swallowed,
}

#[derive(Debug)]
struct Trouble {
    operation: &'static str,
    fault: Fault,
    times: usize,
}

/// A proxy in front of a server: it passes everything on, but for the trouble that a test makes.
#[derive(Debug)]
pub(crate) struct Proxy {
    url: String,
    trouble: Arc<Mutex<Vec<Trouble>>>,
    requests: Arc<Mutex<Vec<HttpMessage>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy for the server at `url`.
    pub(crate) async fn start(url: &str) -> Self {
        let target = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own_url = format!("http://{}", listener.local_addr().unwrap());
        let (trouble, requests) = (Arc::<Mutex<Vec<Trouble>>>::default(), Arc::<Mutex<Vec<HttpMessage>>>::default());
        let shared = (Arc::clone(&trouble), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (target, (trouble, requests)) = (target.clone(), shared.clone());
                tokio::spawn(async move { pass_on(stream, &target, &trouble, &requests).await });
            }
        });
        Self { url: own_url, trouble, requests, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes trouble for the next requests for an operation.
    pub(crate) fn trouble(&self, operation: &'static str, fault: Fault, times: usize) {
        self.trouble.lock().unwrap().push(Trouble { operation, fault, times });
    }

    /// The requests for an operation so far.
    pub(crate) fn requests(&self, operation: &str) -> Vec<HttpMessage> {
        self.requests.lock().unwrap().iter().filter(|request| request.asks_for(operation)).cloned().collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(
    stream: TcpStream,
    target: &str,
    trouble: &Mutex<Vec<Trouble>>,
    requests: &Mutex<Vec<HttpMessage>>,
) -> Option<()> {
    let mut caller = BufReader::new(stream);
    let mut server = BufReader::new(TcpStream::connect(target).await.ok()?);
    loop {
        let request = HttpMessage::read(&mut caller).await?;
        requests.lock().unwrap().push(request.clone());
        let fault = next_fault(&mut trouble.lock().unwrap(), &request);
        if fault == Some(Fault::Swallowed) {
            // Held open until the caller gives up.
            return HttpMessage::read(&mut caller).await.map(drop);
        }
        request.write(&mut server).await?;
        let reply = HttpMessage::read(&mut server).await?;
        if fault == Some(Fault::ReplyLost) {
            return None;
        }
        reply.write(&mut caller).await?;
    }
}

fn next_fault(trouble: &mut [Trouble], request: &HttpMessage) -> Option<Fault> {
    let next = trouble.iter_mut().find(|trouble| trouble.times > 0 && request.asks_for(trouble.operation))?;
    next.times -= 1;
    Some(next.fault)
}

/// A server that answers every request through a function, with a status and a JSON body.
#[derive(Debug)]
pub(crate) struct JsonServer {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl JsonServer {
    pub(crate) async fn start(answer: impl Fn(&HttpMessage) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let mut caller = BufReader::new(stream);
                    while let Some(request) = HttpMessage::read(&mut caller).await {
                        let (status, body) = answer(&request);
                        HttpMessage::reply((&format!("{status} -"), &body)).write(&mut caller).await?;
                    }
                    Some(())
                });
            }
        });
        Self { url, task }
    }
}

impl Drop for JsonServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
