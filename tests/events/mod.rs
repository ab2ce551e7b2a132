//! Recorded events: a test reads each, and none names anybody.

mod personal;
mod samples;
