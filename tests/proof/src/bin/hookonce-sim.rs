//! Simulates days: `hookonce-sim --seed <number> | --seeds <from>..<to> | --seeds <count> [--mutant <name>]`.
//!
//! One seed prints what the day was like. The last line is one JSON object with the figures; the exit code is 1 on any
//! violation.
#![expect(clippy::print_stdout, reason = "this is a command-line program")]

use std::process::ExitCode;

use hookonce_proof::parts;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(seeds) = parts::seeds(&words) else {
        println!("usage: hookonce-sim --seed <number> | --seeds <from>..<to> | --seeds <count> [--mutant <name>]");
        return ExitCode::from(2);
    };
    let Some(mutation) = parts::mutation_named(&words) else {
        println!("there is no mutant of this name; `scripts/prove mutants` lists them");
        return ExitCode::from(2);
    };
    let ended = parts::days(seeds, mutation, &mut |line| println!("{line}"));
    println!("{}", ended.figures);
    if ended.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
