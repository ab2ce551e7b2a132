//! What pages read: the tables, without a way to write, and each call counted.

use aws_sdk_dynamodb::Client;
use hookonce_aws::DynamoStore;
use hookonce_local::calls::CallCounts;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::records::{self, Filter, PageOfRecords, Place, Reach, page_of};
use crate::status::{Counting, StackStatus};
use crate::timeline::{Planning, Timeline};

/// How far one page looks in a stack on AWS, where each call costs money and time.
pub(super) const PAGE_REACH: Reach = Reach { keys: 2_000, hours: 5 };

/// The tables of a stack, for one page.
pub(super) struct Reader {
    store: DynamoStore,
    calls: CallCounts,
    reach: Reach,
}

impl Reader {
    /// The same tables, with calls that are counted from now on.
    pub(super) fn of(store: DynamoStore, reach: Reach) -> Self {
        let calls = CallCounts::default();
        let config = store.client().config().to_builder().interceptor(calls.clone()).build();
        Self { store: store.with_client(Client::from_conf(config)), calls, reach }
    }

    /// How many calls were made.
    pub(super) fn calls(&self) -> u64 {
        self.calls.by_name().values().sum()
    }

    /// A page of the records that pass a filter, behind a place.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn page(
        &self,
        filter: &Filter,
        limit: usize,
        behind: Option<&Place>,
    ) -> Result<PageOfRecords, Failure> {
        page_of(&self.store, filter, limit, self.reach, behind).await
    }

    /// The records of these keys, without their bodies.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn heads(&self, keys: Vec<RecordKey>) -> Result<Vec<Record>, Failure> {
        let found = records::states(&self.store, keys).await?;
        Ok(found.into_iter().filter_map(|(_, record)| record).collect())
    }

    /// A record, by its endpoint and the key that people see.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer, or another version wrote the record.
    pub(super) async fn find(&self, endpoint: &str, key: &str) -> Result<Option<Record>, Failure> {
        records::find(&self.store, endpoint, key).await
    }

    /// What happened to a record.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn timeline(
        &self,
        stack: &Connection,
        record: Record,
        planning: Planning,
    ) -> Result<Timeline, Failure> {
        Timeline::of(stack, &self.store, record, planning).await
    }

    /// How the stack is.
    ///
    /// # Errors
    /// [`Failure`] when nothing of it can be known.
    pub(super) async fn status(&self, stack: &Connection, now: EpochMs) -> Result<StackStatus, Failure> {
        Box::pin(StackStatus::read(stack, Ok(self.store.clone()), Counting::FirstReads, now)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::filled;
    use crate::status::Records;

    /// The most calls of one page.
    const CALLS_MAX: u64 = 100;

    fn filter(options: &[(&'static str, &'static str)]) -> Filter {
        Filter::of_options(options.iter().copied()).unwrap()
    }

    /// The calls of the page of all dead records, of one that looks for a rare error, of one that looks in the journal,
    /// and of what the first page says of records.
    async fn calls_of_pages(records: usize) -> [u64; 4] {
        let (backends, store) = filled(records).await;
        let mut calls = Vec::new();
        for options in [&[("state", "DEAD")][..], &[("state", "DEAD"), ("error", "RARE")], &[("type", "rare")]] {
            let reader = Reader::of(store.clone(), PAGE_REACH);
            reader.page(&filter(options), 50, None).await.unwrap();
            calls.push(reader.calls());
        }
        let reader = Reader::of(store, PAGE_REACH);
        let status = Records::read(Ok(reader.store.clone()), Counting::FirstReads).await;
        assert!(status.dead.unwrap().count > 0 && status.top_error.unwrap().is_some());
        calls.push(reader.calls());
        backends.shutdown().await;
        calls.try_into().unwrap()
    }

    #[tokio::test]
    async fn a_page_costs_few_calls_however_many_records_there_are() {
        let (few, many) = (calls_of_pages(400).await, calls_of_pages(10_000).await);
        println!("calls of pages: {few:?} at 400 records, {many:?} at 10,000");
        assert_eq!((few[0], few[2], few[3]), (many[0], many[2], many[3]));
        assert!(few.iter().chain(&many).all(|calls| *calls <= CALLS_MAX), "{few:?} {many:?}");
    }
}
