//! Writes the page `docs/use/providers.md`: `cargo run -p hookonce-providers --example providers_markdown >
//! docs/use/providers.md`.

use std::io::Write as _;

use hookonce_providers::{Catalog, docs};

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(docs::markdown(Catalog::built_in()).as_bytes())
}
