//! What all pages share: the frame, times, states, and the texts of others.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::href::{self, Href};
use super::{STYLE, Site};
use crate::failure::Failure;
use crate::output;
use crate::records::looks::{Look, Tone};
use crate::stack::meter::Cost;

/// The longest text of another that is shown in a line, in characters.
const TEXT_CHARACTERS_MAX: usize = 200;

/// The pages that the head of each page leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Now,
    Records,
    Send,
}

/// A page of HTML.
pub(super) struct Html(pub(super) Markup);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], self.0.into_string()).into_response()
    }
}

/// The frame of a page, and what the page cost.
pub(super) fn page(site: &Site, tab: Tab, title: &str, cost: Cost, content: &Markup) -> Html {
    let tabs = [(Tab::Now, "Now", "."), (Tab::Records, "Records", "records"), (Tab::Send, "Send", "send")];
    let tabs = tabs.into_iter().filter(|(tab, ..)| *tab != Tab::Send || site.sends());
    Html(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                base href=(site.base());
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (titled(title)) }
                link rel="icon" href="icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="console.css";
                script src="console.js" defer {}
            }
            body {
                header {
                    div.wrap {
                        a.brand href="." { "hookonce" }
                        nav aria-label="Pages" {
                            @for (of, name, path) in tabs {
                                a href=(href::page(path)) aria-current=[(of == tab).then_some("page")] { (name) } " "
                            }
                        }
                        form role="search" action="find" {
                            input name="key" type="search" aria-label="Find a record by its key or its fact"
                                placeholder="evt_… or in_…" required;
                            button { "Find" }
                        }
                        span.small.note { (site.name) @if !site.may_change() { " · read only" } }
                    }
                }
                main.wrap {
                    (content)
                    footer.small.note {
                        "Read " (time(System.moment().now))
                        @if cost.calls > 0 {
                            " · " (count(cost.calls, "call", "calls")) " · "
                            (count(read_units(cost), "read unit", "read units"))
                        }
                    }
                }
            }
        }
    })
}

/// The title of a page, as its tab has it.
pub(super) fn titled(title: &str) -> String {
    format!("{title} · hookonce")
}

/// Whole read units: a read of an index may take a half.
fn read_units(cost: Cost) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float ends at the limits")]
    let whole = cost.read_units.ceil() as u64;
    whole
}

/// The frame of a page that is a file: it needs nothing else. `written` follows the moment at its end.
pub(crate) fn document(title: &str, content: &Markup, written: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main.wrap {
                    (content)
                    footer.small.note {
                        "Written " (whole_moment(System.moment().now)) " by hookonce " (env!("CARGO_PKG_VERSION")) (written)
                    }
                }
            }
        }
    };
    page.into_string()
}

/// A moment with its date and zone: nobody knows when a file is read.
pub(super) fn whole_moment(at: EpochMs) -> Markup {
    html! { time datetime=(output::moment(at)) { (output::whole_moment(at)) } }
}

/// A page that says why there is no other.
pub(super) struct Trouble {
    pub(super) status: StatusCode,
    pub(super) what: String,
    pub(super) hint: String,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        let status = match failure {
            Failure::Usage { .. } => StatusCode::BAD_REQUEST,
            Failure::Missing { .. } => StatusCode::NOT_FOUND,
            Failure::Denied { .. } | Failure::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, what: failure.to_string(), hint: failure.hint().to_owned() }
    }
}

impl Trouble {
    /// There is no such thing.
    pub(super) fn missing(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, what: what.into(), hint: hint.into() }
    }

    /// Nobody may do this.
    pub(super) fn forbidden(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, what: what.into(), hint: hint.into() }
    }

    /// Its page.
    pub(super) fn page(self, site: &Site, tab: Tab) -> Response {
        self.page_of(site, tab, Cost::default())
    }

    /// Its page, after work that cost so much.
    pub(super) fn page_of(self, site: &Site, tab: Tab, cost: Cost) -> Response {
        let content = html! {
            h1 { (sentence(&self.what)) }
            @if !self.hint.is_empty() {
                @for line in sentence(&self.hint).lines() { p { (code(line)) } }
            }
            p { a href="." { "Back to what happens now" } }
        };
        let title = "Not possible";
        (self.status, page(site, tab, title, cost, &content)).into_response()
    }
}

/// A text with its first letter as a sentence has it, and a full stop. The name of an action stays as AWS writes it.
pub(super) fn sentence(text: &str) -> String {
    let is_action = text.split_whitespace().next().is_some_and(|word| word.trim_end_matches(':').contains(':'));
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).filter(|_| !is_action);
    let rest = if first.is_some() { letters.as_str() } else { text };
    let stop = if text.ends_with(['.', '?', '!', ':']) { "" } else { "." };
    format!("{}{rest}{stop}", first.unwrap_or_default())
}

/// A text of this program, whose commands stand in backticks.
pub(super) fn code(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @match part.strip_prefix("hookonce explain ").filter(|_| place % 2 == 1) {
                Some(name) => a href=(href::page("explain").with("name", name)) { code { (part) } },
                None if place % 2 == 1 => code { (part) },
                None => (part),
            }
        }
    }
}

/// What a machine or a stranger wrote: only shown, in its own direction, and not longer than a line or two.
pub(super) fn machine(text: &str) -> Markup {
    let shown = output::shown(text);
    let mut letters = shown.chars();
    let short: String = letters.by_ref().take(TEXT_CHARACTERS_MAX).collect();
    let is_cut = letters.next().is_some();
    html! { span.mono { (short) @if is_cut { "…" } } }
}

/// The same as a link.
pub(super) fn machine_link(href: &Href, text: &str) -> Markup {
    html! { a href=(href) { (machine(text)) } }
}

/// A state, and beside it what a record died of, what it waits for or how long it took.
pub(super) fn state_of(look: Look, detail: &str) -> Markup {
    html! { (chip(look)) @if !detail.is_empty() { " " span.code { (machine(detail)) } } }
}

/// A state.
pub(super) fn chip(look: Look) -> Markup {
    let tone = match look.tone {
        Tone::Good => "ok",
        Tone::Waits => "warn",
        Tone::Bad => "bad",
        Tone::Settled => "idle",
    };
    html! { span class={ "chip " (tone) } { span aria-hidden="true" { (look.glyph) } " " (look.word) } }
}

/// A moment: the time of day, and the date if it is another day. The whole moment in UTC is its title.
pub(super) fn time(at: EpochMs) -> Markup {
    let utc = output::moment(at);
    html! { time datetime=(utc) title=(utc) { (output::short_moment(at)) } }
}

/// A number with its noun.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// A number as people read it.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place != 0 && place % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_write_is_only_shown() {
        let shown = machine("<script>alert(1)</script>\u{202e}\u{1b}[31m").into_string();
        assert_eq!(shown, "<span class=\"mono\">&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{1b}[31m</span>");
        assert!(machine(&"é".repeat(5_000)).into_string().len() < 2 * TEXT_CHARACTERS_MAX + 50);
    }

    #[test]
    fn numbers_are_read_in_threes() {
        let numbers = [0, 999, 1_000, 12_345, 123_456, 1_234_567].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345", "123,456", "1,234,567"]);
    }
}
