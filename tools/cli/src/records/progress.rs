//! How far an event is, with the effects of its plan.

use std::time::Duration;

use clap::Args;
use hookonce_aws::DynamoStore;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_runtime::port::Store as _;

use crate::failure::Failure;
use crate::output;
use crate::records::readable;

/// How often `--wait` looks at the records.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// The option that waits.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Wait {
    /// Wait until the record and its effects are settled.
    ///
    /// At most this long.
    #[arg(long = "wait", value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "60s",
        value_parser = wait_time)]
    pub(crate) at_most: Option<Duration>,
}

/// Reads how long to wait.
fn wait_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "it must be a duration, such as 30s or 5m".to_owned())
}

/// The records of an event and of its effects, without their bodies.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` if it is not written yet, or has expired.
    pub(crate) record: Option<Record>,
    pub(crate) effects: Vec<(RecordKey, Option<Record>)>,
}

impl Progress {
    /// Reads the records of the event that has one of these keys.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer, or another version wrote one of them.
    pub(crate) async fn read(store: &DynamoStore, keys: &[RecordKey]) -> Result<Self, Failure> {
        let record = heads(store, keys).await?.into_iter().flatten().next();
        let effects = record.as_ref().map(Record::effect_keys).unwrap_or_default();
        let states = heads(store, &effects).await?;
        Ok(Self { record, effects: effects.into_iter().zip(states).collect() })
    }

    /// Reads them again and again, until they are `enough`. `None` if they were not in time.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer, or another version wrote one of them.
    pub(crate) async fn read_until(
        store: &DynamoStore,
        keys: &[RecordKey],
        at_most: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<Option<Self>, Failure> {
        let bar = output::spinner("waiting for the event to settle");
        let read = tokio::time::timeout(at_most, async {
            loop {
                let progress = Self::read(store, keys).await?;
                if enough(&progress) {
                    return Ok(progress);
                }
                bar.tick();
                tokio::time::sleep(LOOK_PERIOD).await;
            }
        });
        let read = read.await.ok().transpose();
        bar.finish_and_clear();
        read
    }

    /// Whether nothing of it is pending.
    pub(crate) fn is_settled(&self) -> bool {
        let settled = |record: &Record| record.status != Status::Pending;
        let effects = self.effects.iter().all(|(_, effect)| effect.as_ref().is_none_or(settled));
        self.record.as_ref().is_some_and(settled) && effects
    }

    /// What a person must look at. `None` if everything was done, or may still be.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        let stuck = |record: &&Record| matches!(record.status, Status::Dead | Status::Discarded);
        let record = self.record.as_ref()?;
        if stuck(&record) || self.effects.iter().filter_map(|(_, effect)| effect.as_ref()).any(|it| stuck(&it)) {
            return Some("it was given up");
        }
        (record.outcome == Some(Outcome::Ignored)).then_some("no handler and no route wants it")
    }
}

async fn heads(store: &DynamoStore, keys: &[RecordKey]) -> Result<Vec<Option<Record>>, Failure> {
    store.read_heads(keys).await.into_iter().map(readable).collect()
}
