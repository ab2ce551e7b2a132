//! The names of the functions' calls, on the wire.
//!
//! A request shows which operation it asks for, but not what a write is for. In tests a header says it.

use std::future::Future;

use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use hookonce_protocol::write::Write;

use super::wire::HttpMessage;

const HEADER: &str = "x-test-purpose";

/// Between the purposes of one transaction.
pub(crate) const SEPARATOR: &str = ", ";

tokio::task_local! {
    static PURPOSES: String;
}

/// Carries out a call and lets its requests say what these writes are for.
pub(crate) async fn named<T>(writes: &[Write], call: impl Future<Output = T>) -> T {
    let purposes: Vec<_> = writes.iter().map(|write| write.purpose.as_str()).collect();
    PURPOSES.scope(purposes.join(SEPARATOR), call).await
}

/// What a request of a function is for: the purposes of its writes, or else its operation. `None` if no function made
/// it.
pub(crate) fn name_of(request: &HttpMessage) -> Option<&str> {
    request.header(HEADER).and_then(|purposes| if purposes.is_empty() { request.operation() } else { Some(purposes) })
}

/// Writes the names into the requests of a function's client.
#[derive(Debug)]
pub(crate) struct CallNames;

impl Intercept for CallNames {
    fn name(&self) -> &'static str {
        "CallNames"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let purposes = PURPOSES.try_with(Clone::clone).unwrap_or_default();
        context.request_mut().headers_mut().insert(HEADER, purposes);
        Ok(())
    }
}
