//! A schedule: an `EventBridge` rule that invokes a function at a fixed rate.

use std::time::{Duration, SystemTime};

use error_reporter::Report;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use crate::ambient::Ambient;
use crate::clients::{ACCOUNT, REGION};
use crate::invoke::{Invoke, Isolated};

/// Shortest period; AWS itself allows no less than a minute.
const PERIOD_MIN: Duration = Duration::from_millis(1);

/// The configuration of the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// The name of the rule, which is part of an ARN in the event.
    pub rule: String,
    /// The time from the start of one run to the start of the next. A run that takes longer delays the next one.
    pub period: Duration,
    /// How long the function may run.
    pub function_timeout: Duration,
}

/// A running schedule. Dropping it stops it in the background, after the current run.
#[derive(Debug)]
pub struct Schedule {
    stop: watch::Sender<bool>,
    runner: JoinHandle<()>,
}

impl Schedule {
    /// Starts invoking `function`, at once and then every period, never twice at the same time.
    pub fn start(function: impl Invoke, config: ScheduleConfig, ambient: Ambient) -> Self {
        let (stop, stopping) = watch::channel(false);
        let function = Isolated::new(function, config.function_timeout);
        let runner = tokio::spawn(run(function, config, ambient, stopping));
        Self { stop, runner }
    }

    /// Starts no further run and waits for the current one.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // The runner neither returns an error nor panics.
        drop(self.runner.await);
    }
}

async fn run<I: Invoke>(
    function: Isolated<I>,
    config: ScheduleConfig,
    ambient: Ambient,
    mut stopping: watch::Receiver<bool>,
) {
    let mut tick = tokio::time::interval(config.period.max(PERIOD_MIN));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            _ = tick.tick() => {}
        }
        let event = scheduled_event(&config.rule, ambient.identifier(), ambient.now());
        if let Err(error) = function.invoke(event).await {
            tracing::warn!(schedule.rule = config.rule, error = %Report::new(&error), "the scheduled function failed");
        }
    }
}

/// The event of a rule with a schedule.
pub fn scheduled_event(rule: &str, identifier: Uuid, at: SystemTime) -> Value {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    json!({
        "version": "0",
        "id": identifier.to_string(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": OffsetDateTime::from(at).format(format).ok(),
        "region": REGION,
        "resources": [format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/{rule}")],
        "detail": {}
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::UNIX_EPOCH;

    use futures::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;
    use crate::invoke::{InvokeError, invoke_fn};

    fn ambient() -> Ambient {
        Ambient::new(|| UNIX_EPOCH + Duration::from_secs(1_444_323_186), Uuid::nil)
    }

    fn every_minute() -> ScheduleConfig {
        ScheduleConfig {
            rule: "relay".to_owned(),
            period: Duration::from_mins(1),
            function_timeout: Duration::from_mins(10),
        }
    }

    #[test]
    fn the_event_is_the_one_of_a_scheduled_rule() {
        let event = scheduled_event("relay", Uuid::nil(), ambient().now());
        let expected = json!({
            "version": "0",
            "id": "00000000-0000-0000-0000-000000000000",
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": "000000000000",
            "time": "2015-10-08T16:53:06Z",
            "region": "us-east-1",
            "resources": ["arn:aws:events:us-east-1:000000000000:rule/relay"],
            "detail": {}
        });
        assert_eq!(event, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_run_is_not_made_up_for_by_a_burst() {
        let started = tokio::time::Instant::now();
        let (runs, mut running) = tokio::sync::mpsc::unbounded_channel();
        let function = invoke_fn(move |_| {
            let runs = runs.clone();
            async move {
                let start = started.elapsed().as_secs();
                runs.send(start).unwrap();
                tokio::time::sleep(Duration::from_secs(if start == 0 { 150 } else { 1 })).await;
                Ok(Value::Null)
            }
        });
        let schedule = Schedule::start(function, every_minute(), ambient());
        for expected in [0, 150, 210, 270] {
            assert_eq!(running.recv().await, Some(expected));
        }
        schedule.stop().await;
        assert_eq!(running.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_fails_or_panics_does_not_end_the_schedule() {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let function = invoke_fn(move |_| {
            let run = count.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_ne!(run, 0, "out of order");
                Err(InvokeError::Failed { error_type: "Late".to_owned(), message: "out of order".to_owned() })
            }
        });
        let schedule = Schedule::start(function, every_minute(), ambient());
        tokio::time::sleep(Duration::from_secs(150)).await;
        schedule.stop().await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn stopping_waits_for_the_run_under_way() {
        let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (has_started, may_finish) = (Arc::clone(&started), Arc::clone(&finish));
        let function = invoke_fn(move |_| {
            let (has_started, may_finish) = (Arc::clone(&has_started), Arc::clone(&may_finish));
            async move {
                has_started.notify_one();
                may_finish.notified().await;
                has_started.notify_one();
                Ok(Value::Null)
            }
        });
        let schedule = Schedule::start(function, every_minute(), ambient());
        started.notified().await;
        let stopping = tokio::spawn(schedule.stop());
        finish.notify_one();
        stopping.await.unwrap();
        assert_eq!(started.notified().now_or_never(), Some(()));
    }
}
