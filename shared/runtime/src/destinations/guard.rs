//! What one process does to spare a destination: calls at one time, and a circuit breaker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hookonce_protocol::destination::{Called, NoTurn, OutboundCall};
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{DESTINATION_TURN_MAX, Moment};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::Caller;
use super::checked::Destination;
use crate::circuit_breaker::CircuitBreaker;
use crate::inbox::drive::duration;

/// A caller that keeps to `in_flight_max`, and does not call a destination that fails again and again: who calls has a
/// [`Permit`], and there is none while the circuit is open. A destination that hangs would otherwise hold batch after
/// batch, and so the effects of all others.
#[derive(Debug)]
pub struct RateLimited {
    caller: Arc<dyn Caller>,
    known: Mutex<HashMap<(DestinationId, u16), Arc<Known>>>,
}

/// What this process knows of a destination.
#[derive(Debug)]
struct Known {
    turns: Arc<Semaphore>,
    /// The turn of the call that finds out whether a destination is back.
    probe: Arc<Semaphore>,
    breaker: Mutex<CircuitBreaker>,
}

/// A turn to call one destination. It is given back when this is dropped.
#[derive(Debug)]
pub struct Permit {
    known: Arc<Known>,
    _turn: OwnedSemaphorePermit,
    _probe: Option<OwnedSemaphorePermit>,
}

impl RateLimited {
    /// Guards the destinations of this caller.
    pub fn new(caller: Arc<dyn Caller>) -> Self {
        Self { caller, known: Mutex::default() }
    }

    fn known(&self, destination: &Destination) -> Arc<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (destination.id.clone(), destination.in_flight_max);
        let fresh = || {
            let turns = Arc::new(Semaphore::new(usize::from(destination.in_flight_max)));
            Arc::new(Known { turns, probe: Arc::new(Semaphore::new(1)), breaker: Mutex::default() })
        };
        Arc::clone(known.entry(key).or_insert_with(fresh))
    }

    /// Waits for a turn, for [`DESTINATION_TURN_MAX`] at most.
    ///
    /// # Errors
    /// [`NoTurn`] when there is none in time, or the circuit is open.
    pub async fn turn(&self, destination: &Destination, moment: Moment) -> Result<Permit, NoTurn> {
        let known = self.known(destination);
        let until = Instant::now() + duration(DESTINATION_TURN_MAX);
        known.is_closed(moment)?;
        let turn = timeout_at(until, Arc::clone(&known.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let is_tripped = known.breaker().is_tripped();
            return Err(if is_tripped { NoTurn::Away { retry_after: None } } else { NoTurn::Busy });
        };
        let probe = timeout_at(until, known.probe()).await.map_err(|_| NoTurn::Away { retry_after: None })?;
        known.is_closed(moment)?;
        Ok(Permit { known, _turn: turn, _probe: probe })
    }

    /// Makes the call of this turn, and learns from how it ends.
    pub async fn call(
        &self,
        permit: &Permit,
        destination: &Destination,
        delivery: &OutboundCall,
        moment: Moment,
    ) -> Called {
        let began = Instant::now();
        let called = self.caller.call(destination, delivery, moment).await;
        let took = Millis(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
        learn(&mut permit.known.breaker(), &called, Moment { now: moment.now.plus(took), ..moment }, took);
        called
    }
}

impl Known {
    fn is_closed(&self, moment: Moment) -> Result<(), NoTurn> {
        let left = self.breaker().open_for(moment.now);
        left.map_or(Ok(()), |left| Err(NoTurn::Away { retry_after: Some(left) }))
    }

    /// While a destination is in doubt, one call at a time goes there. The others wait until it has answered, and then
    /// all go, or until it is too late for them.
    async fn probe(&self) -> Option<OwnedSemaphorePermit> {
        if !self.breaker().is_tripped() {
            return None;
        }
        let turn = Arc::clone(&self.probe).acquire_owned().await.ok();
        turn.filter(|_| self.breaker().is_tripped())
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Any response counts as reachable. A call that could not be made counts as neither.
fn learn(breaker: &mut CircuitBreaker, called: &Called, ended: Moment, took: Millis) {
    match called {
        Called::Refused { status: None } | Called::NoTime => {}
        Called::Done { .. } | Called::AlreadyDone { .. } | Called::Refused { .. } | Called::Unknown { .. } => {
            breaker.succeeded();
        }
        Called::NotDone { .. } | Called::Unclear { .. } => breaker.failed(ended, took),
    }
}
