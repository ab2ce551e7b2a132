//! How states look: a glyph, a word and a tone. A tone is never alone, so nobody has to see colours.

use console::Style;
use hookonce_protocol::record::{Outcome, Record, Status};

use crate::output::{self, Cell};

/// What a state means to whoever looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It is as it should be.
    Good,
    /// It is not over.
    Waits,
    /// It needs a person.
    Bad,
    /// It is over, and nothing was applied.
    Settled,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => Style::new().green(),
            Self::Waits => Style::new().yellow(),
            Self::Bad => Style::new().red(),
            Self::Settled => Style::new().dim(),
        }
    }
}

/// How a state looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// One character, different for each tone and kind of end.
    pub(crate) glyph: &'static str,
    /// The state in one or two words.
    pub(crate) word: &'static str,
    /// What it means.
    pub(crate) tone: Tone,
}

impl Look {
    const fn new(glyph: &'static str, word: &'static str, tone: Tone) -> Self {
        Self { glyph, word, tone }
    }

    /// The look of a record's state.
    pub(crate) fn of(record: &Record) -> Self {
        match (record.status, record.outcome) {
            (Status::Pending, _) if record.last_error.is_some() => Self::new("…", "tries again", Tone::Waits),
            (Status::Pending, _) => Self::new("…", "pending", Tone::Waits),
            (Status::Dead, _) if record.outcome_unknown() => Self::new("?", "unknown outcome", Tone::Bad),
            (Status::Dead, _) => Self::new("✕", "dead", Tone::Bad),
            (Status::Discarded, _) => Self::new("–", "discarded", Tone::Settled),
            (Status::Processed, Some(Outcome::Duplicate)) => Self::new("=", "duplicate", Tone::Settled),
            (Status::Processed, Some(Outcome::Ignored)) => Self::new("–", "ignored", Tone::Settled),
            (Status::Processed, Some(Outcome::FannedOut)) => Self::new("✓", "split", Tone::Good),
            (Status::Processed, Some(Outcome::Delivered)) => Self::new("✓", "delivered", Tone::Good),
            (Status::Processed, Some(Outcome::Applied) | None) => Self::new("✓", "applied", Tone::Good),
        }
    }

    /// The state of a record as text and style: glyph and word for a person on a terminal, elsewhere the state's own word.
    pub(crate) fn text_of(record: &Record) -> (String, Style) {
        if !output::is_terminal() {
            return (record.state_word().to_owned(), Style::new());
        }
        let look = Self::of(record);
        (format!("{} {}", look.glyph, look.word), look.tone.style())
    }

    /// The same as a cell of a table.
    pub(crate) fn cell_of(record: &Record) -> Cell {
        let (text, style) = Self::text_of(record);
        Cell::styled(text, style)
    }

    /// A cell of a table: glyph and word for a person on a terminal, elsewhere a word for programs.
    pub(crate) fn cell(self, word: &str) -> Cell {
        if !output::is_terminal() {
            return word.into();
        }
        Cell::styled(format!("{} {}", self.glyph, self.word), self.tone.style())
    }

    /// What is as it should be.
    pub(crate) const SOUND: Self = Self::new("✓", "ok", Tone::Good);

    /// What is not there, and need not be.
    pub(crate) const ABSENT: Self = Self::new("–", "absent", Tone::Settled);

    /// What is not.
    pub(crate) const PROBLEM: Self = Self::new("✕", "problem", Tone::Bad);

    /// The look of a state, by the word that is printed for it.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "PENDING" => Self::new("…", "pending", Tone::Waits),
            "DEAD" => Self::new("✕", "dead", Tone::Bad),
            "DISCARDED" => Self::new("–", "discarded", Tone::Settled),
            "DUPLICATE" => Self::DUPLICATE,
            "IGNORED" => Self::new("–", "ignored", Tone::Settled),
            "FANNED_OUT" => Self::new("✓", "split", Tone::Good),
            "DELIVERED" => Self::new("✓", "delivered", Tone::Good),
            "APPLIED" => Self::new("✓", "applied", Tone::Good),
            _ => return None,
        })
    }

    /// A delivery that came again.
    pub(crate) const DUPLICATE: Self = Self::new("=", "duplicate", Tone::Settled);

    /// A request that was answered without a record, such as a handshake.
    pub(crate) const ANSWERED: Self = Self::new("–", "answered", Tone::Settled);

    /// A request that was refused.
    pub(crate) const REFUSED: Self = Self::new("✕", "refused", Tone::Bad);
}
