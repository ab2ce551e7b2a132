//! The catalog on the command line.

use crate::support::{Ended, Workspace, json};

#[test]
fn a_short_fact_is_printed_whole() {
    let list = String::from_utf8(Workspace::new().run(&["providers"]).stdout).unwrap();
    let line = |id: &str| list.lines().find(|line| line.starts_with(&format!(" {id} "))).unwrap().to_owned();
    assert!(line("circleci").contains(" 10 s "), "{}", line("circleci"));
    assert!(line("discord").contains(" 3 s "), "{}", line("discord"));
}

#[test]
fn the_catalog_lists_every_provider_with_what_an_operator_needs() {
    let catalog = json(&Workspace::new().run(&["providers", "--json"]).exits(0));
    assert_eq!(catalog.as_array().unwrap().len(), 57);
    for provider in catalog.as_array().unwrap() {
        let (id, facts) = (&provider["id"], &provider["facts"]);
        for fact in ["retries", "deadline", "key_on_retry", "key_on_redelivery", "checked", "sources"] {
            assert!(!facts[fact].is_null(), "{id}: {fact}");
        }
        assert!(provider["answers"]["retry_please"]["status"].is_u64(), "{id}");
        let limits = ["body_bytes_max", "text_body_bytes_max", "compressed_bytes_max"].map(|name| &provider[name]);
        assert_eq!(limits, [4_669_440, 3_112_960, 393_216], "{id}");
    }
    let one = Workspace::new().run(&["providers", "zendesk", "--json"]);
    assert_eq!(json(&one)["answers"]["retry_please"]["status"], 409);
    let zendesk = Workspace::new().run(&["providers", "zendesk"]);
    zendesk.says_all(&["into 393216 bytes", "more than 3112960 bytes"]);
    Workspace::new().run(&["providers", "nobody"]).exits(2);
}
