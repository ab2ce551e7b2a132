//! What is stored or under way, as releases before and after this one write it.

mod corpus;
mod forms;
mod later;
