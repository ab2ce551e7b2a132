//! Destinations: their documents, their sources and their calls.

pub(crate) mod calls;
mod circles;
mod documents;
mod queues;
mod secure;
mod stripe;

use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::destination::{Destination, DestinationDocument, DestinationError};
use serde_json::Value;

fn id() -> DestinationId {
    DestinationId::parse("receipts").unwrap()
}

pub(crate) fn destination(document: &Value) -> Result<Destination, DestinationError> {
    DestinationDocument::parse(&document.to_string()).and_then(|document| Destination::new(id(), &document))
}
