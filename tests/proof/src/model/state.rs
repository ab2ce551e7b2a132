//! One state of the world: small and flat, because millions of them are kept.
//!
//! Everything large (items, calls, machines, messages) is interned: equal values have one index, and a state holds
//! indexes. Two states are equal exactly if they hold the same values.

use super::pool::{CallId, CalleesId, DomainId, ItemId, MessageId, ProcId};

/// How many records a scenario may have.
pub const SLOTS: usize = 4;
/// How many processes may run at once.
pub const PROCS: usize = 4;
/// How many messages may wait in the queue; a hint beyond that counts as lost, which the protocol must survive anyway.
pub const QUEUE: usize = 4;
/// How many messages may wait in the dead-letter queue.
pub const DEAD: usize = 2;
/// How many given-up writes may still be under way.
pub const LATE: usize = 2;
/// How many business facts a scenario may have.
pub const FACTS: usize = 2;
/// How many deliveries a scenario may have.
pub const DELIVERIES: usize = 3;

macro_rules! budgets {
    ($($(#[$doc:meta])* $budget:ident,)+) => {
        /// What may still go wrong outside, or what an operator may still do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Budget { $($(#[$doc])* $budget),+ }

        impl Budget {
            /// Every budget.
            pub const ALL: &[Self] = &[$(Self::$budget),+];
        }
    };
}

budgets! {
    /// A process dies.
    Crash,
    /// A call is refused, or carried out and its reply lost.
    Refuse,
    /// A write is carried out, its reply is lost, and the store's client repeats it.
    Repeat,
    /// The store says that it can never carry out a write.
    Invalid,
    /// A call is given up and carried out later, or never.
    Late,
    /// A transaction conflicts.
    Conflict,
    /// A message is received while another receipt of it is in use, or its deletion fails.
    Duplicate,
    /// The queue loses a hint.
    Lose,
    /// A message goes to the dead-letter queue.
    Redrive,
    /// The handler fails, and another attempt may succeed.
    Fail,
    /// The handler fails permanently.
    Poison,
    /// The handler is unavailable, or the document of a destination.
    Away,
    /// The handler is slow.
    Slow,
    /// A read or the index shows the previous version of an item.
    Stale,
    /// The clock moves on while something else could still happen.
    Tick,
    /// A relay run starts while something else could still happen.
    Relay,
    /// An operator retries.
    Retry,
    /// An operator retries and accepts a second effect.
    Accept,
    /// An operator forces.
    Force,
    /// An operator discards.
    Discard,
    /// An operator redacts.
    Redact,
    /// An operator doubts.
    Doubt,
    /// The tables are as somebody may restore them to later.
    Backup,
    /// A table is restored to what it was then, and the other is not.
    Rewind,
    /// Another route set comes into use.
    Route,
    /// A callee says that it did nothing, and takes the call later.
    Busy,
    /// A callee refuses.
    Reject,
    /// A callee's answer leaves open whether it did anything, and no repeat can tell.
    Ambiguous,
    /// The document of the destination is edited.
    Edit,
}

impl Budget {
    /// The budget of a word: its name in lower case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|budget| format!("{budget:?}").eq_ignore_ascii_case(word))
    }
}

/// How many budgets there are.
pub const BUDGETS: usize = Budget::ALL.len();

/// A write that its caller gave up on and that the store may still carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LateWrite {
    /// The interned call.
    pub call: CallId,
    /// Which part of it.
    pub part: u8,
    /// When it was given up, in milliseconds.
    pub since: i64,
    /// The record that was shown to the operator whose transaction it is, if it is one.
    pub shown: ItemId,
}

/// One state.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that has happened, and several may have")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The inbox table: one interned item per record.
    pub items: [ItemId; SLOTS],
    /// The version before, where staleness is in play.
    pub before: [ItemId; SLOTS],
    /// The domain table, interned as a whole.
    pub domain: DomainId,
    /// The inbox table and the domain table as they can be restored to, where that is in play.
    pub backup: Option<([ItemId; SLOTS], DomainId)>,
    /// The inbox table was restored.
    pub inbox_rewound: bool,
    /// The domain table was restored.
    pub domain_rewound: bool,
    /// Effects that were committed and that the restored inbox table does not have, as bits by place.
    pub forgotten: u8,
    /// Who was called because of effects, interned as a whole; nothing where the scenario has none.
    pub callees: CalleesId,
    /// The document of the destination, by its place.
    pub document: u8,
    /// Running processes, sorted.
    pub procs: [ProcId; PROCS],
    /// Waiting messages, sorted.
    pub queue: [MessageId; QUEUE],
    /// Waiting dead letters, sorted.
    pub dead: [MessageId; DEAD],
    /// Writes that may still land.
    pub late: [LateWrite; LATE],
    /// The time, in milliseconds.
    pub now: i64,
    /// What may still happen.
    pub left: [u8; BUDGETS],
    /// Attempts that the provider may still make, per delivery.
    pub attempts: [u8; DELIVERIES],
    /// Which deliveries were answered 2xx, as bits.
    pub acked: u8,
    /// Accepted forces, per fact.
    pub forced: [u8; FACTS],
    /// Second effects that an operator accepted, per fact.
    pub duplicates_accepted: [u8; FACTS],
    /// Re-arms that relay runs have decided on since the clock moved. It stands for the random draw of each.
    pub rearms: u8,
    /// Re-sends that were granted by a re-arm and not yet used, per record.
    pub granted: [i8; SLOTS],
    /// A route wants the events.
    pub routed: bool,
    /// PENDING records that no handler wanted when asked since they were claimed or brought back, as bits by place.
    pub declined: u8,
    /// Records that an operator had discarded, or that no handler had wanted, when the TTL removed them, and those that
    /// a restored table does not tell of any more, as bits by place.
    pub given_up: u8,
    /// The TTL has removed something.
    pub expired: bool,
    /// A rule that the last step broke, 0 for none.
    pub broken: u8,
}

impl State {
    /// Whether a budget is not used up.
    pub fn may(&self, budget: Budget) -> bool {
        self.left[budget as usize] > 0
    }

    /// Uses a budget.
    pub fn spend(&mut self, budget: Budget) {
        self.left[budget as usize] -= 1;
    }

    /// No process runs.
    pub fn idle(&self) -> bool {
        !self.procs.iter().any(|proc| proc.is_some())
    }

    /// No process runs and no message waits.
    pub fn quiescent(&self) -> bool {
        self.idle() && !self.queue.iter().chain(&self.dead).any(|message| message.is_some())
    }

    /// Starts a process; `false` when too many run.
    pub fn start(&mut self, proc: ProcId) -> bool {
        insert(&mut self.procs, proc)
    }

    /// Puts a process into the place of another, or ends it.
    pub fn replace(&mut self, index: usize, proc: ProcId) {
        self.procs[index] = proc;
        self.procs.sort_unstable();
    }

    /// Puts a message into the queue. Beyond the bound it is dropped if `hint` says that it may be lost.
    pub fn enqueue(&mut self, message: MessageId, hint: bool) -> bool {
        insert(&mut self.queue, message) || hint
    }

    /// Puts a message into the dead-letter queue.
    pub fn bury(&mut self, message: MessageId) -> bool {
        insert(&mut self.dead, message)
    }

    /// Takes a message out of the queue.
    pub fn dequeue(&mut self, index: usize) {
        self.queue[index] = MessageId::NONE;
        self.queue.sort_unstable();
    }

    /// Takes a message out of the dead-letter queue.
    pub fn exhume(&mut self, index: usize) {
        self.dead[index] = MessageId::NONE;
        self.dead.sort_unstable();
    }

    /// Leaves a write with the store after its caller gave it up; `false` when too many are under way.
    pub fn postpone(&mut self, call: CallId, part: u8, shown: ItemId) -> bool {
        insert(&mut self.late, LateWrite { call, part, since: self.now, shown })
    }
}

/// Puts a value into a free place; `false` when there is none.
fn insert<T: Copy + Default + Ord, const N: usize>(places: &mut [T; N], value: T) -> bool {
    let free = places.iter_mut().find(|place| **place == T::default());
    let fits = free.is_some();
    if let Some(free) = free {
        *free = value;
    }
    places.sort_unstable();
    fits
}
