//! One module for each command.

pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod discard;
pub(crate) mod endpoint;
pub(crate) mod list;
pub(crate) mod providers;
pub(crate) mod replay;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod verify;
