//! The inbox on a laptop, what arrives there, and samples to send.

pub(crate) mod capture;
pub(crate) mod fixtures;
pub(crate) mod forward;
pub(crate) mod handlers;
pub(crate) mod life;
pub(crate) mod own_handlers;
pub(crate) mod receiver;
pub(crate) mod samples;
pub(crate) mod sender;
pub(crate) mod stack;
pub(crate) mod table_counts;
