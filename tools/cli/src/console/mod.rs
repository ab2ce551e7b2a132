//! The console: what the commands know and do, as pages on loopback.
//!
//! A page reads through a [`Reader`], which cannot write. What changes records or sends anything is in `orders` and in
//! `send`, and goes through the code of the commands. Every control is a link or a form, so the pages work without the
//! script, which only keeps up to date what moves.

mod case;
mod day;
mod filter;
mod guard;
mod href;
mod layout;
mod now;
mod orders;
mod reader;
mod record;
mod records;
mod refused;
mod send;

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use error_reporter::Report;
use hookonce_aws::DynamoStore;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) use self::guard::Session;
pub(crate) use self::layout::document;
use self::layout::{Tab, Trouble};
use self::reader::Reader;
pub(crate) use self::record::file as record_file;
use crate::failure::Failure;
use crate::records::PageCursor;
use crate::stack::arrivals::{ARRIVALS_MAX, Arrival, Arrivals};
use crate::stack::connection::Connection;
use crate::stack::traffic::Traffic;

/// The files that every page names. They are in the program, so no page asks for anything elsewhere.
const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// How long what was read of a stack on AWS counts as new.
const ASK_AGAIN: Millis = Millis::seconds(2);

/// How long a snapshot stays that was read in the moments after a change: what else came of it is seen then.
const SNAPSHOT_IS_NEW: Millis = Millis::seconds(5);

/// How long it stays without one: to read it anew costs about 80 calls.
const SNAPSHOT_IS_TRUE: Millis = Millis::minutes(1);

/// How long an answer of CloudWatch does: a question costs money, and its log lags by seconds anyway.
const DAY_IS_NEW: Millis = Millis::minutes(1);

/// A path that nobody can guess: a browser sends the cookie of this path to no other server on this machine.
fn fresh_base() -> String {
    format!("/{}/", Uuid::new_v4().simple())
}

/// How often a stack on AWS is asked for the arrivals of one more hour, further back each time.
const HOURS_BACK: usize = 4;

/// When the tables were last asked for arrivals, and how far back. One hour at a time: the first page of a quiet stack
/// waits for no more.
#[derive(Debug, Clone, Default)]
struct ArrivalSearch {
    at: Option<EpochMs>,
    /// How many hours were looked at before the latest one.
    hours: usize,
    /// Where the next one begins. `None` if it is not known yet, or nothing is left.
    behind: Option<PageCursor>,
}

/// What a person may do in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Look.
    Read,
    /// Also change records, as the commands do.
    Change,
    /// Also send events: to a stack on this machine alone.
    Send,
}

/// What the console shows.
#[derive(Debug)]
pub(crate) struct Site {
    /// What a person calls the stack.
    pub(crate) name: String,
    /// The stack.
    pub(crate) connection: Connection,
    /// What arrived last. The stack on this machine tells by itself; of another one, the tables are asked.
    pub(crate) arrivals: Arc<Arrivals>,
    /// What its endpoints answered. `None` for a stack on AWS, where the gateway's log knows.
    pub(crate) traffic: Option<Arc<Traffic>>,
    /// What may be done.
    pub(crate) rights: Rights,
    /// What the tables were asked for arrivals.
    search: Mutex<ArrivalSearch>,
    /// What pages that keep up show beside arrivals.
    snapshot: Mutex<Option<Arc<now::Snapshot>>>,
    /// How many were begun.
    snapshots: AtomicU64,
    /// Held while it is read.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// What CloudWatch said of the last 24 hours, and when.
    day: tokio::sync::Mutex<Option<(EpochMs, Arc<day::Day>)>>,
    runs: orders::Runs,
    base: String,
    store: OnceCell<DynamoStore>,
}

impl Site {
    /// The console of the stack on this machine, which tells what arrives and what its endpoints answer.
    pub(crate) fn local(connection: Connection, arrivals: Arc<Arrivals>, traffic: Arc<Traffic>) -> Self {
        let site = Self::deployed("this machine".to_owned(), connection, Rights::Send);
        Self { arrivals, traffic: Some(traffic), ..site }
    }

    /// The console of a stack on AWS.
    pub(crate) fn deployed(name: String, connection: Connection, rights: Rights) -> Self {
        Self {
            name,
            connection,
            arrivals: Arc::default(),
            traffic: None,
            rights,
            search: Mutex::default(),
            snapshot: Mutex::default(),
            snapshots: AtomicU64::default(),
            reading: Arc::default(),
            day: tokio::sync::Mutex::default(),
            runs: orders::Runs::default(),
            base: fresh_base(),
            store: OnceCell::new(),
        }
    }

    /// Asks the tables of a stack on AWS what arrived, if nobody did in the last moments: whatever the number of open
    /// pages, they are asked once. A whole page reads more than arrivals, so it does not look further back.
    async fn catch_up(&self, reader: &Reader, looks_back: bool) -> Result<(), Failure> {
        // A stack on this machine says by itself what arrives. Only what came before it began, and what a person did since,
        // is read.
        if self.traffic.is_some() && looks_back {
            return Ok(());
        }
        let now = System.moment().now;
        let search = {
            let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
            if search.at.is_some_and(|at| (0..ASK_AGAIN.0).contains(&(now.0 - at.0))) {
                return Ok(());
            }
            search.at = Some(now);
            search.clone()
        };
        let mut behind = self.keep_hour(reader, None).await?;
        if self.traffic.is_some() {
            self.keep_effects(reader).await?;
        }
        if !looks_back && search.hours > 0 {
            return Ok(());
        }
        if let Some(place) = &search.behind {
            behind = self.keep_hour(reader, Some(place)).await?;
        }
        let mut kept = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever asks at the same moment may have come further.
        if kept.hours == search.hours && search.hours < HOURS_BACK {
            kept.hours += 1;
            kept.behind = behind;
        } else if search.hours >= HOURS_BACK {
            kept.behind = None;
        }
        drop(kept);
        Ok(())
    }

    /// Keeps the arrivals of an hour, and returns where the one before begins.
    async fn keep_hour(&self, reader: &Reader, behind: Option<&PageCursor>) -> Result<Option<PageCursor>, Failure> {
        let changes = self.arrivals.changes();
        let hour = reader.hour(ARRIVALS_MAX, behind).await?;
        for (_, record) in hour.rows.iter().rev() {
            self.arrivals.keep_unless_changed(Arrival::of(record), changes);
        }
        let is_full = hour.rows.len() >= ARRIVALS_MAX;
        Ok(hour.next.filter(|_| !is_full))
    }

    /// Keeps how the effects stand by now that arrived: an hour has none of them.
    async fn keep_effects(&self, reader: &Reader) -> Result<(), Failure> {
        let changes = self.arrivals.changes();
        for effect in reader.heads(self.arrivals.effects()).await? {
            self.arrivals.keep_unless_changed(Arrival::of(&effect), changes);
        }
        Ok(())
    }

    /// What CloudWatch knows of the last 24 hours of a stack on AWS. However many pages ask, it is asked once a minute.
    /// `None` for the stack on this machine, which counts itself.
    async fn day(&self) -> Option<Arc<day::Day>> {
        let deployed = self.connection.deployed()?;
        let now = System.moment().now;
        let mut kept = self.day.lock().await;
        if let Some((_, day)) = kept.as_ref().filter(|(at, _)| (0..DAY_IS_NEW.0).contains(&(now.0 - at.0))) {
            return Some(Arc::clone(day));
        }
        let day = Arc::new(Box::pin(day::Day::of(&self.connection, deployed, now)).await);
        *kept = Some((now, Arc::clone(&day)));
        Some(day)
    }

    /// The same, if a page asked for it within the last hour: a page that keeps up by itself asks for nothing.
    async fn known_day(&self) -> Option<Arc<day::Day>> {
        let now = System.moment().now;
        let kept = self.day.lock().await;
        kept.as_ref().filter(|(at, _)| now.0 - at.0 < Millis::hours(1).0).map(|(_, day)| Arc::clone(day))
    }

    /// What pages that keep up show beside arrivals, as it was last read.
    fn kept(&self) -> Option<Arc<now::Snapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, snapshot: &Arc<now::Snapshot>) {
        let mut kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.is_before(snapshot)) {
            *kept = Some(Arc::clone(snapshot));
        }
    }

    /// The path of all pages, which nobody can guess.
    fn base(&self) -> &str {
        &self.base
    }

    /// An answer that leads to another page.
    fn see_other(&self, href: &href::Href) -> Response {
        (StatusCode::SEE_OTHER, [(LOCATION, format!("{}{}", self.base, href.as_str()))]).into_response()
    }

    fn may_change(&self) -> bool {
        self.rights != Rights::Read
    }

    fn sends(&self) -> bool {
        self.rights == Rights::Send
    }

    /// What one page reads.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    async fn reader(&self) -> Result<Reader, Failure> {
        let store = self.store.get_or_try_init(|| self.connection.store()).await?;
        Ok(Reader::of(store.clone()))
    }
}

/// How long a browser may take to send the head of a request, so that no client holds a connection for ever.
const HEADERS_TIME: Duration = Duration::from_secs(5);

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What to do where a port is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortChoice {
    /// Take any other.
    Preferred,
    /// Fail.
    Required,
}

/// A running console. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Console {
    site: Arc<Site>,
    session: Session,
    serving: JoinHandle<()>,
}

impl Console {
    /// Serves a site on a port of loopback.
    ///
    /// # Errors
    /// [`Failure`] when no port can be had.
    pub(crate) async fn start(site: Site, port: u16, choice: PortChoice) -> Result<Self, Failure> {
        let bound = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(_) if choice == PortChoice::Preferred => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
            bound => bound,
        };
        let failed = |error: std::io::Error| {
            Failure::unavailable(
                format!("the console cannot listen on port {port}: {}", Report::new(&error)),
                "another program may use the port: pass --port, or 0 for any free one",
            )
        };
        let listener = bound.map_err(failed)?;
        let session = Session::new(listener.local_addr().map_err(failed)?.port(), site.base.clone());
        let site = Arc::new(site);
        let router = router(Arc::clone(&site), session.clone());
        // It ends with this process.
        let serving = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream, router.clone()))),
                    // No socket is free.
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        Ok(Self { site, session, serving })
    }

    /// The address that lets a browser in.
    pub(crate) fn entrance(&self) -> String {
        self.session.entrance()
    }

    /// Ends the console, and what it does in somebody's name between two records.
    pub(crate) async fn end(self) {
        self.site.runs.end().await;
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers on a connection until the browser ends it, or is too slow.
async fn serve(stream: TcpStream, router: Router) {
    let (timer, service) = (TokioTimer::new(), TowerToHyperService::new(router));
    let mut http = http1::Builder::new();
    // Whoever is cut off asks again.
    let _ = http.timer(timer).header_read_timeout(HEADERS_TIME).serve_connection(TokioIo::new(stream), service).await;
}

/// What the pages share.
#[derive(Debug, Clone)]
struct Served {
    site: Arc<Site>,
    session: Session,
}

impl FromRef<Served> for Arc<Site> {
    fn from_ref(served: &Served) -> Self {
        Self::clone(&served.site)
    }
}

fn router(site: Arc<Site>, session: Session) -> Router {
    let base = site.base.clone();
    let pages = Router::new()
        .route("/", get(now::show))
        .route("/arrivals", get(now::arrivals))
        .route("/explain", get(now::explain))
        .route("/refused", get(refused::show))
        .route("/find", get(records::find))
        .route("/records", get(records::show))
        .route("/records/{endpoint}/{key}", get(record::show))
        .route("/records/{endpoint}/{key}/body", get(record::body))
        .route("/records/{endpoint}/{key}/json", get(record::json))
        .route("/orders/new", get(orders::new))
        .route("/orders", post(orders::give))
        .route("/orders/{number}", get(orders::show))
        .route("/orders/{number}/part", get(orders::part))
        .route("/orders/{number}/stop", post(orders::stop))
        .route("/send", get(send::show).post(send::send))
        .route("/console.css", get(|| async { asset("text/css", STYLE) }))
        .route("/console.js", get(|| async { asset("text/javascript", SCRIPT) }))
        .route("/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
        .fallback(missing)
        .with_state(Served { site, session: session.clone() });
    // A nested router's own root has no slash at its end.
    Router::new()
        .nest_service(base.trim_end_matches('/'), pages)
        .layer(middleware::from_fn_with_state(session, guard::guard))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

async fn missing(State(site): State<Arc<Site>>) -> Response {
    let trouble =
        Trouble { status: StatusCode::NOT_FOUND, what: "there is no such page".to_owned(), hint: String::new() };
    trouble.page(&site, Tab::Now)
}
