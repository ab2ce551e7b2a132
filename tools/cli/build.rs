//! Lists the pages of docs/errors, so that `hookonce explain` needs no checkout.

use std::fmt::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let folder = Path::new(&here).join("../../docs/errors").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut list = String::from("&[\n");
    for path in paths {
        let (code, path) = (path.file_stem().unwrap_or_default().to_string_lossy(), path.to_string_lossy());
        writeln!(list, "    ({code:?}, include_str!({path:?})),")?;
    }
    list.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("pages.rs"), list)?;
    Ok(())
}
