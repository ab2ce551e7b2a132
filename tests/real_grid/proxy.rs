//! What stands between one function and one server, and puts the fault in.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::fault_plan::{Fault, FaultPlan, Role};
use crate::support::wire::HttpMessage;

/// What a server says that cannot carry a call out now, and one that pretends it did.
const REFUSED: (&str, &str) = ("500 Internal Server Error", r#"{"__type":"com.amazonaws#InternalServerError"}"#);
const PRETENDED: (&str, &str) = ("200 OK", "{}");

/// A request on its way to a server.
#[derive(Debug, Clone)]
pub(crate) struct ProxiedRequest {
    target: String,
    request: HttpMessage,
}

impl ProxiedRequest {
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
    pub(crate) async fn start(role: Role, url: &str, plan: &Arc<FaultPlan>) -> Self {
        let target = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own_url = format!("http://{}", listener.local_addr().unwrap());
        let plan = Arc::clone(plan);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (target, plan) = (target.clone(), Arc::clone(&plan));
                tokio::spawn(async move { connection(stream, target, role, &plan).await });
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
async fn connection(stream: TcpStream, target: String, role: Role, plan: &FaultPlan) -> Option<()> {
    let mut caller = BufReader::new(stream);
    let mut server = BufReader::new(TcpStream::connect(&target).await.ok()?);
    loop {
        let request = HttpMessage::read(&mut caller).await?;
        match fault(&request, role, plan).await {
            None => exchange(&request, &mut server).await?.write(&mut caller).await?,
            Some(Fault::Refused) => HttpMessage::reply(REFUSED).write(&mut caller).await?,
            Some(Fault::Lie) => HttpMessage::reply(PRETENDED).write(&mut caller).await?,
            Some(Fault::ReplyLost) => return exchange(&request, &mut server).await.map(drop),
            Some(Fault::LateAfterInvocation | Fault::LateAtRest) => {
                plan.delay(ProxiedRequest { target, request });
                return None;
            }
            Some(Fault::CrashBefore) => return killed(&mut caller, plan).await,
            Some(Fault::CrashAfter) => {
                exchange(&request, &mut server).await?;
                return killed(&mut caller, plan).await;
            }
        }
    }
}

/// What this request meets. The read that a function opens its connection with is not part of any scenario.
async fn fault(request: &HttpMessage, role: Role, plan: &FaultPlan) -> Option<Fault> {
    let operation = request.operation()?.to_owned();
    let body = String::from_utf8_lossy(&request.body);
    if operation == "GetQueueAttributes" || body.contains("\"warm-up\"") {
        return None;
    }
    let id = request.header("amz-sdk-invocation-id").unwrap();
    plan.pass(role, &operation).await;
    plan.note(role, &operation, id)
}

async fn exchange(request: &HttpMessage, server: &mut BufReader<TcpStream>) -> Option<HttpMessage> {
    request.write(server).await?;
    HttpMessage::read(server).await
}

/// Has the process killed and waits for its end, which closes the connection.
async fn killed(caller: &mut BufReader<TcpStream>, plan: &FaultPlan) -> Option<()> {
    plan.crash();
    HttpMessage::read(caller).await.map(drop)
}
