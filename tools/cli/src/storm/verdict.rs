//! What was found, against what must be.

use super::scenario::Scenario;
use super::wire::Outcome;

/// What is known of one event that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) scenario: Scenario,
    pub(crate) deliveries: usize,
    /// How often it was applied, where traces are counted.
    pub(crate) traces: usize,
    /// The last answer: what the provider goes by.
    pub(crate) last: Outcome,
    /// Whether any delivery was answered with 2xx.
    pub(crate) was_taken: bool,
}

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was applied more than once.
    Twice,
    /// It was never applied.
    Never,
    /// In the end it was not answered with 2xx, so that its provider goes on.
    Unsettled,
    /// A forgery was applied.
    Accepted,
    /// A forgery was not refused with 4xx.
    NotRefused,
}

impl Fact {
    /// What is wrong with it, the worst first. `None` if nothing is.
    pub(crate) fn fault(&self, is_counted: bool) -> Option<Fault> {
        if self.scenario.is_forgery() {
            let is_refused = matches!(self.last, Outcome::Answered(400..=499)) && !self.was_taken;
            return match (self.traces, is_refused) {
                (1.., _) => Some(Fault::Accepted),
                (0, false) => Some(Fault::NotRefused),
                (0, true) => None,
            };
        }
        match self.traces {
            2.. => Some(Fault::Twice),
            0 if is_counted => Some(Fault::Never),
            0 | 1 => (!self.last.is_taken()).then_some(Fault::Unsettled),
        }
    }
}

/// The findings of one scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) events: usize,
    pub(crate) deliveries: usize,
    pub(crate) good: usize,
    pub(crate) twice: usize,
    pub(crate) never: usize,
    pub(crate) unsettled: usize,
    pub(crate) accepted: usize,
    pub(crate) not_refused: usize,
}

impl Finding {
    /// The findings of these events.
    pub(crate) fn of(facts: impl IntoIterator<Item = Fact>, is_counted: bool) -> Self {
        let mut found = Self::default();
        for fact in facts {
            found.events += 1;
            found.deliveries += fact.deliveries;
            let count = match fact.fault(is_counted) {
                None => &mut found.good,
                Some(Fault::Twice) => &mut found.twice,
                Some(Fault::Never) => &mut found.never,
                Some(Fault::Unsettled) => &mut found.unsettled,
                Some(Fault::Accepted) => &mut found.accepted,
                Some(Fault::NotRefused) => &mut found.not_refused,
            };
            *count += 1;
        }
        found
    }

    /// Whether every event did what it must.
    pub(crate) const fn is_good(&self) -> bool {
        self.good == self.events
    }

    /// What is wrong, as parts of a sentence. Empty if nothing is.
    pub(crate) fn faults(&self) -> Vec<String> {
        let parts = [
            (self.twice, "were applied twice"),
            (self.never, "never"),
            (self.unsettled, "ended without a 2xx"),
            (self.accepted, if self.accepted == 1 { "forgery was accepted" } else { "forgeries were accepted" }),
            (self.not_refused, if self.not_refused == 1 { "forgery got no 4xx" } else { "forgeries got no 4xx" }),
        ];
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(scenario: Scenario, traces: usize, status: u16) -> Fact {
        let last = Outcome::Answered(status);
        Fact { scenario, deliveries: 2, traces, last, was_taken: last.is_taken() }
    }

    #[test]
    fn an_event_takes_effect_once_and_is_taken_in_the_end() {
        for (traces, status, expected) in [
            (1, 200, None),
            (1, 204, None),
            (2, 200, Some(Fault::Twice)),
            (5, 500, Some(Fault::Twice)),
            (0, 200, Some(Fault::Never)),
            (1, 409, Some(Fault::Unsettled)),
            (1, 302, Some(Fault::Unsettled)),
        ] {
            assert_eq!(fact(Scenario::Race, traces, status).fault(true), expected, "{traces} {status}");
        }
        let gone = Fact { last: Outcome::Unanswered, ..fact(Scenario::Cut, 1, 200) };
        assert_eq!(gone.fault(true), Some(Fault::Unsettled));
    }

    #[test]
    fn a_forgery_takes_no_effect_and_is_refused_with_4xx() {
        for (traces, status, expected) in [
            (0, 400, None),
            (0, 401, None),
            (1, 401, Some(Fault::Accepted)),
            (1, 200, Some(Fault::Accepted)),
            (0, 200, Some(Fault::NotRefused)),
            (0, 500, Some(Fault::NotRefused)),
            (0, 302, Some(Fault::NotRefused)),
        ] {
            assert_eq!(fact(Scenario::Byte, traces, status).fault(true), expected, "{traces} {status}");
        }
    }

    #[test]
    fn where_traces_are_not_counted_the_answers_are_judged() {
        assert_eq!(fact(Scenario::Race, 0, 200).fault(false), None);
        assert_eq!(fact(Scenario::Race, 0, 500).fault(false), Some(Fault::Unsettled));
        assert_eq!(fact(Scenario::Secret, 0, 200).fault(false), Some(Fault::NotRefused));
    }

    #[test]
    fn findings_add_up_to_a_sentence() {
        let facts = |traces: usize, count: usize| vec![fact(Scenario::Race, traces, 200); count];
        let forged = vec![fact(Scenario::Stale, 1, 200); 2];
        let found = Finding::of([facts(1, 13), facts(2, 14), facts(0, 3), forged].concat(), true);
        assert_eq!((found.events, found.deliveries, found.good, found.is_good()), (32, 64, 13, false));
        assert_eq!(found.faults().join(", "), "14 were applied twice, 3 never, 2 forgeries were accepted");
        assert!(Finding::default().is_good());
    }
}
