//! Interning: equal values have one index.

use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use hookonce_protocol::call::Call;
use hookonce_protocol::item::Item;
use hookonce_protocol::message::Message;

use super::callee;
use super::process::Proc;
use super::view::{Domain, DomainView, ItemView};
use super::world::{MessageView, ProcView};

/// The index of a value in the pool of its kind, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id<Kind>(u32, PhantomData<Kind>);

impl<Kind> Id<Kind> {
    /// No value.
    pub const NONE: Self = Self(0, PhantomData);

    /// The first value of its pool.
    pub(super) const FIRST: Self = Self(1, PhantomData);

    /// Whether there is a value.
    pub const fn is_some(self) -> bool
    where
        Kind: Copy,
    {
        self.0 > 0
    }
}

/// Says what a pool holds, and how its values are seen by the model's actions.
pub(super) trait Kind {
    type Value: Eq + Hash;
    type View;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($id:ident): $value:ty => $view:ty;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $kind;

        $(#[$doc])*
        pub type $id = Id<$kind>;

        impl Kind for $kind {
            type Value = $value;
            type View = $view;
        }
    )+};
}

kinds! {
    /// Items of the inbox table.
    Items(ItemId): Item => ItemView;
    /// Domain tables, each as a whole.
    Domains(DomainId): Domain => DomainView;
    /// Calls of machines.
    Calls(CallId): Call => ();
    /// Processes that wait for an answer.
    Procs(ProcId): Proc => ProcView;
    /// Everything that was called.
    Callees(CalleesId): callee::Callees => ();
    /// Messages.
    Messages(MessageId): Message => MessageView;
}

/// The values of one kind.
#[derive(Debug)]
pub(super) struct Pool<K: Kind> {
    ids: FxHashMap<Arc<K::Value>, Id<K>>,
    values: Vec<(Arc<K::Value>, K::View)>,
}

impl<K: Kind> Default for Pool<K> {
    fn default() -> Self {
        Self { ids: FxHashMap::default(), values: Vec::new() }
    }
}

impl<K: Kind + Copy> Pool<K> {
    /// The index of a value that the pool holds.
    pub(super) fn find(&self, value: &K::Value) -> Option<Id<K>> {
        self.ids.get(value).copied()
    }

    /// The index of a value that the pool does not hold yet.
    pub(super) fn insert(&mut self, value: K::Value, view: K::View) -> Id<K> {
        let value = Arc::new(value);
        self.values.push((Arc::clone(&value), view));
        let id = Id(u32::try_from(self.values.len()).expect("fewer than 2^32 values"), PhantomData);
        self.ids.insert(value, id);
        id
    }

    /// The value of an index.
    pub(super) fn value(&self, id: Id<K>) -> &Arc<K::Value> {
        &self.entry(id).0
    }

    /// What the model's actions see of a value.
    pub(super) fn view(&self, id: Id<K>) -> &K::View {
        &self.entry(id).1
    }

    fn entry(&self, id: Id<K>) -> &(Arc<K::Value>, K::View) {
        &self.values[id.0 as usize - 1]
    }
}
