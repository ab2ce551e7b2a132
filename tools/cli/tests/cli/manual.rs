//! Completions and manual pages are made from the same definitions as the help, and their readers accept them.

use std::process::{Command, Stdio};

use crate::support::{Ended, Workspace, text};

/// Runs another program, if this machine has it. It must have bash; what else it lacks is printed.
fn program(name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) => Some(text(&output)),
        Err(error) => {
            assert_ne!(name, "bash", "this test needs bash: {error}");
            eprintln!("skipped the check with {name}: {error}");
            None
        }
    }
}

#[test]
fn a_shell_completes_the_commands() {
    let workspace = Workspace::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = workspace.run(&["completions", shell]);
        assert!(script.status.success() && !script.stdout.is_empty(), "{}", text(&script));
        let file = workspace.write(shell, &script.stdout);
        let file = workspace.path(&file);
        let checked = program(shell, &[check, file.to_str().unwrap()]);
        assert!(checked.is_none_or(|output| output.trim() == "exit Some(0)"), "{shell}");
    }
    let script =
        "source ./bash; COMP_WORDS=(hookonce tri); COMP_CWORD=1; _hookonce hookonce tri hookonce; echo $COMPREPLY";
    let completed = Command::new("bash").args(["-c", script]).current_dir(workspace.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "trigger", "{}", text(&completed));
    assert_eq!(workspace.run(&["completions", "sh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page_without_a_mistake() {
    let workspace = Workspace::new();
    workspace.run(&["man", "pages/man1"]).exits(0);
    let pages = std::fs::read_dir(workspace.path("pages/man1")).unwrap().map(|page| page.unwrap().path());
    let pages: Vec<_> = pages.collect();
    for name in ["hookonce.1", "hookonce-trigger.1", "hookonce-verify.1", "hookonce-endpoint-add.1"] {
        assert!(pages.iter().any(|page| page.ends_with(name)), "{name}");
    }
    let help = workspace.run(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let (described, named) = help.split_once("Commands:\n").unwrap().1.split_once("Others: ").unwrap();
    let named = named.split_once('.').unwrap().0;
    let named = named.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "help");
    let commands: Vec<_> = described.lines().filter_map(|line| line.split_whitespace().next()).chain(named).collect();
    assert!(commands.len() > 25, "{commands:?}");
    for command in commands {
        assert!(pages.iter().any(|page| page.ends_with(format!("hookonce-{command}.1"))), "{command}");
    }
    for page in pages.iter().map(|page| page.to_str().unwrap()) {
        for (name, arguments) in
            [("groff", &["-Kutf8", "-man", "-ww", "-z"][..]), ("mandoc", &["-T", "lint", "-W", "warning"])]
        {
            let checked = program(name, &[arguments, &[page]].concat());
            assert!(checked.as_ref().is_none_or(|output| output.trim() == "exit Some(0)"), "{page}: {checked:?}");
        }
    }
}
