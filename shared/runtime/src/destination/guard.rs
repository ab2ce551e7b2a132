//! What one process does to spare a destination: calls at one time, and a circuit breaker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, Delivery};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{DESTINATION_TURN_MAX, Moment};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Caller;
use super::checked::Destination;
use crate::circuit_breaker::CircuitBreaker;

/// How long a call waits for its turn. A call takes no longer than this and its destination's timeout.
pub const PERMIT_WAIT_MAX: Duration = Duration::from_millis(DESTINATION_TURN_MAX.0.unsigned_abs());

/// A caller that keeps to `in_flight_max`, and does not call a destination that fails again and again: it makes no call
/// without a turn or while the circuit is open. A destination that hangs would otherwise hold batch after batch, and so
/// the effects of all others.
#[derive(Debug)]
pub struct Guarded<C> {
    caller: C,
    known: Mutex<HashMap<(DestinationId, u16), Arc<Known>>>,
}

/// What this process knows of a destination.
#[derive(Debug)]
struct Known {
    turns: Semaphore,
    /// The turn of the call that finds out whether a destination is back.
    probe: Semaphore,
    breaker: Mutex<CircuitBreaker>,
}

impl<C: Caller> Guarded<C> {
    /// Guards the destinations of this caller.
    pub fn new(caller: C) -> Self {
        Self { caller, known: Mutex::default() }
    }

    fn known(&self, destination: &Destination) -> Arc<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (destination.id.clone(), destination.in_flight_max);
        let fresh = || {
            let turns = Semaphore::new(usize::from(destination.in_flight_max));
            Arc::new(Known { turns, probe: Semaphore::new(1), breaker: Mutex::default() })
        };
        Arc::clone(known.entry(key).or_insert_with(fresh))
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
            let known = self.known(destination);
            let until = Instant::now() + PERMIT_WAIT_MAX;
            if let Some(left) = known.breaker().open_for(moment.now) {
                return Called::NotDone { retry_after: Some(left) };
            }
            let Ok(Ok(_turn)) = timeout_at(until, known.turns.acquire()).await else {
                let is_tripped = known.breaker().is_tripped();
                return if is_tripped { Called::NotDone { retry_after: None } } else { Called::NoTurn };
            };
            let Ok(_probe) = timeout_at(until, known.probe()).await else {
                return Called::NotDone { retry_after: None };
            };
            if let Some(left) = known.breaker().open_for(moment.now) {
                return Called::NotDone { retry_after: Some(left) };
            }
            let began = Instant::now();
            let called = self.caller.call(destination, delivery, moment).await;
            let took = Millis(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
            learn(&mut known.breaker(), &called, Moment { now: moment.now.plus(took), ..moment }, took);
            called
        })
    }
}

impl Known {
    /// While a destination is in doubt, one call at a time goes there. The others wait until it has answered, and then
    /// all go, or until it is too late for them.
    async fn probe(&self) -> Option<SemaphorePermit<'_>> {
        if !self.breaker().is_tripped() {
            return None;
        }
        let turn = self.probe.acquire().await.ok();
        turn.filter(|_| self.breaker().is_tripped())
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Any response counts as reachable. A call that could not be made counts as neither.
fn learn(breaker: &mut CircuitBreaker, called: &Called, ended: Moment, took: Millis) {
    match called {
        Called::Refused { status: None } | Called::NoTurn => {}
        Called::Done { .. } | Called::AlreadyDone { .. } | Called::Refused { .. } | Called::Unknown { .. } => {
            breaker.succeeded();
        }
        Called::NotDone { .. } | Called::Unclear { .. } => breaker.failed(ended, took),
    }
}
