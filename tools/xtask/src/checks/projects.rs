//! One project of each kind that `hookonce new` writes: its tests pass, and what `sam build` would deploy of its
//! handler applies an event once under Lambda's own client of the Runtime API. The projects share the checkout's target
//! folder, its profile and the features of what it depends on, so that their crates are all that is built. One more
//! project is outside of the checkout, as most people have theirs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::process::{Outcome, build_hookonce, fresh_folder, output, read, write};

const PLACE: &str = "target/projects";

/// Lambda's own clients of the Runtime API, as commands.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    /// In Python
    #[arg(long)]
    python: String,
    /// For Node
    #[arg(long)]
    node: String,
}

/// Where the projects of all kinds pass.
pub(crate) fn test(clients: &Clients) -> Outcome<bool> {
    let hookonce = build_hookonce()?;
    let root = std::env::current_dir().map_err(|error| format!("where this is: {error}"))?;
    let project_in = |folder: PathBuf| Project { folder, target: root.join("target") };
    fresh_folder(Path::new(PLACE))?;
    for kind in ["none", "python", "typescript", "rust"] {
        let project = project_in(root.join(PLACE).join(format!("{kind}-shop")));
        project.passes(&hookonce, kind)?;
        match kind {
            "python" => project.applies_as_built(&format!("{} invoices.lambda_handler", clients.python))?,
            "typescript" => project.applies_as_built(&format!("_HANDLER=invoices.lambdaHandler {}", clients.node))?,
            _ => {}
        }
    }
    let outside = std::env::temp_dir().join(format!("hookonce-projects-{}", std::process::id()));
    let passed = project_in(outside.join("outside-shop")).passes(&hookonce, "none");
    drop(fs::remove_dir_all(&outside));
    passed.map(|()| true)
}

struct Project {
    folder: PathBuf,
    target: PathBuf,
}

impl Project {
    /// Writes the project, and runs its tests with the compiler of this checkout.
    fn passes(&self, hookonce: &Path, kind: &str) -> Outcome {
        output(Command::new(hookonce).arg("new").arg(&self.folder).args(["--handler", kind]))?;
        if kind == "rust" {
            self.share_builds()?;
        }
        let compiler = output(self.command("rustc").arg("--version"))?;
        if compiler != output(Command::new("rustc").arg("--version"))? {
            return Err(format!("{} has another compiler: {compiler}", self.folder.display()));
        }
        output(self.command("make").args(["--silent", "test"]))?;
        eprintln!("{}: its tests pass, those of its stack too", self.folder.display());
        Ok(())
    }

    /// Lets the project build the same crates as the checkout: with its profile, and with the features that its proofs want.
    fn share_builds(&self) -> Outcome {
        let manifest = read(Path::new("Cargo.toml"))?;
        let profile = manifest.split_once("[profile.dev]").and_then(|(_, rest)| rest.split_once("[profile.release]"));
        let (profile, _) = profile.ok_or("Cargo.toml has no profiles any more")?;
        // Beside the project, which has such a file, too.
        let config = Path::new(PLACE).join(".cargo");
        fresh_folder(&config)?;
        write(&config.join("config.toml"), format!("[profile.dev]{profile}"))?;
        let local = self.folder.join("local/Cargo.toml");
        let features = r#"
[target.'cfg(all())'.dependencies]
getrandom = { version = "0.4", default-features = false, features = ["std", "sys_rng"] }
hashbrown = { version = "0.17", default-features = false, features = ["default-hasher"] }
tokio = { version = "1", default-features = false, features = ["test-util"] }
"#;
        write(&local, read(&local)? + features)?;
        self.shares_builds()
    }

    /// Whether the features are still all that differs. A crate with others would be built once more, and so would all that
    /// depend on it.
    fn shares_builds(&self) -> Outcome {
        let features = |command: &mut Command, edges: &str| -> Outcome<BTreeSet<String>> {
            command.args(["tree", "--workspace", "--prefix", "none", "--format", "{p} {f}", "--edges", edges]);
            let printed = output(command)?;
            let lines = printed.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
            // Crates in folders are built anew in any case.
            Ok(lines.filter(|line| !line.contains(" (/")).collect())
        };
        let own = features(&mut Command::new("cargo"), "normal,build,dev")?;
        let projects = features(&mut self.command("cargo"), "normal,build")?;
        match projects.difference(&own).next() {
            None => Ok(()),
            Some(other) => Err(format!("a project has a crate with other features than the checkout: {other}")),
        }
    }

    /// A command that runs in the project, with the compiler that the project names.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_remove("RUSTUP_TOOLCHAIN");
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Makes what `sam build` would deploy of the handler, and lets this command run it with nothing else in reach.
    fn applies_as_built(&self, runtime: &str) -> Outcome {
        let built = self.folder.join("target/built");
        fresh_folder(&built)?;
        let artifacts = format!("ARTIFACTS_DIR={}", built.display());
        output(self.command("make").args(["--silent", "build-InvoicesFunction"]).arg(artifacts))?;
        // Another stack, which knows nothing of the event.
        fresh_folder(&self.folder.join(".hookonce"))?;
        let name = self.folder.file_name().unwrap_or_default().display();
        let run = format!(
            "{name}-invoices=env --unset=PYTHONPATH --chdir={0} LAMBDA_TASK_ROOT={0} {runtime}",
            built.display()
        );
        let mut dev = self.command("cargo");
        dev.args(["hookonce", "dev", "--port", "0", "--handler-watch"]).arg(&built).arg("--handler").arg(run);
        output(dev.args(["--", "make", "--silent", "deliver"]))?;
        eprintln!("{name}: what is deployed of its handler applies an event once");
        Ok(())
    }
}
