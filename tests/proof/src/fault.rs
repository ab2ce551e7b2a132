//! The faults that remote calls meet, for every harness.
//!
//! | fault | model | simulator | grid | tests with a script | grid on servers, wire |
//! |---|---|---|---|---|---|
//! | `Refused`, `ReplyLost`, `CrashBefore` | yes | yes | yes | yes | yes |
//! | `Repeated` | yes | yes | yes | yes | where a test of the grid must fail |
//! | `Invalid` | yes | yes | yes | yes | |
//! | `CrashAfter`, `Late` | yes | yes | yes | | yes |
//! | `Conflict` | yes | yes | | yes | |
//! | `CrashDuring` | yes | yes | | | |
//! | `Partial` | yes | | | yes | |
//! | `Stale`, `HandlerFails`, `HandlerFailsForGood`, `HandlerAway`, `HandlerSlow` | yes | | | | |
//! | `DestinationAway`, `NoTurn`, `CalleeBusy`, `CalleeRefuses`, `AmbiguousDone`, `AmbiguousNotDone` | yes | | | | |
//! | `LateAtRest`, `NoReply`, `FalseSuccess` | | | | | yes |
//!
//! The simulator also has stale indexes, partial answers and failing handlers, but draws them independently of the
//! call.

/// A fault of one remote call. DynamoDB recognises a repeated transaction by its token, so that only
/// single writes can meet [`Fault::Repeated`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// It is not carried out, and the other side is unavailable. A store that throttles answers the same.
    Refused,
    /// It is carried out, and its reply is lost.
    ReplyLost,
    /// It is a write: it is carried out, its reply is lost, and the store's client repeats it.
    Repeated,
    /// It is a write, and the store says that it can never carry it out.
    Invalid,
    /// Its caller gives up, and it is carried out later: a zombie.
    Late,
    /// Its caller gives up, and it is carried out when everything else has come to rest.
    LateAtRest,
    /// It is not carried out, and no answer ever comes.
    NoReply,
    /// The item is part of a transaction under way: nothing is written.
    Conflict,
    /// It shows the state before the last change.
    Stale,
    /// Only the first of several messages is sent, or of several records is read. To the reader of another record this is the
    /// same as [`Fault::Refused`], which is what the model gives it.
    Partial,
    /// The handler fails, and another attempt may succeed.
    HandlerFails,
    /// The handler fails permanently.
    HandlerFailsForGood,
    /// The handler cannot be reached, or takes no calls for now.
    HandlerAway,
    /// The handler is slow, and the event moves.
    HandlerSlow,
    /// The document of the destination is away, or has a fault.
    DestinationAway,
    /// Nobody calls, because the calls of others take all the time.
    NoTurn,
    /// A callee says that it did nothing, and takes the call later.
    CalleeBusy,
    /// A callee refuses, and did nothing.
    CalleeRefuses,
    /// A callee did it, and its answer does not say so.
    AmbiguousDone,
    /// A callee did nothing, and its answer does not say so.
    AmbiguousNotDone,
    /// The process dies before the call.
    CrashBefore,
    /// The process dies after the call.
    CrashAfter,
    /// The process dies, and the call is carried out later.
    CrashDuring,
    /// The other side claims success and does nothing. No protocol survives this: it shows that a harness can fail.
    FalseSuccess,
}
