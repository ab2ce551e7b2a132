//! The report as one page that needs nothing else, to be shown around.

use maud::{Markup, html};

use super::report::{Answers, Named, Part, Report, Shown, times};
use crate::console::document;
use crate::output;

/// The page.
pub(super) fn page(report: &Report) -> String {
    let Answers { median_ms, slowest_ms, by_status, deadline } = &report.answers;
    let content = html! {
        h1 { (output::shown(&report.summary)) " " (chip(report.is_good())) }
        p {
            (report.requests) " requests as " (report.provider_name) " sends them, to "
            span.mono { (output::shown(&report.url)) } ", in " (report.seconds) " s. Before them, "
            (report.control) " events of type " span.mono { (report.event_type) } " were sent once each"
            @if report.traces == "not counted" { ". Traces were not counted." }
            @else { ", and each was applied once." }
        }
        div.scroll { table {
            thead { tr {
                th { "Scenario" } th { "What happens" } th { "Expected" } th { "Found" }
                th.num { "Events" } th.num { "Sent" }
            } }
            tbody { @for part in &report.scenarios { (row(part)) } }
        } }
        @for part in report.scenarios.iter().filter(|part| !part.is_good) { (detail(part)) }
        h2 { "Answers" }
        p {
            (median_ms) " ms (median), " (slowest_ms) " ms (slowest). " (report.provider_name) " waits: "
            (deadline) "."
        }
        dl { @for (status, count) in by_status { dt { (status) } dd { (count) } } }
        @if !report.not_sent.is_empty() {
            h2 { "Not sent" }
            dl { @for part in &report.not_sent { dt { (part.scenario) } dd { (output::shown(&part.why)) } } }
        }
    };
    let seed = format!(
        ", seed {}. The seed repeats the schedule. It cannot repeat a race: that also depends on what the machine does at \
         that moment.",
        report.seed
    );
    document(&format!("Storm: {}", report.provider_name), &content, &seed)
}

fn chip(is_good: bool) -> Markup {
    html! {
        @if is_good { span.chip.ok { span aria-hidden="true" { "✓" } " passed" } }
        @else { span.chip.bad { span aria-hidden="true" { "✕" } " failed" } }
    }
}

fn row(part: &Part) -> Markup {
    html! {
        tr {
            td { (chip(part.is_good)) " " (part.scenario) }
            td { (part.says) }
            td { (part.expected) }
            td { (part.found) }
            td.num { (part.events) }
            td.num { (part.deliveries) }
        }
    }
}

fn detail(part: &Part) -> Markup {
    html! {
        section {
            h2 { (part.scenario) ": " (part.found) }
            p { (output::shown(&part.catalog)) }
            p.note.small { (source(&part.source)) }
            @if !part.shown_again.is_empty() { p { "Sent again as it was, it showed " (part.shown_again) "." } }
            @for named in &part.named { (event(named)) }
        }
    }
}

fn event(named: &Named) -> Markup {
    html! {
        p { span.mono { (named.event) } " was applied " (times(named.traces)) "." }
        @for Shown { at_ms, took_ms, answer, head, body } in &named.requests {
            details {
                summary { "At " (at_ms) " ms: " (answer) ", after " (took_ms) " ms" }
                pre { (shown(head)) "\n\n" (shown(body)) }
            }
        }
        p.small { "Only this one: " code { (output::shown(&named.only)) } }
    }
}

/// What is sent may hold anything; its line breaks stay.
fn shown(text: &str) -> String {
    text.split('\n').map(output::shown).collect::<Vec<_>>().join("\n")
}

/// The source, as a link where it begins with an address.
fn source(text: &str) -> Markup {
    let is_link = text.starts_with("https://");
    let address = text.split([' ', ';', ',']).next().unwrap_or_default();
    html! {
        @if is_link { a href=(address) rel="noreferrer" { (address) } (text.get(address.len()..).unwrap_or_default()) }
        @else { (text) }
    }
}
