//! Loopback servers that misbehave on the wire, below the SDK, where no wrapper of a port can reach.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;

use hookonce_local::clients::{access_key_id, without_key};
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::scripted::closed;
pub(crate) use super::scripted::{HttpMessage, ScriptedServer};

/// The response of a server that cannot carry a call out, and of one that pretends it did.
const REFUSED: (&str, &str) = ("503 Service Unavailable", r#"{"__type":"com.amazonaws#ServiceUnavailable"}"#);
const PRETENDED: (&str, &str) = ("200 OK", "{}");

/// A fault that a proxy can inject, by the name that it has in the model, as far as the model has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFault {
    Refused,
    ReplyLost,
    Repeated,
    Late,
    /// Its caller gives up, and it is carried out when everything else has come to rest.
    LateAtRest,
    /// It is not carried out, and no answer ever comes.
    NoReply,
    CrashBefore,
    CrashAfter,
    /// The other side claims success and does nothing. No protocol survives this: it shows that a harness can fail.
    FalseSuccess,
}

/// Decides which fault a request meets on its way through a [`Proxy`].
pub(crate) trait Injector: Send + Sync + 'static {
    /// The fault of this request, if it meets one.
    fn fault(&self, request: &HttpMessage) -> impl Future<Output = Option<WireFault>> + Send;

    /// Keeps a request that its caller gave up.
    fn postpone(&self, _request: ProxiedRequest) {
        unreachable!("no fault here is late");
    }

    /// Kills the process that made the request.
    fn kill(&self) {
        unreachable!("no fault here is a crash");
    }
}

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
        exchange(&self.request, &mut server).await.unwrap();
    }
}

/// A proxy in front of a server: it forwards everything, except for the injected faults. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    url: String,
    in_flight: Arc<InFlight>,
    task: JoinHandle<()>,
}

/// How many requests have come and are not answered. Their callers may have given up on them.
#[derive(Debug, Default)]
struct InFlight(watch::Sender<usize>);

impl InFlight {
    /// Counts one request until the result is dropped.
    fn begin(&self) -> OneInFlight<'_> {
        self.0.send_modify(|count| *count += 1);
        OneInFlight(self)
    }
}

struct OneInFlight<'a>(&'a InFlight);

impl Drop for OneInFlight<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl Proxy {
    /// A proxy for the server at `url`.
    pub(crate) async fn start(url: &str, injector: &Arc<impl Injector>) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, url, injector).await
    }

    /// A proxy at an address of this machine, for the server at `url`.
    pub(crate) async fn start_at(address: Ipv4Addr, url: &str, injector: &Arc<impl Injector>) -> Self {
        let target = without_key(url).trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let own_url = format!("http://{}@{}", access_key_id(url), listener.local_addr().unwrap());
        let injector = Arc::clone(injector);
        let in_flight = Arc::new(InFlight::default());
        let counted = Arc::clone(&in_flight);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (target, injector, counted) = (target.clone(), Arc::clone(&injector), Arc::clone(&counted));
                tokio::spawn(async move { connection(stream, target, &*injector, &counted).await });
            }
        });
        Self { url: own_url, in_flight, task }
    }

    /// Waits until every request is answered, also those that their callers have given up.
    pub(crate) async fn at_rest(&self) {
        self.in_flight.0.subscribe().wait_for(|count| *count == 0).await.unwrap();
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

/// Serves one connection. `None` once either side has closed it, or if the fault breaks it.
async fn connection(stream: TcpStream, target: String, injector: &impl Injector, in_flight: &InFlight) -> Option<()> {
    let mut caller = BufReader::new(stream);
    let mut server = BufReader::new(TcpStream::connect(&target).await.ok()?);
    loop {
        let request = HttpMessage::read(&mut caller).await?;
        let _counted = in_flight.begin();
        match injector.fault(&request).await {
            None => exchange(&request, &mut server).await?.write(&mut caller).await?,
            Some(WireFault::Refused) => HttpMessage::reply(REFUSED).write(&mut caller).await?,
            Some(WireFault::FalseSuccess) => HttpMessage::reply(PRETENDED).write(&mut caller).await?,
            Some(WireFault::ReplyLost) => return exchange(&request, &mut server).await.map(drop),
            Some(WireFault::Repeated) => {
                exchange(&request, &mut server).await?;
                exchange(&request, &mut server).await?.write(&mut caller).await?;
            }
            Some(WireFault::NoReply) => return closed(&mut caller).await,
            Some(WireFault::Late | WireFault::LateAtRest) => {
                injector.postpone(ProxiedRequest { target, request });
                return None;
            }
            Some(WireFault::CrashBefore) => {
                injector.kill();
                return closed(&mut caller).await;
            }
            Some(WireFault::CrashAfter) => {
                exchange(&request, &mut server).await?;
                injector.kill();
                return closed(&mut caller).await;
            }
        }
    }
}

async fn exchange(request: &HttpMessage, server: &mut BufReader<TcpStream>) -> Option<HttpMessage> {
    request.write(server).await?;
    HttpMessage::read(server).await
}
