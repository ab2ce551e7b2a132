//! How the calls of a day go.

use super::rng::Rng;
use crate::label::Role;

/// How one call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It is carried out and answered.
    Well,
    /// It is not carried out, and the other side is unavailable. A store that throttles says the same.
    Refused,
    /// It is carried out, and its reply is lost.
    ReplyLost,
    /// It is given up, and carried out later.
    Late,
    /// The process dies before the call.
    CrashBefore,
    /// The process dies after the call.
    CrashAfter,
    /// The process dies, and the call is carried out later.
    CrashDuring,
    /// The item is part of a transaction under way: nothing is written.
    Conflict,
}

impl Fault {
    /// The faults of the grid.
    pub const GRID: [Self; 5] = [Self::Refused, Self::ReplyLost, Self::Late, Self::CrashBefore, Self::CrashAfter];
}

/// Which side a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The tables.
    Store,
    /// The queue.
    Queue,
}

/// One remote call of a function, as the grid names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallEdge {
    /// Who calls.
    pub role: Role,
    /// What for.
    pub purpose: &'static str,
    /// Whether the call changes anything: one that does not is lost with its reply.
    pub changes: bool,
    /// Which side it goes to.
    pub side: Side,
}

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

/// How often each fault befalls a call, in ten thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// [`Fault::Refused`].
    pub refused: u32,
    /// [`Fault::ReplyLost`].
    pub reply_lost: u32,
    /// [`Fault::Late`].
    pub late: u32,
    /// The three crashes together.
    pub crash: u32,
    /// [`Fault::Conflict`].
    pub conflict: u32,
}

/// Decides how each call goes.
#[derive(Debug, Clone)]
pub enum FaultPlan {
    /// By chance.
    Random(Rates),
    /// As written: the calls with these numbers, counted from 0 over the whole day.
    Script(Vec<(usize, Fault)>),
}

impl FaultPlan {
    /// How the call with this number goes.
    pub fn next(&self, number: usize, rng: &mut Rng) -> Fault {
        let rates = match self {
            Self::Script(points) => {
                return points.iter().find(|(at, _)| *at == number).map_or(Fault::Well, |(_, fault)| *fault);
            }
            Self::Random(rates) => rates,
        };
        let crash = rates.crash / 3;
        let mut roll = u32::try_from(rng.below(10_000)).unwrap_or(0);
        let bands = [
            (rates.refused, Fault::Refused),
            (rates.reply_lost, Fault::ReplyLost),
            (rates.late, Fault::Late),
            (crash, Fault::CrashBefore),
            (crash, Fault::CrashAfter),
            (crash, Fault::CrashDuring),
            (rates.conflict, Fault::Conflict),
        ];
        for (width, fault) in bands {
            if roll < width {
                return fault;
            }
            roll -= width;
        }
        Fault::Well
    }
}
