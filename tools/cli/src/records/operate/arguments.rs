//! The arguments of every command that changes records, and what they ask for.

use std::str::FromStr;

use clap::{Args, Parser};
use hookonce_protocol::operator::Order;
use hookonce_protocol::record::{Outcome, Status};
use hookonce_protocol::trail::Operation;

use super::Kind;
use super::person::{Person, REASON, check_lengths};
use crate::failure::{Failure, parse_failure};
use crate::records::{Filter, Selection, State};
use crate::stack::connection::Connection;
use crate::stack::target::Target;

/// The arguments of every command that changes records.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    // The help of `--key` tells of it: every help fits on a screen.
    #[arg(hide = true, num_args = 1..=2, value_names = ["ENDPOINT", "KEY"], conflicts_with_all = ["Filter", "key"])]
    record: Vec<String>,
    /// A record; may be repeated; one needs no `--key`.
    #[arg(long, num_args = 2, value_names = ["ENDPOINT", "KEY"], allow_hyphen_values = true, conflicts_with = "Filter")]
    key: Vec<String>,
    #[command(flatten)]
    pub(super) filter: Filter,
    /// Maximum number of records to change.
    #[arg(long)]
    pub(super) limit: Option<usize>,
    /// Reason for the audit trail.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    #[command(flatten)]
    pub(super) person: Person,
    /// Most records per second.
    #[arg(long, value_name = "N/s", value_parser = parse_rate, default_value = "10/s")]
    pub(super) rate: f64,
    /// Do it; without this, print what would be done.
    ///
    /// Where there is no way back and a filter names the records, with the number that the dry run printed.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "")]
    pub(super) yes: Option<Agreement>,
    /// Print JSON lines: each record, and the summary.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

/// What stands behind `--yes`: a person's agreement to what a dry run foresaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Nothing: whatever the filter finds now.
    Plain,
    /// The number of records that the dry run counted: so many, and no other number.
    Counted(usize),
}

impl FromStr for Agreement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::Plain),
            count => count.parse().map(Self::Counted).map_err(|_| "it must be the number that a dry run prints".into()),
        }
    }
}

/// Parses `10/s` or `10`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix("/s").unwrap_or(text).parse().ok();
    number
        .filter(|rate| (0.01..=1_000.0).contains(rate))
        .ok_or_else(|| "it must be a number of records per second from 0.01 to 1000, such as 10/s".to_owned())
}

impl OrderArguments {
    /// The arguments that a command gets with these words.
    ///
    /// # Errors
    /// [`Failure::Usage`] when a word is not one that the command takes.
    pub(crate) fn of_words(words: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        #[derive(Debug, Parser)]
        #[command(no_binary_name = true)]
        struct Words {
            #[command(flatten)]
            arguments: OrderArguments,
        }
        Words::try_parse_from(words).map(|words| words.arguments).map_err(|error| parse_failure(&error))
    }

    /// Whether it does anything.
    pub(super) fn acts(&self) -> bool {
        self.yes.is_some()
    }

    /// Whether a person named the records one by one.
    pub(super) fn names_records(&self) -> bool {
        !self.key.is_empty() || !self.record.is_empty()
    }

    /// What names each of them: an endpoint and a key, or a key alone.
    pub(super) fn named(&self) -> Vec<Vec<String>> {
        let alone = Some(self.record.clone()).filter(|record| !record.is_empty());
        alone.into_iter().chain(self.key.chunks(2).map(<[String]>::to_vec)).collect()
    }

    /// Whether only the number that a dry run printed is an agreement: what was done cannot be taken back, and the
    /// person did not name the records one by one.
    pub(super) fn needs_count(&self, operation: Operation) -> bool {
        !self.names_records() && operation != Operation::Retry
    }

    /// The order, checked.
    ///
    /// # Errors
    /// [`Failure`] when it lacks a name or a reason, or AWS does not tell who the person is.
    pub(super) async fn order(&self, kind: Kind, stack: &Connection) -> Result<Order, Failure> {
        let Kind { operation, accept_duplicate, accept_other_body, .. } = kind;
        let by = if self.acts() { self.person.known(stack).await? } else { self.person.named() };
        let reason = self.reason.as_deref().map(str::trim).unwrap_or_default().to_owned();
        let order = Order { operation, accept_duplicate, accept_other_body, by, reason };
        if self.acts() && order.needs_reason() && ["", REASON].contains(&order.reason.as_str()) {
            return Err(Failure::usage(
                "this needs a reason for the audit trail",
                "pass --reason with a short text, such as --reason \"applied to the wrong account\"",
            ));
        }
        check_lengths(&order.by, &order.reason)?;
        Ok(order)
    }

    /// The records that it is about, with the times of the filter fixed: in the one state that the operation is about
    /// unless another is asked for.
    ///
    /// # Errors
    /// [`Failure::Usage`] when no record is named, or no record can pass the filter.
    pub(super) fn selection(&self, kind: Kind) -> Result<Selection, Failure> {
        if self.names_records() {
            return Ok(Selection::Keys(self.named().concat()));
        }
        if self.filter.is_empty() {
            return Err(Failure::usage(
                "no record is named",
                "pass --key ENDPOINT KEY, or a filter, such as --state DEAD for all dead records",
            ));
        }
        let usual = match kind.operation {
            Operation::Retry | Operation::Discard => Some(State::Status(Status::Dead)),
            // A DUPLICATE reports a fact that another record applied. To force both would apply it twice more.
            Operation::Force => Some(State::Outcome(Outcome::Applied)),
            Operation::Doubt => Some(State::Status(Status::Pending)),
            Operation::Redact => None,
        };
        let mut filter = self.filter.clone();
        filter.state = filter.state.or(usual);
        filter.check()?;
        // A scan reads records of every age.
        let is_scan = kind.scan.is_some() && filter.since.is_none();
        Ok(if is_scan { Selection::Table(filter) } else { Selection::Index(filter.fixed()) })
    }

    /// Checks the form of the agreement, before anything is read.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it lacks the number.
    pub(super) fn check_agreement(&self, operation: Operation) -> Result<(), Failure> {
        if self.yes != Some(Agreement::Plain) || !self.needs_count(operation) {
            return Ok(());
        }
        Err(Failure::usage(
            format!("{operation} of all records that a filter finds needs their number: --yes COUNT"),
            "run it without --yes first: it changes nothing, and prints the whole command with the number",
        ))
    }
}
