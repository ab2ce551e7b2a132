//! What happens now: what needs a person, the endpoints, and what arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use maud::{Markup, html};
use serde::Deserialize;

use super::day::Day;
use super::layout::{
    Html, Tab, Trouble, code, machine, machine_link, page, sentence, state_of, thousands, time, titled,
};
use super::reader::Reader;
use super::{ASK_AGAIN, SNAPSHOT_IS_NEW, SNAPSHOT_IS_TRUE, Site, href};
use crate::command::explain::explained;
use crate::documents::Stored;
use crate::failure::Failure;
use crate::output;
use crate::output::codes::{opening, section};
use crate::output::hints::pasteable;
use crate::records::looks::Look;
use crate::stack::arrivals::{Arrival, Arrivals};
use crate::stack::meter::{Cost, metered};
use crate::stack::status::{Need, StackStatus};
use crate::stack::traffic::{Cell, EndpointTraffic};

/// How many arrivals a page shows.
const ROWS: usize = 20;

/// With more endpoints than these, a page that keeps up shows them as they were when it was loaded.
const ENDPOINTS_KEPT_UP_MAX: usize = 50;

/// How wide the text of a page of the runbook is, in characters.
const WIDTH: usize = 100;

/// The field of an address that asks for the last 24 hours of a stack on AWS.
const DAY: &str = "day";

pub(super) async fn show(State(site): State<Arc<Site>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let (content, cost) = metered(Box::pin(async {
        let day = if query.contains_key(DAY) { site.day().await } else { None };
        content(&site, day.as_deref()).await
    }))
    .await;
    match content {
        Ok((title, content)) => page(&site, Tab::Now, &title, cost, &content).into_response(),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Now),
    }
}

async fn content(site: &Site, day: Option<&Day>) -> Result<(String, Markup), Failure> {
    let reader = site.reader().await?;
    site.catch_up(&reader, false).await?;
    let snapshot = Snapshot::read(site).await;
    site.keep(&snapshot);
    let parts = snapshot.parts.as_ref().map_err(Clone::clone)?;
    let content = html! {
        (needs_part(parts))
        h2 { "Endpoints" }
        div.scroll tabindex="0" role="region" aria-label="Endpoints" {
            @match &parts.endpoints {
                Some((_, endpoints)) => (endpoints_part(endpoints)),
                None => (endpoints_part(&endpoints(site, day).await.1)),
            }
        }
        @if day.is_none() && site.connection.deployed().is_some() {
            p.small { a href=(href::page(".").with(DAY, "1")) { "Ask CloudWatch for the last 24 hours" } }
        }
        @if let Some(day) = day { (day.section()) }
        h2 { "Arriving " button.link.small type="button" id="pause" hidden { "pause" } }
        p.fault id="silent" role="alert" hidden {
            "This page does not keep up. Load it again. If that fails, start the console again, and open the address that it prints."
        }
        div.scroll tabindex="0" role="region" aria-label="What arrives" {
            (arrivals_part(site, &Seen { after: None, snapshot: snapshot.number }))
        }
    };
    Ok((parts.title.clone(), content))
}

/// What a page shows already.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    /// The number of the last change of an arrival. `None` for a page that shows none yet.
    after: Option<u64>,
    /// The number of its snapshot.
    snapshot: u64,
}

/// What arrived, with the address under which a page that shows it asks for more.
fn arrivals_part(site: &Site, seen: &Seen) -> Markup {
    let (arrivals, changes) = site.arrivals.all();
    let after = changes.to_string();
    let next = href::page("arrivals").with("after", &after).with("snapshot", &seen.snapshot.to_string());
    // Only the latest refusal of each endpoint is explained.
    let mut refusing = BTreeSet::new();
    html! {
        div id="arrivals" data-poll=(next) {
            @if arrivals.is_empty() {
                p {
                    "Nothing has arrived in this hour. "
                    @if site.traffic.is_none() { "What came in the hours before appears here in a moment." }
                    @if site.sends() { a.button.primary href=(href::page("send")) { "Send a sample event" } }
                }
            }
            table {
                thead { tr { th { "Time" } th.hide { "Endpoint" } th.hide { "Type" } th { "Key" } th { "State" } } }
                tbody {
                    @for (changed, arrival) in arrivals.iter().rev().take(ROWS) {
                        @let is_explained = arrival.look == Look::REFUSED && refusing.insert(arrival.endpoint.as_str());
                        (row(arrival, seen.after.is_some_and(|after| *changed > after), is_explained))
                    }
                }
            }
        }
    }
}

/// What is read once for all pages that keep up.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// In the order in which they were begun: a clock may be set back.
    number: u64,
    at: EpochMs,
    /// How many changes of arrivals there were before.
    changes: u64,
    parts: Result<Parts, Failure>,
}

#[derive(Debug)]
struct Parts {
    title: String,
    needs: Markup,
    /// How many there are, and as a table. `None` for a stack on AWS, which is asked for them by a whole page alone.
    endpoints: Option<(usize, Markup)>,
}

impl Snapshot {
    async fn read(site: &Site) -> Arc<Self> {
        let (number, at) = (site.snapshots.fetch_add(1, Ordering::Relaxed) + 1, System.moment().now);
        let changes = site.arrivals.changes();
        let parts = async {
            let (title, needs) = needs(site, &site.reader().await?, at).await?;
            let endpoints = if site.traffic.is_some() { Some(endpoints(site, None).await) } else { None };
            Ok(Parts { title, needs, endpoints })
        };
        Arc::new(Self { number, at, changes, parts: parts.await })
    }

    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.number < other.number
    }

    /// Whether pages that keep up have to see a newer one: some seconds after a change, which others may see as late, or
    /// after a read that failed, and a while later for what only grows old or was done elsewhere.
    fn is_old(&self, arrivals: &Arrivals) -> bool {
        let is_soon = |at: EpochMs| (0..SNAPSHOT_IS_NEW.0).contains(&(self.at.0 - at.0));
        let is_passing = self.changes != arrivals.changes() || arrivals.changed_at().is_some_and(is_soon);
        let new = if is_passing || self.parts.is_err() { SNAPSHOT_IS_NEW } else { SNAPSHOT_IS_TRUE };
        !(0..new.0).contains(&(System.moment().now.0 - self.at.0))
    }

    /// The newest one. One page reads it for all, and goes on without it where that takes long. An answer that nobody
    /// waits for any more does not end the read.
    async fn newest(site: &Arc<Site>) -> Option<Arc<Self>> {
        let kept = site.kept();
        if kept.as_ref().is_some_and(|kept| !kept.is_old(&site.arrivals)) {
            return kept;
        }
        if let Ok(reading) = Arc::clone(&site.reading).try_lock_owned() {
            let site = Arc::clone(site);
            let read = tokio::spawn(async move {
                site.keep(&Box::pin(Self::read(&site)).await);
                drop(reading);
            });
            let _ = tokio::time::timeout(Duration::from_millis(ASK_AGAIN.0.unsigned_abs()), read).await;
        }
        site.kept()
    }
}

fn needs_part(parts: &Parts) -> Markup {
    html! { section id="needs" aria-live="polite" data-title=(titled(&parts.title)) { (parts.needs) } }
}

fn endpoints_part(endpoints: &Markup) -> Markup {
    html! { div id="endpoints" { (endpoints) } }
}

/// What needs a person, and the title that says so.
async fn needs(site: &Site, reader: &Reader, now: EpochMs) -> Result<(String, Markup), Failure> {
    let mut status = reader.status(&site.connection, now).await?;
    if let Some(day) = site.known_day().await {
        status.silent.clone_from(&day.silent);
    }
    let needs = status.needs(now);
    let title = match needs.len() {
        0 => "Nothing needs you".to_owned(),
        1 => "1 thing needs you".to_owned(),
        count => format!("{count} things need you"),
    };
    let unknown = status.unknown();
    let section = html! {
        h1 { (title) }
        @for need in &needs { (card(need, site)) }
        @for (part, failure) in &unknown {
            p.note { (sentence(&format!("not known: {}", part.replace('_', " ")))) " " (sentence(&failure.to_string())) }
        }
        @if needs.is_empty() && unknown.is_empty() { p.note { (at_rest(&status)) } }
    };
    Ok((title, section))
}

/// What waits while nothing needs a person.
fn at_rest(status: &StackStatus) -> String {
    let waits: u64 = [&status.records.pending, &status.records.waiting, &status.records.effects]
        .into_iter()
        .filter_map(|due| due.as_ref().ok())
        .map(|due| due.count)
        .sum();
    match waits {
        0 => "No record waits, and none is dead.".to_owned(),
        1 => "1 record waits for its turn, and none is dead.".to_owned(),
        waits => format!("{} records wait for their turn, and none is dead.", thousands(waits)),
    }
}

/// What needs a person, with what to do.
fn card(need: &Need, site: &Site) -> Markup {
    let Need { word, count, what, next, page, records } = need;
    let refusing = word.strip_prefix("refused:").filter(|_| site.connection.local().is_some());
    let look = match refusing {
        Some(endpoint) => Some(href::page("refused").with("endpoint", endpoint)),
        None => {
            (!records.is_empty()).then(|| href::records(records.iter().map(|(name, value)| (*name, value.as_str()))))
        }
    };
    html! {
        div.need {
            @if *count > 0 { b { (thousands(*count)) } }
            div {
                p { (machine_free(what)) }
                p.small.note {
                    @if next.starts_with("hookonce ") { code { (pasteable(format!("  {next}")).trim_start()) } " · " }
                    @else if !next.is_empty() { (code(&sentence(&pasteable(next.clone())))) " " }
                    @if section(page).is_some() { a href=(href::page("explain").with("name", page)) { (opening(page)) } }
                    @else { (page) }
                }
            }
            @if let Some(look) = look {
                div.acts {
                    a.button href=(look) { "Look" } " "
                    @if word == "records_died" && site.may_change() {
                        a.button.primary href=(href::page("orders/new").with("operation", "retry").with("state", "DEAD")) {
                            "Replay…"
                        }
                    }
                }
            }
        }
    }
}

/// A sentence of this program that may hold codes and types of others.
fn machine_free(what: &str) -> Markup {
    html! { bdi { (output::shown(what)) } }
}

/// The endpoints, and how many there are. Where their documents cannot be read, the page says so and shows the rest.
async fn endpoints(site: &Site, day: Option<&Day>) -> (usize, Markup) {
    let documents = match site.connection.all_documents::<EndpointId>().await {
        Ok(documents) => documents,
        Err(failure) => return (0, html! { p.note { (sentence(&failure.to_string())) " " (code(failure.hint())) } }),
    };
    let now = System.moment().now;
    let logged = day.and_then(|day| day.traffic.as_ref().ok());
    let is_known = site.traffic.is_some() || logged.is_some();
    let table = html! {
        table {
            thead {
                tr {
                    th { "Endpoint" } th.hide { "Provider" }
                    @if is_known {
                        th { "Last accepted" } th.num { "Accepted, 24 h" } th.num { "Refused, 24 h" } th.hide { "24 hours" }
                    }
                }
            }
            tbody {
                @for (id, stored) in &documents {
                    tr {
                        td { a href=(href::records([("endpoint", id.as_str())])) { (id) } }
                        td.hide { (provider(id, stored)) }
                        @if let Some(traffic) = &site.traffic {
                            @let traffic = traffic.endpoint(id.as_str());
                            // Only a stack on this machine keeps the latest requests that it refused.
                            @let why = href::page("refused").with("endpoint", id.as_str());
                            (traffic_cells(&traffic, now, "never", &traffic.cells(now), Some(&why)))
                        }
                        @if let Some(day) = logged {
                            @let traffic = day.endpoint(id.as_str());
                            (traffic_cells(&traffic, now, "not in 24 hours", &traffic.hours(now), None))
                        }
                    }
                }
            }
        }
    };
    (documents.len(), table)
}

/// The name of an endpoint's provider.
fn provider(id: &EndpointId, stored: &Stored) -> Markup {
    match stored.document(id) {
        Ok(document) => {
            let provider = Catalog::built_in().provider(&document.provider);
            html! { (provider.map_or(document.provider.as_str(), |provider| provider.name())) }
        }
        Err(failure) => html! { span.chip.bad { "✕ " (output::shown(&failure.to_string())) } },
    }
}

/// What an endpoint answered, as cells of a row.
fn traffic_cells(
    traffic: &EndpointTraffic,
    now: EpochMs,
    no_acceptance: &str,
    cells: &[Cell],
    why: Option<&href::Href>,
) -> Markup {
    let (accepted, refused) = traffic.totals(now);
    let code = traffic.last_refusal.as_ref().filter(|_| refused > 0).map(|(_, code)| code);
    html! {
        td { @match traffic.last_accepted { Some(at) => (time(at)), None => span.note { (no_acceptance) } } }
        td.num { (thousands(accepted)) }
        td.num.code {
            @match why.filter(|_| refused > 0) {
                Some(why) => a href=(why) { (thousands(refused)) },
                None => (thousands(refused)),
            }
            @if let Some(code) = code { div.hide { (machine(code)) } }
        }
        td.hide { (strip(cells)) }
    }
}

/// A day as one line of cells of the same length: the fuller, the more was accepted; another colour where some was
/// refused.
fn strip(cells: &[Cell]) -> Markup {
    let most = cells.iter().map(|cell| cell.accepted).max().unwrap_or(0).max(1);
    let total = |of: fn(&Cell) -> u64| cells.iter().map(of).fold(0, u64::saturating_add);
    let label = format!(
        "In 24 hours {} accepted, {} duplicate, {} refused",
        total(|cell| cell.accepted),
        total(|cell| cell.duplicates),
        total(|cell| cell.refused)
    );
    // With what is filled where nothing is styled.
    let shade = |cell: &Cell| match (cell.refused, cell.accepted) {
        (1.., _) => ("cr", "red"),
        (0, 0) => ("c0", "none"),
        (0, accepted) if accepted * 3 <= most => ("c1", "silver"),
        (0, accepted) if accepted * 3 <= most * 2 => ("c2", "gray"),
        (0, _) => ("c3", "black"),
    };
    html! {
        svg.strip viewBox={ "0 0 " (cells.len() * 3) " 20" } height="20" preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (place, cell) in cells.iter().enumerate() {
                @let (class, fill) = shade(cell);
                rect class=(class) fill=(fill) x=(place * 3) y="0" width="2" height="20" {}
            }
        }
    }
}

/// The parts of the page that may have changed, for the script. Nothing if none has.
pub(super) async fn arrivals(State(site): State<Arc<Site>>, Query(seen): Query<Seen>) -> Response {
    match moved(&site, &seen).await {
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Ok(Some(parts)) => Html(parts).into_response(),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Now),
    }
}

async fn moved(site: &Arc<Site>, seen: &Seen) -> Result<Option<Markup>, Failure> {
    let reader = site.reader().await?;
    site.catch_up(&reader, true).await?;
    let changes = site.arrivals.changes();
    let newest = Snapshot::newest(site).await;
    // What cannot be read any more is not shown as if it were true.
    let newest = match newest.as_ref().map(|newest| (newest.number, &newest.parts)) {
        Some((_, Err(failure))) => return Err(failure.clone()),
        Some((number, Ok(parts))) => Some((number, parts)),
        None => None,
    };
    let newer = newest.filter(|(number, _)| *number != seen.snapshot);
    if seen.after == Some(changes) && newer.is_none() {
        return Ok(None);
    }
    let seen = Seen { after: seen.after, snapshot: newer.map_or(seen.snapshot, |(number, _)| number) };
    Ok(Some(html! {
        @if let Some((_, newer)) = newer {
            (needs_part(newer))
            @if let Some((..=ENDPOINTS_KEPT_UP_MAX, endpoints)) = &newer.endpoints { (endpoints_part(endpoints)) }
        }
        (arrivals_part(site, &seen))
    }))
}

/// A section of the runbook, as `hookonce explain` prints it.
pub(super) async fn explain(State(site): State<Arc<Site>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let name = query.get("name").map_or("", String::as_str);
    let Some(text) = explained(name, WIDTH) else {
        let what = format!("no code, alarm or section has the name {}", output::shown(name));
        return Trouble::missing(what, "`hookonce explain` lists all codes and alarms.").page(&site, Tab::Now);
    };
    let (title, text) = text.split_once('\n').unwrap_or((&text, ""));
    let content = html! { h1 { (title) } pre.command { (text.trim_matches('\n')) } };
    page(&site, Tab::Now, title, Cost::default(), &content).into_response()
}

fn row(arrival: &Arrival, is_new: bool, is_explained: bool) -> Markup {
    let Arrival { at, endpoint, event_type, key, look, detail } = arrival;
    html! {
        tr class=[is_new.then_some("new")] {
            td { (time(*at)) }
            td.hide { (machine(endpoint)) }
            td.code.hide { (machine(event_type)) }
            td {
                @match key {
                    Some(key) => (machine_link(&href::record(key), key.parts().1)),
                    // Only a stack on this machine tells of requests, and it keeps the latest refused ones.
                    None if is_explained && !endpoint.is_empty() => {
                        a href=(href::page("refused").with("endpoint", endpoint)) { "why" }
                    }
                    None => span.note { "no record" },
                }
            }
            td { (state_of(*look, detail)) }
        }
    }
}
