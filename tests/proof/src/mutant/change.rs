//! What mutants are made of: changes of writes, and short forms of a mutant.

use hookonce_protocol::call::Call;
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::write::{Action, Condition, Write};

use super::Mutation;
use crate::call::writes_mut;
use crate::label::Role;

/// Changes the writes of one role for one purpose.
pub(super) fn each(role: Role, call: &mut Call, wanted: Role, what: &[Purpose], change: fn(&mut Write)) {
    if role == wanted {
        writes_mut(call).iter_mut().filter(|write| what.contains(&write.purpose)).for_each(change);
    }
}

pub(super) fn unconditional(write: &mut Write) {
    write.condition = Condition::none();
}

pub(super) fn without_clauses(write: &mut Write, names: &[&str]) {
    write.condition.0.retain(|clause| !names.contains(&clause.attribute()));
}

pub(super) fn without_changes(write: &mut Write, names: &[&str]) {
    match &mut write.action {
        Action::Update(changes) => changes.retain(|change| !names.contains(&change.attribute())),
        Action::Put(item) => item.retain(|name, _| !names.contains(&name.as_str())),
        Action::Delete | Action::Check => {}
    }
}

/// The write happens whatever these attributes hold.
macro_rules! any {
    ($($attribute:ident),+) => { |write| without_clauses(write, &[$(attribute::$attribute),+]) };
}

/// The write leaves these attributes as they are.
macro_rules! same {
    ($($attribute:ident),+) => { |write| without_changes(write, &[$(attribute::$attribute),+]) };
}

macro_rules! rewrite {
    ($role:ident, $what:expr, $change:expr) => {
        Mutation { call: Some(|role, call| each(role, call, Role::$role, $what, $change)), ..NOTHING }
    };
}

macro_rules! mutants {
    ($($name:literal, $clause:literal, $scenarios:expr, $mutation:expr;)+) => {
        vec![$(Mutant { name: $name, clause: $clause, scenarios: $scenarios, survives: None, mutation: $mutation }),+]
    };
}

macro_rules! survivors {
    ($($name:literal, $clause:literal, $scenarios:expr, $reason:literal, $mutation:expr;)+) => {
        vec![$(Mutant {
            name: $name, clause: $clause, scenarios: $scenarios, survives: Some($reason), mutation: $mutation
        }),+]
    };
}

pub(super) const NOTHING: Mutation =
    Mutation { call: None, reply: None, message: None, refused: None, timing: None, repeats_calls: false };

pub(super) use {any, mutants, rewrite, same, survivors};
