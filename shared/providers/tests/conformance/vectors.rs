//! Every conformance vector in `events/vectors` is judged as the vector says.

use crate::support::{Origin, Verdict, all, judge};

#[test]
fn every_vector_is_judged_as_it_says() {
    let mut wrong = Vec::new();
    let files = all();
    assert!(!files.is_empty(), "no vector file was found");
    for file in files {
        for vector in &file.vectors {
            let outcome = judge(&file.provider, vector);
            if let Some(difference) = outcome.difference(vector) {
                wrong.push(format!("{} {}: {difference}", file.provider, vector.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{} vectors differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn ids_are_unique_and_a_difference_to_an_sdk_is_explained() {
    let mut ids = std::collections::BTreeSet::new();
    for file in all() {
        for vector in &file.vectors {
            assert!(ids.insert(vector.id.clone()), "{} comes twice", vector.id);
            assert!(!vector.reason.is_empty() && !vector.case.is_empty(), "{} gives no reason", vector.id);
            let Some(sdk) = &vector.sdk else {
                assert_ne!(vector.signature_origin, Origin::Sdk, "{} names no SDK", vector.id);
                continue;
            };
            let named = [&sdk.ecosystem, &sdk.package, &sdk.version, &sdk.function];
            assert!(named.iter().all(|text| !text.is_empty()), "{} does not name its SDK", vector.id);
            let same = match sdk.verdict.as_str() {
                "valid" => vector.expected.verdict != Verdict::Rejected,
                "invalid" => vector.expected.verdict == Verdict::Rejected,
                "respond" => vector.expected.verdict == Verdict::Handshake,
                other => panic!("{}: unknown verdict {other}", vector.id),
            };
            assert_eq!(
                same,
                sdk.differs.is_none(),
                "{}: explain in `sdk.differs` why the verdict is another",
                vector.id
            );
        }
    }
}
