//! The ports on AWS. A laptop differs from AWS only in the endpoint URL, which the SDK takes from the environment or
//! the caller.

mod account;
mod answer_limit;
mod batch_get;
mod documents;
mod dynamodb;
mod hand_over;
mod https;
mod inspect;
mod lambda;
mod loopback;
mod own_table;
mod render;
mod retry;
mod roots;
mod signed;
mod sqs;

pub use account::{
    CredentialsFailure, SdkConfig, check_credentials, dynamodb_client, function_config, shared_config, sqs_client,
};
pub use documents::{
    DOCUMENT_BYTES_MAX, DocumentCallError, DocumentChange, DocumentPage, DocumentTable, DocumentTooLong,
    DocumentWritten, ID, KIND, ROUTE_SET_STORED_BYTES_MAX, StoredDocument, documents_at, fits,
};
pub use dynamodb::{DUE_INDEX, DynamoStore, FIRST_PAUSE, JOURNAL_INDEX};
pub use hand_over::AccountCaller;
pub use https::{HttpsMaterials, MATERIAL_BYTES_MAX};
pub use inspect::{IndexCursor, IndexPage, IndexQuery, ScanPage};
pub use lambda::LambdaHandlers;
pub use loopback::LoopbackHandlers;
pub use render::{from_attributes, to_attributes};
pub use retry::{ATTEMPTS_MAX, FIRST_BACKOFF, retries, timeouts};
pub use roots::{are_amazons, trusting, with_fall_back};
pub use signed::SignedService;
pub use sqs::SqsQueue;
