//! `hookonce stats`: counts records.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use hookonce_protocol::record::{Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt;
use crate::records::looks::Look;
use crate::records::{Filter, READS_AT_ONCE, Read, error_of, note_default_since, select, tries};
use crate::stack::target::Target;

/// The most different types, errors or endpoints that are counted apart.
const KINDS_MAX: usize = 1_000;

/// What is beyond that.
const OTHER: &str = "(other)";

/// Number of columns of the chart.
const COLUMNS: usize = 48;

/// The heights of a column, from nothing to full.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.filter.check()?;
    let store = arguments.target.connect().store().await?;
    let mut pages = pin!(select(&store, &arguments.filter, READS_AT_ONCE, Read::Heads));
    let mut stop = pin!(interrupt::ctrl_c());
    let mut counts = Counts::default();
    let partitions = arguments.filter.queries().into_iter().flatten().count();
    let reading = output::bar("reading", u64::try_from(partitions).unwrap_or(0));
    loop {
        let page = tokio::select! {
            biased;
            () = &mut stop => {
                reading.finish_and_clear();
                return Ok(interrupt::stopped_reading(&counts.records));
            }
            page = pages.next() => page,
        };
        let Some(page) = page.transpose()? else { break };
        counts.unreadable += page.unreadable;
        page.records.iter().for_each(|record| counts.add(record));
        reading.inc(u64::from(page.ends_partition));
    }
    reading.finish_and_clear();
    let now = System.moment().now;
    let default_since = arguments.filter.default_since();
    if arguments.json {
        output::json(&counts.json(now, default_since.or(arguments.filter.since)));
    } else {
        counts.print(now);
        note_default_since(default_since);
        arguments.filter.note_exact_type();
    }
    Ok(if counts.records == 0 { Exit::No } else { Exit::Done })
}

/// All counts. Their number does not grow with the number of records.
#[derive(Debug, Default)]
struct Counts {
    records: u64,
    unreadable: usize,
    duplicates: i64,
    tries: i64,
    resends: i64,
    by: [BTreeMap<String, u64>; 5],
    minutes: BTreeMap<i64, u64>,
    oldest_pending: Option<EpochMs>,
    oldest_dead: Option<EpochMs>,
}

const BY: [&str; 5] = ["state", "endpoint", "type", "error", "destination"];

impl Counts {
    fn add(&mut self, record: &Record) {
        self.records += 1;
        self.duplicates += record.duplicate_count;
        self.tries += tries(record);
        self.resends += record.resends;
        let destination = record.effect.as_ref().map(|effect| effect.destination.as_str());
        let (endpoint, event_type) = (record.key.parts().0, record.event_type.as_str());
        let words = [Some(record.state_word()), Some(endpoint), Some(event_type), error_of(record), destination];
        for (counts, word) in self.by.iter_mut().zip(words) {
            let Some(word) = word else { continue };
            let known = counts.len() < KINDS_MAX || counts.contains_key(word);
            *counts.entry(if known { word.to_owned() } else { OTHER.to_owned() }).or_default() += 1;
        }
        *self.minutes.entry(record.received_at.0.div_euclid(60_000)).or_default() += 1;
        let oldest = match record.status {
            Status::Pending => &mut self.oldest_pending,
            Status::Dead => &mut self.oldest_dead,
            Status::Processed | Status::Discarded => return,
        };
        let earlier = oldest.map_or(record.received_at, |oldest| oldest.min(record.received_at));
        *oldest = Some(earlier);
    }

    /// The span of the chart, and the number of records in each column.
    fn over_time(&self) -> Option<(EpochMs, Duration, Vec<u64>)> {
        let (first, last) = (*self.minutes.keys().next()?, *self.minutes.keys().next_back()?);
        let columns = i64::try_from(COLUMNS).unwrap_or(1);
        let width = (last - first) / columns + 1;
        let mut chart = vec![0; usize::try_from((last - first) / width + 1).unwrap_or(1)];
        for (minute, count) in &self.minutes {
            if let Some(column) = usize::try_from((minute - first) / width).ok().and_then(|at| chart.get_mut(at)) {
                *column += count;
            }
        }
        Some((EpochMs(first * 60_000), Duration::from_secs(u64::try_from(width).unwrap_or(1) * 60), chart))
    }

    fn json(&self, now: EpochMs, since: Option<EpochMs>) -> serde_json::Value {
        let age = |at: Option<EpochMs>| at.map(|at| now.0.saturating_sub(at.0));
        let by: serde_json::Map<_, _> =
            BY.iter().zip(&self.by).map(|(name, counts)| ((*name).to_owned(), json!(counts))).collect();
        let over_time = self.over_time().map(|(from, width, chart)| {
            json!({ "from_ms": from.0, "width_ms": u64::try_from(width.as_millis()).unwrap_or(0), "records": chart })
        });
        json!({
            "since_ms": since.map(|since| since.0),
            "records": self.records,
            "duplicates": self.duplicates,
            "tries": self.tries,
            "resends": self.resends,
            "by": by,
            "oldest_pending_age_ms": age(self.oldest_pending),
            "oldest_dead_age_ms": age(self.oldest_dead),
            "over_time": over_time,
            "unreadable": self.unreadable,
        })
    }

    fn print(&self, now: EpochMs) {
        if self.records == 0 {
            output::note("no record matches");
            return;
        }
        let mut table = output::table(&["", "count", "share"]);
        for (name, counts) in BY.iter().zip(&self.by) {
            let mut counts: Vec<_> = counts.iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let shares = shares(&counts.iter().map(|(_, count)| **count).collect::<Vec<_>>(), self.records);
            for ((word, count), share) in counts.into_iter().zip(shares) {
                let plain = format!("{name} {word}");
                let look = Look::of_word(word).filter(|_| *name == "state");
                let what = look.map_or_else(|| plain.as_str().into(), |look| look.cell(&plain));
                table.add_row([what, count.to_string().into(), share.into()]);
            }
        }
        table.align_right_from(1);
        output::print(&table);
        output::line("");
        output::line(&format!(
            "{}, {}, {} {}, {} sent again",
            output::number_of(&self.records, "record"),
            output::number_of(&self.duplicates, "duplicate"),
            self.tries,
            if self.tries == 1 { "try" } else { "tries" },
            self.resends
        ));
        let oldest = [("PENDING", self.oldest_pending), ("DEAD", self.oldest_dead)].into_iter();
        let oldest = oldest.filter_map(|(state, at)| Some(format!("oldest {state} {}", output::since(at?, now))));
        let oldest: Vec<_> = oldest.collect();
        if !oldest.is_empty() {
            output::line(&oldest.join(", "));
        }
        if let Some((from, width, chart)) = self.over_time() {
            let most = chart.iter().max().copied().unwrap_or(1).max(1);
            output::line(&format!(
                "received from {}, {} a column, at most {most}",
                output::local_moment(from),
                output::length(width)
            ));
            output::line(&chart.iter().map(|count| height(*count, most)).collect::<String>());
        }
        if self.unreadable > 0 {
            output::note(&format!(
                "left out {} of another hookonce version",
                output::number_of(&self.unreadable, "record")
            ));
        }
    }
}

/// The shares of these counts in percent, to one decimal. A count that is not zero never shows as 0 %, and one that is
/// not all never as 100 %.
fn shares(counts: &[u64], of: u64) -> Vec<String> {
    let of = of.max(1);
    let share = |count: &u64| match (count * 2_000 + of) / (2 * of) {
        0 if *count > 0 => "<0.1%".to_owned(),
        1_000 if *count < of => ">99.9%".to_owned(),
        tenths => format!("{}.{}%", tenths / 10, tenths % 10),
    };
    counts.iter().map(share).collect()
}

/// A column of the chart. What is not empty is at least one line high.
fn height(count: u64, most: u64) -> char {
    let steps = u64::try_from(HEIGHTS.len() - 1).unwrap_or(1);
    let at = count.saturating_mul(steps).div_ceil(most);
    usize::try_from(at).ok().and_then(|at| HEIGHTS.get(at)).copied().unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_one_decimal_and_is_never_rounded_to_none_or_all() {
        assert_eq!(shares(&[2, 1], 3), ["66.7%", "33.3%"]);
        assert_eq!(shares(&[1, 1, 1], 3), ["33.3%", "33.3%", "33.3%"]);
        assert_eq!(shares(&[995, 5], 1_000), ["99.5%", "0.5%"]);
        assert_eq!(shares(&[99_999, 1], 100_000), [">99.9%", "<0.1%"]);
        assert_eq!(shares(&[4, 0], 4), ["100.0%", "0.0%"]);
        assert!(shares(&[], 4).is_empty());
    }
}
