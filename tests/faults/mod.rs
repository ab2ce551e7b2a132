//! Faults in every place: replies that are lost, calls that fail, processes that die.

mod lost_replies;
mod real_grid;
