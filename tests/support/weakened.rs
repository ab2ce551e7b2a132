//! Writes with one clause of their condition taken away: what a mutation of the protocol would do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hookonce_protocol::call::{Committed, DueEntry, Unavailable, Written};
use hookonce_protocol::key::{DOMAIN_KEY_PREFIX, RecordKey};
use hookonce_protocol::plan::Snapshot;
use hookonce_protocol::record::{Found, Status, attribute};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::write::{Action, Change, Clause, Table, Write};
use hookonce_runtime::port::Store;

/// A kind of write that the protocol stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The put that creates a record.
    Claim,
    /// The update that settles a record, in the commit or alone.
    Settle,
    /// The put of a domain key.
    DomainKey,
    /// The relay's update of a record that fell due.
    Rearm,
}

impl Kind {
    /// The kind of a write, if it is one of these.
    pub(crate) fn of(write: &Write) -> Option<Self> {
        match (&write.table, &write.action) {
            (Table::Inbox, Action::Put(_)) => Some(Self::Claim),
            (Table::Domain, Action::Put(_)) if write.key.starts_with(DOMAIN_KEY_PREFIX) => Some(Self::DomainKey),
            (Table::Inbox, Action::Update(changes)) => {
                let sets = |name: &str, value: Option<&str>| {
                    changes.iter().any(|change| {
                        matches!(change, Change::Set(set, to)
                            if set == name && value.is_none_or(|value| to.as_text() == Some(value)))
                    })
                };
                if sets(attribute::STATUS, Some(Status::Processed.as_str())) {
                    Some(Self::Settle)
                } else {
                    (sets(attribute::RESENDS, None) && !sets(attribute::STATUS, None)).then_some(Self::Rearm)
                }
            }
            (Table::Domain, _) | (Table::Inbox, Action::Delete) => None,
        }
    }
}

/// The attribute that a clause is about.
pub(crate) fn attribute_of(clause: &Clause) -> &str {
    match clause {
        Clause::Absent(name) | Clause::Present(name) | Clause::Equals(name, _) | Clause::OneOf(name, _) => name,
    }
}

/// Which clause is taken away. Clones share the count of writes that lost it.
#[derive(Debug, Clone)]
pub(crate) struct Weakening {
    kind: Kind,
    attribute: &'static str,
    weakened: Arc<AtomicUsize>,
}

impl Weakening {
    /// Takes the clause on `attribute` away from writes of this kind.
    pub(crate) fn without(kind: Kind, attribute: &'static str) -> Self {
        Self { kind, attribute, weakened: Arc::default() }
    }

    /// How many writes lost the clause.
    pub(crate) fn weakened(&self) -> usize {
        self.weakened.load(Ordering::SeqCst)
    }

    fn apply(&self, write: &Write) -> Write {
        let mut write = write.clone();
        if Kind::of(&write) == Some(self.kind) {
            let before = write.condition.0.len();
            write.condition.0.retain(|clause| attribute_of(clause) != self.attribute);
            self.weakened.fetch_add(before - write.condition.0.len(), Ordering::SeqCst);
        }
        write
    }
}

/// A store that carries out weakened writes; the real one where there is no weakening.
#[derive(Debug)]
pub(crate) struct Weakened<S> {
    inner: S,
    weakening: Option<Weakening>,
}

impl<S> Weakened<S> {
    pub(crate) fn new(inner: S, weakening: Option<Weakening>) -> Self {
        Self { inner, weakening }
    }

    fn weaken(&self, write: &Write) -> Write {
        self.weakening.as_ref().map_or_else(|| write.clone(), |weakening| weakening.apply(write))
    }
}

impl<S: Store> Store for Weakened<S> {
    async fn write(&self, write: &Write) -> Written {
        self.inner.write(&self.weaken(write)).await
    }

    async fn commit(&self, writes: &[Write]) -> Committed {
        let weakened: Vec<_> = writes.iter().map(|write| self.weaken(write)).collect();
        self.inner.commit(&weakened).await
    }

    async fn read(&self, key: &RecordKey) -> Result<Found, Unavailable> {
        self.inner.read(key).await
    }

    async fn read_each(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.inner.read_each(keys).await
    }

    async fn read_heads(&self, keys: &[RecordKey]) -> Vec<Result<Found, Unavailable>> {
        self.inner.read_heads(keys).await
    }

    async fn read_domain(&self, keys: &[String]) -> Result<Snapshot, Unavailable> {
        self.inner.read_domain(keys).await
    }

    async fn query_due(&self, shard: u16, until: EpochMs, limit: usize) -> Result<Vec<DueEntry>, Unavailable> {
        self.inner.query_due(shard, until, limit).await
    }

    async fn count_received(&self, shard: u16, from: EpochMs, until: EpochMs) -> Result<u64, Unavailable> {
        self.inner.count_received(shard, from, until).await
    }
}
