//! What stands between one function and one server, and puts the fault in.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::board::{Board, Fault, Role};
use crate::support::wire::HttpMessage;

/// What a server says that cannot carry a call out now, and one that pretends it did.
const REFUSED: (&str, &str) = ("500 Internal Server Error", r#"{"__type":"com.amazonaws#InternalServerError"}"#);
const PRETENDED: (&str, &str) = ("200 OK", "{}");

/// A request on its way to a server.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    target: String,
    request: HttpMessage,
}

impl Letter {
    /// Carries it out. Nobody waits for the reply any more.
    pub(crate) async fn carry_out(&self) {
        let mut server = BufReader::new(TcpStream::connect(&self.target).await.unwrap());
        self.request.write(&mut server).await.unwrap();
        HttpMessage::read(&mut server).await.unwrap();
    }
}

/// A proxy for the calls of one role to one server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    url: String,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy for the server at `url`.
    pub(crate) async fn start(role: Role, url: &str, board: &Arc<Board>) -> Self {
        let target = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own_url = format!("http://{}", listener.local_addr().unwrap());
        let board = Arc::clone(board);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (target, board) = (target.clone(), Arc::clone(&board));
                tokio::spawn(async move { connection(stream, target, role, &board).await });
            }
        });
        Self { url: own_url, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one connection; `None` once either side has closed it, or the fault is that it breaks.
async fn connection(stream: TcpStream, target: String, role: Role, board: &Board) -> Option<()> {
    let mut caller = BufReader::new(stream);
    let mut server = BufReader::new(TcpStream::connect(&target).await.ok()?);
    loop {
        let request = HttpMessage::read(&mut caller).await?;
        match fault(&request, role, board).await {
            None => exchange(&request, &mut server).await?.write(&mut caller).await?,
            Some(Fault::Refused) => HttpMessage::reply(REFUSED).write(&mut caller).await?,
            Some(Fault::Lie) => HttpMessage::reply(PRETENDED).write(&mut caller).await?,
            Some(Fault::ReplyLost) => return exchange(&request, &mut server).await.map(drop),
            Some(Fault::LateAfterInvocation | Fault::LateAtRest) => {
                board.delay(Letter { target, request });
                return None;
            }
            Some(Fault::CrashBefore) => return killed(&mut caller, board).await,
            Some(Fault::CrashAfter) => {
                exchange(&request, &mut server).await?;
                return killed(&mut caller, board).await;
            }
        }
    }
}

/// What this request meets. The read that a function opens its connection with is not part of any play.
async fn fault(request: &HttpMessage, role: Role, board: &Board) -> Option<Fault> {
    let operation = request.operation()?.to_owned();
    let body = String::from_utf8_lossy(&request.body);
    if operation == "GetQueueAttributes" || body.contains("\"warm-up\"") {
        return None;
    }
    let id = request.header("amz-sdk-invocation-id").unwrap();
    board.pass(role, &operation).await;
    board.note(role, &operation, id)
}

async fn exchange(request: &HttpMessage, server: &mut BufReader<TcpStream>) -> Option<HttpMessage> {
    request.write(server).await?;
    HttpMessage::read(server).await
}

/// Has the process killed and waits for its end, which closes the connection.
async fn killed(caller: &mut BufReader<TcpStream>, board: &Board) -> Option<()> {
    board.crash();
    HttpMessage::read(caller).await.map(drop)
}
