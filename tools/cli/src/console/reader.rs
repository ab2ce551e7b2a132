//! What pages read: the tables, without a way to write, and each call counted.

use hookonce_aws::DynamoStore;
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::record::Record;
use hookonce_protocol::time::EpochMs;

use crate::failure::Failure;
use crate::records::timeline::{Planning, Timeline};
use crate::records::{self, Filter, KEYS_AT_ONCE, PageCursor, PageOfRecords, Reach, applied, applied_by, page_of};
use crate::stack::connection::Connection;
use crate::stack::status::{StackStatus, dead};
use crate::stack::watch::Looking;

/// How far one page looks: on AWS each call costs money, and everywhere time.
const PAGE_REACH: Reach = Reach { keys: 2_000, hours: 5 };

/// The same for effects in any state: those that wait or are dead are looked for beside the hours.
const EFFECTS_REACH: Reach = Reach { hours: 3, ..PAGE_REACH };

/// The tables of a stack, for one page.
pub(super) struct Reader {
    store: DynamoStore,
}

impl Reader {
    /// The tables of a connection, which counts the calls.
    pub(super) fn of(store: DynamoStore) -> Self {
        Self { store }
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
        let reach = if filter.is_about_effects() { EFFECTS_REACH } else { PAGE_REACH };
        page_of(&self.store, filter, limit, reach, behind).await
    }

    /// What was received latest, or behind a place: at most these many records, of one hour. The hours before are a page
    /// each.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn hour(&self, limit: usize, behind: Option<&PageCursor>) -> Result<PageOfRecords, Failure> {
        page_of(&self.store, &Filter::default(), limit, Reach { hours: 1, ..PAGE_REACH }, behind).await
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
        children_max: usize,
    ) -> Result<Timeline, Failure> {
        Timeline::of(stack, &self.store, record, planning, children_max).await
    }

    /// How many records are dead. `None` where there are more than one look counts.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(super) async fn dead(&self) -> Result<Option<u64>, Failure> {
        Ok(dead(&self.store).await?.known())
    }

    /// The records that applied a fact.
    ///
    /// # Errors
    /// [`Failure`] when routes, endpoints or the store cannot be read.
    pub(super) async fn applied(&self, stack: &Connection, fact: &str) -> Result<Vec<Record>, Failure> {
        let mut records = Vec::new();
        // As far as a page looks.
        let latest = Box::pin(async {
            let page = self.page(&applied()?, KEYS_AT_ONCE, None).await?;
            Ok(page.rows.into_iter().map(|(_, record)| record).collect())
        });
        for [endpoint, key] in applied_by(stack, &self.store, fact, latest).await? {
            records.extend(self.find(&endpoint, &key).await?);
        }
        Ok(records)
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
    use std::path::PathBuf;

    use hookonce_protocol::key::EndpointId;

    use crate::records::scale::{dead, filled, holding};
    use crate::records::timeline::CHILDREN_MAX;
    use crate::stack::meter::{self, Cost, metered};
    use crate::stack::status::Records;
    use crate::stack::target::DataFolder;

    /// The most calls of one page, and the most read units.
    const CALLS_MAX: u64 = 100;
    const READ_UNITS_MAX: f64 = 2_100.0;

    fn filter(options: &[(&'static str, &'static str)]) -> Filter {
        Filter::of_options(options.iter().copied()).unwrap()
    }

    /// The same tables, with calls that are counted as a connection counts them.
    fn counted(store: DynamoStore) -> Reader {
        let client = meter::counted(store.client());
        Reader::of(store.with_client(client))
    }

    /// What the page of all dead records costs, one that looks for a rare error, one that looks in the journal, and what
    /// the first page says of records.
    async fn costs_of_pages(records: usize) -> [Cost; 4] {
        let (backends, store) = filled(records).await;
        let reader = counted(store);
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

    /// Compares the costs with few and with many records. The units of some pages are equal, too.
    fn check(few: [Cost; 4], many: [Cost; 4], with_equal_units: &[usize]) {
        println!("costs of pages:\n{few:?}\n{many:?}");
        // A rare error ends with the records where there are few.
        for page in [0, 2, 3] {
            assert_eq!(few[page].calls, many[page].calls, "{page}");
        }
        for page in with_equal_units {
            assert_eq!(few[*page], many[*page], "{page}");
        }
        for Cost { calls, read_units } in few.into_iter().chain(many) {
            assert!(calls > 0 && calls <= CALLS_MAX, "{calls} calls");
            assert!(read_units > 0.0 && read_units <= READ_UNITS_MAX, "{read_units} read units");
        }
    }

    /// A batch may have 10,000 events: a page reads those that it shows.
    #[tokio::test]
    async fn the_page_of_a_record_costs_few_calls_and_read_units_however_many_events_came_with_it() {
        let batch =
            Record { key: RecordKey::envelope(&EndpointId::parse("stripe").unwrap(), &[7; 32]), body: None, ..dead(0) };
        let of_batch =
            |index| Record { parent: Some(batch.key.clone()), received_at: batch.received_at, ..dead(index) };
        let records = std::iter::once(batch.clone()).chain((1..=3_000).map(of_batch));
        let (backends, store) = holding(records).await;
        let reader = counted(store);
        let stack = DataFolder { data: PathBuf::from("nowhere") }.connect();
        for (key, events) in [(&batch.key, CHILDREN_MAX), (&dead(1).key, 0)] {
            let (endpoint, own) = key.parts();
            let read = async {
                let record = reader.find(endpoint, own).await.unwrap().unwrap();
                reader.timeline(&stack, record, Planning::Nothing, CHILDREN_MAX).await.unwrap()
            };
            let (timeline, Cost { calls, read_units }) = metered(Box::pin(read)).await;
            assert_eq!((timeline.children.len(), timeline.has_more_children), (events, events > 0));
            assert!(calls > 0 && calls <= CALLS_MAX, "{calls} calls");
            assert!(read_units > 0.0 && read_units <= READ_UNITS_MAX, "{read_units} read units");
        }
        backends.shutdown().await;
    }

    #[tokio::test]
    async fn a_page_costs_few_calls_and_read_units_however_many_records_there_are() {
        check(costs_of_pages(1_000).await, costs_of_pages(10_000).await, &[0, 2]);
    }

    /// Counts end at their own maximum, which a thousand records do not reach. The search for a rare error ends near its
    /// own.
    #[tokio::test]
    #[ignore = "it takes minutes to write a million records: `scripts/bench growth` runs it"]
    async fn a_page_costs_the_same_with_a_million_records() {
        let many = costs_of_pages(1_000_000).await;
        check(costs_of_pages(1_000).await, many, &[0, 2]);
        check(costs_of_pages(40_000).await, many, &[0, 2, 3]);
    }
}
