//! What happens, in words that stay the same when the order of things changes.

use std::collections::BTreeMap;

use hookonce_protocol::call::Call;

use super::pool::MessageId;
use super::state::State;
use super::world::World;
use super::{Action, Model};
use crate::label::kind;

impl Model {
    /// An action in words. Two actions of one state that would read the same are numbered.
    pub fn describe(&self, state: &State, action: Action) -> String {
        let locked = self.locked();
        let mut actions = Vec::new();
        self.enabled(&locked.world, state, &mut actions);
        let mut seen = BTreeMap::new();
        for other in actions {
            let words = words(&locked.world, state, other);
            let count = seen.entry(words.clone()).or_insert(0);
            *count += 1;
            if other == action {
                return if *count > 1 { format!("{words} ({count})") } else { words };
            }
        }
        words(&locked.world, state, action)
    }
}

fn words(world: &World, state: &State, action: Action) -> String {
    let waiting = |queue: &[MessageId], index: u8| {
        let view = world.messages.view(queue[usize::from(index)]);
        format!("{} {}", if view.hint { "hint" } else { "payload" }, world.keys[view.slot])
    };
    match action {
        Action::Step(index, fault) => {
            let view = world.procs.view(state.procs[usize::from(index)]);
            let met = fault.map_or_else(|| "Well".to_owned(), |fault| format!("{fault:?}"));
            format!("{} {}: {met}", view.role, call_words(world.call(view.call), view.part))
        }
        Action::Receive(index) => format!("Receive {}", waiting(&state.queue, index)),
        Action::ReceiveCopy(index) => format!("ReceiveCopy {}", waiting(&state.queue, index)),
        Action::Lose(index) => format!("Lose {}", waiting(&state.queue, index)),
        Action::Redrive(index) => format!("Redrive {}", waiting(&state.queue, index)),
        Action::Bury(index) => format!("Bury {}", waiting(&state.dead, index)),
        Action::BuryCopy(index) => format!("BuryCopy {}", waiting(&state.dead, index)),
        Action::Land(index) => {
            let late = state.late[usize::from(index)];
            format!("Land {}", call_words(world.call(late.call), usize::from(late.part)))
        }
        Action::Attempt(_)
        | Action::Relay
        | Action::RelayWaiting
        | Action::RelayEffects
        | Action::Edit
        | Action::Advance
        | Action::Route
        | Action::Expire(_)
        | Action::Forget
        | Action::Backup
        | Action::RewindInbox
        | Action::RewindDomain
        | Action::Operate(..) => {
            format!("{action:?}")
        }
    }
}

fn call_words(call: &Call, part: usize) -> String {
    match call {
        Call::Write(write) | Call::WriteBestEffort(write) => format!("{} {}", write.purpose, write.key),
        Call::WriteEach(writes) => format!("{} {}", writes[part].purpose, writes[part].key),
        Call::Read(key) => format!("read {key}"),
        Call::ReadTrail(key) => format!("read the trail of {key}"),
        Call::ReadHeads(keys) => format!("read {} records", keys.len()),
        Call::Commit(writes) => format!("commit {}", writes[0].key),
        Call::Send(message) => format!("{} {}", kind(message), message.record_key()),
        Call::SendEach(messages) => format!("send {} hints", messages.len()),
        Call::QueryDue(_) => "query due".to_owned(),
        Call::Plan(record) => format!("plan {}", record.key),
        Call::Terms(destination) => format!("read the terms of {destination}"),
        Call::Deliver(delivery) => format!("call {}", delivery.destination),
        Call::Split(_) | Call::CountReceived { .. } | Call::Wait(_) => "at once".to_owned(),
    }
}
