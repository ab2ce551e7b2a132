//! Destinations: their documents, their sources and their calls.

mod calls;
mod circles;
mod documents;
mod queues;
mod secure;
mod stripe;

use crate::support::fixtures::{KEY, MOMENT, delivery, destination};
