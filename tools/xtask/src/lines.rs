//! Counts the lines of Rust of the tests and of the product. Where the tests have more lines, they repeat each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command as Program;

use serde::Serialize;

use crate::process::{Outcome, output, read};

/// What marks a module as one for tests alone.
const TESTS_ONLY: &str = "#[cfg(test)]";

/// Lines of the Rust files that git tracks, blank lines and comments included.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Lines {
    /// The functions, what they share, and the tools.
    product: usize,
    /// `tests/` with the proof, the tests of the other crates, the fuzz targets, and the checks that need processes and
    /// servers.
    test: usize,
}

impl Lines {
    /// Counts files by their paths.
    fn of(files: &BTreeMap<String, String>) -> Self {
        let only_tests_have: BTreeSet<_> = files.iter().flat_map(|(path, text)| test_files(path, text)).collect();
        files.iter().fold(Self::default(), |lines, (path, text)| {
            let all = text.lines().count();
            let test = if is_test(path) || only_tests_have.contains(path) { all } else { in_test_modules(text) };
            Self { product: lines.product + all - test, test: lines.test + test }
        })
    }
}

/// Prints the counts. There are at most as many lines of tests as of the product.
pub(crate) fn run() -> Outcome<bool> {
    let paths = output(Program::new("git").args(["ls-files", "*.rs"]))?;
    let files = paths.lines().map(|path| Ok((path.to_owned(), read(Path::new(path))?))).collect::<Outcome<_>>()?;
    let lines = Lines::of(&files);
    println!("{}", serde_json::to_string(&lines).map_err(|error| error.to_string())?);
    Ok(lines.test <= lines.product)
}

fn is_test(path: &str) -> bool {
    ["fuzz/", "tools/xtask/src/checks/"].iter().any(|folder| path.starts_with(folder))
        || path.split('/').any(|folder| folder == "tests")
}

/// The files of the modules that the root of a crate declares for its tests alone.
fn test_files(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let declared = text.lines().zip(text.lines().skip(1)).filter(|(line, _)| *line == TESTS_ONLY);
    let names = declared.filter_map(|(_, next)| next.strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| format!("{folder}/{name}.rs")).collect()
}

/// The lines of the modules that only tests have, each with its attributes. As rustfmt writes them, an item that begins
/// at the margin ends there.
fn in_test_modules(text: &str) -> usize {
    let (mut inside, mut count) = (false, 0);
    for line in text.lines() {
        inside |= line == TESTS_ONLY;
        count += usize::from(inside);
        inside &= !(line == "}" || (line.starts_with("mod ") && line.ends_with(';')));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn tests_are_told_from_what_they_test() {
        let unit = "//! One.\nfn one() {}\n\n#[cfg(test)]\nmod tests {\n    fn two() {\n    }\n}\n";
        let count = |files: &[(&str, &str)]| {
            Lines::of(&files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
        };
        assert_eq!(count(&[("shared/runtime/src/one.rs", unit)]), Lines { product: 3, test: 5 });
        let root = ("tools/cli/src/lib.rs", "#[cfg(test)]\nmod pages;\nmod one;\n");
        let declared = [root, ("tools/cli/src/pages.rs", "fn two() {}\n"), ("tools/cli/src/one.rs", "fn one() {}\n")];
        assert_eq!(count(&declared), Lines { product: 2, test: 3 });
        let whole = ["tests/all.rs", "tests/proof/src/lib.rs", "tools/cli/tests/cli/main.rs", "fuzz/src/lib.rs"];
        assert_eq!(count(&whole.map(|path| (path, unit))), Lines { product: 0, test: 32 });
        assert_eq!(count(&[("tools/xtask/src/checks/kill.rs", unit)]), Lines { product: 0, test: 8 });
    }
}
