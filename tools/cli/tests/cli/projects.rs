//! `hookonce new` writes projects whose parts refer to each other. `scripts/check projects` builds and runs them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ended, Workspace, root};

const LANGUAGES: [&str; 4] = ["none", "python", "rust", "typescript"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_project_of_each_kind_names_itself_and_its_checkout_and_its_routes_check() {
    let workspace = Workspace::new();
    for language in LANGUAGES {
        let name = format!("shop-{language}");
        workspace.run(&["new", &name, "--handler", language]).exits(0);
        if language != "rust" {
            workspace.run(&["route", "check", &format!("{name}/routes.json")]).exits(0);
        }
        let project = workspace.path(&name);
        for file in files(&project) {
            let written = std::fs::read_to_string(&file).unwrap();
            assert!(!written.contains("{{"), "{} has an open place", file.display());
        }
        let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
        assert_eq!(readme.contains("your handler alone"), language != "none", "{language}");
        let toolchain = |folder: &Path| std::fs::read_to_string(folder.join("rust-toolchain.toml")).unwrap();
        assert_eq!(toolchain(&project), toolchain(&root()), "{language}");
        let template = std::fs::read_to_string(project.join("template.yaml")).unwrap();
        let location = template.lines().find_map(|line| line.trim().strip_prefix("Location: ")).unwrap();
        let named = project.join(location).canonicalize().unwrap();
        assert_eq!(named, root().join("template.yaml").canonicalize().unwrap());
        let functions = template.matches("AWS::Serverless::Function").count();
        assert_eq!(functions, usize::from(["python", "typescript"].contains(&language)), "{language}");
        let checkout = named.parent().unwrap();
        let worker = template.lines().find_map(|line| line.trim().strip_prefix("WorkerCode: "));
        let worker = worker.map(|worker| checkout.join(worker).canonicalize().unwrap());
        assert_eq!(worker, (language == "rust").then(|| project.join("worker").canonicalize().unwrap()));
    }
}

/// What stands in front of the programs that `make routes` runs.
const FAKES: [(&str, &str); 2] =
    [("aws", "#!/bin/sh\necho \"$4-Inbox-1ABC\"\n"), ("cargo", "#!/bin/sh\necho \"$@\" >called\n")];

#[test]
fn two_stages_of_a_project_share_no_name_and_each_has_routes_to_its_own_functions() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("bin")).unwrap();
    for (program, text) in FAKES {
        workspace.write(&format!("bin/{program}"), text.as_bytes());
        std::fs::set_permissions(workspace.path(&format!("bin/{program}")), Permissions::from_mode(0o755)).unwrap();
    }
    let bin = workspace.path("bin");
    for language in LANGUAGES {
        let name = format!("shop-{language}");
        workspace.run(&["new", &name, "--handler", language]).exits(0);
        let template = workspace.read(&format!("{name}/template.yaml"));
        let fields = template.lines().filter_map(|line| line.trim().split_once("Name: "));
        let names: Vec<_> = fields.map(|(_, value)| value).collect();
        assert!(names.iter().all(|value| value.contains("${AWS::StackName}")), "{names:?}");
        let project = workspace.path(&name);
        let make = format!("PATH={}:$PATH exec make --silent routes stack={name}-staging", bin.display());
        let made = Command::new("sh").args(["-c", &make]).current_dir(&project).status().unwrap();
        assert!(made.success(), "{language}");
        let called = std::fs::read_to_string(project.join("called")).unwrap();
        let wanted = format!("hookonce route deploy target/routes.json --stack {name}-staging-Inbox-1ABC\n");
        assert_eq!(called, wanted);
        let set = |file: &str| std::fs::read_to_string(project.join(file)).unwrap();
        let [own, staging] = [name.clone(), format!("{name}-staging")].map(|stack| format!("\"{stack}-invoices\""));
        assert_eq!(set("target/routes.json"), set("routes.json").replace(&own, &staging));
        assert_eq!(set("routes.json").contains(&own), ["python", "typescript"].contains(&language));
    }
}

#[test]
fn nothing_is_replaced() {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("shop")).unwrap();
    workspace.write("shop/routes.json", b"mine");
    workspace.run(&["new", "shop"]).exits(2).prints("routes.json exists");
    assert_eq!(files(&workspace.path("shop")).len(), 1, "nothing else is written");
    assert_eq!(workspace.read("shop/routes.json"), "mine");
}

#[test]
fn a_name_that_no_stack_can_have_is_refused() {
    let workspace = Workspace::new();
    let long = "a".repeat(33);
    for name in ["Shop", "1shop", "my_shop", "my shop", &long] {
        workspace.run(&["new", name]).exits(2).prints("no stack can be called");
        assert!(!workspace.path(name).join("README.md").exists());
    }
}

#[test]
fn a_folder_that_is_no_checkout_or_has_an_odd_path_is_refused() {
    let workspace = Workspace::new();
    let odd = workspace.path("a folder");
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("template.yaml"), "").unwrap();
    std::fs::create_dir_all(odd.join("tools/cli")).unwrap();
    std::fs::write(odd.join("tools/cli/Cargo.toml"), "").unwrap();
    for folder in [".", "nowhere"] {
        workspace.run(&["new", "shop", "--hookonce", folder]).exits(2).prints("is no checkout of hookonce");
    }
    assert!(!workspace.path("shop").exists());
    workspace
        .run(&["new", "shop", "--hookonce", "a folder"])
        .exits(2)
        .prints("characters that not every tool can read");
}

#[test]
fn a_command_outside_of_every_checkout_asks_for_one() {
    let workspace = Workspace::new();
    let elsewhere = workspace.path("hookonce");
    // A process that this one starts meanwhile would hold a file that this one writes, and nobody can run it then.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_hookonce")).arg(&elsewhere).status().unwrap();
    assert!(copied.success());
    let output = Command::new(&elsewhere).args(["new", "shop"]).current_dir(workspace.path(".")).output().unwrap();
    output.exits(2).prints_all(&["this command is in no checkout of hookonce", "pass it as --hookonce"]);
    assert!(!workspace.path("shop").exists());
}

/// Calls a receiver with this key, and returns the status line.
fn call(address: &str, key: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head =
        format!("POST /in HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 2\r\n{key}\r\n{{}}");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// The destination of a project can be called, and its callee keeps to `docs/use/effects.md`.
#[test]
fn a_project_has_a_destination_and_a_callee_that_does_the_work_of_each_key_once() {
    let workspace = Workspace::new();
    for (language, program, receiver) in
        [("python", "python3", "outside/receiver.py"), ("typescript", "node", "outside/receiver.mjs")]
    {
        let name = format!("shop-{language}");
        workspace.run(&["new", &name, "--handler", language]).exits(0);
        workspace.run(&["destination", "check", &format!("{name}/outside/app.json")]).exits(0);
        let makefile = workspace.read(&format!("{name}/Makefile"));
        assert!(makefile.contains("--table orders=order:S") && makefile.contains(receiver), "{makefile}");
        let mut command = Command::new(program);
        command.args([receiver, "0"]).current_dir(workspace.path(&name)).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: this machine has no {program}");
            continue;
        };
        let mut first = String::new();
        // It prints a line for each call, so its output stays open.
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut first).unwrap();
        let address = first.trim().trim_start_matches("http://").trim_end_matches("/in").to_owned();
        let probe = "hookonce-key: p\r\nhookonce-event: in#hookonce-test#p\r\n";
        let calls = ["hookonce-key: a\r\n", "hookonce-key: a\r\n", "hookonce-key: b\r\n", probe, ""];
        let answers = calls.map(|key| call(&address, key));
        let _ = child.kill();
        let _ = child.wait();
        drop(printed);
        let is_done = answers.each_ref().map(|answer| answer.contains(" 200 "));
        assert_eq!(is_done, [true, true, true, true, false], "{answers:?}");
        let works = workspace.read(&format!("{name}/target/works.jsonl"));
        assert_eq!(works.lines().count(), 2, "{works}");
    }
}
