//! The modules of a crate, and which names each takes from which other module.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use super::tokens::product;
use super::{Files, rust};

/// How many re-exports of one name are followed.
const REEXPORTS_MAX: usize = 8;

/// The path of a module or of a name, from the root of its crate.
type Path = Vec<String>;

/// One crate: the files of its modules, and what each module names.
#[derive(Default)]
struct Crate {
    /// Whether a folder's own file counts as one of its files.
    whole_counts: bool,
    files: BTreeMap<Path, String>,
    uses: BTreeMap<Path, Vec<Use>>,
}

/// A path that a module writes down; in a `use`, with the name under which the module then has it.
struct Use {
    path: Path,
    alias: Option<String>,
}

/// The import circles of every crate whose folder starts with one of these: what each file of a circle takes from which
/// other one.
pub(super) fn circles(files: &Files, folders: &[&str]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for (path, text) in rust(files).filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder))) {
        let Some((root, inside)) = place(path) else { continue };
        let has_library = files.contains_key(&format!("{root}/src/lib.rs"));
        let module = module(inside, has_library);
        let one = crates.entry(root).or_default();
        one.whole_counts = WHOLE_COUNTS.contains(&root);
        one.files.insert(module.clone(), path.to_owned());
        let mut uses = Vec::new();
        paths(&product(path, text), &mut uses);
        one.uses.insert(module, uses);
    }
    crates.values().flat_map(Crate::circles).collect()
}

/// Crates in which even a folder's own file may only gather what is in the folder. Elsewhere, it and the files in it
/// are a whole and its parts, which may name each other.
const WHOLE_COUNTS: [&str; 2] = ["shared/providers", "shared/runtime"];

/// Test targets, each a crate. The longest names come first.
const TEST_TARGETS: [&str; 5] =
    ["shared/providers/tests/conformance", "tests/adapters", "tools/cli/tests/cli", "tools/local/tests/local", "tests"];

/// The crate of a file, and the file's path there.
fn place(path: &str) -> Option<(&str, &str)> {
    let of_target = |root: &str| path.strip_prefix(root)?.strip_prefix('/').map(|inside| (&path[..root.len()], inside));
    path.split_once("/src/").or_else(|| TEST_TARGETS.iter().find_map(|root| of_target(root)))
}

/// The path of the module that a file holds. A binary beside a library is its own crate.
fn module(inside: &str, has_library: bool) -> Path {
    let path = inside.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let is_root = path == "lib" || path == "all" || (path == "main" && !has_library);
    if is_root { Path::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// What is taken, as a sentence that names both files.
type Taken = BTreeSet<String>;

impl Crate {
    /// Looks at the files and folders of every folder, each folder with everything below it.
    fn circles(&self) -> Vec<String> {
        let folders: BTreeSet<&[String]> =
            self.files.keys().filter_map(|path| path.split_last()).map(|(_, folder)| folder).collect();
        folders.into_iter().flat_map(|folder| self.circles_in(folder)).collect()
    }

    fn circles_in(&self, folder: &[String]) -> Vec<String> {
        let room = |path: &Path| match path.strip_prefix(folder)?.first() {
            None => self.whole_counts.then(|| "mod".to_owned()),
            inside => inside.cloned(),
        };
        let mut arrows: BTreeMap<String, BTreeMap<String, Taken>> = BTreeMap::new();
        for module in self.files.keys() {
            let Some(from) = room(module) else { continue };
            let taken = arrows.entry(from.clone()).or_default();
            for (target, names) in self.arrows(module) {
                let Some(to) = room(target).filter(|to| *to != from) else { continue };
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let sentence = format!("{} takes {} from {}", self.files[module], names.join(", "), self.files[target]);
                taken.entry(to).or_default().insert(sentence);
            }
        }
        let reachable: BTreeMap<&String, BTreeSet<&String>> =
            arrows.keys().map(|room| (room, reachable(&arrows, room))).collect();
        let in_circle = arrows.iter().flat_map(|(from, taken)| taken.iter().map(move |(to, taken)| (from, to, taken)));
        let in_circle = in_circle.filter(|(from, to, _)| reachable[to].contains(from));
        in_circle.flat_map(|(_, _, taken)| taken.iter().map(|sentence| format!("in a circle: {sentence}"))).collect()
    }

    /// The other modules that a module takes names from, and the names.
    fn arrows(&self, module: &Path) -> BTreeMap<&Path, BTreeSet<String>> {
        let mut arrows: BTreeMap<&Path, BTreeSet<String>> = BTreeMap::new();
        for one in &self.uses[module] {
            let Some((target, name)) = self.resolve(module, &one.path, REEXPORTS_MAX) else { continue };
            if target != module {
                arrows.entry(target).or_default().insert(name);
            }
        }
        arrows
    }

    /// The module that defines what a path leads to, and its name there; nothing for another crate's.
    fn resolve(&self, module: &Path, path: &[String], reexports_left: usize) -> Option<(&Path, String)> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Path::new(),
            "self" | "super" => module.clone(),
            _ => return self.follow(module, path, reexports_left),
        };
        let mut rest = if first == "super" { path } else { rest };
        while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
            at.pop();
            rest = after;
        }
        self.follow(&at, rest, reexports_left)
    }

    /// Follows a path down from a module, and through what that module has from elsewhere.
    fn follow(&self, module: &Path, path: &[String], reexports_left: usize) -> Option<(&Path, String)> {
        let (module, uses) = self.uses.get_key_value(module)?;
        let Some((name, rest)) = path.split_first() else { return Some((module, "itself".to_owned())) };
        let child: Path = module.iter().chain([name]).cloned().collect();
        if self.files.contains_key(&child) {
            return self.follow(&child, rest, reexports_left);
        }
        let Some(alias) = uses.iter().find(|one| one.alias.as_ref() == Some(name)) else {
            return Some((module, name.clone()));
        };
        let onward: Path = alias.path.iter().chain(rest).cloned().collect();
        self.resolve(module, &onward, reexports_left.checked_sub(1)?)
    }
}

/// Every module that can be reached from one along these arrows.
fn reachable<'a>(arrows: &'a BTreeMap<String, BTreeMap<String, Taken>>, from: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = arrows.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(room) = open.pop() {
        if found.insert(room) {
            open.extend(arrows.get(room).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

/// Every path of two or more names in these tokens, and every path of a `use`.
fn paths(tokens: &[TokenTree], found: &mut Vec<Use>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "use" => {
                let end = (at..tokens.len()).find(|end| is(&tokens[*end], ';')).unwrap_or(tokens.len());
                tree(&tokens[at + 1..end], &Path::new(), found);
                at = end;
            }
            TokenTree::Ident(_) => {
                let (path, length) = path(&tokens[at..]);
                if path.len() > 1 {
                    found.push(Use { path, alias: None });
                }
                at += length;
            }
            TokenTree::Group(group) => {
                paths(&group.stream().into_iter().collect::<Vec<_>>(), found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// The path at the beginning of these tokens, and how many tokens it takes.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let (mut names, mut at) = (Path::new(), 0);
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        names.push(name.to_string());
        at += 1;
        let goes_on = matches!(tokens.get(at..at + 2), Some([one, two]) if is(one, ':') && is(two, ':'));
        if !goes_on {
            return (names, at);
        }
        at += 2;
    }
    (names, at.max(1))
}

/// The paths of one tree of a `use`, below a path.
fn tree(tokens: &[TokenTree], below: &Path, found: &mut Vec<Use>) {
    for branch in tokens.split(|token| is(token, ',')) {
        let (names, length) = if branch.is_empty() { continue } else { path(branch) };
        let whole: Path =
            below.iter().chain(names.iter().filter(|name| *name != "self" || below.is_empty())).cloned().collect();
        match branch.get(length.min(branch.len())..) {
            Some([TokenTree::Group(group)]) if group.delimiter() == Delimiter::Brace => {
                tree(&group.stream().into_iter().collect::<Vec<_>>(), &whole, found);
            }
            Some([TokenTree::Ident(_), TokenTree::Ident(alias)]) => {
                found.push(Use { path: whole, alias: Some(alias.to_string()) });
            }
            _ => found.push(Use { alias: whole.last().cloned(), path: whole }),
        }
    }
}

fn is(token: &TokenTree, symbol: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == symbol)
}
