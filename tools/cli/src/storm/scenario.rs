//! What can happen to an event on its way, and which of it a provider's catalog file says.

use std::fmt;
use std::str::FromStr;

use hookonce_providers::{Extent, Facts, Provider, SourceKind};

/// What a text of the catalog begins with where no source says it.
const UNCONFIRMED: &str = "unconfirmed";

/// One thing that happens to events on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scenario {
    /// The same event again, after the answer to the first.
    Copies,
    /// Two, three or five deliveries of one event at once.
    Race,
    /// The sender gives up before the answer, and sends again while the first still runs.
    GivenUp,
    /// The connection ends before the answer; the event comes again later.
    Cut,
    /// The same event again, after all others.
    Later,
    /// The receiver is killed while events are at work; they come again after its restart.
    Restart,
    /// The same event, with what the provider changes when it sends again.
    Rendering,
    /// The same events, in other groups.
    Regrouped,
    /// Signed with another secret.
    Secret,
    /// One byte of the body was changed after it was signed.
    Byte,
    /// Without a signature.
    Unsigned,
    /// Signed by a scheme that proves less.
    Weaker,
    /// Signed too long ago.
    Stale,
    /// A body that does not survive being parsed and printed again.
    Raw,
}

/// Every scenario, in the order of the report.
pub(crate) const ALL: [Scenario; 14] = [
    Scenario::Copies,
    Scenario::Race,
    Scenario::GivenUp,
    Scenario::Cut,
    Scenario::Later,
    Scenario::Restart,
    Scenario::Rendering,
    Scenario::Regrouped,
    Scenario::Secret,
    Scenario::Byte,
    Scenario::Unsigned,
    Scenario::Weaker,
    Scenario::Stale,
    Scenario::Raw,
];

impl Scenario {
    /// Its name in options and in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Copies => "copies",
            Self::Race => "race",
            Self::GivenUp => "given-up",
            Self::Cut => "cut",
            Self::Later => "later",
            Self::Restart => "restart",
            Self::Rendering => "rendering",
            Self::Regrouped => "regrouped",
            Self::Secret => "secret",
            Self::Byte => "byte",
            Self::Unsigned => "unsigned",
            Self::Weaker => "weaker",
            Self::Stale => "stale",
            Self::Raw => "raw",
        }
    }

    /// What happens, as a sentence without its end.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Copies => "the same event again, after the answer to the first",
            Self::Race => "two, three or five deliveries of one event at once, 0 to 50 ms apart",
            Self::GivenUp => "the sender gives up before the answer, and sends again while the first still runs",
            Self::Cut => "the connection ends before the answer, and the event comes again later",
            Self::Later => "the same event again, after all others",
            Self::Restart => "the receiver is killed while events are at work, and they come again after its restart",
            Self::Rendering => "the same event again, with what the provider changes when it sends again",
            Self::Regrouped => "the same events again, in other groups",
            Self::Secret => "signed with another secret",
            Self::Byte => "one byte of the body was changed after it was signed",
            Self::Unsigned => "without a signature",
            Self::Weaker => "signed with the right secret by a scheme that proves less",
            Self::Stale => "signed with the right secret, too long ago",
            Self::Raw => "a body that does not survive being parsed and printed again",
        }
    }

    /// Whether no such request may be applied.
    pub(crate) const fn is_forgery(self) -> bool {
        matches!(self, Self::Secret | Self::Byte | Self::Unsigned | Self::Weaker | Self::Stale)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// A scenario, or one of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Only {
    pub(crate) scenario: Scenario,
    /// Counts from 1; 0 is all of them.
    pub(crate) number: usize,
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, number) = text.split_once('/').unwrap_or((text, "0"));
        let scenario = ALL.into_iter().find(|scenario| scenario.word() == word).ok_or_else(|| {
            let words: Vec<_> = ALL.iter().map(|scenario| scenario.word()).collect();
            format!("it is one of {}", words.join(", "))
        })?;
        let number = number.parse().map_err(|_| format!("one event is {word}/NUMBER, such as {word}/3"))?;
        Ok(Self { scenario, number })
    }
}

/// Whether a scenario is sent, and what the catalog says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedScenario {
    pub(crate) scenario: Scenario,
    /// Whether it is sent.
    pub(crate) is_sent: bool,
    /// The catalog's sentence that announces it, or why it is not sent.
    pub(crate) why: String,
    /// Where that comes from: an address, or a package with its version.
    pub(crate) source: String,
}

/// What a provider's catalog file says about each scenario. Only a child of the storm can be killed.
pub(crate) fn planned(provider: &Provider, has_child: bool) -> Vec<PlannedScenario> {
    let source = source(provider.facts());
    let plan = |scenario: Scenario| {
        let (is_sent, why) = match reason(provider, scenario, has_child) {
            Ok(why) => (true, why),
            Err(why) => (false, why),
        };
        PlannedScenario { scenario, is_sent, why, source: source.clone() }
    };
    ALL.into_iter().map(plan).collect()
}

/// The source that is closest to the provider; of equal ones, one with an address.
fn source(facts: &Facts) -> String {
    let rank = |kind: SourceKind| match kind {
        SourceKind::Official => 0,
        SourceKind::OfficialExcerpt => 1,
        SourceKind::SdkSource => 2,
        SourceKind::Secondary => 3,
    };
    let best = facts.sources.iter().min_by_key(|source| (!source.at.contains("http"), rank(source.kind)));
    best.map(|source| source.at.clone()).unwrap_or_default()
}

fn reason(provider: &Provider, scenario: Scenario, has_child: bool) -> Result<String, String> {
    let facts = provider.facts();
    let signs = || provider.schemes().into_iter().next().unwrap_or_default();
    match scenario {
        Scenario::Race => retried(facts),
        Scenario::GivenUp => match facts.deadline_seconds {
            Some(_) => retried(facts).map(|_| format!("it waits: {}", facts.deadline)),
            None => Err(format!("it names no deadline: {}", facts.deadline)),
        },
        Scenario::Restart if !has_child => {
            Err("it needs --run, because only a child of the storm is killed".to_owned())
        }
        Scenario::Copies | Scenario::Cut | Scenario::Later | Scenario::Restart => again(facts),
        Scenario::Rendering => {
            let changed: Vec<_> = provider.retry_changes().collect();
            if changed.is_empty() {
                return Err("it changes nothing that the catalog knows of".to_owned());
            }
            Ok(format!("it changes when it sends again: {}", changed.join(", ")))
        }
        Scenario::Regrouped if provider.batches() => {
            Ok(format!("{}; regrouping: {}", facts.batching, facts.regrouping))
        }
        Scenario::Regrouped => Err(format!("several events in one delivery: {}", facts.batching)),
        Scenario::Secret | Scenario::Unsigned | Scenario::Raw => Ok(signs()),
        Scenario::Byte if provider.coverage().body == Extent::Yes => Ok(signs()),
        Scenario::Byte => Err("its signature does not cover the body".to_owned()),
        Scenario::Weaker if provider.weaker_schemes().next().is_some() => {
            Ok("it has a scheme that proves less than its others".to_owned())
        }
        Scenario::Weaker => Err("it has no scheme that proves less than its others".to_owned()),
        Scenario::Stale => match provider.age_limit() {
            Some(limit) => Ok(format!("it signs the time; at most {} s old", limit.0 / 1_000)),
            None => Err("it signs no time".to_owned()),
        },
    }
}

/// The sentence that says that an event comes again, by itself or because a person sends it.
fn again(facts: &Facts) -> Result<String, String> {
    let by_hand = &facts.key_on_redelivery;
    match retried(facts) {
        Ok(retries) => Ok(retries),
        Err(_) if by_hand.starts_with("yes") => Ok(format!("a person sends it again: {by_hand}")),
        Err(no) => Err(no),
    }
}

/// The sentence that says that it retries by itself.
fn retried(facts: &Facts) -> Result<String, String> {
    let retries = &facts.retries;
    if facts.retry_hours_max == Some(0) || (facts.retry_hours_max.is_none() && retries.starts_with(UNCONFIRMED)) {
        return Err(format!("no source says that it sends again by itself: {retries}"));
    }
    Ok(format!("it sends again: {retries}"))
}

#[cfg(test)]
mod tests {
    use hookonce_providers::Catalog;

    use super::*;

    fn sent(provider: &str) -> Vec<&'static str> {
        let planned = planned(Catalog::built_in().provider(provider).unwrap(), true);
        planned.iter().filter(|planned| planned.is_sent).map(|planned| planned.scenario.word()).collect()
    }

    #[test]
    fn the_catalog_decides_what_is_sent() {
        let common = ["copies", "race", "cut", "later", "restart", "secret", "byte", "unsigned", "stale", "raw"];
        assert_eq!(sent("stripe"), common);
        let by_hand = ["copies", "cut", "later", "restart", "secret", "byte", "unsigned", "weaker", "raw"];
        assert_eq!(sent("github"), by_hand, "GitHub never retries by itself, and signs no time");
        assert!(sent("paddle_billing").contains(&"given-up") && sent("paddle_billing").contains(&"rendering"));
        assert!(sent("meta_whatsapp").contains(&"regrouped"));
        assert_eq!(sent("typeform"), ["secret", "byte", "unsigned", "raw"], "no source says that it retries");
        assert!(!sent("telegram").contains(&"byte"), "a token covers no body");
    }

    #[test]
    fn without_a_child_nothing_is_killed() {
        let planned = planned(Catalog::built_in().provider("stripe").unwrap(), false);
        let restart = planned.iter().find(|planned| planned.scenario == Scenario::Restart).unwrap();
        assert!(!restart.is_sent && restart.why.contains("--run"), "{restart:?}");
    }

    #[test]
    fn every_sentence_has_its_source() {
        for provider in Catalog::built_in().iter() {
            for planned in planned(provider, true) {
                assert!(!planned.why.is_empty() && !planned.source.is_empty(), "{} {planned:?}", provider.id());
            }
        }
    }

    #[test]
    fn a_scenario_is_named_alone_or_with_one_of_its_events() {
        assert_eq!("race".parse(), Ok(Only { scenario: Scenario::Race, number: 0 }));
        assert_eq!("given-up/12".parse(), Ok(Only { scenario: Scenario::GivenUp, number: 12 }));
        for wrong in ["", "races", "race/", "race/x", "/1"] {
            assert!(wrong.parse::<Only>().is_err(), "{wrong}");
        }
    }
}
