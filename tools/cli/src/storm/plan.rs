//! The schedule: which events are sent, how often, and at which moments. The same seed gives the same schedule.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::scenario::{Only, Scenario};

/// The pauses between the deliveries of a race, in milliseconds.
const GAPS_MS: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];

/// How many events one delivery holds before they are regrouped.
pub(crate) const GROUP: usize = 4;

/// How many events are at work when the receiver is killed.
pub(crate) const KILLED_TOGETHER: usize = 10;

/// One event and what happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) scenario: Scenario,
    /// Its number within the scenario, from 1.
    pub(crate) number: usize,
    /// How many deliveries race.
    pub(crate) copies: usize,
    /// The pause between two of them, in milliseconds.
    pub(crate) gap_ms: u64,
    /// When the sender goes away: a part of the usual time of an answer, in percent.
    pub(crate) percent: u64,
    /// Chooses what else differs from event to event.
    pub(crate) variant: usize,
}

/// How many events a scenario has.
const fn events(scenario: Scenario) -> usize {
    match scenario {
        Scenario::Copies
        | Scenario::Race
        | Scenario::GivenUp
        | Scenario::Cut
        | Scenario::Later
        | Scenario::Restart
        | Scenario::Rendering
        | Scenario::Raw => 30,
        Scenario::Regrouped => 40,
        Scenario::Secret | Scenario::Byte | Scenario::Unsigned | Scenario::Weaker | Scenario::Stale => 20,
    }
}

/// The schedule of these scenarios, `scale` times as long as usual, or only a part of it.
pub(crate) fn plan(seed: u64, scenarios: &[Scenario], scale: usize, only: Option<Only>) -> Vec<Case> {
    let wanted = |case: &Case| {
        only.is_none_or(|only| {
            case.scenario == only.scenario && (only.number == 0 || of_group(case, only.number) == case.number)
        })
    };
    let of_scenario =
        |scenario: Scenario| (1..=events(scenario) * scale).map(move |number| case(seed, scenario, number));
    scenarios.iter().copied().flat_map(of_scenario).filter(wanted).collect()
}

/// The number of a case that is sent for the one with this number: itself, or whoever stands in its group.
fn of_group(case: &Case, number: usize) -> usize {
    let group = |number: usize| (number - 1) / GROUP;
    let is_together = case.scenario == Scenario::Regrouped && group(case.number) == group(number.max(1));
    if is_together { case.number } else { number }
}

/// How many requests a schedule takes.
pub(crate) fn requests(cases: &[Case]) -> usize {
    let of = |case: &Case| match case.scenario {
        Scenario::Race => case.copies,
        Scenario::Copies
        | Scenario::GivenUp
        | Scenario::Cut
        | Scenario::Later
        | Scenario::Restart
        | Scenario::Rendering => 2,
        Scenario::Regrouped => usize::from(!case.number.is_multiple_of(GROUP)),
        Scenario::Secret | Scenario::Byte | Scenario::Unsigned | Scenario::Weaker | Scenario::Stale | Scenario::Raw => {
            1
        }
    };
    cases.iter().map(of).sum()
}

/// Each event has randomness of its own, so one that is sent alone is sent as among all.
fn case(seed: u64, scenario: Scenario, number: usize) -> Case {
    let place = (scenario as u64) << 32 | u64::try_from(number).unwrap_or(0);
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place);
    let copies = [2, 3, 5].get(number % 3).copied().unwrap_or(2);
    let gap_ms = GAPS_MS.get(random.random_range(0..GAPS_MS.len())).copied().unwrap_or(0);
    let percent = match scenario {
        Scenario::GivenUp => random.random_range(60..90),
        _ => random.random_range(20..60),
    };
    Case { scenario, number, copies, gap_ms, percent, variant: number - 1 }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::ALL;
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        assert_eq!(plan(1, &ALL, 1, None), plan(1, &ALL, 1, None));
        assert_ne!(plan(1, &ALL, 1, None), plan(2, &ALL, 1, None));
    }

    #[test]
    fn an_event_alone_is_sent_as_among_all() {
        let all = plan(7, &ALL, 1, None);
        let only = |text: &str| plan(7, &ALL, 1, Some(text.parse().unwrap()));
        let alone = only("race/3");
        assert_eq!(alone.len(), 1);
        assert!(all.contains(&alone[0]), "{alone:?}");
        assert_eq!(only("cut").len(), 30);
        let group: Vec<_> = only("regrouped/6").iter().map(|case| case.number).collect();
        assert_eq!(group, [5, 6, 7, 8], "a group is sent together");
    }

    #[test]
    fn races_have_two_three_and_five_deliveries_and_every_gap() {
        let races = plan(1, &[Scenario::Race], 1, None);
        for copies in [2, 3, 5] {
            assert_eq!(races.iter().filter(|case| case.copies == copies).count(), 10);
        }
        let gaps = GAPS_MS.iter().filter(|gap| races.iter().any(|case| case.gap_ms == **gap)).count();
        assert!(gaps >= 6, "{races:?}");
        assert_eq!(requests(&races), 100);
    }

    #[test]
    fn a_storm_has_about_six_hundred_deliveries_and_a_long_one_ten_times_as_many() {
        let usual = requests(&plan(1, &ALL, 1, None));
        assert!((550..700).contains(&usual), "{usual}");
        assert_eq!(requests(&plan(1, &ALL, 10, None)), 10 * usual);
    }
}
