//! Sends events to the stack on this machine, as their provider would, or in a way that is to be refused.

use std::collections::BTreeMap;

use axum::Form;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochSec;
use hookonce_providers::settings::PUBLIC_URL;
use hookonce_providers::{CapturedRequest, Catalog, Explanation, Finding};
use hookonce_runtime::documents::document::EndpointDocument;
use maud::{Markup, html};

use super::layout::{Tab, Trouble, code, count, machine, machine_link, page, sentence};
use super::orders::not_of_a_page;
use super::{Served, Session, Site, href};
use crate::dev::fixtures::{self, EventName, Sample, SampleRequest};
use crate::dev::sender::{Delivered, DeliveryToSend, Sender, SignedDelivery, now_unix};
use crate::documents::endpoints;
use crate::documents::parse_id;
use crate::failure::Failure;
use crate::output;
use crate::records::candidates;
use crate::stack::meter::Cost;

/// What the token of the form agrees to.
const ORDER: &str = "send";

/// The most copies of one event.
const COPIES_MAX: usize = 20;

/// How far the clock of a stale signature is behind, in seconds: longer than any provider retries.
const STALE_SECONDS: i64 = 30 * 24 * 60 * 60;

/// How an event is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signature {
    Valid,
    None,
    /// For another body.
    Tampered,
    /// A month ago.
    Stale,
}

impl Signature {
    const ALL: [(&'static str, Self, &'static str); 4] = [
        ("signed", Self::Valid, "signed"),
        ("none", Self::None, "not signed"),
        ("tampered", Self::Tampered, "body changed after signing"),
        ("stale", Self::Stale, "signed a month ago"),
    ];

    /// The one that a form names. One that names none means the first.
    fn of(word: &str) -> Option<Self> {
        let is_it = |(name, ..): &(&str, Self, &str)| word.is_empty() || *name == word;
        Self::ALL.into_iter().find(is_it).map(|(_, signature, _)| signature)
    }
}

/// What a person chose.
struct Chosen {
    endpoint: EndpointId,
    document: EndpointDocument,
    sample: &'static Sample,
}

impl Chosen {
    /// Reads `stripe/stripe.invoice.paid`: an endpoint and a sample.
    fn of(site: &Site, text: &str) -> Result<Self, Failure> {
        let (endpoint, sample) = text.split_once('/').unwrap_or_default();
        let no_sample = |_| Failure::usage("there is no such event", "choose one of the list");
        let endpoint: EndpointId = parse_id(endpoint)?;
        let document = endpoints::read(&site.connection.folder, &endpoint)?;
        Ok(Self { endpoint, document, sample: fixtures::find(sample).map_err(no_sample)? })
    }
}

/// What a console shows that sends nothing.
fn refuse(site: &Site) -> Option<Response> {
    let trouble =
        || Trouble::forbidden("events are sent to a stack on this machine alone", "Start one with `hookonce dev`.");
    (!site.sends()).then(|| trouble().page(site, Tab::Now))
}

/// The form. With an event chosen, it has the body to be changed.
pub(super) async fn show(
    State(Served { site, session }): State<Served>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    if let Some(refusal) = refuse(&site) {
        return refusal;
    }
    let field = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let body = match field("event") {
        "" => Ok(String::new()),
        event => Chosen::of(&site, event).and_then(|chosen| {
            let SampleRequest { body, .. } = request(chosen.sample, &EventName::fresh())?;
            Ok(indented(&body))
        }),
    };
    match body {
        Ok(body) => page(
            &site,
            Tab::Send,
            "Send",
            Cost::default(),
            &html! { h1 { "Send an event" } (form(&site, &session, &query, &body)) },
        )
        .into_response(),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Send),
    }
}

fn request(sample: &Sample, event: &EventName) -> Result<SampleRequest, Failure> {
    sample.request(event, &[]).map_err(|error| Failure::usage(error.to_string(), "choose another event"))
}

fn indented(body: &[u8]) -> String {
    let value = serde_json::from_slice::<serde_json::Value>(body);
    let text = value.map(|value| serde_json::to_string_pretty(&value).unwrap_or_default());
    text.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned())
}

fn form(site: &Site, session: &Session, fields: &BTreeMap<String, String>, body: &str) -> Markup {
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let signature = Signature::of(field("signature")).unwrap_or(Signature::Valid);
    let copies = if field("copies").is_empty() { "1" } else { field("copies") };
    html! {
        form.order method="post" action=(href::page("send")) {
            div.filter {
                label {
                    span.small { "Event" } " "
                    select name="event" {
                        @for (id, document) in endpoints::read_all(&site.connection.folder) {
                            optgroup label={ "at " (id) } {
                                @for sample in fixtures::all().iter().filter(|sample| sample.provider == document.provider) {
                                    @let value = format!("{id}/{}", sample.name());
                                    option value=(value) selected[field("event") == value] { (sample.name()) }
                                }
                            }
                        }
                    }
                }
                label {
                    span.small { "Signature" } " "
                    select name="signature" {
                        @for (name, of, words) in Signature::ALL { option value=(name) selected[of == signature] { (words) } }
                    }
                }
                label {
                    span.small { "Copies, at the same moment" } " "
                    input name="copies" type="number" min="1" max=(COPIES_MAX) value=(copies);
                }
            }
            @if body.is_empty() {
                p.note { "Each event gets a fresh id. Show its body to change it before it is sent." }
            } @else {
                label {
                    span.small { "Body" } " "
                    textarea name="body" rows="16" spellcheck="false" { (body) }
                }
            }
            div.acts {
                // Of a form, a browser sends only the button that was pressed: the token is in no address.
                button.primary name="token" value=(session.agreement(ORDER)) { "Send" } " "
                button formmethod="get" { @if body.is_empty() { "Show its body" } @else { "Another event" } }
            }
        }
    }
}

/// What was sent, and how it was answered.
struct Sent {
    answers: Vec<Delivered>,
    /// Why it was refused, if it was.
    explanation: Option<Explanation>,
}

pub(super) async fn send(
    State(Served { site, session }): State<Served>,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Response {
    if let Some(refusal) = refuse(&site) {
        return refusal;
    }
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    if !session.agrees(field("token"), ORDER) {
        return Trouble::from(not_of_a_page()).page(&site, Tab::Send);
    }
    let sent = async {
        let chosen = Chosen::of(&site, field("event"))?;
        let signature = Signature::of(field("signature"))
            .ok_or_else(|| Failure::usage("there is no such signature", "choose one of the list"))?;
        let copies = if field("copies").is_empty() { "1" } else { field("copies") };
        let copies = copies.parse().ok().filter(|copies| (1..=COPIES_MAX).contains(copies));
        let copies = copies
            .ok_or_else(|| Failure::usage(format!("there can be 1 to {COPIES_MAX} copies"), "choose another number"))?;
        let sent = deliver(&site, &chosen, field("body"), signature, copies).await?;
        Ok::<_, Failure>((chosen, signature, sent))
    };
    let (chosen, signature, sent) = match sent.await {
        Ok(sent) => sent,
        Err(failure) => return Trouble::from(failure).page(&site, Tab::Send),
    };
    let record = |answer: &Delivered| {
        let key = answer.id.as_deref()?;
        Some(href::record(candidates(chosen.endpoint.as_str(), key).ok()?.first()?))
    };
    // Whoever wants to see a refusal is told why there is none.
    let is_ageless = signature == Signature::Stale && sent.explanation.is_none();
    if let ([answer], None, false) = (sent.answers.as_slice(), &sent.explanation, is_ageless)
        && let Some(record) = record(answer)
    {
        return site.see_other(&record);
    }
    let content = html! {
        h1 { (title(&sent.answers)) }
        @if let Some(explanation) = &sent.explanation { (why(explanation)) }
        @if is_ageless {
            p { "It was accepted although it is a month old: " code { (chosen.document.provider) } " signs no time, or none that is checked." }
        }
        div.scroll tabindex="0" role="region" aria-label="Answers" {
            table {
                thead { tr { th { "Status" } th { "Answer" } th { "Record" } th.num { "Took" } } }
                tbody {
                    @for answer in &sent.answers {
                        tr {
                            td { @match answer.status { Some(status) => (status), None => "none" } }
                            td { (machine(&answer.word)) }
                            td {
                                @match (record(answer), &answer.id) {
                                    (Some(href), Some(id)) => (machine_link(&href, id)),
                                    _ => span.note { "none" },
                                }
                            }
                            td.num { (output::length(answer.duration)) }
                        }
                    }
                }
            }
        }
        h2 { "Send another" }
        (form(&site, &session, &fields, field("body")))
    };
    page(&site, Tab::Send, "Sent", Cost::default(), &content).into_response()
}

/// How the copies were answered, in words.
fn title(answers: &[Delivered]) -> String {
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for answer in answers {
        *words.entry(answer.word.as_str()).or_default() += 1;
    }
    let words: Vec<_> = words.into_iter().map(|(word, count)| format!("{count} {}", output::shown(word))).collect();
    format!("Sent {}: {}", count(u64::try_from(answers.len()).unwrap_or(0), "copy", "copies"), words.join(", "))
}

/// What `verify` says of the request.
pub(super) fn why(explanation: &Explanation) -> Markup {
    html! {
        @for cause in &explanation.causes {
            p.fault role="alert" { (code(&sentence(&output::shown(&cause.to_string())))) }
        }
        dl {
            dt { "Scheme" } dd { (machine(&explanation.scheme)) }
            @for Finding { what, place, state } in &explanation.looked_for {
                dt { (what) } dd { (machine(place)) " " (state.in_words()) }
            }
        }
    }
}

async fn deliver(
    site: &Site,
    chosen: &Chosen,
    body: &str,
    signature: Signature,
    copies: usize,
) -> Result<Sent, Failure> {
    let Chosen { endpoint, document, sample } = chosen;
    let provider =
        Catalog::built_in().provider(sample.provider).ok_or_else(|| Failure::usage("no such provider", ""))?;
    let running = site.connection.folder.running()?;
    let SampleRequest { headers, body: own } = request(sample, &EventName::fresh())?;
    // A browser sends each line break of a form as two characters.
    let body = if body.trim().is_empty() { own } else { body.replace("\r\n", "\n").into_bytes() };
    let mut settings = document.settings.clone();
    if let Some(public) = &running.public_url {
        settings.entry(PUBLIC_URL.to_owned()).or_insert(format!("{public}/webhooks/{endpoint}"));
    }
    let settings: hookonce_providers::Settings = settings.into_iter().collect();
    let delivery = DeliveryToSend {
        url: format!("{}/webhooks/{endpoint}", running.url),
        provider,
        secret: document.secrets.first().cloned().unwrap_or_default(),
        settings: settings.clone(),
        schemes: document.schemes.clone(),
        headers,
        body,
        clock_offset_seconds: if signature == Signature::Stale { -STALE_SECONDS } else { 0 },
    };
    let hint = format!("`hookonce providers {}` shows how it signs", provider.id());
    let signed = delivery.signed().map_err(|error| Failure::usage(error.to_string(), hint))?;
    let request = match signature {
        Signature::Valid | Signature::Stale => signed,
        Signature::None => SignedDelivery { headers: delivery.headers.clone(), body: delivery.body.clone() },
        Signature::Tampered => SignedDelivery { body: [signed.body, b" ".to_vec()].concat(), ..signed },
    };
    let sender = Sender::new(&delivery.url, 1);
    let posts = futures::stream::iter(0..copies).map(|_| sender.post(&delivery.url, request.clone()));
    let answers: Vec<_> = posts.buffer_unordered(copies).collect().await;
    let is_refused = answers.iter().any(|answer| answer.status.is_some_and(|status| (400..500).contains(&status)));
    let captured = CapturedRequest {
        provider: document.provider.clone(),
        method: "POST".to_owned(),
        url: delivery.signed_url(),
        headers: request.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
        body: request.body,
        secrets: document.secrets.clone(),
        settings,
        schemes: document.schemes.clone(),
        tolerance: None,
        now: EpochSec(now_unix()),
    };
    Ok(Sent { answers, explanation: is_refused.then(|| provider.explain_captured(&captured)) })
}
