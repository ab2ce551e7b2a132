//! The last 24 hours of a stack on AWS, which CloudWatch is asked for when somebody opens them.

use hookonce_protocol::time::EpochMs;
use maud::{Markup, html};

use super::layout::{code, sentence, thousands};
use crate::failure::Failure;
use crate::stack::connection::{Connection, Deployed};
use crate::stack::logs::LoggedDay;
use crate::stack::status::{Silent, silence};
use crate::stack::watch::{Statistic, series_of_day};

/// What is drawn, and by which name: all are metrics that the functions write anyway.
const SERIES: [(&str, (&str, &str, Statistic)); 7] = [
    ("Accepted", ("webhook", "delivery_accepted", Statistic::Sum)),
    ("Duplicates", ("webhook", "delivery_duplicate", Statistic::Sum)),
    ("Refused", ("webhook", "delivery_refused", Statistic::Sum)),
    ("Time to answer, p99, in ms", ("webhook", "delivery_duration_ms", Statistic::P99)),
    ("Applied", ("worker", "event_applied", Statistic::Sum)),
    ("Died", ("worker", "record_dead", Statistic::Sum)),
    ("Effects delivered", ("dispatcher", "effect_delivered", Statistic::Sum)),
];

/// What CloudWatch said. A part that it does not answer hides no other.
#[derive(Debug)]
pub(super) struct Day {
    /// What each endpoint answered.
    pub(super) traffic: Result<LoggedDay, Failure>,
    /// The endpoints that are silent.
    pub(super) silent: Result<Option<Vec<Silent>>, Failure>,
    /// The values of [`SERIES`].
    series: Result<Vec<Vec<f64>>, Failure>,
}

impl Day {
    /// Asks for all.
    pub(super) async fn of(connection: &Connection, stack: &Deployed, now: EpochMs) -> Self {
        let series = async {
            let metrics = SERIES.map(|(_, metric)| metric);
            series_of_day(stack.account().await?, &stack.name, &metrics, now).await
        };
        let (traffic, silent, series) = futures::join!(LoggedDay::of(stack, now), silence(connection, now), series);
        Self { traffic, silent, series }
    }

    /// The series, a row each, and where the counts of the endpoints come from.
    pub(super) fn section(&self) -> Markup {
        html! {
            @match &self.traffic {
                Ok(day) => p.small.note { (sentence(&day.source())) },
                Err(failure) => (unknown("what the endpoints answered", failure)),
            }
            h2 { "The stack in 24 hours" }
            @match &self.series {
                Ok(series) => div.scroll tabindex="0" role="region" aria-label="The stack in 24 hours" {
                    table {
                        thead { tr { th { "Metric" } th.num { "24 h" } th.num { "Most in ten minutes" } th.hide { "24 hours" } } }
                        tbody { @for ((name, (_, _, statistic)), values) in SERIES.iter().zip(series) { (row(name, *statistic, values)) } }
                    }
                },
                Err(failure) => (unknown("the metrics", failure)),
            }
        }
    }
}

fn unknown(what: &str, failure: &Failure) -> Markup {
    html! { p.note { (sentence(&format!("not known: {what}"))) " " (sentence(&failure.to_string())) " " (code(failure.hint())) } }
}

fn row(name: &str, statistic: Statistic, values: &[f64]) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max);
    html! {
        tr {
            td { (name) }
            td.num { @if statistic == Statistic::Sum { (whole(values.iter().sum())) } }
            td.num { (whole(most)) }
            td.hide { (columns(name, values, most)) }
        }
    }
}

/// Values as columns, the highest as high as the picture.
fn columns(name: &str, values: &[f64], most: f64) -> Markup {
    let height = |value: f64| if value > 0.0 { (value / most * 20.0).clamp(1.0, 20.0) } else { 0.0 };
    html! {
        svg.strip viewBox={ "0 0 " (values.len() * 3) " 20" } preserveAspectRatio="none" role="img"
            aria-label={ (name) ", in columns of ten minutes" } {
            @for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                rect.c3 x=(place * 3) y={ (format!("{:.1}", 20.0 - height(*value))) } width="2" height={ (format!("{:.1}", height(*value))) } {}
            }
        }
    }
}

fn whole(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float ends at the limits")]
    let rounded = value.round() as u64;
    thousands(rounded)
}
