//! The records that pass a filter. The whole filter is in the address, by the names of the command's options.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;
use maud::{Markup, html};

use super::filter::{RECEIVED, Typed, about_fields};
use super::layout::{Tab, Trouble, code, count, machine, machine_link, page, sentence, state_of, thousands, time};
use super::{Site, href, orders};
use crate::failure::Failure;
use crate::output::{self, hints};
use crate::records::{self, looks::Look};
use crate::records::{PageCursor, PageOfRecords, candidates, error_of, format_tries, type_of};
use crate::stack::meter::metered;

/// How many rows one page has.
const ROWS: usize = 50;

/// The states that a person may ask for.
const STATES: [&str; 9] =
    ["PENDING", "DEAD", "DISCARDED", "PROCESSED", "APPLIED", "DUPLICATE", "IGNORED", "FANNED_OUT", "DELIVERED"];

/// The field of an address that says where its page begins.
const BEHIND: &str = "behind";

pub(super) async fn show(State(site): State<Arc<Site>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let typed = Typed::of(&query);
    let found = async {
        let reader = site.reader().await?;
        let behind = query.get(BEHIND).and_then(|place| PageCursor::parse(place));
        let found = Box::pin(reader.page(&typed.filter()?, ROWS, behind.as_ref())).await?;
        let is_part = found.next.is_some() || behind.is_some();
        let total = match u64::try_from(found.rows.len()) {
            Ok(shown) if !is_part => Some(shown),
            _ if typed.is_all_dead() => reader.dead().await?,
            _ => None,
        };
        Ok::<_, Failure>((found, is_part, total))
    };
    let ((found, endpoints), cost) = metered(Box::pin(async { (found.await, endpoints(&site).await) })).await;
    let form = form(&typed, &endpoints);
    match found {
        Ok((found, is_part, total)) => {
            let content = content(&site, &typed, &form, &found, is_part, total);
            page(&site, Tab::Records, "Records", cost, &content).into_response()
        }
        Err(failure @ Failure::Usage { .. }) => {
            let content = html! {
                h1 { "Records" }
                (form)
                p.fault role="alert" {
                    (code(&sentence(&about_fields(&failure.to_string())))) " " (code(&sentence(&about_fields(failure.hint()))))
                }
            };
            (StatusCode::BAD_REQUEST, page(&site, Tab::Records, "Records", cost, &content)).into_response()
        }
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
    }
}

/// `total` is the number of all records that pass, where it is known.
fn content(
    site: &Site,
    typed: &Typed,
    form: &Markup,
    found: &PageOfRecords,
    is_part: bool,
    total: Option<u64>,
) -> Markup {
    let PageOfRecords { rows, unreadable, looked_at, next } = found;
    let number = |number: usize| u64::try_from(number).unwrap_or(0);
    html! {
        h1 { (heading(typed, number(rows.len()), is_part)) }
        (orders::notice(site))
        (form)
        @if next.is_some() && *looked_at == 0 {
            p { "Nothing was received in the hours that were looked at." }
        } @else if rows.is_empty() && next.is_some() {
            p { "None of the " (count(number(*looked_at), "record", "records")) " that were looked at passes." }
        } @else if rows.is_empty() {
            p { "No record passes. " a href=(href::page("records")) { "Show all of the last 24 hours" } }
        } @else {
            @if typed.is_dead() { (groups(rows, is_part)) (acts(site, typed, total)) }
            (table(rows, typed.moment()))
        }
        @if *unreadable > 0 { p.note { (count(number(*unreadable), "record", "records")) " of another release: use that one." } }
        @if let Some(next) = next {
            p { a.button href=(href::records(typed.pairs()).with(BEHIND, &next.to_string())) { "Look further back" } }
        }
    }
}

/// How many there are, or that this is a part of them.
fn heading(typed: &Typed, shown: u64, is_part: bool) -> String {
    let state = typed.value("state").to_ascii_lowercase().replace('_', " ");
    let of_state = |noun: &str| if state.is_empty() { noun.to_owned() } else { format!("{state} {noun}") };
    let shown = count(shown, &of_state("record"), &of_state("records"));
    if is_part { format!("{shown} so far") } else { shown }
}

/// The ids that the form offers: of the stack on this machine, where a read costs nothing.
async fn endpoints(site: &Site) -> Vec<EndpointId> {
    if site.connection.local().is_none() {
        return Vec::new();
    }
    records::endpoints(&site.connection).await.unwrap_or_default()
}

fn form(typed: &Typed, endpoints: &[EndpointId]) -> Markup {
    let field = |name: &'static str, label: &str, hint: &str| {
        let list = (name == "endpoint").then_some("endpoints");
        html! {
            label {
                span.small { (label) } " "
                input name=(name) value=(typed.value(name)) placeholder=(hint) list=[list];
            }
        }
    };
    html! {
        form.filter action=(href::page("records")) {
            label {
                span.small { "State" } " "
                select name="state" {
                    option value="" { "all" }
                    @for state in STATES {
                        option value=(state) selected[typed.value("state").eq_ignore_ascii_case(state)] {
                            (Look::of_word(state).map_or("processed", |look| look.word))
                        }
                    }
                }
            }
            label {
                span.small { "Kind" } " "
                select name="kind" {
                    option value="" { "all" }
                    @for kind in ["event", "effect"] { option value=(kind) selected[typed.value("kind") == kind] { (kind) "s" } }
                }
            }
            (field("endpoint", "Endpoint", "all"))
            datalist id="endpoints" { @for id in endpoints { option value=(id) {} } }
            (field("type", "Type", "all"))
            (field("error", "Error", "any"))
            (field("since", "Since", if ["DEAD", "PENDING"].contains(&typed.value("state")) { "all" } else { "24h" }))
            @for name in ["destination", "until"] {
                @if !typed.value(name).is_empty() { (field(name, name, "")) }
            }
            button { "Show" }
        }
    }
}

/// What the records shown died of, the most frequent first.
fn groups(rows: &[(EpochMs, Record)], is_part: bool) -> Markup {
    let mut groups: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (_, record) in rows {
        *groups.entry((error_of(record).unwrap_or("-"), record.key.parts().0)).or_default() += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(group, count)| (std::cmp::Reverse(*count), *group));
    html! {
        ul.groups {
            @for ((error, endpoint), count) in groups {
                @let filter = [("state", "DEAD"), ("error", error), ("endpoint", endpoint)];
                li {
                    b { (thousands(count)) } " " (machine_link(&href::records(filter), error)) " at " (machine(endpoint))
                }
            }
        }
        @if is_part { p.small.note { "of the " (rows.len()) " shown" } }
    }
}

/// The orders that begin at these records.
fn acts(site: &Site, typed: &Typed, total: Option<u64>) -> Markup {
    let can_be_typed = typed.pairs().all(|(_, value)| output::word(value).is_some());
    let options: Vec<_> = typed.pairs().map(|(name, value)| (format!("--{name}"), value)).collect();
    let options = options.iter().flat_map(|(name, value)| [name.as_str(), value]);
    let words: Vec<_> = ["hookonce", "drill"].into_iter().chain(options).chain(["--call-handlers"]).collect();
    html! {
        @if can_be_typed {
            p.small.note { "What today's handlers would make of them: " code { (hints::command(&words, "")) } }
        }
        @if site.may_change() {
            @let order = typed.pairs().fold(href::page("orders/new"), |href, (name, value)| href.with(name, value));
            div.acts {
                a.button.primary href=(order.with("operation", "retry")) { (orders::offer("Replay", total)) } " "
                a.button href=(order.with("operation", "discard")) { (orders::offer("Discard", total)) }
            }
        }
    }
}

/// A table of records, with the moments by which they are ordered. A column that is empty for every row is left out.
fn table(rows: &[(EpochMs, Record)], moment: &str) -> Markup {
    let has_duplicates = rows.iter().any(|(_, record)| record.duplicate_count > 0);
    // An index may order effects by when they are due.
    let shown_at = |at: EpochMs, record: &Record| if moment == RECEIVED { record.received_at } else { at };
    let mut rows: Vec<_> = rows.iter().map(|(at, record)| (shown_at(*at, record), record)).collect();
    rows.sort_by_key(|(at, _)| Reverse(*at));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Records" {
            table {
                thead {
                    tr {
                        th { (moment) } th { "State" } th.hide { "Endpoint" } th.hide { "Type" } th.num.hide { "Tries" }
                        @if has_duplicates { th.num.hide { "Copies" } }
                        th { "Key" }
                    }
                }
                tbody {
                    @for (at, record) in rows {
                        @let (endpoint, key) = record.key.parts();
                        tr {
                            td { (time(at)) }
                            td { (state_of(Look::of(record), error_of(record).unwrap_or(""))) }
                            td.hide { (machine(endpoint)) }
                            td.code.hide { (machine(&type_of(record))) }
                            td.num.hide { (format_tries(record)) }
                            @if has_duplicates { td.num.hide { (record.duplicate_count) } }
                            td { (machine_link(&href::record(&record.key), key)) }
                        }
                    }
                }
            }
        }
    }
}

/// Finds a record by its key alone, at all endpoints at once, or else by the fact that it applied.
pub(super) async fn find(State(site): State<Arc<Site>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let key = query.get("key").map_or("", |key| key.trim());
    if key.is_empty() {
        return site.see_other(&href::page("records"));
    }
    let found = async {
        let reader = site.reader().await?;
        let mut keys = Vec::new();
        for id in records::endpoints(&site.connection).await? {
            keys.extend(candidates(id.as_str(), key)?);
        }
        let found = reader.heads(keys).await?;
        if found.is_empty() { reader.applied(&site.connection, key).await } else { Ok(found) }
    };
    let (found, cost) = metered(Box::pin(found)).await;
    match found {
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
        Ok(found) => match found.as_slice() {
            [] => {
                let what = format!("no record has the key or the fact {}", output::shown(key));
                let hint = "Paste a whole key: the answer to the delivery has it, and `hookonce show` with the beginning of a \
                            key prints it. Or paste what the handler names the fact by, such as the id of an invoice. A \
                            fact leads to what was applied: dead and waiting records are found by their state.";
                Trouble::missing(what, hint).page_of(&site, Tab::Records, cost)
            }
            [record] => site.see_other(&href::record(&record.key)),
            records => {
                let rows: Vec<_> = records.iter().map(|record| (record.received_at, record.clone())).collect();
                let number = u64::try_from(rows.len()).unwrap_or(0);
                let title = format!("{} with this key or fact", count(number, "record", "records"));
                let content = html! { h1 { (title) } (table(&rows, RECEIVED)) };
                page(&site, Tab::Records, "Records", cost, &content).into_response()
            }
        },
    }
}
