//! What happens, in words that stay the same when the order of things changes.

use std::collections::BTreeMap;

use hookonce_protocol::call::Call;

use super::state::State;
use super::world::World;
use super::{Act, Model};
use crate::label::{kind, purpose};

impl Model {
    /// An act in words. Two acts of one state that would read the same are numbered.
    pub fn describe(&self, state: &State, act: Act) -> String {
        let locked = self.locked();
        let mut acts = Vec::new();
        self.enabled(&locked.world, state, &mut acts);
        let mut seen = BTreeMap::new();
        for other in acts {
            let words = words(&locked.world, state, other);
            let count = seen.entry(words.clone()).or_insert(0);
            *count += 1;
            if other == act {
                return if *count > 1 { format!("{words} ({count})") } else { words };
            }
        }
        words(&locked.world, state, act)
    }
}

fn words(world: &World, state: &State, act: Act) -> String {
    let waiting = |queue: &[u32], index: u8| {
        let view = world.message_views[queue[usize::from(index)] as usize - 1];
        format!("{} {}", if view.hint { "hint" } else { "payload" }, world.keys[view.slot])
    };
    match act {
        Act::Step(index, fate) => {
            let view = world.proc_views[state.procs[usize::from(index)] as usize - 1];
            format!("{} {}: {fate:?}", view.role, call_words(world.call(view.call), view.part))
        }
        Act::Receive(index) => format!("Receive {}", waiting(&state.queue, index)),
        Act::ReceiveCopy(index) => format!("ReceiveCopy {}", waiting(&state.queue, index)),
        Act::Lose(index) => format!("Lose {}", waiting(&state.queue, index)),
        Act::Redrive(index) => format!("Redrive {}", waiting(&state.queue, index)),
        Act::Bury(index) => format!("Bury {}", waiting(&state.dead, index)),
        Act::Land(index) => {
            let late = state.late[usize::from(index)];
            format!("Land {}", call_words(world.call(late.call), usize::from(late.part)))
        }
        Act::Attempt(_) | Act::Relay | Act::Advance | Act::Expire(_) | Act::Forget | Act::Operate(..) => {
            format!("{act:?}")
        }
    }
}

fn call_words(call: &Call, part: usize) -> String {
    match call {
        Call::Write(write) | Call::WriteBestEffort(write) => format!("{} {}", purpose(write), write.key),
        Call::WriteEach(writes) => format!("{} {}", purpose(&writes[part]), writes[part].key),
        Call::Read(key) => format!("read {key}"),
        Call::ReadEach(keys) => format!("read {} records", keys.len()),
        Call::Commit(writes) => format!("commit {}", writes[0].key),
        Call::Send(message) => format!("{} {}", kind(message), message.record_key()),
        Call::SendEach(messages) => format!("send {} hints", messages.len()),
        Call::QueryDue { .. } => "query due".to_owned(),
        Call::Plan(record) => format!("plan {}", record.key),
        Call::Split(_) | Call::CountReceived { .. } | Call::Wait(_) => "at once".to_owned(),
    }
}
