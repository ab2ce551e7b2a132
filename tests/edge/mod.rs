//! What the webhook function answers, whatever arrives.

mod cdn;
pub(crate) mod deadlines;
mod endpoints;
mod gateways;
mod identity;
mod materials;
mod providers;
mod races;
mod refusals;
mod strangers;
mod vectors;
