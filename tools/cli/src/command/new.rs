//! `hookonce new`: writes a project of your own, with the inbox inside its stack.

use std::fs;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of the project. Its name becomes that of the stack.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Language of the project's own handler. Without one, routes forward events to a service of yours.
    #[arg(long, value_enum, default_value_t = Language::None)]
    handler: Language,
    /// Checkout of hookonce that the project builds from [default: the one that holds this command].
    #[arg(long, value_name = "DIR")]
    hookonce: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    Rust,
    Python,
    Typescript,
    None,
}

/// A file of a project, and the text that it starts from.
type Draft = (&'static str, &'static str);

/// A file of the folder `project`, under its name in the project.
macro_rules! draft {
    ($to:literal) => {
        draft!($to, $to)
    };
    ($to:literal, $from:literal) => {
        ($to, include_str!(concat!("../../project/", $from)))
    };
}

const COMMON: &[Draft] =
    &[draft!(".gitignore", "gitignore"), draft!("README.md"), draft!("outside/app.json"), draft!("samconfig.toml")];

const NONE: &[Draft] = &[
    draft!(".cargo/config.toml", "cargo.toml"),
    draft!("Makefile", "none/Makefile"),
    draft!("outside/receiver.py"),
    draft!("routes.json", "none/routes.json"),
    draft!("template.yaml", "none/template.yaml"),
];

const PYTHON: &[Draft] = &[
    draft!(".cargo/config.toml", "cargo.toml"),
    draft!("Makefile", "python/Makefile"),
    draft!("handler/invoices.py", "python/handler/invoices.py"),
    draft!("outside/receiver.py"),
    draft!("routes.json", "python/routes.json"),
    draft!("template.yaml", "python/template.yaml"),
    draft!("tests/test_invoices.py", "python/tests/test_invoices.py"),
];

const TYPESCRIPT: &[Draft] = &[
    draft!(".cargo/config.toml", "cargo.toml"),
    draft!("Makefile", "typescript/Makefile"),
    draft!("outside/receiver.mjs"),
    draft!("package-lock.json", "typescript/package-lock.json"),
    draft!("package.json", "typescript/package.json"),
    draft!("routes.json", "typescript/routes.json"),
    draft!("src/invoices.ts", "typescript/src/invoices.ts"),
    draft!("template.yaml", "typescript/template.yaml"),
    draft!("test/invoices.test.ts", "typescript/test/invoices.test.ts"),
    draft!("tsconfig.json", "typescript/tsconfig.json"),
];

const RUST: &[Draft] = &[
    draft!(".cargo/config.toml", "rust/cargo.toml"),
    draft!("Cargo.toml", "rust/Cargo.toml"),
    draft!("Makefile", "rust/Makefile"),
    draft!("local/Cargo.toml", "rust/local/Cargo.toml"),
    draft!("local/src/main.rs", "rust/local/src/main.rs"),
    draft!("outside/receiver.py"),
    draft!("routes.json", "rust/routes.json"),
    draft!("template.yaml", "rust/template.yaml"),
    draft!("worker/Cargo.toml", "rust/worker/Cargo.toml"),
    draft!("worker/src/invoices.rs", "rust/worker/src/invoices.rs"),
    draft!("worker/src/lib.rs", "rust/worker/src/lib.rs"),
    draft!("worker/src/main.rs", "rust/worker/src/main.rs"),
    draft!("worker/tests/invoices.rs", "rust/worker/tests/invoices.rs"),
];

impl Language {
    fn drafts(self) -> &'static [Draft] {
        match self {
            Self::Rust => RUST,
            Self::Python => PYTHON,
            Self::Typescript => TYPESCRIPT,
            Self::None => NONE,
        }
    }

    /// What a project takes over from the checkout: the compiler, and in Rust the versions of all crates.
    fn taken_over(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.lock", "rust-toolchain.toml"],
            Self::Python | Self::Typescript | Self::None => &["rust-toolchain.toml"],
        }
    }

    /// What `make test` does before it runs the whole inbox.
    fn tested_first(self) -> &'static str {
        match self {
            Self::Rust | Self::Python | Self::Typescript => "your handler alone, then",
            Self::None => "your routes, then",
        }
    }

    /// The rows of the README's table about the handler.
    fn rows(self) -> &'static str {
        match self {
            Self::Rust => {
                "| `worker` | your handlers, and the worker function with them |\n\
                 | `local` | hookonce's command line with your handlers, for this machine |\n"
            }
            Self::Python => "| `handler`, `tests` | your handler, a Lambda function, and its tests |\n",
            Self::Typescript => "| `src`, `test` | your handler, a Lambda function, and its tests |\n",
            Self::None => "",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let language = arguments.handler;
    let hookonce = checkout(arguments.hookonce.as_deref())?;
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let folder = folder.canonicalize().map_err(|error| unwritable(folder, &error))?;
    let name = name(&folder)?;
    let place = plain(&relative(&folder, &hookonce))?;
    let worker = plain(&relative(&hookonce, &folder.join("worker")))?;
    let filled = |text: &str| {
        let text = text.replace("{{name}}", name).replace("{{hookonce}}", &place).replace("{{worker}}", &worker);
        text.replace("{{rows}}", language.rows()).replace("{{test}}", language.tested_first())
    };
    let mut files: Vec<_> = COMMON.iter().chain(language.drafts()).map(|(to, text)| (*to, filled(text))).collect();
    for taken in language.taken_over() {
        let path = hookonce.join(taken);
        files.push((taken, fs::read_to_string(&path).map_err(|error| no_checkout(&hookonce, &error.to_string()))?));
    }
    if let Some((taken, _)) = files.iter().find(|(path, _)| folder.join(path).exists()) {
        let what = format!("{} exists, and nothing is replaced", folder.join(taken).display());
        return Err(Failure::usage(what, "choose another folder"));
    }
    for (path, text) in &files {
        create(&folder.join(path), text).map_err(|error| unwritable(&folder.join(path), &error))?;
    }
    let built = format!("{name} is in {}, and builds from hookonce in {place}", folder.display());
    output::line(&output::wrapped(&built));
    output::note("next: `make test` and `make dev` in that folder; its README.md has more");
    Ok(Exit::Done)
}

fn create(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::File::create_new(path)?.write_all(text.as_bytes())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("writing to {} failed: {error}", path.display()), "choose another folder")
}

/// The checkout that the project builds from: template, functions, command line and clients of one commit.
fn checkout(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(folder) = named else { return own_checkout() };
    let folder = folder.canonicalize().map_err(|error| no_checkout(folder, &error.to_string()))?;
    match PARTS.into_iter().find(|file| !folder.join(file).is_file()) {
        Some(missing) => Err(no_checkout(&folder, &format!("it has no {missing}"))),
        None => Ok(folder),
    }
}

/// Files by which a checkout is known.
const PARTS: [&str; 2] = ["template.yaml", "tools/cli/Cargo.toml"];

/// The checkout in which cargo has put this program. Its folder is not compiled in, so that a release is the same
/// wherever it was built.
fn own_checkout() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    let found = program.ancestors().find(|folder| PARTS.iter().all(|file| folder.join(file).is_file()));
    found.map(Path::to_path_buf).ok_or_else(|| Failure::usage("this command is in no checkout of hookonce", CLONE))
}

/// What to do without one.
const CLONE: &str = "clone hookonce, best as a git submodule of your project, and pass it as --hookonce";

fn no_checkout(folder: &Path, why: &str) -> Failure {
    Failure::usage(format!("{} is no checkout of hookonce: {why}", folder.display()), CLONE)
}

/// The folder's name, if a stack can have it. Functions and nested stacks add to it.
fn name(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    if letters && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.len() <= NAME_LENGTH_MAX {
        return Ok(name);
    }
    let hint = format!(
        "name the folder with lower case letters, digits and hyphens, a letter first, at most {NAME_LENGTH_MAX} in all"
    );
    Err(Failure::usage(format!("no stack can be called {name:?}"), hint))
}

/// The longest name of a project. The names of functions begin with it and may have 64 characters.
const NAME_LENGTH_MAX: usize = 32;

/// A path as YAML, TOML, JSON, a shell and make all read it.
fn plain(path: &Path) -> Result<String, Failure> {
    let harmless = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@".contains(letter);
    match path.to_str().filter(|text| !text.is_empty() && text.chars().all(harmless)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::usage(
            format!("the path {:?} to hookonce has characters that not every tool can read", path.display()),
            "put hookonce into the project's folder, and pass it as --hookonce",
        )),
    }
}

/// The way from one folder to another. Both are absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n(Component::ParentDir, from.len() - shared);
    up.chain(to.into_iter().skip(shared)).collect()
}
