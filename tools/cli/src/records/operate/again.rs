//! The command that goes on where a run stopped, or does what a dry run foresaw.

use hookonce_protocol::operator::Order;
use hookonce_protocol::time::EpochMs;

use super::arguments::{Agreement, OrderArguments};
use super::person::REASON;
use super::report::Report;
use crate::output;
use crate::records::Selection;

impl OrderArguments {
    /// The command that goes on after a run, or that does what a dry run foresaw. Where a limit hides how many records
    /// are left, it is the dry run.
    pub(super) fn again(&self, order: &Order, selection: &Selection, report: &Report) -> String {
        let times = selection.filter().map_or([None; 3], |filter| [filter.since, filter.until, filter.ended_until]);
        let agreement = match self.yes {
            _ if !self.needs_count(order.operation) => Some(Agreement::Plain),
            Some(_) if self.limit.is_some() => None,
            Some(Agreement::Counted(agreed)) => Some(Agreement::Counted(agreed.saturating_sub(report.changed()))),
            Some(Agreement::Plain) | None => Some(Agreement::Counted(report.changed())),
        };
        let lacks_reason = order.needs_reason() && self.reason.is_none();
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let whole = match selection {
            Selection::Keys(keys) => whole(words, &self.named(), keys),
            Selection::Index(_) | Selection::Table(_) => words,
        };
        again(whole.into_iter(), times, (lacks_reason, report.lacking.is_some()), agreement)
    }
}

/// The words of a command, with the whole keys of the records where it names them otherwise.
fn whole(mut words: Vec<String>, named: &[Vec<String>], keys: &[String]) -> Vec<String> {
    for (typed, whole) in named.iter().zip(keys.chunks(2)).filter(|(typed, whole)| typed != whole) {
        let at = words.windows(typed.len()).position(|window| window == typed);
        if let Some(at) = at {
            words.splice(at..at + typed.len(), whole.iter().cloned());
        }
    }
    words
}

/// The command that acts on the same records in a later run. It names these times, which no longer move with the clock.
/// It has placeholders for a missing reason and a missing name, and this agreement in the place of the one that was typed.
fn again(
    arguments: impl Iterator<Item = String>,
    times: [Option<EpochMs>; 3],
    (lacks_reason, lacks_name): (bool, bool),
    agreement: Option<Agreement>,
) -> String {
    const TIMES: [&str; 3] = ["--since", "--until", "--ended-until"];
    let mut words = vec!["hookonce".to_owned()];
    let is_left_out = |word: &str| word.starts_with("--yes=") || lacks_name && word.starts_with("--by=");
    let mut arguments = arguments.filter(|word| !is_left_out(word)).peekable();
    while let Some(word) = arguments.next() {
        if lacks_name && word == "--by" {
            arguments.next();
        } else if word == "--yes" {
            arguments.next_if(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
        } else if TIMES.contains(&word.as_str()) {
            arguments.next();
        } else if !TIMES.iter().any(|name| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))) {
            // No argument of a process holds a NUL, the one thing that has no quotes.
            words.push(shlex::try_quote(&word).map_or_else(|_| word.clone(), Into::into));
        }
    }
    let named = TIMES.iter().zip(times).filter_map(|(name, at)| Some(format!("{name} {}", output::moment(at?))));
    words.extend(named);
    words.extend(lacks_name.then(|| "--by NAME".to_owned()));
    words.extend(lacks_reason.then(|| format!("--reason \"{REASON}\"")));
    words.extend(agreement.map(|agreement| match agreement {
        Agreement::Plain => "--yes".to_owned(),
        Agreement::Counted(count) => format!("--yes {count}"),
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str], times: [Option<i64>; 3]) -> String {
        let times = times.map(|at| at.map(EpochMs));
        again(words.iter().copied().map(str::to_owned), times, (false, false), Some(Agreement::Plain))
    }

    #[test]
    fn the_agreement_of_the_next_run_takes_the_place_of_the_last_one() {
        for typed in [&["discard", "--yes", "12", "--json"][..], &["discard", "--json", "--yes=12"]] {
            let next =
                |agreement| again(typed.iter().copied().map(str::to_owned), [None; 3], (false, false), agreement);
            assert_eq!(next(Some(Agreement::Counted(7))), "hookonce discard --json --yes 7");
            assert_eq!(next(None), "hookonce discard --json");
        }
        assert_eq!(of(&["replay", "--yes", "--json"], [None; 3]), "hookonce replay --json --yes");
        let typed = ["replay", "shop", "evt_1", "--by", ""].map(str::to_owned).into_iter();
        let lacking = again(typed, [None; 3], (false, true), Some(Agreement::Plain));
        assert_eq!(lacking, "hookonce replay shop evt_1 --by NAME --yes");
    }

    #[test]
    fn a_key_that_was_begun_is_whole_in_the_command_that_acts() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (typed, named, expected) in [
            ("replay evt", "evt", "replay shop evt_1"),
            ("replay --key shop evt --json", "shop evt", "replay --key shop evt_1 --json"),
            ("replay shop evt_1", "shop evt_1", "replay shop evt_1"),
        ] {
            assert_eq!(whole(words(typed), &[words(named)], &words("shop evt_1")), words(expected));
        }
    }

    #[test]
    fn times_are_absolute_and_yes_appears_once() {
        let (since, until) = (Some(1_767_225_600_000), Some(1_767_229_200_123));
        let times = "--since 2026-01-01T00:00:00.000Z --until 2026-01-01T01:00:00.123Z --yes";
        assert_eq!(of(&["replay", "--since", "6h", "--yes"], [since, until, None]), format!("hookonce replay {times}"));
        assert_eq!(
            of(&["replay", "--until=1h", "--since=6h"], [since, until, None]),
            format!("hookonce replay {times}")
        );
        assert_eq!(of(&["replay", "--state", "DEAD"], [None; 3]), "hookonce replay --state DEAD --yes");
        let ended = of(&["replay", "--ended-until", "1h"], [None, None, until]);
        assert_eq!(ended, "hookonce replay --ended-until 2026-01-01T01:00:00.123Z --yes");
    }

    #[test]
    fn a_shell_reads_every_word_back() {
        let words = ["discard", "--reason", "it's $HOME; `ls`", "--type", "", "--key", "stripe", "evt_1#alt#1"];
        let expected = [&["hookonce"], &words[..], &["--yes"]].concat();
        assert_eq!(shlex::split(&of(&words, [None; 3])).unwrap(), expected);
    }
}
