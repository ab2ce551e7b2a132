//! Runs one part of the proof. `parts.txt` says which there are and what they take.
//!
//! Progress goes to standard output while it works; its last line is one JSON object with the figures. The exit code
//! is 1 on any violation.
#![expect(clippy::print_stdout, reason = "this is a command-line program")]

use std::process::ExitCode;

use hookonce_proof::parts;

/// Days and states are maps of small items, so that a quarter of the time was spent in the allocator of libc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Days that are simulated in the long form.
const DAYS_LONG: u64 = 200_000;

/// The parts and their options. `scripts/prove --help` prints them, too. What is not in here is refused.
const PARTS: &str = include_str!("../../parts.txt");

fn is_known(word: &str) -> bool {
    PARTS.split_whitespace().any(|known| known == word)
}

fn usage() -> ExitCode {
    println!("usage: hookonce-prove <part> [options]\n\n{PARTS}");
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word.starts_with('-') && !is_known(word)) {
        return usage();
    }
    let flag = |name: &str| words.iter().any(|word| word == name);
    let only = parts::behind(&words, "--only").unwrap_or_default();
    let mut print = |line: &str| println!("{line}");
    let result = match words.first().map(String::as_str).filter(|part| is_known(part)) {
        Some("model") => parts::model(flag("--long"), flag("--bless"), only, &mut print),
        Some("mutants") => parts::mutants(flag("--bless"), only, &mut print),
        Some("simulate") => {
            let days = 0..if flag("--long") { DAYS_LONG } else { parts::DAYS };
            let Some(mutation) = parts::mutation_named(&words) else {
                println!("there is no mutant of this name; `scripts/prove mutants` lists them");
                return ExitCode::from(2);
            };
            let seeds = parts::seeds(&words);
            if seeds.is_none() && (flag("--seed") || flag("--seeds")) {
                println!("--seed takes a number, --seeds a range such as 0..100");
                return ExitCode::from(2);
            }
            parts::days(seeds.unwrap_or(days), mutation, flag("--bless"), &mut print)
        }
        Some("simulated-mutants") => parts::simulated_mutants(only, &mut print),
        Some("grid") => parts::fault_grid(only, &mut print),
        Some("outage") => parts::outages(&mut print),
        _ => return usage(),
    };
    println!("{}", result.figures);
    if ["scenarios", "mutants", "days"].iter().any(|count| result.figures.get(count).is_some_and(|count| *count == 0)) {
        println!("nothing was run: no scenario, mutant or day fits");
        return ExitCode::from(2);
    }
    if result.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
