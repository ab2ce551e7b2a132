//! Which records a command is about: by key, or by the same filters everywhere.

mod batch;
pub(crate) mod dry_run;
mod exact;
mod fact;
mod filter;
mod find;
mod latest;
pub(crate) mod looks;
mod merged;
pub(crate) mod operate;
mod paged;
pub(crate) mod progress;
mod query;
#[cfg(test)]
pub(crate) mod scale;
mod stream;
mod summary;
pub(crate) mod timeline;

pub(crate) use self::batch::created_by;
pub(crate) use self::exact::{candidates, find, readable};
pub(crate) use self::fact::{KEYS_AT_ONCE, applied, applied_by, latest_applied};
pub(crate) use self::filter::{Filter, State, note_default_since};
pub(crate) use self::find::{
    Beginnings, Named, candidates_of_words, endpoints, find_words, shown_key, states, whole_keys,
};
pub(crate) use self::latest::{Latest, latest};
pub(crate) use self::paged::{PageCursor, PageOfRecords, Reach, page_of};
pub(crate) use self::stream::{Page, READS_AT_ONCE, Read, Selection, agree_to_scan, select};
pub(crate) use self::summary::{error_of, format_tries, summary, tries, type_of};
