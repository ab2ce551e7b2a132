//! Which calls of a day meet which fault.

use std::fmt;

use hookonce_protocol::purpose::Purpose;

use super::rng::Rng;
use crate::fault::Fault;
use crate::label::Role;

/// The faults of the grid.
pub const GRID: [Fault; 8] = [
    Fault::Refused,
    Fault::ReplyLost,
    Fault::Repeated,
    Fault::Invalid,
    Fault::Conflict,
    Fault::Late,
    Fault::CrashBefore,
    Fault::CrashAfter,
];

/// Which side a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The tables.
    Store,
    /// The queues.
    Queue,
    /// The documents of destinations.
    Documents,
    /// The third parties.
    Callee,
    /// The handler in another language.
    Handler,
}

/// What a remote call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallPurpose {
    /// One conditional write.
    Write(Purpose),
    /// A transaction.
    Commit,
    /// Anything else.
    Other(&'static str),
}

impl From<Purpose> for CallPurpose {
    fn from(purpose: Purpose) -> Self {
        Self::Write(purpose)
    }
}

impl From<&'static str> for CallPurpose {
    fn from(name: &'static str) -> Self {
        Self::Other(name)
    }
}

impl fmt::Display for CallPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write(purpose) => purpose.as_str(),
            Self::Commit => "commit",
            Self::Other(name) => name,
        })
    }
}

/// One remote call of a function, as the grid names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallEdge {
    /// Who calls.
    pub role: Role,
    /// What for.
    pub purpose: CallPurpose,
    /// Whether the call changes anything. If not, a lost reply is the same as a refusal.
    pub changes: bool,
    /// Which side it goes to.
    pub side: Side,
}

impl CallEdge {
    /// Whether the call can meet this fault.
    pub fn can_meet(&self, fault: Fault) -> bool {
        match fault {
            // Only a single write is repeated or refused for good, and only a write meets a transaction.
            Fault::Repeated | Fault::Invalid => matches!(self.purpose, CallPurpose::Write(_)),
            Fault::Conflict => !matches!(self.purpose, CallPurpose::Other(_)),
            // A read whose reply is lost or late counts as refused.
            Fault::ReplyLost | Fault::Late => self.changes,
            _ => true,
        }
    }
}

/// Writes that are so seldom that at the usual rates most faults would never meet them, not in ten thousand days.
const SELDOM: [Purpose; 2] = [Purpose::ClaimDead, Purpose::Quarantine];

/// A span in which a side refuses every call.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    /// The side.
    pub side: Side,
    /// From when on, in milliseconds of the day.
    pub from: i64,
    /// Until when.
    pub until: i64,
}

/// How often each fault strikes a call, in ten thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// [`Fault::Refused`].
    pub refused: u32,
    /// [`Fault::ReplyLost`].
    pub reply_lost: u32,
    /// [`Fault::Repeated`].
    pub repeated: u32,
    /// [`Fault::Invalid`].
    pub invalid: u32,
    /// [`Fault::Late`].
    pub late: u32,
    /// The three crashes together.
    pub crash: u32,
    /// [`Fault::Conflict`].
    pub conflict: u32,
}

/// Decides the fault of each call.
#[derive(Debug, Clone)]
pub enum FaultPlan {
    /// At random.
    Random(Rates),
    /// As written: the calls with these numbers, counted from 0 over the whole day.
    Script(Vec<(usize, Fault)>),
}

impl Rates {
    /// Whether any fault strikes at all.
    fn strike(&self) -> bool {
        let Self { refused, reply_lost, repeated, invalid, late, crash, conflict } = *self;
        [refused, reply_lost, repeated, invalid, late, crash, conflict] != [0; 7]
    }
}

impl FaultPlan {
    /// The fault of this call, by its number.
    pub fn next(&self, edge: CallEdge, number: usize, rng: &mut Rng) -> Option<Fault> {
        let rates = match self {
            Self::Script(points) => {
                return points.iter().find(|(at, _)| *at == number).map(|(_, fault)| *fault);
            }
            Self::Random(rates) => rates,
        };
        let seldom = matches!(edge.purpose, CallPurpose::Write(purpose) if SELDOM.contains(&purpose));
        if seldom && rates.strike() && rng.chance(5_000) {
            return Some(rng.pick(&GRID));
        }
        let crash = rates.crash / 3;
        let mut roll = u32::try_from(rng.below(10_000)).unwrap_or(0);
        let bands = [
            (rates.refused, Fault::Refused),
            (rates.reply_lost, Fault::ReplyLost),
            (rates.late, Fault::Late),
            (rates.repeated, Fault::Repeated),
            (rates.invalid, Fault::Invalid),
            (crash, Fault::CrashBefore),
            (crash, Fault::CrashAfter),
            (crash, Fault::CrashDuring),
            (rates.conflict, Fault::Conflict),
        ];
        for (width, fault) in bands {
            if roll < width {
                return Some(fault);
            }
            roll -= width;
        }
        None
    }
}
