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
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsInput, TransactWriteItemsOutput};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use hookonce::bill::WriteUnits;
use hookonce_local::backends::{Backends, DataLocation};

use super::Harness;
use super::stack::TestStack;

/// What the calls of a stack consumed. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capacity(Arc<Mutex<Sums>>);

/// A stack whose calls are counted, and the servers that it is on.
pub(crate) struct Metered {
    pub(crate) harness: Harness,
    pub(crate) capacity: Capacity,
    _servers: Backends,
}

impl Metered {
    /// A stack on embedded servers of its own, whatever the run uses: of the items that a transaction writes in one
    /// table, DynamoDB Local counts a single one, and index entries twice.
    pub(crate) async fn new() -> Self {
        let servers = Backends::start(DataLocation::Memory, Duration::from_hours(1)).unwrap();
        let mut harness = Harness::new().await;
        harness.stack = TestStack::at(servers.dynamodb_url(), servers.sqs_url()).await;
        let capacity = Capacity::default();
        let config = harness.stack.dynamodb.config().to_builder().interceptor(capacity.clone()).build();
        harness.stack.dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
        Self { harness, capacity, _servers: servers }
    }
}

#[derive(Debug, Default)]
struct Sums {
    /// Write units by table, or by `TABLE/INDEX`.
    writes: BTreeMap<String, f64>,
    reads: f64,
}

impl Capacity {
    /// The write units since the last time, and the read units.
    pub(crate) fn take(&self, harness: &Harness) -> (WriteUnits, f64) {
        let Sums { mut writes, reads } = std::mem::take(&mut *self.0.lock().unwrap());
        let resources = &harness.stack.resources;
        let mut of = |name: String| writes.remove(&name).unwrap_or_default();
        let inbox = &resources.inbox_table;
        let units = WriteUnits {
            inbox: of(inbox.clone()),
            due: of(format!("{inbox}/due")),
            journal: of(format!("{inbox}/journal")),
            domain: of(resources.domain_table.clone()),
        };
        assert!(writes.is_empty(), "nobody expects writes to {writes:?}");
        (units, reads)
    }

    fn write(&self, consumed: &ConsumedCapacity) {
        let mut sums = self.0.lock().unwrap();
        let table = consumed.table_name().unwrap();
        let indexes = consumed.global_secondary_indexes().into_iter().flatten();
        let indexes = indexes.map(|(name, units)| (format!("{table}/{name}"), units.capacity_units().unwrap()));
        let own = (table.to_owned(), consumed.table().unwrap().capacity_units().unwrap());
        for (name, units) in indexes.chain([own]).filter(|(_, units)| *units > 0.0) {
            *sums.writes.entry(name).or_default() += units;
        }
    }

    fn read(&self, consumed: &ConsumedCapacity) {
        self.0.lock().unwrap().reads += consumed.capacity_units().unwrap();
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
        ask!(input, PutItemInput, UpdateItemInput, TransactWriteItemsInput, GetItemInput, BatchGetItemInput);
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
            self.write(output.consumed_capacity().unwrap());
        } else if let Some(output) = output.downcast_ref::<UpdateItemOutput>() {
            self.write(output.consumed_capacity().unwrap());
        } else if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
            assert!(!output.consumed_capacity().is_empty());
            output.consumed_capacity().iter().for_each(|consumed| self.write(consumed));
        } else if let Some(output) = output.downcast_ref::<GetItemOutput>() {
            self.read(output.consumed_capacity().unwrap());
        } else if let Some(output) = output.downcast_ref::<BatchGetItemOutput>() {
            assert!(!output.consumed_capacity().is_empty());
            output.consumed_capacity().iter().for_each(|consumed| self.read(consumed));
        }
        Ok(())
    }
}
