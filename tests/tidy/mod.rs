//! Rules on the sources themselves, which a review would otherwise have to check.
//!
//! Each rule is a function from a set of files to sentences about what is wrong with them. It runs on this project, and
//! on a planted violation, which shows that the rule can find something.

mod arrows;
mod ideas;
mod locks;
mod size;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Text files by their path from the root of the workspace, with forward slashes. A file that is not text is empty.
pub(crate) type Files = BTreeMap<String, String>;

/// Folders and files that are not part of the project, such as what checks write. A work tree has a file `.git` where a
/// clone has a folder.
const SKIPPED: &[&str] =
    &[".git", ".aws-sam", ".hookonce", "__pycache__", "dist", "node_modules", "sbom.cdx.json", "target"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of the project as it is now.
pub(crate) fn project() -> Files {
    let mut files = Files::new();
    read_folder(&root(), "", &mut files);
    assert!(files.contains_key("Cargo.toml"), "the root of the workspace is not where it was");
    files
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            let text = std::fs::read(entry.path()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            files.insert(path, text.unwrap_or_default());
        }
    }
}

/// A set of planted files.
pub(crate) fn planted<const N: usize>(files: [(&str, &str); N]) -> Files {
    files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
}

/// The Rust sources of a set.
pub(crate) fn rust(files: &Files) -> impl Iterator<Item = (&str, &str)> {
    files.iter().filter(|(path, _)| has_extension(path, "rs")).map(|(path, text)| (path.as_str(), text.as_str()))
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Fails with every finding, one in a line.
pub(crate) fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
