//! Writes `docs/capacity.md`, and fails if the page is not current: `scripts/xtask capacity` renews it.
//!
//! What an event costs is counted here, on the deployed functions and the embedded servers. What AWS allows and asks for
//! it stands in `limits.rs`, each with its source.

mod cold_starts;
mod count;
mod limits;
mod page;

use std::path::Path;

/// Set by `scripts/xtask capacity`: write the page instead of comparing it.
const RENEW: &str = "CAPACITY_RENEW";

#[tokio::test]
async fn the_page_on_capacity_is_current() {
    let page = page::written(&count::of_one_event().await, &count::of_one_effect().await);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capacity.md");
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says whether to renew the page")]
    if std::env::var(RENEW).is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == page, "docs/capacity.md is not what the program writes: run `scripts/xtask capacity`");
}
