//! Handlers in another language: functions that get an event as JSON and answer with a plan as JSON.
//!
//! Such a handler writes nothing itself, so calling it twice is harmless: whatever it answers in different attempts,
//! one plan commits.
//!
//! ```text
//! event ─▶ call ─┬─ a plan ─────────────────────────────────▶ commit
//!                └─ reads ─▶ the items, read consistently ─▶ call ─▶ a plan ─▶ commit
//! ```

mod calls;
mod conversation;
mod handlers;
mod pace;
mod target;
mod wire;

pub use calls::{CallBudget, Calls};
pub(crate) use conversation::plan;
pub use handlers::{CallError, CallHandler, Cause, RemoteHandlers};
pub use pace::REMEMBERED;
pub use target::{RemoteHandling, RemoteTarget};
pub use wire::{HandlerAnswer, HandlerRequest, MalformedAnswer, SnapshotItem};
