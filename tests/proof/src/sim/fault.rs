//! Which calls of a day meet which fault, and what is then said to their callers.

use std::fmt;

use hookonce_protocol::purpose::Purpose;

use super::rng::Rng;
use crate::label::Role;

/// A fault of one remote call, by the model's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimFault {
    /// It is not carried out, and the other side is unavailable.
    Refused,
    /// It is carried out, and its reply is lost.
    ReplyLost,
    /// It is a single write, and the store's client repeats it.
    Repeated,
    /// The store says that it can never carry it out.
    Invalid,
    /// Its caller gives up, and it is carried out later.
    Late,
    /// The item is part of a transaction under way.
    Conflict,
    /// The process dies before the call.
    CrashBefore,
    /// The process dies after the call.
    CrashAfter,
    /// The process dies, and the call is carried out later.
    CrashDuring,
}

/// The faults of the grid.
pub const GRID: [SimFault; 8] = [
    SimFault::Refused,
    SimFault::ReplyLost,
    SimFault::Repeated,
    SimFault::Invalid,
    SimFault::Conflict,
    SimFault::Late,
    SimFault::CrashBefore,
    SimFault::CrashAfter,
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
    pub fn can_meet(&self, fault: SimFault) -> bool {
        match fault {
            // Only a single write is repeated or refused for good, and only a write meets a transaction.
            SimFault::Repeated | SimFault::Invalid => matches!(self.purpose, CallPurpose::Write(_)),
            SimFault::Conflict => !matches!(self.purpose, CallPurpose::Other(_)),
            // A read whose reply is lost or late counts as refused.
            SimFault::ReplyLost | SimFault::Late => self.changes,
            SimFault::Refused | SimFault::CrashBefore | SimFault::CrashAfter | SimFault::CrashDuring => true,
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

/// How often faults strike a call, in ten thousand. Faults that stand together share their rate.
pub type Rates = [(u32, &'static [SimFault]); 7];

/// What is said about a call that is not carried out, or about which nothing is heard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers<T> {
    /// The other side does not answer.
    pub(super) refused: T,
    /// The call was sent, and no answer comes in time.
    pub(super) lost: T,
    /// A transaction is in the way.
    pub(super) conflict: T,
    /// The other side can never carry it out.
    pub(super) invalid: T,
}

impl<T: Clone> Answers<T> {
    /// The same, whatever the reason.
    pub(super) fn only(answer: T) -> Self {
        Self { refused: answer.clone(), lost: answer.clone(), conflict: answer.clone(), invalid: answer }
    }
}

/// Decides the fault of each call.
#[derive(Debug, Clone)]
pub enum FaultPlan {
    /// At random.
    Random(Rates),
    /// As written: the calls with these numbers, counted from 0 over the whole day.
    Script(Vec<(usize, SimFault)>),
}

impl FaultPlan {
    /// The fault of this call, by its number.
    pub fn next(&self, edge: CallEdge, number: usize, rng: &mut Rng) -> Option<SimFault> {
        let rates = match self {
            Self::Script(points) => {
                return points.iter().find(|(at, _)| *at == number).map(|(_, fault)| *fault);
            }
            Self::Random(rates) => rates,
        };
        let seldom = matches!(edge.purpose, CallPurpose::Write(purpose) if SELDOM.contains(&purpose));
        if seldom && rates.iter().any(|(rate, _)| *rate > 0) && rng.chance(5_000) {
            return Some(rng.pick(&GRID));
        }
        let mut roll = u32::try_from(rng.below(10_000)).unwrap_or(0);
        for (rate, faults) in rates {
            for fault in *faults {
                let width = rate / u32::try_from(faults.len()).unwrap_or(1);
                if roll < width {
                    return Some(*fault);
                }
                roll -= width;
            }
        }
        None
    }
}
