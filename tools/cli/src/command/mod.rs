//! One module for each command.

pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod cost;
pub(crate) mod demo;
pub(crate) mod destination;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod drill;
pub(crate) mod endpoint;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod new;
pub(crate) mod pause;
pub(crate) mod providers;
pub(crate) mod redact;
pub(crate) mod replay;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod trigger;
pub(crate) mod verify;
