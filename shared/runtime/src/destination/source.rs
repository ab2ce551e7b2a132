//! Where destination documents come from.

use std::future::Future;

use hookonce_protocol::effect::DestinationId;

use super::document::{DestinationDocument, DestinationError};

/// Why a destination's document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DestinationFetchError {
    /// The source did not answer, or refused the read.
    #[error("the source of destination documents is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The document cannot be read.
    #[error("the destination document is not valid")]
    Invalid(#[source] DestinationError),
}

/// Where destination documents come from.
pub trait DestinationSource: Send + Sync + 'static {
    /// Reads the document of a destination. `None` if there is no such destination.
    ///
    /// # Errors
    /// [`DestinationFetchError`] when the source did not answer, or the document cannot be read.
    fn fetch(
        &self,
        id: &DestinationId,
    ) -> impl Future<Output = Result<Option<DestinationDocument>, DestinationFetchError>> + Send;
}

impl<S: DestinationSource> DestinationSource for std::sync::Arc<S> {
    fn fetch(
        &self,
        id: &DestinationId,
    ) -> impl Future<Output = Result<Option<DestinationDocument>, DestinationFetchError>> + Send {
        (**self).fetch(id)
    }
}
