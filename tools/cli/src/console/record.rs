//! One record: what it is, what happened to it and why, and what a person may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::record::{DeadReason, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_providers::Catalog;
use hookonce_runtime::inbox::body::decompress;
use maud::{Markup, html};

use super::layout::{Tab, Trouble, chip, code, document, machine, machine_link, page, time, whole_moment};
use super::{Site, case, href};
use crate::failure::Failure;
use crate::output;
use crate::output::hints;
use crate::records::dry_run::Outcome;
use crate::records::looks::Look;
use crate::records::timeline::{CHILDREN_MAX, EffectStory, Mark, Planning, Step, Timeline};
use crate::stack::meter::metered;

/// The longest body that a page shows, in characters. The whole one is a link away.
const BODY_CHARACTERS_MAX: usize = 20_000;

/// What is shown of a record beside its story.
struct Shown {
    body: bool,
    plan: bool,
}

pub(super) async fn show(
    State(site): State<Arc<Site>>,
    Path((endpoint, key)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let key = href::key_of(&key);
    // A page that only shows calls no handler either: a function of another runs, and is paid for.
    let shown = Shown { body: query.contains_key("body"), plan: query.contains_key("plan") && site.may_change() };
    let planning = if shown.plan { Planning::CallHandlers } else { Planning::Routes };
    let read = async {
        let reader = site.reader().await?;
        let Some(record) = reader.find(&endpoint, key).await? else { return Ok(None) };
        let timeline = reader.timeline(&site.connection, record, planning, CHILDREN_MAX).await?;
        Ok::<_, Failure>(Some(timeline))
    };
    let (read, cost) = metered(Box::pin(read)).await;
    match read {
        Ok(Some(timeline)) => {
            let title = output::shown(timeline.record.key.parts().1);
            page(&site, Tab::Records, &title, cost, &content(&site, &timeline, &shown)).into_response()
        }
        Ok(None) => not_found(&endpoint, key).page(&site, Tab::Records),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
    }
}

fn not_found(endpoint: &str, key: &str) -> Trouble {
    let what = format!("endpoint {} has no record {}", output::shown(endpoint), output::shown(key));
    Trouble::missing(what, "It may have expired: records are kept for weeks.")
}

fn content(site: &Site, timeline: &Timeline, shown: &Shown) -> Markup {
    let record = &timeline.record;
    let (endpoint, own_key) = record.key.parts();
    html! {
        h1 { (machine(own_key)) " " (chip(Look::of(record))) }
        p.note { (summary(timeline, endpoint)) }
        div.cols {
            section aria-labelledby="story" {
                h2 id="story" { "Story" }
                ol.story { @for step in &timeline.steps() { (story_step(step, time)) } }
                (acts(site, record))
            }
            section aria-labelledby="facts" {
                h2 id="facts" { "Facts" }
                dl {
                    dt { "Key" } dd { (machine(record.key.as_str())) }
                    @if let Some(tenant) = &record.tenant { dt { "Tenant" } dd { (machine(&tenant.to_string())) } }
                    @for (name, value) in timeline.facts() {
                        @if !is_shown_elsewhere(record, name) { dt { (sentence_case(name)) } dd { (machine(&value)) } }
                    }
                    @if let Some(parent) = &record.parent {
                        dt { "Came with" } dd { (machine_link(&href::record(parent), parent.parts().1)) }
                    }
                    (related("Event", &timeline.children))
                    @if timeline.has_more_children { dt { "Event" } dd.note { "and more; the JSON has all" } }
                    (related("Effect", &timeline.effects))
                }
                (routes(timeline))
                (body_section(record, shown))
                (case::section(timeline))
                h2 { "Commands" }
                @let commands = commands(site, record);
                @for command in &commands { pre.command { (command) } }
                @if commands.is_empty() { p.note { "Its key holds what cannot be typed." } }
            }
        }
    }
}

/// What the page shows in its own way.
fn is_shown_elsewhere(record: &Record, name: &str) -> bool {
    match name {
        "body" => true,
        "event" | "effect" => record.effect.is_none(),
        _ => false,
    }
}

fn sentence_case(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().to_string() + letters.as_str())
}

/// What the record is, in one sentence, and what its state means.
fn summary(timeline: &Timeline, endpoint: &str) -> Markup {
    let record = &timeline.record;
    let provider =
        Catalog::built_in().provider(&record.provider).map_or(record.provider.as_str(), |provider| provider.name());
    html! {
        (machine(&record.event_type)) " from " (provider) " at the endpoint " a href=(href::records([("endpoint", endpoint)])) { (endpoint) }
        ", received " (time(record.received_at)) ". " (meaning(timeline))
    }
}

/// What a state means for the business.
fn meaning(timeline: &Timeline) -> String {
    let record = &timeline.record;
    let all = || timeline.effects.iter().chain(&timeline.earlier_effects).flat_map(|(_, effect)| effect);
    let effects = |status| all().filter(|effect| effect.status == status).count();
    match (record.status, effects(Status::Pending), effects(Status::Dead)) {
        (Status::Pending, ..) if record.last_error.is_some() => "It failed, and is tried again by itself.".to_owned(),
        (Status::Pending, ..) => "It waits for its turn.".to_owned(),
        (Status::Dead, ..) if record.outcome_unknown() => {
            "Nobody knows whether the callee did it. Ask the callee before you replay.".to_owned()
        }
        (Status::Dead, ..) => "Nothing was applied. It runs again only if a person replays it.".to_owned(),
        (Status::Discarded, ..) => "A person gave it up. It never runs.".to_owned(),
        (Status::Processed, 0, 0) => "It is settled.".to_owned(),
        (Status::Processed, 1, 0) => "It is applied, and 1 effect is not done yet.".to_owned(),
        (Status::Processed, waiting, 0) => format!("It is applied, and {waiting} effects are not done yet."),
        (Status::Processed, _, 1) => "It is applied, and 1 effect died: a person must look at it.".to_owned(),
        (Status::Processed, _, dead) => format!("It is applied, and {dead} effects died: a person must look at them."),
    }
}

fn story_step(step: &Step, time: fn(EpochMs) -> Markup) -> Markup {
    let Step { at, mark, what } = step;
    let class = match mark {
        Mark::Done => "",
        Mark::Failed => "f",
        Mark::ToCome => "n",
    };
    let spoken = match mark {
        Mark::Done => "",
        Mark::Failed => "Failed: ",
        Mark::ToCome => "To come: ",
    };
    // A step begins with what happened; why and how follow.
    let (title, more) = what.split_once([':', ',']).unwrap_or((what, ""));
    html! {
        li class=(class) {
            (time(*at)) " "
            span.unseen { (spoken) }
            strong { (sentence_case(&output::shown(title))) }
            @if !more.is_empty() { p { (code(&output::shown(more.trim()))) } }
        }
    }
}

fn related(name: &str, records: &[(RecordKey, Option<Record>)]) -> Markup {
    html! {
        @for (key, record) in records.iter().take(CHILDREN_MAX) {
            dt { (name) }
            dd {
                @match record {
                    Some(record) => { (machine_link(&href::record(key), key.parts().1)) " " (chip(Look::of(record))) }
                    None => { (machine(key.parts().1)) " " span.note { "has no record" } }
                }
            }
        }
        @if records.len() > CHILDREN_MAX { dt { (name) } dd.note { "and " (records.len() - CHILDREN_MAX) " more" } }
    }
}

/// The same as one file that needs nothing else, for a person without access to the stack. It has no body.
pub(crate) fn file(timeline: &Timeline, effects: &[EffectStory]) -> String {
    let record = &timeline.record;
    let (endpoint, own_key) = record.key.parts();
    let provider =
        Catalog::built_in().provider(&record.provider).map_or(record.provider.as_str(), |provider| provider.name());
    let content = html! {
        h1 { (machine(own_key)) " " (chip(Look::of(record))) }
        p.note { (machine(&record.event_type)) " from " (provider) " at " (endpoint) ". " (meaning(timeline)) }
        h2 { "Story" }
        ol.story { @for step in &timeline.steps() { (story_step(step, whole_moment)) } }
        h2 { "Facts" }
        dl {
            dt { "Key" } dd { (machine(record.key.as_str())) }
            @for (name, value) in timeline.facts() {
                @if !is_shown_elsewhere(record, name) { dt { (sentence_case(name)) } dd { (machine(&value)) } }
            }
            @for (key, event) in &timeline.children {
                dt { "Event" }
                dd { (machine(key.parts().1)) " " @if let Some(event) = event { (chip(Look::of(event))) } }
            }
        }
        @for EffectStory { record, steps, facts } in effects {
            h2 { "Effect " (machine(record.key.parts().1)) " " (chip(Look::of(record))) }
            ol.story { @for step in steps { (story_step(step, whole_moment)) } }
            dl { @for (name, value) in facts { dt { (sentence_case(name)) } dd { (machine(value)) } } }
        }
        (routes(timeline))
    };
    document(&output::shown(own_key), &content, ". The body of the event is left out.")
}

/// What a person may do with the record.
fn acts(site: &Site, record: &Record) -> Markup {
    let is_event = is_event(record);
    let (endpoint, key) = record.key.parts();
    let order = |operation: &str| {
        href::page("orders/new").with("operation", operation).with("endpoint", endpoint).with("key", key)
    };
    html! {
        div.acts {
            @if is_event && record.body.is_some() && site.may_change() {
                a.button href=(href::record(&record.key).with("plan", "1")) { "Dry run with today's handler" } " "
            }
            @if site.may_change() {
                @if record.status == Status::Dead {
                    @match risk(record) {
                        _ if is_rewound(record) => a.button href=(order("force")) { "Apply once more…" },
                        None => a.button.primary href=(order("retry")) { "Replay…" },
                        Some((risk, condition)) => a.button href=(order("retry").with(risk, "1")) { (condition) ": replay…" },
                    }
                    " " a.button href=(order("discard")) { "Discard…" } " "
                }
                @if record.status == Status::Processed && is_event {
                    a.button href=(order("force")) { "Apply once more…" } " "
                }
            }
            a.button href=(href::of_record(&record.key, "json")) { "JSON" }
        }
    }
}

/// Whether it was applied, and its domain key is gone since: only a force runs it again.
fn is_rewound(record: &Record) -> bool {
    record.dead_reason == Some(DeadReason::Rewound)
}

/// What a replay of a dead record has to accept, as the command names it, and what a person has to know before.
fn risk(record: &Record) -> Option<(&'static str, &'static str)> {
    if record.outcome_unknown() {
        Some(("accept-duplicate", "It was not done"))
    } else if record.dead_reason == Some(DeadReason::IdCollision) {
        Some(("accept-other-body", "This body is the right one"))
    } else {
        None
    }
}

/// Whether it is an event that a route takes, and not a batch or an effect.
fn is_event(record: &Record) -> bool {
    matches!(record.key.kind(), RecordKind::Delivery | RecordKind::Event)
}

/// What becomes of an event that no route takes.
fn without_route(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ignored => "it is ignored".to_owned(),
        Outcome::HandledFor(consumer) => format!("a handler of the worker's own build takes it, for {consumer}"),
        Outcome::WaitsBecause(why) => format!("it waits, as {why}"),
        Outcome::FailsWith(code) => format!("it fails with {code}"),
    }
}

/// Which route takes the event today, and why the others do not.
fn routes(timeline: &Timeline) -> Markup {
    if !is_event(&timeline.record) || timeline.record.body.is_none() {
        return html! {};
    }
    let Some(routed) = &timeline.routed else {
        return html! { h2 { "Today's routes" } p.note { "Not known: the routes or the event cannot be read." } };
    };
    html! {
        h2 { "Today's routes" }
        dl {
            @for route in &routed.routes {
                dt { (machine(&route.name)) }
                dd {
                    @if routed.route.as_deref() == Some(route.name.as_str()) {
                        "takes it" @if let Outcome::HandledFor(consumer) = &routed.outcome { ", for " (machine(consumer)) }
                    }
                    @else if let Some(why) = &route.why { bdi { (output::shown(why)) } }
                    @else { "would fit, too; the first one takes it" }
                }
            }
            @if routed.route.is_none() { dt { "No route takes it" } dd { bdi { (output::shown(&without_route(&routed.outcome))) } } }
            // A dry run has the fact that its handler names.
            @if timeline.today().is_none() {
                @if let Some(key) = &routed.domain_key { dt { "Fact today" } dd { (machine(key)) } }
                @else if routed.handler.is_some() { dt { "Fact today" } dd.note { "its handler alone names it" } }
            }
        }
        @if timeline.today().is_none() {
            p.small.note { "No plan is stored: a dry run asks today's handler what it would write and call." }
        }
    }
}

/// The body, hidden until somebody asks for it.
fn body_section(record: &Record, shown: &Shown) -> Markup {
    let Some(stored) = &record.body else {
        return html! { h2 { "Body" } p.note { "None is kept." } };
    };
    let page = href::record(&record.key);
    html! {
        h2 id="body" {
            "Body " span.small.note {
                @if !shown.body { a href=(page.with("body", "1")) { "show" } " · " }
                a href=(href::of_record(&record.key, "body")) { "raw" }
            }
        }
        @if shown.body {
            @match decompress(stored) {
                Ok(raw) => pre tabindex="0" { (readable(&raw)) },
                Err(_) => p.fault { "The stored body is damaged." },
            }
        } @else {
            p.note { "Hidden: it may hold personal data." }
        }
    }
}

/// A body as text: JSON with indents, and otherwise as it came.
fn readable(raw: &[u8]) -> String {
    let text = output::indented(&String::from_utf8_lossy(raw));
    let lines = text.split('\n').map(output::shown).collect::<Vec<_>>().join("\n");
    let mut letters = lines.chars();
    let short: String = letters.by_ref().take(BODY_CHARACTERS_MAX).collect();
    if letters.next().is_some() { short + "…" } else { short }
}

/// The commands that show or change the same. None for a key that cannot be typed: its sender chose it.
fn commands(site: &Site, record: &Record) -> Vec<String> {
    let (endpoint, key) = record.key.parts();
    let Some(key) = output::word(key) else { return Vec::new() };
    let mut commands = vec![hints::command(&["hookonce", "show", endpoint, &key], "")];
    if is_event(record) && record.body.is_some() {
        commands.push(hints::command(&["hookonce", "show", endpoint, &key, "--body"], " > event.json"));
        // No signature is kept, so nobody, and no curl, can send it again as the provider did: a stack here signs it anew.
        commands.push(if site.connection.deployed().is_some() {
            hints::command(&["hookonce", "pull", endpoint, &key], "")
        } else {
            send_again(record, endpoint)
        });
    }
    if record.status == Status::Dead {
        let risk = if is_rewound(record) { Some("force") } else { risk(record).map(|(risk, _)| risk) };
        let flag = risk.map(|risk| format!("--{risk}"));
        let words = ["hookonce", "replay", "--key", endpoint, &key].into_iter().chain(flag.as_deref());
        commands.push(hints::command(&words.collect::<Vec<_>>(), ""));
    }
    commands
}

/// The command that makes the request again: the same body and the headers that are kept, signed with the endpoint's
/// secret. A header that cannot be typed is left out.
fn send_again(record: &Record, endpoint: &str) -> String {
    // `send` says so by itself.
    let is_usual = |(name, value): &(&String, &String)| *name == "content-type" && *value == "application/json";
    let headers = record.headers.iter().filter(|it| !is_usual(it)).map(|(name, value)| format!("{name}:{value}"));
    let headers: Vec<_> = headers.filter_map(|header| Some(output::word(&header)?.into_owned())).collect();
    let mut words =
        vec!["hookonce", "send", "--provider", &record.provider, "--endpoint", endpoint, "--file", "event.json"];
    words.extend(headers.iter().flat_map(|header| ["--header", header]));
    hints::command(&words, "")
}

/// The body as it was received: as text, whatever it is, so that no browser runs it.
pub(super) async fn body(State(site): State<Arc<Site>>, Path((endpoint, key)): Path<(String, String)>) -> Response {
    match read(&site, &endpoint, href::key_of(&key)).await {
        Ok(Some(record)) => match record.body.as_deref().map(decompress) {
            Some(Ok(raw)) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], raw).into_response(),
            Some(Err(_)) | None => Trouble::missing("no body is kept of this record", "").page(&site, Tab::Records),
        },
        Ok(None) => not_found(&endpoint, &key).page(&site, Tab::Records),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
    }
}

async fn read(site: &Site, endpoint: &str, key: &str) -> Result<Option<Record>, Failure> {
    site.reader().await?.find(endpoint, key).await
}

/// What the command `show --json` prints.
pub(super) async fn json(State(site): State<Arc<Site>>, Path((endpoint, key)): Path<(String, String)>) -> Response {
    let read = async {
        let reader = site.reader().await?;
        let Some(record) = reader.find(&endpoint, href::key_of(&key)).await? else { return Ok(None) };
        Ok::<_, Failure>(Some(reader.timeline(&site.connection, record, Planning::Nothing, usize::MAX).await?.json()))
    };
    match Box::pin(read).await {
        Ok(Some(json)) => {
            // Plain data always serialises.
            let text = serde_json::to_string_pretty(&json).unwrap_or_default();
            ([(CONTENT_TYPE, "application/json")], text).into_response()
        }
        Ok(None) => not_found(&endpoint, &key).page(&site, Tab::Records),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Records),
    }
}
