//! What the worker does with a batch, and with what fails in it.

mod batches;
mod failures;
mod forged;
mod plans;
mod time;
