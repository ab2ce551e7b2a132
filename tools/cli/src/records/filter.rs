//! The filters of every command that is about many records.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, ValueEnum};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, Zoned};

use crate::dev::sender::now_unix;
use crate::failure::{Failure, parse_failure};
use crate::output;

/// How far back the journal is read by default.
const SINCE: Millis = Millis::hours(24);

/// How far back the journal may be read at once. Nearly all older records have expired.
pub(super) const DAYS_MAX: i64 = 95;

/// A state as `list` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A status. PROCESSED stands for every outcome.
    Status(Status),
    /// How a processed record ended.
    Outcome(Outcome),
}

impl State {
    fn parse(text: &str) -> Result<Self, String> {
        let word = text.to_ascii_uppercase();
        let status = Status::parse(&word).map(Self::Status);
        status.or_else(|| Outcome::parse(&word).map(Self::Outcome)).ok_or_else(|| {
            let statuses = Status::ALL.iter().map(|status| status.as_str());
            let all: Vec<_> = statuses.chain(Outcome::ALL.iter().map(|outcome| outcome.as_str())).collect();
            format!("it must be one of {}", all.join(", "))
        })
    }

    fn fits(self, record: &Record) -> bool {
        match self {
            Self::Status(status) => record.status == status,
            Self::Outcome(outcome) => record.status == Status::Processed && record.outcome == Some(outcome),
        }
    }
}

/// What a record stands for, to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A delivery, or one of its events.
    Event,
    /// A call of a destination.
    Effect,
}

/// The filters of every command that is about many records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Filter {
    /// Filter by kind.
    ///
    /// For delivered and discarded effects, time filters use the arrival of their event.
    #[arg(long, value_enum)]
    pub(super) kind: Option<Kind>,
    /// Filter by destination: effects only.
    #[arg(long, value_name = "ID")]
    pub(super) destination: Option<String>,
    /// Filter by state or outcome, such as DEAD.
    ///
    /// The states are PENDING, DEAD, DISCARDED and PROCESSED, the outcomes APPLIED, DUPLICATE, IGNORED, FANNED_OUT and
    /// DELIVERED.
    #[arg(long, value_name = "STATE", value_parser = State::parse)]
    pub(crate) state: Option<State>,
    /// Filter by endpoint.
    #[arg(long, value_name = "ID")]
    pub(crate) endpoint: Option<String>,
    /// Filter by event type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Filter by last error or death reason.
    #[arg(long, value_name = "CODE")]
    error: Option<String>,
    /// Received after [default: 24h; PENDING, DEAD: all].
    ///
    /// With --state PENDING or DEAD, nothing is left out by default. It is a time as `list` prints it or in UTC, or a duration before now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) since: Option<EpochMs>,
    /// Received before this, or so long ago.
    ///
    /// It is a time as `list` prints it or in UTC, or a duration before now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) until: Option<EpochMs>,
    /// Ended before this: died, applied or discarded.
    ///
    /// It is a time as `list` prints it or in UTC, or a duration before now.
    #[arg(long, value_name = "1h|TIME", value_parser = parse_moment)]
    pub(crate) ended_until: Option<EpochMs>,
}

/// Parses a time, or a duration before now.
fn parse_moment(text: &str) -> Result<EpochMs, String> {
    if let Ok(length) = humantime::parse_duration(text) {
        let before = Duration::from_secs(u64::try_from(now_unix()).unwrap_or(0) + 1).saturating_sub(length);
        return Ok(EpochMs(i64::try_from(before.as_millis()).unwrap_or(0)));
    }
    // A time as `list` prints it on a terminal: by this machine's clock, today's without its date.
    if let Some(at) = wall_time(text, &output::zoned(System.moment().now)) {
        return Ok(EpochMs(at.as_millisecond()));
    }
    // As it prints it elsewhere, with its offset.
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(EpochMs(at.as_millisecond()));
    }
    let at: SystemTime = humantime::parse_rfc3339_weak(text).map_err(|_| {
        "it must be a duration such as 90m, 24h or 7d, or a time such as 2026-11-20T08:00:00Z or as `hookonce list` prints it".to_owned()
    })?;
    let since = at.duration_since(UNIX_EPOCH).map_err(|_| "it must be a time after 1970".to_owned())?;
    i64::try_from(since.as_millis()).map(EpochMs).map_err(|_| "the time is too far in the future".to_owned())
}

/// The moment at which this machine's clock shows a time: `01:46:17` of today, or `2026-11-28 01:46:17`.
fn wall_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let is_date_and_time = || text.len() == 19 && text.as_bytes().get(10) == Some(&b' ');
    let at = match text.parse::<Time>() {
        Ok(time) if text.len() == 8 && text.contains(':') => now.date().to_datetime(time),
        _ => text.parse::<DateTime>().ok().filter(|_| is_date_and_time())?,
    };
    Some(at.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

impl Filter {
    /// The records that an endpoint received since a moment.
    pub(crate) fn received(endpoint: &EndpointId, since: EpochMs) -> Self {
        let endpoint = Some(endpoint.to_string());
        Self { kind: Some(Kind::Event), endpoint, since: Some(since), ..Self::default() }
    }

    /// The effects of a destination that are in a state.
    pub(crate) fn effects(destination: &DestinationId, status: Status) -> Self {
        let destination = Some(destination.to_string());
        Self { destination, state: Some(State::Status(status)), ..Self::default() }
    }

    /// The same, without what was received after a moment.
    pub(super) fn received_until(self, at: EpochMs) -> Self {
        let until = Some(self.until.map_or(at, |until| until.min(at)));
        let since = Some(self.span()[0]);
        if self.reads_journal() { Self { since, until, ..self } } else { self }
    }

    /// The filter that a command gets with these options.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a value is not one that the option takes.
    pub(crate) fn of_options<'a>(options: impl Iterator<Item = (&'static str, &'a str)>) -> Result<Self, Failure> {
        #[derive(Debug, Parser)]
        #[command(no_binary_name = true)]
        struct Options {
            #[command(flatten)]
            filter: Filter,
        }
        let words = options.map(|(name, value)| format!("--{name}={value}"));
        Options::try_parse_from(words).map(|options| options.filter).map_err(|error| parse_failure(&error))
    }

    /// Whether it names anything.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a record passes.
    pub(crate) fn wants(&self, record: &Record) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let effect = record.effect.as_ref();
        let kind = if effect.is_some() { Kind::Effect } else { Kind::Event };
        self.state.is_none_or(|state| state.fits(record))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && same(&self.destination, effect.map_or("", |effect| effect.destination.as_str()))
            && same(&self.endpoint, record.key.parts().0)
            && same(&self.event_type, &record.event_type)
            && self.error.as_deref().is_none_or(|code| {
                record.last_error.as_deref() == Some(code) || record.dead_reason.is_some_and(|it| it.as_str() == code)
            })
            && self.since.is_none_or(|since| since <= record.received_at)
            && self.until.is_none_or(|until| record.received_at <= until)
            && self.ended_until.is_none_or(|until| ended_at(record).is_some_and(|at| at <= until))
    }

    /// The times between which the journal is read.
    pub(super) fn span(&self) -> [EpochMs; 2] {
        let until = self.until.unwrap_or_else(now);
        [self.since.unwrap_or(EpochMs(until.0.saturating_sub(SINCE.0))), until]
    }

    /// Whether it reads the journal. The other indexes list records of every age.
    fn reads_journal(&self) -> bool {
        !matches!(self.state, Some(State::Status(Status::Dead | Status::Pending)))
    }

    /// Since when the journal is read although nobody named a time.
    pub(crate) fn default_since(&self) -> Option<EpochMs> {
        (self.since.is_none() && self.reads_journal()).then(|| self.span()[0])
    }

    /// The same filter with its times fixed. If the journal is read, it leaves out what is received from now on. If it
    /// asks for records that have ended, it leaves out what ends from now on: each record is listed in the state that
    /// it has now.
    pub(crate) fn fixed(mut self) -> Self {
        let now = System.moment().now;
        match self.state {
            Some(State::Status(Status::Pending)) => self.until = self.until.or(Some(now)),
            Some(State::Status(Status::Dead | Status::Processed | Status::Discarded) | State::Outcome(_)) => {
                self.ended_until = self.ended_until.or(Some(now));
            }
            None => {}
        }
        if self.reads_journal() {
            self.until = self.until.or(Some(now));
            [self.since, self.until] = self.span().map(Some);
        }
        self
    }

    /// Whether it wants effects only.
    pub(crate) fn is_about_effects(&self) -> bool {
        self.kind == Some(Kind::Effect)
            || self.destination.is_some()
            || self.state == Some(State::Outcome(Outcome::Delivered))
    }

    /// Says that a type is compared as it stands, to whoever wrote it as routes do.
    pub(crate) fn note_exact_type(&self) {
        if let Some(pattern) = self.event_type.as_ref().filter(|wanted| wanted.ends_with('*')) {
            output::note(&format!(
                "--type is compared exactly, without patterns: no provider's type is {pattern}; `hookonce stats` lists types"
            ));
        }
    }

    /// Refuses a selection that no record can meet.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the span of time begins after its end or is longer than is searched, when it wants
    /// events with what only effects have, or when it names an end for PENDING records.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.since.is_some_and(|since| since > self.until.unwrap_or_else(now)) {
            return Err(Failure::usage("--since is later than --until", "swap them"));
        }
        let [since, until] = self.span();
        // A duration is a little longer by the time that it is compared.
        let longest = Millis(Millis::days(DAYS_MAX).0 + Millis::minutes(1).0);
        if self.reads_journal() && until.0.saturating_sub(since.0) > longest.0 {
            return Err(Failure::usage(
                format!("the index is searched for {DAYS_MAX} days at once, and --since is earlier than that"),
                format!(
                    "pass --since {DAYS_MAX}d, or an earlier --until with it; --state DEAD and --state PENDING list records \
                     of every age"
                ),
            ));
        }
        if self.ended_until.is_some() && self.state == Some(State::Status(Status::Pending)) {
            return Err(Failure::usage("PENDING records have not ended", "leave --ended-until out"));
        }
        if self.kind == Some(Kind::Event) && self.is_about_effects() {
            return Err(Failure::usage(
                "events have no destination and are never DELIVERED, only their effects",
                "leave --kind event out",
            ));
        }
        Ok(())
    }
}

/// Notes that older records were left out by default.
pub(crate) fn note_default_since(since: Option<EpochMs>) {
    if let Some(since) = since {
        let since = output::local_moment(since);
        output::note(&format!("only what was received since {since} was read; --since 35d reaches further"));
    }
}

/// A moment that no record was received after.
fn now() -> EpochMs {
    EpochMs((now_unix() + 1).saturating_mul(1_000))
}

/// When a record got the state that it has. `None` while it is PENDING.
fn ended_at(record: &Record) -> Option<EpochMs> {
    match record.status {
        Status::Pending => None,
        Status::Processed => record.processed_at,
        Status::Dead => record.dead_at,
        Status::Discarded => record.discarded_at,
    }
}

#[cfg(test)]
mod tests {
    use hookonce_aws::IndexQuery;
    use hookonce_protocol::record::journal_shard;

    use super::*;

    #[derive(Debug, Parser)]
    struct Filters {
        #[command(flatten)]
        filter: Filter,
    }

    fn filter(words: &str) -> Filter {
        Filters::try_parse_from(std::iter::once("x").chain(words.split_whitespace())).unwrap().filter
    }

    #[test]
    fn all_of_a_span_is_searched_or_it_is_refused() {
        let end = "--until 2026-11-20T08:30:00Z";
        let longest = filter(&format!("--since 2026-08-17T08:30:00Z {end}"));
        assert!(longest.check().is_ok());
        let hours = longest.queries();
        let IndexQuery::Journal { partition, .. } = &hours.last().unwrap()[0] else { panic!("it reads the journal") };
        assert_eq!(partition, &journal_shard(longest.since.unwrap(), 0), "the hour in which it begins");
        let longer = format!("--since 2026-08-17T08:28:00Z {end}");
        assert!(filter(&longer).check().unwrap_err().to_string().contains("95 days at once"));
        assert!(filter(&format!("{longer} --state DEAD")).check().is_ok(), "its index lists records of every age");
        assert!(filter("--since 95d").check().is_ok());
    }

    #[test]
    fn a_time_that_a_terminal_shows_is_of_this_machines_zone() {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(5));
        let now = "2026-11-28T08:00:00Z".parse::<Timestamp>().unwrap().to_zoned(zone);
        let read = |text: &str| wall_time(text, &now).map(|at| at.to_string());
        assert_eq!(read("01:46:17").unwrap(), "2026-11-27T20:46:17Z");
        assert_eq!(read("2026-11-20 01:46:17").unwrap(), "2026-11-19T20:46:17Z");
        for other in ["2026-11-20T01:46:17", "2026-11-20", "2026-11-20T01:46:17Z", "2026-11-20T01:46:17+05:00", "12"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn relative_times_are_resolved_once() {
        let applied = filter("--state APPLIED").fixed();
        assert_eq!(applied.until.unwrap().0 - applied.since.unwrap().0, SINCE.0);
        let named = filter("--state APPLIED --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z");
        assert_eq!((named.since, named.until), (named.clone().fixed().since, named.fixed().until));
        assert!(filter("--since 2026-01-01T00:00:00Z").fixed().until.is_some());
        let evening = filter("--until 2026-01-02T18:45:00Z");
        assert_eq!(evening.default_since(), filter("--since 2026-01-01T18:45:00Z").since, "not this hour alone");
        let dead = filter("--state DEAD").fixed();
        assert_eq!((dead.since, dead.until), (None, None), "records of every age");
        assert!(dead.ended_until.is_some() && applied.ended_until.is_some());
        assert_eq!(dead.ended_until, dead.clone().fixed().ended_until, "it goes on with the first time");
        let pending = filter("--state PENDING").fixed();
        assert!(pending.since.is_none() && pending.until.is_some() && pending.ended_until.is_none());
        assert!(filter("--since 1h").fixed().ended_until.is_none(), "it asks for what has not ended, too");
    }
}
