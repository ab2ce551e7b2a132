//! One page of one shard of the index.

use crate::call::{Call, DuePage, DueQuery, Machine, Reply, Step, Unavailable};
use crate::timing::Moment;

/// The most index entries in one page of PENDING records.
pub const SHARD_PAGE: usize = 100;

/// The most DEAD records that are counted in one shard.
pub const DEAD_PAGE: usize = 1_000;

/// The machine that reads one page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scan {
    query: DueQuery,
}

/// A page that was asked for, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scanned {
    /// What was asked for.
    pub query: DueQuery,
    /// The page.
    pub page: Result<DuePage, Unavailable>,
}

impl Scanned {
    /// The query for the page that follows, if there is one.
    pub fn next(&self) -> Option<DueQuery> {
        let after = self.page.as_ref().ok()?.next.clone()?;
        Some(DueQuery { after: Some(after), ..self.query.clone() })
    }
}

impl Scan {
    /// Reads a page.
    pub fn start(query: DueQuery) -> Step<Self, Scanned> {
        Step::call(Self { query: query.clone() }, Call::QueryDue(query))
    }
}

impl Machine for Scan {
    type Output = Scanned;

    fn step(self, reply: Reply, _: Moment) -> Step<Self, Scanned> {
        Step::done(Scanned { query: self.query, page: reply.due() })
    }
}
