//! What a cancelled commit means, over every list of reasons that a short transaction can have.

use hookonce_protocol::call::CancellationReason::{self, ConditionFailed, Invalid, None as Fine, Transient};
use hookonce_protocol::worker::Verdict;

const ALL: [CancellationReason; 4] = [Fine, ConditionFailed, Transient, Invalid];

/// The rule in the words of a table: the first line that fits counts.
fn expected(reasons: &[CancellationReason]) -> Verdict {
    if reasons.first() == Some(&ConditionFailed) {
        return Verdict::Elsewhere;
    }
    if reasons.get(1) == Some(&ConditionFailed) {
        return Verdict::DuplicateFact;
    }
    if reasons.contains(&Invalid) {
        return Verdict::Invalid;
    }
    if reasons.iter().skip(2).any(|reason| *reason == ConditionFailed) {
        return Verdict::Overtaken;
    }
    Verdict::Transient
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
        assert_eq!(Verdict::of(&reasons), expected(&reasons), "{reasons:?}");
        cases += 1;
    }
    println!("{cases} lists of reasons");
}

#[test]
fn someone_else_wins_over_every_other_reason() {
    for others in lists(3) {
        assert_eq!(Verdict::of(&[&[ConditionFailed], &others[..]].concat()), Verdict::Elsewhere, "{others:?}");
    }
}

#[test]
fn a_list_that_names_no_reason_is_tried_again() {
    assert_eq!(Verdict::of(&[]), Verdict::Transient);
    assert_eq!(Verdict::of(&[Fine, Fine]), Verdict::Transient);
    assert_eq!(Verdict::of(&[Transient, Fine, Fine]), Verdict::Transient);
}
