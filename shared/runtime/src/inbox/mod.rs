//! The drivers: from a verified delivery to a record, from a record to its change and its effects.

pub mod batch;
pub mod body;
pub mod dispatch;
pub mod drive;
pub mod ingest;
pub mod maintain;
pub mod memory;
pub mod message_key;
pub mod operate;
pub mod process;
