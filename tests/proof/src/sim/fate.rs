//! How the calls of a day go.

use super::dice::Dice;
use crate::label::Role;

/// How one call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
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

impl Fate {
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

/// How often each fate befalls a call, in ten thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// [`Fate::Refused`].
    pub refused: u32,
    /// [`Fate::ReplyLost`].
    pub reply_lost: u32,
    /// [`Fate::Late`].
    pub late: u32,
    /// The three crashes together.
    pub crash: u32,
    /// [`Fate::Conflict`].
    pub conflict: u32,
}

/// Decides how each call goes.
#[derive(Debug, Clone)]
pub enum Fates {
    /// By chance.
    Random(Rates),
    /// As written: the calls with these numbers, counted from 0 over the whole day.
    Script(Vec<(usize, Fate)>),
}

impl Fates {
    /// How the call with this number goes.
    pub fn next(&self, number: usize, dice: &mut Dice) -> Fate {
        let rates = match self {
            Self::Script(points) => {
                return points.iter().find(|(at, _)| *at == number).map_or(Fate::Well, |(_, fate)| *fate);
            }
            Self::Random(rates) => rates,
        };
        let crash = rates.crash / 3;
        let mut roll = u32::try_from(dice.below(10_000)).unwrap_or(0);
        let bands = [
            (rates.refused, Fate::Refused),
            (rates.reply_lost, Fate::ReplyLost),
            (rates.late, Fate::Late),
            (crash, Fate::CrashBefore),
            (crash, Fate::CrashAfter),
            (crash, Fate::CrashDuring),
            (rates.conflict, Fate::Conflict),
        ];
        for (width, fate) in bands {
            if roll < width {
                return fate;
            }
            roll -= width;
        }
        Fate::Well
    }
}
