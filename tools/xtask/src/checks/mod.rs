//! What `scripts/prove` and parts of `scripts/check` run: it builds the product, starts servers,
//! kills processes, and judges what is left.

mod answers;
mod away;
mod callee;
mod clock;
mod demo;
mod effects;
pub(crate) mod emulator;
pub(crate) mod guide;
mod kill;
pub(crate) mod projects;
pub(crate) mod prove;
mod stop;
mod tables;
