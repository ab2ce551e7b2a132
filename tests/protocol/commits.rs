//! What a cancelled commit means, over every list of reasons that a short transaction can have.

use hookonce_protocol::call::CancellationReason::{self, ConditionFailed, Invalid, None as Fine, Transient};
use hookonce_protocol::worker::Cancellation;

const ALL: [CancellationReason; 4] = [Fine, ConditionFailed, Transient, Invalid];

/// The rule as a table: the first matching line counts.
fn expected(reasons: &[CancellationReason]) -> Cancellation {
    if reasons.first() == Some(&ConditionFailed) {
        return Cancellation::Elsewhere;
    }
    if reasons.get(1) == Some(&ConditionFailed) {
        return Cancellation::DuplicateFact;
    }
    if reasons.contains(&Invalid) {
        return Cancellation::Invalid;
    }
    if reasons.iter().skip(2).any(|reason| *reason == ConditionFailed) {
        return Cancellation::Overtaken;
    }
    Cancellation::Transient
}

fn lists(length: usize) -> Vec<Vec<CancellationReason>> {
    (0..length).fold(vec![Vec::new()], |lists, _| {
        lists.iter().flat_map(|list| ALL.map(|reason| [&list[..], &[reason]].concat())).collect()
    })
}

#[test]
fn every_list_of_reasons_has_its_meaning() {
    let mut cases = 0;
    for reasons in (0..=5).flat_map(lists) {
        assert_eq!(Cancellation::of(&reasons, 0), expected(&reasons), "{reasons:?}");
        cases += 1;
    }
    println!("{cases} lists of reasons");
}

#[test]
fn someone_else_wins_over_every_other_reason() {
    for others in lists(3) {
        let reasons = [&[ConditionFailed], &others[..]].concat();
        assert_eq!(Cancellation::of(&reasons, 1), Cancellation::Elsewhere, "{others:?}");
    }
}

#[test]
fn an_effect_that_exists_is_no_condition_of_the_handler() {
    let reasons = [Fine, Fine, ConditionFailed, ConditionFailed];
    assert_eq!(Cancellation::of(&reasons, 1), Cancellation::EffectExists);
    assert_eq!(Cancellation::of(&reasons[..3], 0), Cancellation::Overtaken);
    assert_eq!(Cancellation::of(&[Fine, Fine, Fine, ConditionFailed], 2), Cancellation::EffectExists);
    assert_eq!(Cancellation::of(&[Fine, ConditionFailed, ConditionFailed], 1), Cancellation::DuplicateFact);
}
