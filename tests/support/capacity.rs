//! What DynamoDB says that the functions' calls consume. The functions do not ask for it; here, their clients do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsInput, TransactWriteItemsOutput};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use hookonce::bill::WriteUnits;
use hookonce_local::backends::{Backends, DataLocation};
use hookonce_local::tables::StackResources;

use super::Harness;
use super::stack::TestStack;

/// What the calls of a stack consumed. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capacity(Arc<Mutex<Vec<Consumed>>>);

/// A query that found nothing.
pub(crate) const EMPTY_QUERY: &str = "Query of nothing";

/// The operations that only read.
const READS: [&str; 4] = ["GetItem", "BatchGetItem", "Query", EMPTY_QUERY];

/// What a call consumed: `inbox`, `inbox/INDEX` or `domain`. A read has no entries for indexes.
pub(crate) type Units = BTreeMap<String, f64>;

/// A call that consumed units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consumed {
    pub(crate) operation: &'static str,
    pub(crate) units: Units,
}

/// A stack whose calls are counted, and the servers that it is on.
pub(crate) struct Metered {
    pub(crate) harness: Harness,
    pub(crate) capacity: Capacity,
    _servers: Option<Backends>,
}

impl Metered {
    /// A stack on embedded servers of its own, whatever the run uses.
    pub(crate) async fn new() -> Self {
        let servers = Backends::start(DataLocation::Memory, Duration::from_hours(1)).unwrap();
        let mut harness = Harness::new().await;
        harness.stack = TestStack::at(servers.dynamodb_url(), servers.sqs_url()).await;
        Self { _servers: Some(servers), ..Self::of(harness) }
    }

    /// A stack on the servers of the run.
    pub(crate) async fn of_the_run() -> Self {
        Self::of(Harness::new().await)
    }

    fn of(mut harness: Harness) -> Self {
        let capacity = Capacity::default();
        let config = harness.stack.dynamodb.config().to_builder().interceptor(capacity.clone()).build();
        harness.stack.dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
        Self { harness, capacity, _servers: None }
    }
}

impl Capacity {
    /// The write units since the last time, and the read units.
    pub(crate) fn take(&self, harness: &Harness) -> (WriteUnits, f64) {
        let (mut writes, mut reads) = (Units::new(), 0.0);
        for Consumed { operation, units } in self.take_calls(harness) {
            if READS.contains(&operation) {
                reads += units.values().sum::<f64>();
            } else {
                for (name, units) in units {
                    *writes.entry(name).or_default() += units;
                }
            }
        }
        let mut of = |name: &str| writes.remove(name).unwrap_or_default();
        let units =
            WriteUnits { inbox: of("inbox"), due: of("inbox/due"), journal: of("inbox/journal"), domain: of("domain") };
        assert!(writes.is_empty(), "nobody expects writes to {writes:?}");
        (units, reads)
    }

    /// The calls since the last time.
    pub(crate) fn take_calls(&self, harness: &Harness) -> Vec<Consumed> {
        let StackResources { inbox_table, domain_table, .. } = &harness.stack.resources;
        let named = |(name, units): (String, f64)| {
            (name.replacen(inbox_table, "inbox", 1).replacen(domain_table, "domain", 1), units)
        };
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        let calls =
            calls.into_iter().map(|call| Consumed { units: call.units.into_iter().map(named).collect(), ..call });
        calls.collect()
    }

    fn add<'a>(&self, operation: &'static str, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let mut sums = Units::new();
        let consumed: Vec<_> = consumed.into_iter().collect();
        assert!(!consumed.is_empty(), "{operation} does not say what it consumed");
        for consumed in consumed {
            let table = consumed.table_name().unwrap();
            let indexes = consumed.global_secondary_indexes().into_iter().flatten();
            let indexes = indexes.filter(|_| !READS.contains(&operation));
            let indexes = indexes.map(|(name, units)| (format!("{table}/{name}"), units.capacity_units().unwrap()));
            let own = match consumed.table() {
                Some(own) if !READS.contains(&operation) => own.capacity_units().unwrap(),
                _ => consumed.capacity_units().unwrap(),
            };
            for (name, units) in indexes.chain([(table.to_owned(), own)]).filter(|(_, units)| *units > 0.0) {
                *sums.entry(name).or_default() += units;
            }
        }
        self.0.lock().unwrap().push(Consumed { operation, units: sums });
    }
}

/// Lets a request of one of these kinds ask.
macro_rules! ask {
    ($input:expr, $($kind:ty),*) => {
        $(if let Some(input) = $input.downcast_mut::<$kind>() {
            input.return_consumed_capacity = Some(ReturnConsumedCapacity::Indexes);
        })*
    };
}

impl Intercept for Capacity {
    fn name(&self) -> &'static str {
        "Capacity"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input_mut();
        ask!(input, PutItemInput, UpdateItemInput, TransactWriteItemsInput);
        ask!(input, GetItemInput, BatchGetItemInput, QueryInput);
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else { return Ok(()) };
        if let Some(output) = output.downcast_ref::<PutItemOutput>() {
            self.add("PutItem", output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<UpdateItemOutput>() {
            self.add("UpdateItem", output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
            self.add("TransactWriteItems", output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<GetItemOutput>() {
            self.add("GetItem", output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<BatchGetItemOutput>() {
            self.add("BatchGetItem", output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<QueryOutput>() {
            self.add(if output.count() == 0 { EMPTY_QUERY } else { "Query" }, output.consumed_capacity());
        }
        Ok(())
    }
}
