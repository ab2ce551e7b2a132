//! The protocol with one clause taken out.

mod change;
mod effect;
mod list;

pub use list::all;

use hookonce_protocol::call::{Call, Reply, Written};
use hookonce_protocol::item::Item;
use hookonce_protocol::message::Message;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Write;

use crate::label::Role;

/// A removed clause, expressed as rewrites of what passes between a machine and its surroundings. The machines
/// themselves do not change.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mutation {
    /// Rewrites a call before it is carried out.
    pub call: Option<fn(Role, &mut Call)>,
    /// Rewrites a reply before the machine sees it.
    pub reply: Option<fn(Role, &Call, &mut Reply)>,
    /// Rewrites a message before its reader sees it.
    pub message: Option<fn(Role, &mut Message)>,
    /// Decides what it means that the condition of a write did not hold.
    pub refused: Option<fn(&Write, Option<&Item>) -> Written>,
    /// Changes the durations.
    pub timing: Option<fn(&mut Timing)>,
    /// What calls a third party makes a call without an answer once more by itself.
    pub repeats_calls: bool,
}

impl Mutation {
    /// Rewrites a call, and says whether that changed it.
    pub fn rewrite_call(&self, role: Role, call: &mut Call) -> bool {
        changed(self.call, call, |change, call| change(role, call))
    }

    /// Rewrites a reply, and says whether that changed it.
    pub fn rewrite_reply(&self, role: Role, call: &Call, reply: &mut Reply) -> bool {
        changed(self.reply, reply, |change, reply| change(role, call, reply))
    }

    /// Rewrites a message, and says whether that changed it.
    pub fn rewrite_message(&self, role: Role, message: &mut Message) -> bool {
        changed(self.message, message, |change, message| change(role, message))
    }

    /// What it means that the condition of a write did not hold for this item.
    pub fn judge(&self, write: &Write, item: Option<&Item>) -> Written {
        self.refused.map_or_else(|| Written::refused(write, item), |judge| judge(write, item))
    }
}

/// Applies a change, if there is one, and says whether it made a difference.
fn changed<F, T: Clone + PartialEq>(change: Option<F>, value: &mut T, apply: impl FnOnce(F, &mut T)) -> bool {
    let Some(change) = change else { return false };
    let before = value.clone();
    apply(change, value);
    *value != before
}

/// A clause of the contract, and how it is taken out.
#[derive(Debug, Clone, Copy)]
pub struct Mutant {
    /// Its name, which is also the name of its regression trace.
    pub name: &'static str,
    /// The clause that is missing, by its place in the contract.
    pub clause: &'static str,
    /// The scenarios that are searched for a counterexample, in this order. Without one, what it changes is not in the
    /// model, and simulated days take its place.
    pub scenarios: &'static [&'static str],
    /// Why the model finds nothing, where that is expected.
    pub survives: Option<&'static str>,
    /// What is taken out.
    pub mutation: Mutation,
}
