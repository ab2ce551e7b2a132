//! Lists the catalog files, so that adding a provider needs no line of Rust. Without the feature `tools`, it leaves out
//! what only people read.

#[path = "src/catalog/parts.rs"]
mod parts;

use std::fmt::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let folder = Path::new(&here).join("catalog");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|extension| extension == "toml") {
            names.push(name);
        }
    }
    names.sort();
    let for_people = std::env::var_os("CARGO_FEATURE_TOOLS").is_some();
    let mut list = String::from("&[\n");
    for name in names {
        let path = folder.join(&name);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(path)?;
        let text = if for_people { text } else { parts::parts(&text).0.trim_end().to_owned() };
        writeln!(list, "    ({name:?}, {text:?}),")?;
    }
    list.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("catalog_files.rs"), list)?;
    Ok(())
}
