//! Writes `docs/capacity.md`, and fails if the page is not current: `scripts/xtask capacity` renews it.
//!
//! What an event costs is counted here, on the deployed functions and the embedded servers.

mod count;

use std::path::Path;

use hookonce_capacity::{Counted, Defaults, page};

use crate::template::default_of;

/// Set by `scripts/xtask capacity`: write the page instead of comparing it.
const RENEW: &str = "CAPACITY_RENEW";

#[tokio::test]
async fn the_page_on_capacity_is_current() {
    let default = |parameter| u32::try_from(default_of(parameter)).unwrap();
    let page = page(&Counted {
        event: count::of_one_event().await,
        effect: count::of_one_effect().await,
        defaults: Defaults {
            index_shards: default("IndexShards"),
            worker_concurrency_max: default("WorkerConcurrencyMax"),
            requests_per_second_max: default("RequestsPerSecondMax"),
        },
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capacity.md");
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says whether to renew the page")]
    if std::env::var(RENEW).is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == page, "docs/capacity.md is not what the program writes: run `scripts/xtask capacity`");
}
