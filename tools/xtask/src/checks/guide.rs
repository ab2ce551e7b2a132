//! Runs the commands that docs/run/deploy.md tells people to type, taken from the page itself.

use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;

use super::emulator::{cargo_lambda, webhook_answers};
use crate::backends::{self, End};
use crate::process::{self, Background, Outcome, output, read, wait_for};

const PAGE: &str = "docs/run/deploy.md";
const LAPTOP: &str = "On a laptop, under an emulator of Lambda";
const BUILD: [&str; 2] = ["What you need", "Build and deploy"];
/// How the commands begin that `tools/cli/tests/cli/costs.rs` runs. It compares what they print with the page.
const COMPARED: &str = "hookonce cost";
/// Words that mark a command, or its block, as needing an account.
const ACCOUNT: [&str; 4] = ["aws ", "sam deploy", "sam delete", "--stack "];

/// What a guide walks through.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// The section on the emulator: every step of it, those for other terminals in the background
    Laptop,
    /// Install, validate and build as for a deployment, and stop where an account is needed
    Build,
}

/// Also fails if the page has a block of commands that needs no account and is not run here.
pub(crate) fn run(part: &Part) -> Outcome<bool> {
    let page = Page::parse(&read(Path::new(PAGE))?);
    if let Some((section, text)) = page.forgotten() {
        return Err(format!("nobody runs this block of \u{201c}{section}\u{201d} in {PAGE}:\n{text}"));
    }
    match part {
        Part::Laptop => laptop(&page)?,
        Part::Build => build(&page)?,
    }
    Ok(true)
}

/// The blocks of commands of the page, each with the heading above it.
struct Page(Vec<(String, String)>);

impl Page {
    fn parse(text: &str) -> Self {
        let (mut blocks, mut section, mut taking) = (Vec::new(), String::new(), false);
        for line in text.lines() {
            match line.trim_start() {
                "```sh" => {
                    taking = true;
                    blocks.push((section.clone(), String::new()));
                }
                "```" => taking = false,
                _ if line.starts_with("##") => line.trim_start_matches('#').trim().clone_into(&mut section),
                _ => {
                    if let Some((_, text)) = blocks.last_mut().filter(|_| taking) {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
        }
        Self(blocks)
    }

    fn blocks(&self, section: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == section).map(|(_, text)| text.as_str()).collect()
    }

    /// A block that needs no account and is not run here.
    fn forgotten(&self) -> Option<&(String, String)> {
        let run_here = |section: &str| section == LAPTOP || BUILD.contains(&section);
        let run_elsewhere = |text: &str| text.starts_with(COMPARED);
        self.0.iter().find(|(section, text)| {
            !run_here(section) && !run_elsewhere(text) && !ACCOUNT.iter().any(|word| text.contains(word))
        })
    }
}

/// Commands as a person would type them, with `cargo lambda` at hand.
fn typed(commands: &str) -> Program {
    for line in commands.lines() {
        eprintln!("$ {line}");
    }
    let mut bash = Program::new("bash");
    bash.args(["-euo", "pipefail", "-c"]);
    bash.arg(format!("PATH=\"$PWD/target/tools/cargo-lambda/bin:$PATH\"\n{commands}"));
    bash
}

fn laptop(page: &Page) -> Outcome {
    let [install, start, dev, watch, deliver, end] = page.blocks(LAPTOP).try_into().map_err(|blocks: Vec<_>| {
        format!(
            "\u{201c}{LAPTOP}\u{201d} in {PAGE} has {} blocks; the six that are run here need another look",
            blocks.len()
        )
    })?;
    cargo_lambda()?;
    // Built where its errors can be read; the steps then find it built.
    process::run(Program::new("cargo").args(["build", "--quiet", "--bins"]))?;
    let logs = Path::new("target/guide");
    fs::create_dir_all(logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let _servers = End::with_this(SetAside::give_back)?;
    let _data = SetAside::new()?;
    process::run(&mut typed(install))?;
    process::run(&mut typed(start))?;
    let _dev = Background::start(&typed(dev), &logs.join("dev.log"))?;
    wait_for("the event source", &logs.join("dev.log"), || Path::new(".hookonce/stack.json").exists())?;
    let _watch = Background::start(&typed(watch), &logs.join("watch.log"))?;
    // If the first start outlasts the sender's timeout, one more copy arrives, and the copies are counted here.
    let is_up = || backends::running().is_ok_and(|servers| webhook_answers(&servers));
    wait_for("the webhook", &logs.join("watch.log"), is_up)?;
    let delivered = output(&mut typed(deliver))?;
    println!("{delivered}");
    let list = deliver.lines().last().unwrap_or_default();
    wait_for("the effect", &logs.join("dev.log"), || {
        output(Program::new("bash").args(["-c", list])).is_ok_and(|listed| listed.contains("APPLIED"))
    })?;
    let answers = |word: &str| delivered.lines().filter(|line| line.contains(word)).count();
    if (answers("accepted"), answers("duplicate")) != (1, 2) {
        return Err(format!("{PAGE} says that one answer is `accepted` and two are `duplicate`:\n{delivered}"));
    }
    process::run(&mut typed(end))
}

/// The data folder of the person who runs this, moved out of the way of the page's steps.
struct SetAside;

const DATA: &str = ".hookonce";
const KEPT: &str = ".hookonce.kept";
static IS_SET_ASIDE: AtomicBool = AtomicBool::new(false);

impl SetAside {
    fn new() -> Outcome<Self> {
        if Path::new(KEPT).exists() {
            return Err(format!("an earlier run was killed and left your data in {KEPT}; move it back to {DATA}"));
        }
        if Path::new(DATA).exists() {
            fs::rename(DATA, KEPT).map_err(|error| format!("{KEPT}: {error}"))?;
        }
        IS_SET_ASIDE.store(true, Ordering::SeqCst);
        Ok(Self)
    }

    fn give_back() {
        // An interrupt may come first, and then `.hookonce` is still the person's own.
        if !IS_SET_ASIDE.swap(false, Ordering::SeqCst) {
            return;
        }
        // There may be none, if an earlier step failed.
        drop(fs::remove_dir_all(DATA));
        if Path::new(KEPT).exists()
            && let Err(error) = fs::rename(KEPT, DATA)
        {
            eprintln!("guide: your data folder is in {KEPT}: {error}");
        }
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        Self::give_back();
    }
}

fn build(page: &Page) -> Outcome {
    process::run(Program::new("bash").args(["-euo", "pipefail", "-c", ". scripts/tools/install.bash && need_python"]))?;
    let lines = BUILD.iter().flat_map(|section| page.blocks(section)).flat_map(str::lines);
    let commands: Vec<_> = lines.filter(|line| !ACCOUNT.iter().any(|word| line.contains(word))).collect();
    // The lint needs a region, but no credentials.
    let region = "export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-eu-central-1}";
    process::run(&mut typed(&format!("{region}\n{}", commands.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn a_block_that_nobody_runs_is_found() {
        let page = |text: &str| Page::parse(&format!("## Elsewhere\n\n1. Look:\n\n   ```sh\n   {text}\n   ```\n"));
        let forgotten = page("ls");
        assert_eq!(forgotten.forgotten(), Some(&("Elsewhere".to_owned(), "   ls\n".to_owned())));
        assert_eq!(page("aws s3 ls").forgotten(), None);
    }
}
