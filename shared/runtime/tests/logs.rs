//! What a process logs. It is read from a process of its own, because a subscriber and a panic hook are those of the
//! whole process. This program starts itself again as that process.
#![cfg(test)]

use std::process::Command;

use hookonce_runtime::telemetry::log_as_json;
use serde_json::Value;
use tracing::level_filters::LevelFilter;

/// The argument by which the process knows that it is the one that logs.
const LOGS: &str = "logs";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(LOGS) {
        logs();
    } else {
        each_line_is_json_with_its_level_and_a_panic_logs_its_place_alone();
    }
}

fn logs() {
    log_as_json(LevelFilter::DEBUG);
    tracing::warn!(record.key = "in#shop#1", "a line\nof \"two\"");
    tracing::debug!(target: "hookonce_worker", "a line of this project");
    tracing::debug!(target: "a_library", "a line that may hold a request");
    let panicked = std::thread::spawn(|| panic!("LEAKMENOT")).join();
    assert!(panicked.is_err());
    tracing::info!("the process goes on");
}

fn each_line_is_json_with_its_level_and_a_panic_logs_its_place_alone() {
    let output = Command::new(std::env::current_exe().unwrap()).arg(LOGS).output().unwrap();
    let (lines, beside) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && beside.is_empty(), "{beside}");
    assert!(!lines.contains("LEAKMENOT"), "{lines}");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> =
        lines.iter().map(|line| (line["level"].as_str().unwrap(), line["message"].as_str().unwrap())).collect();
    let expected = [
        ("WARN", "a line\nof \"two\""),
        ("DEBUG", "a line of this project"),
        ("ERROR", "panicked"),
        ("INFO", "the process goes on"),
    ];
    assert_eq!(logged, expected);
    assert_eq!(lines[0]["record.key"], "in#shop#1");
    let place = lines[2]["at"].as_str().unwrap();
    assert!(place.contains("tests/logs.rs:"), "{place}");
    assert!(lines.iter().all(|line| line["timestamp"].is_string()));
}
