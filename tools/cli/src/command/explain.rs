//! `hookonce explain`: prints the page of a code, or a section of the runbook, also where there is no checkout.

use clap::Args;
use console::Term;
use textwrap::{Options, WordSplitter, fill};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::codes::{PAGES, RUNBOOK_SECTION, alarms, opening, section};

/// Longer lines are hard to read.
const WIDTH_MAX: usize = 80;

/// How many codes stand in a line of the list.
const COLUMNS: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The code as it stands in an answer, a log line or a record, such as UNROUTED, or the name of an alarm. Without it,
    /// all of them.
    code: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Some(code) = &arguments.code else {
        let mut table = output::table(&[]);
        let names: Vec<_> = names().collect();
        for names in names.chunks(COLUMNS) {
            table.add_row(names);
        }
        output::print(&table);
        return Ok(Exit::Done);
    };
    let columns = Term::stdout().size_checked().map_or(WIDTH_MAX, |(_, columns)| usize::from(columns).min(WIDTH_MAX));
    output::line(&explained(code, columns).ok_or_else(|| unknown(code))?);
    Ok(Exit::Done)
}

/// All codes, then all alarms.
fn names() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(code, _)| *code).chain(alarms())
}

/// The page of a code, or the section of the runbook that a name or a path leads to, in lines of at most this width.
pub(crate) fn explained(name: &str, width: usize) -> Option<String> {
    let code = PAGES.iter().find(|(code, _)| code.eq_ignore_ascii_case(name));
    code.map(|(_, page)| shown(page, "docs/errors/", width))
        .or_else(|| section(name).map(|section| shown(section, "docs/run/", width)))
}

fn unknown(code: &str) -> Failure {
    let likeness = |name: &str| strsim::jaro_winkler(&code.to_ascii_lowercase(), &name.to_ascii_lowercase());
    let nearest = names().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    // What is less like it was not meant.
    let nearest = nearest.filter(|name| likeness(name) >= 0.9);
    let nearest = nearest.map_or_else(String::new, |name| format!("did you mean {name}? "));
    Failure::usage(
        format!("hookonce has no code and no alarm {code:?}; a handler may have a code of its own"),
        format!("{nearest}`hookonce explain` lists all of them"),
    )
}

/// A page of a folder for a terminal: its paragraphs in lines of this width, its blocks of commands as they are, each row of
/// its tables as an entry of a list, and each link as its text and what opens the page it leads to.
fn shown(page: &str, folder: &str, width: usize) -> String {
    let (mut text, mut paragraph, mut is_code) = (String::new(), String::new(), false);
    for line in rows_as_lists(page).lines().chain([""]) {
        let is_fence = line.starts_with("```");
        let stays = is_code || is_fence;
        let starts = stays || line.is_empty() || line.starts_with(['#', '-']) || is_numbered(line);
        if starts && !paragraph.is_empty() {
            text.push_str(&wrapped(&paragraph, folder, width));
            text.push('\n');
            paragraph.clear();
        }
        is_code ^= is_fence;
        if stays && !is_fence {
            text.extend(["  ", line, "\n"]);
        } else if line.is_empty() {
            text.push('\n');
        } else if !is_fence {
            let space = if paragraph.is_empty() { "" } else { " " };
            paragraph = format!("{paragraph}{space}{}", line.trim_start());
        }
    }
    text.trim_end().to_owned()
}

/// Each row of a table as an entry of a list: its first cell, then the others, each behind the name of its column.
fn rows_as_lists(page: &str) -> String {
    let (mut text, mut header, mut is_code) = (String::new(), Vec::new(), false);
    for line in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let cells: Vec<_> = match line.trim_start().strip_prefix('|').filter(|_| !is_code) {
            Some(row) => row.trim_end_matches([' ', '|']).split('|').map(str::trim).collect(),
            None => Vec::new(),
        };
        if cells.is_empty() {
            header.clear();
            text.extend([line, "\n"]);
        } else if header.is_empty() {
            header = cells;
        } else if !cells.iter().all(|cell| cell.chars().all(|it| ['-', ':'].contains(&it))) {
            let (first, others) = cells.split_first().unwrap_or((&"", &[]));
            let named = header.iter().skip(1).zip(others).map(|(name, cell)| format!("{name}: {cell}"));
            text.extend(["- ", first, "; ", &named.collect::<Vec<_>>().join("; "), "\n"]);
        }
    }
    text
}

fn wrapped(paragraph: &str, folder: &str, width: usize) -> String {
    let text = without_stress(&without_links(paragraph.trim_start_matches(['#', ' ']), folder));
    let indent = match text.split_once(' ') {
        Some((mark, _)) if mark == "-" || is_numbered(&text) => mark.len() + 1,
        _ => 0,
    };
    let indent = " ".repeat(indent);
    let options = Options::new(width).subsequent_indent(&indent).break_words(false);
    // A command with a hyphen stays in one piece.
    fill(&text, options.word_splitter(WordSplitter::NoHyphenation))
}

/// Without the stars of `*text*` and `**text**`. Those in backticks belong to a command or a name.
fn without_stress(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { part.replace('*', "") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// `[text](../shelf/page.md#place)` as `text (docs/shelf/page.md)`, and the page of a code or a section of the runbook as the
/// command that prints it.
fn without_links(text: &str, folder: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, (label, address, after))) = next_link(rest) {
        let page =
            address.strip_prefix("../").map_or_else(|| format!("{folder}{address}"), |page| format!("docs/{page}"));
        let page = match (address.strip_prefix('#'), page.split_once('#')) {
            _ if address.starts_with("https://") => address.to_owned(),
            (Some(place), _) => opening(&format!("{RUNBOOK_SECTION}{place}")),
            (None, Some(_)) if page.starts_with(RUNBOOK_SECTION) => opening(&page),
            (None, Some((page, _))) => page.to_owned(),
            (None, None) => match page.strip_prefix("docs/errors/").map(|page| page.trim_end_matches(".md")) {
                Some(code) => format!("hookonce explain {code}").trim_end().to_owned(),
                None => page,
            },
        };
        plain = format!("{plain}{before}{label} ({page})");
        rest = after;
    }
    plain + rest
}

/// What stands before a link; its text, its address, and what follows.
fn next_link(text: &str) -> Option<(&str, (&str, &str, &str))> {
    let (before, link) = text.split_once('[')?;
    let (label, link) = link.split_once("](")?;
    let (address, after) = link.split_once(')')?;
    Some((before, (label, address, after)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_page_fits_a_terminal_and_names_where_its_links_lead() {
        let page = "# X\n\nOne *line* **of**\ntext, see [routes](../use/routes.md#a-b) and [Y](Y.md).\n\n- A [list](https://a.b).\n  More.\n\n1. First.\n2. Second.\n\n| name | is | read on at |\n|---|:--|---|\n| `x` | *one* | [Y](Y.md) |\n";
        let expected = "X\n\nOne line of text, see routes (docs/use/routes.md) and Y (hookonce explain Y).\n\n- A list (https://a.b). More.\n\n1. First.\n2. Second.\n\n- `x`; is: one; read on at: Y (hookonce explain Y)";
        assert_eq!(shown(page, "docs/errors/", WIDTH_MAX), expected);
    }

    #[test]
    fn an_unknown_code_is_named() {
        assert!(unknown("unroutd").to_string().contains("no alarm \"unroutd\""));
    }

    #[test]
    fn every_page_is_there_in_lines_of_eighty_columns() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<_> = files.map(|name| name.trim_end_matches(".md").to_owned()).collect();
        assert_eq!(files, PAGES.iter().map(|(code, _)| (*code).to_owned()).collect());
        for (code, page) in PAGES {
            let shown = shown(page, "docs/errors/", WIDTH_MAX);
            assert!(shown.starts_with(code), "{code}");
            // A command or an address is never broken.
            let long = shown.lines().find(|line| line.chars().count() > WIDTH_MAX && line.trim().contains(' '));
            assert!(long.is_none(), "{code}: {long:?}");
            assert!(!shown.contains("]("), "{code}");
        }
    }

    #[test]
    fn a_section_of_the_runbook_keeps_its_commands_and_names_the_command_of_another_one() {
        let shown = explained("RecordsDied", WIDTH_MAX).unwrap();
        assert!(shown.starts_with("Records died\n\nAlarm `RecordsDied` (page)."), "{shown}");
        assert!(shown.contains("\n  hookonce stats --state DEAD --stack NAME\n"), "{shown}");
        let joined = shown.replace('\n', " ");
        assert!(joined.contains("Effects died (hookonce explain effects-died)"), "{shown}");
        assert!(!shown.contains("```") && !shown.contains("]("), "{shown}");
        for alarm in alarms() {
            let shown = explained(alarm, WIDTH_MAX).unwrap();
            let broken = shown.lines().find(|line| line.ends_with('-'));
            assert!(!shown.contains("**") && broken.is_none(), "{alarm}: {broken:?}");
        }
    }
}
