//! Tables: plain columns for `awk` and `cut`, and what fits the width of a terminal for a person.

use console::Style;
use textwrap::core::{Word, display_width};
use textwrap::{Options, WordSeparator, WordSplitter};

use super::{is_terminal, line, shown, terminal_columns, write_styled};

/// What a cell shows where there is nothing to show.
const NOTHING: &str = "-";

/// How narrow a column may become before the lines get longer than the terminal.
const COLUMN_MIN: usize = 8;

/// How long a state and a word of a code are at most. What is longer, such as a key, may wrap or be cut.
const SHORT_MAX: usize = 13;

/// How much is shown of the last column where columns may be left out: a key is known by its beginning.
const KEY_MIN: usize = 16;

/// What stands at the end of a text that was cut.
const CUT: char = '…';

/// The text of a cell, and its style. Where nobody watches, a style shows nothing.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: shown(text.as_ref()), style }
    }

    fn is_empty(&self) -> bool {
        ["", NOTHING].contains(&self.text.as_str())
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// A table without borders. Each row is one line, whatever its cells hold, unless a terminal is too narrow for it.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
    /// How many columns stand on the left. All behind them are numbers.
    left: usize,
    /// The columns that a narrow terminal does without, the first one first.
    optional: Vec<usize>,
}

/// An empty table.
pub(crate) fn table(header: &[&str]) -> Table {
    let header = header.iter().map(|name| name.to_uppercase().into()).collect();
    Table { header, rows: Vec::new(), left: usize::MAX, optional: Vec::new() }
}

/// Writes a table.
pub(crate) fn print(table: &Table) {
    if !is_terminal() {
        return table.plain().iter().for_each(|row| line(row));
    }
    for row in table.fitted(terminal_columns()) {
        write_styled(&row);
    }
}

impl Table {
    /// Adds a row.
    pub(crate) fn add_row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Aligns columns on the right, as numbers are read: all from this one on.
    pub(crate) fn align_right_from(&mut self, first: usize) {
        self.left = first;
    }

    /// Leaves out these columns on a terminal, the first one first, before a text of another one is cut.
    pub(crate) fn may_leave_out(&mut self, names: &[&str]) {
        let place = |name: &&str| self.header.iter().position(|cell| cell.text.eq_ignore_ascii_case(name));
        self.optional = names.iter().filter_map(place).collect();
    }

    /// A text with spaces on the side on which its column has them.
    fn aligned(&self, column: usize, text: &str, shown: &str, width: usize) -> String {
        let space = " ".repeat(width.saturating_sub(display_width(text)));
        if column < self.left { format!(" {shown}{space} ") } else { format!(" {space}{shown} ") }
    }

    /// How many rows it has.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The header, if there is one, and the rows.
    fn all_rows(&self) -> impl Iterator<Item = &Vec<Cell>> {
        Some(&self.header).filter(|header| !header.is_empty()).into_iter().chain(&self.rows)
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<usize> {
        let columns = self.all_rows().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            let cells = self.all_rows().filter_map(|row| row.get(at));
            cells.map(|cell| display_width(&cell.text)).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// How wide a column is if its name has a line for each word.
    fn narrow_width(&self, at: usize) -> usize {
        let words = self.header.get(at).into_iter().flat_map(|name| name.text.split(' '));
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.as_str());
        words.chain(cells).map(display_width).max().unwrap_or(0)
    }

    /// The widths of what stays in one piece in a column whose longer texts wrap at these characters.
    fn piece_widths<'a>(&'a self, at: usize, wraps_at: &'a [char]) -> impl Iterator<Item = usize> + 'a {
        let cells = self.rows.iter().filter_map(move |row| row.get(at)).map(|cell| glued(&cell.text));
        cells.flat_map(move |text| match display_width(&text) {
            width @ 0..=SHORT_MAX => vec![width],
            _ => text.split_inclusive(wraps_at).map(|piece| display_width(piece.trim_end_matches(' '))).collect(),
        })
    }

    /// How wide a column is in which long texts wrap at their spaces.
    fn worded_width(&self, at: usize) -> usize {
        self.piece_widths(at, &[' ']).max().unwrap_or(0).max(COLUMN_MIN)
    }

    /// How narrow these columns may be before one of them is left out: all words stay whole, but for those of the last column.
    fn least_widths(&self, kept: &[usize]) -> Vec<usize> {
        let least = |at: &usize| if kept.last() == Some(at) { KEY_MIN } else { self.worded_width(*at) };
        kept.iter().map(least).collect()
    }

    /// How wide a column is in which no short text wraps, and no code is cut: it wraps between its words.
    fn readable_width(&self, at: usize) -> usize {
        let pieces = self.piece_widths(at, &[' ', '_']).filter(|width| *width <= SHORT_MAX);
        pieces.max().unwrap_or(0).max(COLUMN_MIN)
    }

    /// Every column, as wide as it is.
    fn plain(&self) -> Vec<String> {
        let widths = self.widths();
        let row = |row: &Vec<Cell>| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, width))| self.aligned(at, &cell.text, &cell.text, *width));
            cells.collect::<String>().trim_end().to_owned()
        };
        self.all_rows().map(row).collect()
    }

    /// The columns that show something, in lines that fit so many columns of a terminal.
    fn fitted(&self, columns: usize) -> Vec<String> {
        let has_header = !self.header.is_empty();
        let shows = |at: &usize| {
            !has_header
                || self.rows.is_empty()
                || self.rows.iter().any(|row| row.get(*at).is_some_and(|it| !it.is_empty()))
        };
        let natural = self.widths();
        let mut kept: Vec<_> = (0..natural.len()).filter(shows).collect();
        for column in &self.optional {
            let least = self.least_widths(&kept).into_iter().zip(&kept);
            let least = least.map(|(least, at)| natural.get(*at).map_or(0, |width| least.min(*width)));
            if fits(&least.collect::<Vec<_>>(), columns) {
                break;
            }
            kept.retain(|at| at != column);
        }
        let mut widths: Vec<_> = kept.iter().filter_map(|at| natural.get(*at).copied()).collect();
        if has_header {
            if !fits(&widths, columns) {
                widths = kept.iter().map(|at| self.narrow_width(*at)).collect();
            }
            // Sentences wrap before a name does that somebody copies.
            let worded: Vec<_> = kept.iter().map(|at| self.worded_width(*at)).collect();
            narrow(&mut widths, |at| worded.get(at).copied().unwrap_or(COLUMN_MIN), columns);
            if !self.optional.is_empty() {
                let least = self.least_widths(&kept);
                narrow(&mut widths, |at| least.get(at).copied().unwrap_or(COLUMN_MIN), columns);
            }
            let readable: Vec<_> = kept.iter().map(|at| self.readable_width(*at)).collect();
            narrow(&mut widths, |at| readable.get(at).copied().unwrap_or(COLUMN_MIN), columns);
            narrow(&mut widths, |_| COLUMN_MIN, columns);
        } else if let Some((last, others)) = widths.split_last_mut() {
            // A list of facts: names in front, and a last column that wraps.
            let before: usize = others.iter().map(|width| width + 2).sum();
            *last = (*last).min(columns.saturating_sub(before + 1).max(COLUMN_MIN * 2));
        }
        let lines = |row: &Vec<Cell>| {
            let cells: Vec<_> = kept
                .iter()
                .zip(&widths)
                .map(|(at, width)| row.get(*at).map_or_else(Vec::new, |cell| cell.lines(*width, has_header)))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            let line = |index: usize| {
                let parts = cells.iter().zip(&widths).zip(&kept).map(|((lines, width), at)| {
                    let (text, style) = lines.get(index).cloned().unwrap_or_default();
                    let shown = if text.is_empty() { String::new() } else { style.apply_to(&text).to_string() };
                    self.aligned(*at, &text, &shown, *width)
                });
                parts.collect::<String>().trim_end().to_owned()
            };
            (0..height).map(line).collect::<Vec<_>>()
        };
        self.all_rows().flat_map(lines).collect()
    }
}

impl Cell {
    /// The text in lines of this width. A word that is longer is cut in a table with a header, and stays whole in a list
    /// of facts.
    fn lines(&self, width: usize, cuts: bool) -> Vec<(String, Style)> {
        let options = Options::new(width.max(1)).break_words(false).word_splitter(WordSplitter::NoHyphenation);
        let has_room = |word: &str| display_width(word) <= width;
        let is_code = |word: &str| has_room(word) || word.split_inclusive('_').all(has_room);
        let separator =
            if cuts && self.text.split(' ').all(is_code) { SPACES_AND_CODES } else { WordSeparator::AsciiSpace };
        let text = glued(&self.text);
        let lines = textwrap::wrap(&text, options.word_separator(separator));
        let styled = |text: String| (text.replace(GLUE, " "), self.style.clone());
        lines.into_iter().map(|line| styled(if cuts { cut(&line, width) } else { line.into_owned() })).collect()
    }
}

/// Lets a line end in a code, such as ORDER_UNREADABLE, rather than cut what it is known by.
const SPACES_AND_CODES: WordSeparator =
    WordSeparator::Custom(|line| Box::new(line.split_inclusive([' ', '_']).map(Word::from)));

/// Stands for a space at which no line ends, until the lines are there.
const GLUE: char = '\u{a0}';

/// A text whose sign, such as that of a state, stays on the line of the word behind it.
fn glued(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(sign), Some(' ')) if !sign.is_alphanumeric() => format!("{sign}{GLUE}{}", letters.as_str()),
        _ => text.to_owned(),
    }
}

/// Whether columns fit, with the spaces between them.
fn fits(widths: &[usize], columns: usize) -> bool {
    widths.iter().map(|width| width + 2).sum::<usize>() <= columns + 1
}

/// Takes from the widest columns until all fit, or until each is as narrow as it may become.
fn narrow(widths: &mut [usize], least: impl Fn(usize) -> usize, columns: usize) {
    for width in widths.iter_mut() {
        *width = (*width).min(columns);
    }
    while !fits(widths, columns) {
        let wider = widths.iter_mut().enumerate().filter(|(at, width)| **width > least(*at));
        let Some((_, widest)) = wider.max_by_key(|(_, width)| **width) else { return };
        *widest -= 1;
    }
}

/// A text of at most this width.
fn cut(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        short.push(letter);
        if display_width(&short) + 1 > width {
            short.pop();
            break;
        }
    }
    short.push(CUT);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Table {
        let mut table = table(&["received", "state", "dups", "error", "key"]);
        table.add_row(["01:46:17", "✓ applied", "-", "-", "evt_1"]);
        table.add_row(["01:46:18", "✕ dead", "-", "", &"k".repeat(90)]);
        table
    }

    #[test]
    fn elsewhere_every_column_is_there_and_nothing_is_cut() {
        let plain = records().plain();
        assert_eq!(plain[0], " RECEIVED  STATE      DUPS  ERROR  KEY");
        assert_eq!(plain[1], " 01:46:17  ✓ applied  -     -      evt_1");
        assert!(plain[2].ends_with(&"k".repeat(90)));
    }

    #[test]
    fn a_terminal_shows_what_fits_and_no_empty_column() {
        let fitted = records().fitted(80);
        assert_eq!(fitted[0], " RECEIVED  STATE      KEY");
        assert!(fitted.iter().all(|row| display_width(row) <= 80), "{fitted:?}");
        assert!(fitted[2].ends_with("kkk…"), "{fitted:?}");
        assert_eq!(records().fitted(200)[2].len(), " 01:46:18  ✕ dead     ".len() + 90, "{fitted:?}");
        assert_eq!(table(&["a", "b"]).fitted(80), [" A  B"]);
    }

    #[test]
    fn a_name_wraps_before_a_cell_is_cut_and_a_code_wraps_between_its_words() {
        let mut refusals = table(&["endpoint", "last accepted", "accepted 24 h", "latest refusal"]);
        refusals.add_row(["stripe", "22:14:16", "0", "signature_mismatch"]);
        assert_eq!(
            refusals.fitted(52),
            [
                " ENDPOINT  LAST      ACCEPTED  LATEST REFUSAL",
                "           ACCEPTED  24 H",
                " stripe    22:14:16  0         signature_mismatch"
            ]
        );
        let mut errors = table(&["error", "key"]);
        errors.add_row(["ORDER_UNREADABLE", "07ab09e3-6ac3-4ccf"]);
        assert_eq!(errors.fitted(23), [" ERROR       KEY", " ORDER_      07ab09e3-…", " UNREADABLE"]);
        // A key rather than a code.
        assert_eq!(errors.fitted(21), [" ERROR       KEY", " ORDER_      07ab09e…", " UNREADABLE"]);
    }

    #[test]
    fn a_sign_stays_with_its_word() {
        let mut effects = table(&["state", "key"]);
        effects.add_row(["? unknown outcome", &"k".repeat(40)]);
        assert_eq!(effects.fitted(24), [" STATE      KEY", " ? unknown  kkkkkkkkkkk…", " outcome"]);
    }

    #[test]
    fn a_column_that_may_be_left_out_is_before_a_type_is_cut() {
        let mut records = table(&["type", "tries", "dups", "key"]);
        records.add_row(["customer.subscription.deleted", "1", "2", &"k".repeat(40)]);
        records.may_leave_out(&["dups", "tries"]);
        let header = |columns| records.fitted(columns)[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(header(61), ["TYPE", "TRIES", "DUPS", "KEY"]);
        assert_eq!(header(60), ["TYPE", "TRIES", "KEY"]);
        assert_eq!(header(50), ["TYPE", "KEY"]);
        assert!(records.fitted(50)[1].starts_with(" customer.subscription.deleted  kkk"), "{records:?}");
        assert!(records.plain()[0].contains("DUPS"));
    }

    #[test]
    fn a_sentence_wraps_before_a_name_that_somebody_copies() {
        let mut samples = table(&["provider", "sample"]);
        samples.add_row(["WhatsApp Cloud API of Meta", "meta_whatsapp.status.delivered"]);
        let rows = [" PROVIDER            SAMPLE", " WhatsApp Cloud API  meta_whatsapp.status.delivered", " of Meta"];
        assert_eq!(samples.fitted(51), rows);
    }

    #[test]
    fn words_wrap_and_a_list_of_facts_keeps_its_words_whole() {
        let why = "its handler is in another language and nobody calls it";
        let mut reasons = table(&["drill", "why", "key"]);
        reasons.add_row(["differs", why, "evt_1"]);
        let fitted = reasons.fitted(40);
        assert!(fitted.len() > 2 && fitted.iter().all(|row| display_width(row) <= 40), "{fitted:?}");
        let mut facts = table(&[]);
        facts.add_row(["plan today", &format!("update {}", "x".repeat(60))]);
        facts.add_row(["why", why]);
        let fitted = facts.fitted(40);
        assert_eq!(fitted[0], " plan today  update");
        assert!(fitted[1].ends_with(&"x".repeat(60)), "{fitted:?}");
        assert!(fitted[2..].iter().all(|row| display_width(row) <= 40), "{fitted:?}");
    }
}
