//! What pages read: the tables, without a way to write, and each call counted.

use aws_sdk_dynamodb::Client;
use hookonce_aws::DynamoStore;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::meter::Metering;
use crate::records::{self, Filter, PageCursor, PageOfRecords, Reach, page_of};
use crate::status::StackStatus;
use crate::timeline::{Planning, Timeline};
use crate::watch::Looking;

/// How far one page looks in a stack on AWS, where each call costs money and time.
pub(super) const PAGE_REACH: Reach = Reach { keys: 2_000, hours: 5 };

/// The tables of a stack, for one page.
pub(super) struct Reader {
    store: DynamoStore,
    reach: Reach,
}

impl Reader {
    /// The same tables, with calls that are counted.
    pub(super) fn of(store: DynamoStore, reach: Reach) -> Self {
        let config = store.client().config().to_builder().interceptor(Metering).build();
        Self { store: store.with_client(Client::from_conf(config)), reach }
    }

    /// A page of the records that pass a filter, behind a place.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn page(
        &self,
        filter: &Filter,
        limit: usize,
        behind: Option<&PageCursor>,
    ) -> Result<PageOfRecords, Failure> {
        page_of(&self.store, filter, limit, self.reach, behind).await
    }

    /// What was received latest, or behind a place: at most these many records, of one hour. The hours before are a page
    /// each.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn hour(&self, limit: usize, behind: Option<&PageCursor>) -> Result<PageOfRecords, Failure> {
        page_of(&self.store, &Filter::default(), limit, Reach { hours: 1, ..self.reach }, behind).await
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
        Box::pin(StackStatus::read(stack, Ok(self.store.clone()), Looking::Once, now)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Cost, metered};
    use crate::scale::filled;
    use crate::status::Records;

    /// The most calls of one page, and the most read units.
    const CALLS_MAX: u64 = 100;
    const READ_UNITS_MAX: f64 = 2_100.0;

    fn filter(options: &[(&'static str, &'static str)]) -> Filter {
        Filter::of_options(options.iter().copied()).unwrap()
    }

    /// What the page of all dead records costs, one that looks for a rare error, one that looks in the journal, and what
    /// the first page says of records.
    async fn costs_of_pages(records: usize) -> [Cost; 4] {
        let (backends, store) = filled(records).await;
        let reader = Reader::of(store, PAGE_REACH);
        let mut costs = Vec::new();
        for options in [&[("state", "DEAD")][..], &[("state", "DEAD"), ("error", "RARE")], &[("type", "rare")]] {
            let (page, cost) = metered(reader.page(&filter(options), 50, None)).await;
            page.unwrap();
            costs.push(cost);
        }
        let (status, cost) = metered(Records::read(Ok(reader.store.clone()), Looking::Once)).await;
        assert!(status.dead.unwrap().count > 0 && status.top_error.unwrap().is_some());
        costs.push(cost);
        backends.shutdown().await;
        costs.try_into().unwrap()
    }

    async fn check(records: usize) {
        let (few, many) = (costs_of_pages(1_000).await, costs_of_pages(records).await);
        println!("costs of pages:\n{few:?} at 1,000 records\n{many:?} at {records} records");
        // A rare error ends with the records where there are few.
        for page in [0, 2, 3] {
            assert_eq!(few[page].calls, many[page].calls, "{page}");
        }
        for Cost { calls, read_units } in few.into_iter().chain(many) {
            assert!(calls > 0 && calls <= CALLS_MAX, "{calls} calls");
            assert!(read_units > 0.0 && read_units <= READ_UNITS_MAX, "{read_units} read units");
        }
    }

    #[tokio::test]
    async fn a_page_costs_few_calls_and_read_units_however_many_records_there_are() {
        check(10_000).await;
    }

    #[tokio::test]
    #[ignore = "it takes minutes to write a million records"]
    async fn a_page_costs_the_same_with_a_million_records() {
        check(1_000_000).await;
    }
}
