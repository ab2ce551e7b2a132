//! What a stack reports and what it costs.

mod telemetry;
mod units;
