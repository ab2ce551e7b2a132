//! Output for people and programs.

pub(crate) mod codes;
pub(crate) mod help;
pub(crate) mod hints;
pub(crate) mod interrupt;
mod table;
mod time;

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use console::Style;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;

pub(crate) use self::table::{Cell, Table, print, table};
pub(crate) use self::time::{
    ago, between, known_moment, length, local_moment, moment, short_moment, since, whole_moment, zoned,
};
use crate::failure::{Exit, Failure};
use crate::output::hints::pasteable;

/// The first error of standard output that means lost data.
static LOST: OnceLock<String> = OnceLock::new();

/// Writes to standard output, and keeps the first error for [`end`]. A person is told at once: a command that goes on
/// for days may never come to its end. A closed pipe, as after `head`, is no error.
fn write_out(bytes: &[u8]) {
    keep_error(std::io::stdout().write_all(bytes));
}

fn keep_error(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() != ErrorKind::BrokenPipe && LOST.set(error.to_string()).is_ok() {
        note(&format!("error: standard output cannot be written: {error}"));
        note("  try: what was printed so far is not complete; give the command another output and run it again");
    }
}

/// How the process ends, after everything has been written: as the command did, unless a part of its output is lost.
pub(crate) fn end(exit: Exit) -> Exit {
    keep_error(std::io::stdout().flush());
    if LOST.get().is_some() { Exit::Unavailable } else { exit }
}

/// Writes text to standard output. Only its line breaks reach the terminal as they are.
pub(crate) fn line(text: &str) {
    write_out(format!("{}\n", lines(text)).as_bytes());
}

/// Writes a line with one word in a style, to standard output. Of the whole line, only the codes of the style reach the
/// terminal as they are; where nobody watches, there are none. What does not fit a terminal stands below the word.
pub(crate) fn styled_line(before: &str, (word, style): (&str, &Style), after: &str) {
    let (before, word, after) = (shown(before), shown(word), shown(after));
    let head = format!("{before}{word}");
    let whole = format!("{head}{after}");
    let fitted = if is_terminal() { filled(&whole, terminal_columns(), before.len()) } else { whole };
    let after = fitted.strip_prefix(&head).unwrap_or(&after);
    write_out(format!("{before}{}{after}\n", style.apply_to(word)).as_bytes());
}

/// Writes a line whose words were made safe before they got their styles.
fn write_styled(row: &str) {
    write_out(format!("{row}\n").as_bytes());
}

/// Whether a person reads standard output as it comes.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// How many of something there are, in words.
pub(crate) fn number_of(count: &impl ToString, one: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {one}{end}")
}

/// How many columns the terminal has.
fn terminal_columns() -> usize {
    usize::from(console::Term::stdout().size().1)
}

/// Writes a message to standard output that may name commands.
pub(crate) fn message(text: &str) {
    line(&pasteable(text.to_owned()));
}

/// Writes what the parser of the command line prints of itself, such as a help text, with its own styles.
pub(crate) fn parser(message: &clap::Error) {
    keep_error(message.print());
}

/// Writes a line of another program to standard error, and does not wrap it.
pub(crate) fn note_as_is(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", lines(text));
}

/// How the next step of an error begins.
const TRY: &str = "  try: ";

/// Writes text to standard error, for a person. Only its line breaks reach the terminal as they are. A line that begins
/// with a space is a command or a part of a list, and stays one line.
pub(crate) fn note(text: &str) {
    let text = lines(&pasteable(text.to_owned()));
    let line = |line: &str| match watched_columns() {
        Some(columns) if !line.starts_with(' ') || line.starts_with(TRY) => filled_sentence(line, columns),
        Some(_) | None => line.to_owned(),
    };
    let _ = writeln!(std::io::stderr(), "{}", text.split('\n').map(line).collect::<Vec<_>>().join("\n"));
}

/// How many columns the terminal has on which a person watches standard error.
fn watched_columns() -> Option<usize> {
    is_watched().then(|| usize::from(console::Term::stderr().size().1))
}

/// The log on standard error. Its lines name records by keys that senders chose.
#[derive(Debug)]
pub(crate) struct Log;

/// Whether a person has ended the command.
static LOG_ENDED: AtomicBool = AtomicBool::new(false);

/// Ends the log. What a command leaves behind in the middle may fail, and nobody has to read of that.
pub(crate) fn end_log() {
    LOG_ENDED.store(true, Ordering::Relaxed);
}

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if LOG_ENDED.load(Ordering::Relaxed) {
            return Ok(text.len());
        }
        let text_of_lines = lines(&String::from_utf8_lossy(text));
        let line = |line: &str| watched_columns().map_or_else(|| line.to_owned(), |columns| filled(line, columns, 2));
        let fitted: Vec<_> = text_of_lines.split('\n').map(line).collect();
        std::io::stderr().write_all(fitted.join("\n").as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Writes data as indented JSON.
pub(crate) fn json(data: &impl Serialize) {
    // Plain data always serialises.
    json_text(&serde_json::to_string_pretty(data).unwrap_or_default());
}

/// Writes data as JSON in one line.
pub(crate) fn json_line(data: &impl Serialize) {
    json_text(&json_safe(data));
}

/// Writes JSON.
fn json_text(text: &str) {
    write_out(format!("{}\n", without_commands(text)).as_bytes());
}

/// Data as JSON in one line, which a terminal or a page only shows.
pub(crate) fn json_safe(data: &(impl Serialize + ?Sized)) -> String {
    // Plain data always serialises.
    without_commands(&serde_json::to_string(data).unwrap_or_default())
}

/// JSON is ASCII outside of strings, so what a terminal could take for a command is escaped as JSON does.
fn without_commands(json: &str) -> String {
    let escape = |c: char| {
        let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>();
        units.concat()
    };
    escaped(json, |c| c != '\n' && is_unsafe(c), escape)
}

/// True for what a terminal obeys instead of showing it: control characters of both sets, and those that change the
/// direction of text or hide in it. A provider, or whoever sent it an event, may have written them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    let show = |c: char| if is_escaped(c) { escape(c) } else { c.to_string() };
    text.chars().map(show).collect()
}

/// A value that someone else wrote, as one line that a terminal only shows.
pub(crate) fn shown(value: &str) -> String {
    escaped(value, is_unsafe, |c| c.escape_unicode().to_string())
}

/// A word that somebody else wrote, for a command: in quotes where a shell needs them. None if a shell or a terminal would
/// make another word of it, or hookonce an option.
pub(crate) fn word(text: &str) -> Option<Cow<'_, str>> {
    let can_be_typed = !text.starts_with('-') && shown(text) == text;
    if can_be_typed { shlex::try_quote(text).ok() } else { None }
}

/// The same for a text that has to be named in any case: one that cannot be typed stays as it is.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    word(text).unwrap_or(Cow::Borrowed(text))
}

/// The same as [`shown`] for a text of this program, which may have line breaks.
fn lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// A sentence in lines that fit the terminal, the later ones indented. Where nobody watches, it stays one line.
pub(crate) fn wrapped(sentence: &str) -> String {
    if is_terminal() { filled_sentence(sentence, terminal_columns()) } else { sentence.to_owned() }
}

/// A sentence in lines that the eye can follow.
fn filled_sentence(sentence: &str, columns: usize) -> String {
    filled(sentence, columns.clamp(40, 100), 2)
}

/// A line in as many as so many columns need, the later ones indented. A command in backticks stays in one piece: it is
/// there to be pasted.
fn filled(line: &str, columns: usize, indent: usize) -> String {
    const GLUE: char = '\u{a0}';
    let mut is_quoted = false;
    let glue = |letter| {
        is_quoted ^= letter == '`';
        if is_quoted && letter == ' ' { GLUE } else { letter }
    };
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(columns).subsequent_indent(&indent).break_words(false);
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(&line.chars().map(glue).collect::<String>(), options).replace(GLUE, " ")
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Asks a person for a yes. Where there is none, the answer is no.
///
/// # Errors
/// [`Failure::Usage`] with this hint when it is no.
pub(crate) fn confirm(question: &str, hint: &str) -> Result<(), Failure> {
    let mut answer = String::new();
    if is_watched() && std::io::stdin().is_terminal() {
        note(&format!("{question} [y/N]"));
        // What cannot be read is no yes.
        let _ = std::io::stdin().read_line(&mut answer);
    }
    let agreed = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if agreed { Ok(()) } else { Err(Failure::usage("not confirmed", hint)) }
}

/// A progress bar with rate, elapsed and remaining time, on standard error. Nothing if nobody watches.
pub(crate) fn bar(label: &'static str, length: u64) -> ProgressBar {
    let style = "{msg:>8} {bar:30} {pos}/{len}  {rate}  {elapsed} elapsed{left}";
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length).with_message(label);
    // A bar whose length is not known yet shows nothing.
    if length > 0 {
        goes_on(&bar);
    }
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style.with_key("rate", rate).with_key("left", left)),
        Err(_) => bar,
    }
}

/// Lets the times of a bar go on while nothing is done.
pub(crate) fn goes_on(bar: &ProgressBar) {
    bar.enable_steady_tick(Duration::from_millis(100));
}

/// How many a second, with one decimal.
fn rate(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    // A text takes what is written.
    let _ = write!(text, "{:.1}/s", state.per_sec());
}

/// How long it will take, once anything was done.
fn left(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        let _ = write!(text, "  {:#} left", HumanDuration(state.eta()));
    }
}

/// A line that shows that the command works, and moves by itself until it is dropped. Nothing if nobody watches.
pub(crate) struct Working(ProgressBar);

/// Shows such a line.
pub(crate) fn working(message: &str) -> Working {
    let spinner = spinner(message);
    spinner.enable_steady_tick(Duration::from_millis(100));
    Working(spinner)
}

impl Working {
    /// Changes its text.
    pub(crate) fn shows(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line that shows that the command waits. Nothing if nobody watches.
pub(crate) fn spinner(message: &str) -> ProgressBar {
    let bar = if is_watched() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    let bar = bar.with_message(shown(message));
    if let Ok(style) = style { bar.with_style(style) } else { bar }
}

/// Writes a stored body: byte for byte into a file or a pipe, and to a terminal as text that it only shows.
pub(crate) fn bytes(bytes: &[u8]) {
    if is_terminal() {
        line(&indented(&String::from_utf8_lossy(bytes)));
    } else {
        write_out(bytes);
    }
}

/// JSON with a line for each value, and each value as it was written. Any other text as it is.
pub(crate) fn indented(text: &str) -> String {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return text.to_owned();
    }
    let (mut lines, mut depth, mut in_text, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_text {
            lines.push(letter);
            in_text = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            ' ' | '\n' | '\r' | '\t' => {}
            '{' | '[' => {
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                lines.push(letter);
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    lines.push(end);
                } else {
                    depth += 1;
                    start_line(&mut lines, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                start_line(&mut lines, depth);
                lines.push(letter);
            }
            ',' => {
                lines.push(letter);
                start_line(&mut lines, depth);
            }
            ':' => lines.push_str(": "),
            other => {
                in_text = other == '"';
                lines.push(other);
            }
        }
    }
    lines
}

fn start_line(lines: &mut String, depth: usize) {
    lines.push('\n');
    lines.push_str(&"  ".repeat(depth));
}

/// Writes a failure and what to do next.
pub(crate) fn failure(failure: &Failure) {
    note(&format!("error: {failure}"));
    if !failure.hint().is_empty() {
        note(&format!("{TRY}{}", failure.hint()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_typed_is_in_no_command() {
        assert_eq!(shlex::split(&word("it's $HOME").unwrap()).unwrap(), ["it's $HOME"]);
        for other in ["a\0;touch b", "--html=c", "a\nb", "a\u{200b}b", "\u{e0001}"] {
            assert_eq!(word(other), None, "{other:?}");
            assert_eq!(quoted(other), other);
        }
        assert_eq!(quoted("my folder"), "'my folder'");
    }

    #[test]
    fn json_gets_lines_and_keeps_what_it_holds() {
        let body = r#"{"b":[1.50,"a, {\"b\": c\\"], "a":{ },"n":12345678901234567890123}"#;
        let shown = indented(body);
        let expected = [
            "{",
            "  \"b\": [",
            "    1.50,",
            r#"    "a, {\"b\": c\\""#,
            "  ],",
            "  \"a\": {},",
            "  \"n\": 12345678901234567890123",
            "}",
        ];
        let expected = expected.join("\n");
        assert_eq!(shown, expected);
        assert_eq!(indented("a=1&b={2}"), "a=1&b={2}");
    }

    #[test]
    fn a_sentence_is_divided_between_words_and_never_within_a_command() {
        let sentence = "  try: look at it with `hookonce show stripe evt_1 --stack inbox`, or at all of them";
        let expected = "  try: look at it with\n  `hookonce show stripe evt_1 --stack inbox`,\n  or at all of them";
        assert_eq!(filled_sentence(sentence, 44), expected);
    }

    #[test]
    fn a_terminal_gets_no_commands() {
        for unsafe_text in ["\u{1b}[31m", "\u{9b}31m", "\u{7}", "\r", "\u{7f}", "\u{202e}", "\u{2066}", "\u{e0041}"] {
            let shown = lines(&format!("a{unsafe_text}\nb"));
            assert!(shown.starts_with("a\\u{") && shown.ends_with("\nb"), "{shown}");
            assert!(!shown.replace('\n', "").contains(is_unsafe));
        }
        assert_eq!(shown("Zürich 漢字 👍"), "Zürich 漢字 👍");
        assert_eq!(shown("a\nb"), "a\\u{a}b");
    }
}
