//! The writes of a call. Each kind of call is listed, so that a new one cannot go unseen.

use hookonce_protocol::call::Call;
use hookonce_protocol::write::Write;

/// The writes of a call; none if it reads, sends, plans, delivers or waits.
pub fn writes(call: &Call) -> &[Write] {
    match call {
        Call::Write(write) | Call::WriteBestEffort(write) => std::slice::from_ref(write),
        Call::WriteEach(writes) | Call::Commit(writes) => writes,
        Call::Read(_)
        | Call::ReadTrail(_)
        | Call::ReadHeads(_)
        | Call::Send(_)
        | Call::SendEach(_)
        | Call::QueryDue(_)
        | Call::CountReceived { .. }
        | Call::Plan(_)
        | Call::Split(_)
        | Call::Terms(_)
        | Call::Deliver(_)
        | Call::Wait(_) => &[],
    }
}

/// The writes of a call, to change them.
pub(crate) fn writes_mut(call: &mut Call) -> &mut [Write] {
    let has_none = writes(call).is_empty();
    if let Call::Write(write) | Call::WriteBestEffort(write) = call {
        return std::slice::from_mut(write);
    }
    let (Call::WriteEach(writes) | Call::Commit(writes)) = call else {
        assert!(has_none, "its writes cannot be changed");
        return &mut [];
    };
    writes
}
