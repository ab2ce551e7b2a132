//! What one process does to spare a destination: calls at one time, and a rest after failures in a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, Delivery};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_protocol::timing::{DESTINATION_TURN_MAX, Moment};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Caller;
use super::checked::Destination;

/// How many failures in a row give a destination a rest.
pub const FAILURES_MAX: u32 = 5;

/// The shortest rest.
pub const REST_MIN: Millis = Millis::seconds(25);

/// What is added to it at random, at most.
pub const REST_SPREAD: Millis = Millis::seconds(10);

/// How long a call waits for its turn. A call takes no longer than this and its destination's timeout.
pub const TURN_MAX: Duration = Duration::from_millis(DESTINATION_TURN_MAX.0.unsigned_abs());

/// A caller that keeps to `in_flight_max`, and leaves a destination alone that fails again and again. Without a turn, and
/// during a rest, nothing is called.
#[derive(Debug)]
pub struct Guarded<C> {
    caller: C,
    lanes: Mutex<HashMap<(DestinationId, u16), Arc<Lane>>>,
}

#[derive(Debug)]
struct Lane {
    turns: Semaphore,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    rests_until: Option<EpochMs>,
}

impl<C: Caller> Guarded<C> {
    /// Guards the destinations of this caller.
    pub fn new(caller: C) -> Self {
        Self { caller, lanes: Mutex::default() }
    }

    fn lane(&self, destination: &Destination) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (destination.id.clone(), destination.in_flight_max);
        let lane = || {
            let turns = Semaphore::new(usize::from(destination.in_flight_max));
            Arc::new(Lane { turns, health: Mutex::default() })
        };
        Arc::clone(lanes.entry(key).or_insert_with(lane))
    }
}

impl<C: Caller> Caller for Guarded<C> {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a Delivery,
        moment: Moment,
    ) -> BoxFuture<'a, Called> {
        Box::pin(async move {
            let lane = self.lane(destination);
            let Ok(Ok(_turn)) = timeout(TURN_MAX, lane.turns.acquire()).await else {
                return Called::NotDone { retry_after: None };
            };
            if let Some(rest) = lane.health().rest(moment.now) {
                return Called::NotDone { retry_after: Some(rest) };
            }
            let called = self.caller.call(destination, delivery, moment).await;
            lane.health().learn(&called, moment);
            called
        })
    }
}

impl Lane {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    /// What is left of the rest.
    fn rest(&self, now: EpochMs) -> Option<Millis> {
        self.rests_until.filter(|until| now < *until).map(|until| Millis(until.0.saturating_sub(now.0)))
    }

    fn learn(&mut self, called: &Called, moment: Moment) {
        match called {
            // Who answers so is there.
            Called::Done { .. } | Called::AlreadyDone { .. } | Called::Refused { .. } | Called::Unknown { .. } => {
                *self = Self::default();
            }
            Called::NotDone { .. } | Called::Unclear { .. } => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= FAILURES_MAX {
                    self.rests_until = Some(moment.now.plus(REST_MIN).plus(moment.uniform(REST_SPREAD)));
                }
            }
        }
    }
}
