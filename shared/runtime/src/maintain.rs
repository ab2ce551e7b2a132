//! Maintenance: relay runs and dead letters.

use hookonce_protocol::dead_letter::{self, DeadLetter};
use hookonce_protocol::message::Message;
use hookonce_protocol::relay::{Budget, Relay, Report};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;

use crate::ambient::Ambient;
use crate::drive::{Driven, Remote, drive};
use crate::port::{Queue, Store};

/// The most relay runs in one period.
pub const RUNS_MAX: usize = 64;

/// How long after the first run another may start, so that each ends before the function times out. What is left is due
/// in the next period.
pub const RUNS_BEGIN_WITHIN: Millis = Millis::seconds(20);

/// The parts that the relay needs.
#[derive(Debug)]
pub struct RelayParts<S, Q, A> {
    /// The tables.
    pub store: S,
    /// The queue.
    pub queue: Q,
    /// Time and randomness.
    pub ambient: A,
    /// The protocol's durations.
    pub timing: Timing,
    /// How much the relay may send.
    pub budget: Budget,
}

impl<S: Store, Q: Queue, A: Ambient> RelayParts<S, Q, A> {
    /// Sends due records within the budget of one period: at most [`RUNS_MAX`] runs, all started within
    /// [`RUNS_BEGIN_WITHIN`].
    pub async fn run(&self) -> Driven<Report> {
        let mut total = Driven { output: Report::default(), signals: Vec::new() };
        let until = self.ambient.moment().now.plus(RUNS_BEGIN_WITHIN);
        for _ in 0..RUNS_MAX {
            let first = Relay::start(self.timing, self.budget, total.output.sent, self.ambient.moment());
            let Driven { output: run, signals } = drive(first, &self.remote(), &self.ambient).await;
            total.signals.extend(signals);
            let again = run.more && run.sent > 0;
            total.output.add(&run);
            if !again || self.ambient.moment().now >= until {
                break;
            }
        }
        total
    }

    /// Settles one dead letter.
    pub async fn bury(&self, body: &str) -> Driven<dead_letter::DeadLetterOutcome> {
        let first = DeadLetter::start(Message::decode(body), self.timing, self.ambient.moment());
        drive(first, &self.remote(), &self.ambient).await
    }

    fn remote(&self) -> Remote<'_, S, Q> {
        Remote { store: &self.store, queue: &self.queue }
    }
}
