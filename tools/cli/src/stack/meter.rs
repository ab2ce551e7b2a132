//! What a page costs: its calls to AWS, and the read units of the tables. Calls count for the work that they are made in,
//! so pages that are made at the same moment do not count for each other.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

/// What some work cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    /// Calls to AWS, with retries.
    pub(crate) calls: u64,
    /// Read units of the tables and their indexes.
    pub(crate) read_units: f64,
}

tokio::task_local! {
    /// What the work at hand has cost so far.
    static COST: Arc<Mutex<Cost>>;
}

/// Does some work, and says what it cost.
pub(crate) async fn metered<F: Future>(work: F) -> (F::Output, Cost) {
    let cost = Arc::default();
    let output = COST.scope(Arc::clone(&cost), work).await;
    let cost = *cost.lock().unwrap_or_else(PoisonError::into_inner);
    (output, cost)
}

/// Counts a call. Where nobody wants to know, it does nothing.
pub(crate) fn count_call() {
    add(|cost| cost.calls += 1);
}

fn add(change: impl FnOnce(&mut Cost)) {
    // Outside of metered work, there is nothing to add to.
    let _ = COST.try_with(|cost| change(&mut cost.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// The same client, with calls that are counted.
pub(crate) fn counted(client: &Client) -> Client {
    Client::from_conf(client.config().to_builder().interceptor(Metering).build())
}

/// Counts the calls of a client of an SDK, and lets DynamoDB say what its reads consume.
#[derive(Debug)]
pub(crate) struct Metering;

/// Lets a request of one of these kinds ask.
macro_rules! ask {
    ($input:expr, $($kind:ty),*) => {
        $(if let Some(input) = $input.downcast_mut::<$kind>() {
            input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
        })*
    };
}

impl Intercept for Metering {
    fn name(&self) -> &'static str {
        "Metering"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if COST.try_with(|_| ()).is_ok() {
            let input = context.input_mut();
            ask!(input, GetItemInput, BatchGetItemInput, QueryInput);
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        count_call();
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else { return Ok(()) };
        let consumed: Vec<_> = if let Some(output) = output.downcast_ref::<QueryOutput>() {
            output.consumed_capacity().into_iter().collect()
        } else if let Some(output) = output.downcast_ref::<GetItemOutput>() {
            output.consumed_capacity().into_iter().collect()
        } else if let Some(output) = output.downcast_ref::<BatchGetItemOutput>() {
            output.consumed_capacity().iter().collect()
        } else {
            Vec::new()
        };
        let units: f64 = consumed.into_iter().filter_map(ConsumedCapacity::capacity_units).sum();
        add(|cost| cost.read_units += units);
        Ok(())
    }
}
