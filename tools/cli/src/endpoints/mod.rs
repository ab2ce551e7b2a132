//! Endpoint documents and where they are kept: in a folder of this machine, or in Parameter Store.

mod folder;
#[cfg(feature = "aws")]
mod parameters;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_protocol::ingress::OnStoreOutage;
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::time::EpochMs;
use hookonce_providers::{Catalog, Provider};
use hookonce_runtime::document::{BODY_BYTES_MAX, EndpointDocument};
use hookonce_runtime::endpoint::Endpoint;
use hookonce_runtime::index::{Drift, Rebuilt};

use self::folder::Folder;
pub(crate) use self::folder::{ids, read, read_all, store};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::target::DataFolder;
#[cfg(not(feature = "aws"))]
use crate::target::without_aws;

/// A document as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its JSON.
    pub(crate) text: String,
    /// Its number in the store, one more with each write. A folder has no numbers.
    pub(crate) version: i64,
    /// When it was last written.
    pub(crate) changed_at: EpochMs,
}

impl Stored {
    /// The document.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it is not valid.
    pub(crate) fn document(&self, id: &EndpointId) -> Result<EndpointDocument, Failure> {
        EndpointDocument::parse(&self.text).map_err(|error| {
            let what = format!("endpoint {id}: {}", Report::new(&error));
            Failure::usage(what, "remove the endpoint, and add it again")
        })
    }
}

/// The endpoints of a store.
#[derive(Clone)]
pub(crate) struct Listing {
    /// The documents, valid or not.
    pub(crate) documents: BTreeMap<EndpointId, Stored>,
    /// How the index differs from them. A folder has none.
    pub(crate) drift: Drift,
    /// Whether these are all.
    pub(crate) is_complete: bool,
}

/// Where endpoint documents are kept. The commands know nothing else of it.
///
/// Each write names what it starts from, and finds out whether another process was first, as far as the service allows.
pub(crate) trait EndpointStore: Send + Sync {
    /// The document of an endpoint, if there is one.
    fn get<'a>(&'a self, id: &'a EndpointId) -> BoxFuture<'a, Result<Option<Stored>, Failure>>;

    /// The documents, valid or not, and what the index says of them. Leaves out endpoints above this number, or a few more.
    fn look(&self, endpoints_max: usize) -> BoxFuture<'_, Result<Listing, Failure>>;

    /// Lists ids in the index, before their documents are written. An id that is listed and has no endpoint is harmless,
    /// so whoever dies in between leaves nothing to mend. It is called again after that, because another writer of the
    /// index may have died between two writes.
    fn list<'a>(&'a self, ids: &'a [EndpointId]) -> BoxFuture<'a, Result<(), Failure>>;

    /// Makes the index list every endpoint, and forget other ids. Ctrl-C ends it between two writes.
    fn rebuild_index<'a>(&'a self, interrupt: &'a Interrupt) -> BoxFuture<'a, Result<Rebuilt, Failure>>;

    /// Refuses a document that is too large to be stored here.
    fn fits(&self, text: &str) -> Result<(), Failure>;

    /// Writes the document of a new endpoint. False if there is one already, with another text.
    fn create<'a>(&'a self, id: &'a EndpointId, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>>;

    /// Writes another document in the place of the one that was read.
    fn replace<'a>(&'a self, id: &'a EndpointId, read: &'a Stored, text: &'a str)
    -> BoxFuture<'a, Result<(), Failure>>;

    /// Removes the document that was read.
    fn remove<'a>(&'a self, id: &'a EndpointId, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>>;
}

/// Whose endpoints a command acts on.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) folder: DataFolder,
    /// Name of a deployed stack.
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
}

impl Place {
    /// How to name the place again on the command line.
    pub(crate) fn option(&self) -> String {
        self.stack.as_ref().map_or_else(String::new, |stack| format!(" --stack {stack}"))
    }

    /// The documents of the named stack, or of this machine.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    #[cfg_attr(not(feature = "aws"), expect(clippy::unused_async, reason = "with the feature, it waits"))]
    pub(crate) async fn open(&self) -> Result<Box<dyn EndpointStore>, Failure> {
        match &self.stack {
            None => Ok(Box::new(Folder(self.folder.clone()))),
            #[cfg(feature = "aws")]
            Some(stack) => Ok(Box::new(parameters::Parameters::open(stack).await?)),
            #[cfg(not(feature = "aws"))]
            Some(_) => Err(without_aws()),
        }
    }
}

/// The failure for an endpoint that is not there.
pub(crate) fn missing(id: &EndpointId) -> Failure {
    Failure::usage(
        format!("there is no endpoint {id}"),
        "list them with `hookonce endpoint list`, or add it with `hookonce endpoint add`",
    )
}

/// The failure when another process changed an endpoint first.
fn overtaken(id: &EndpointId) -> Failure {
    Failure::usage(
        format!("endpoint {id} was changed by someone else after it was read; nothing was written"),
        "look at it with `hookonce endpoint show`, then run the command again",
    )
}

/// Checks an endpoint's id.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
pub(crate) fn parse_id(id: &str) -> Result<EndpointId, Failure> {
    EndpointId::parse(id).map_err(|error| Failure::usage(error.to_string(), "choose another id, such as stripe-main"))
}

/// Checks a document as the webhook function does.
///
/// # Errors
/// [`Failure::Usage`] with what is wrong.
pub(crate) fn check(id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    let hint = || format!("`hookonce providers {}` shows the form of a secret and the settings", document.provider);
    let endpoint = Endpoint::new(id.clone(), document.clone(), Catalog::built_in());
    endpoint.map(|_| ()).map_err(|error| Failure::usage(Report::new(&error).to_string(), hint()))
}

/// Checks that an endpoint does not share facts and items unasked: its id is a tenant of others, and its own document
/// names none.
///
/// # Errors
/// [`Failure::Usage`] when it does.
pub(crate) fn check_tenant(id: &EndpointId, document: &EndpointDocument, other: &Tenant) -> Result<(), Failure> {
    if document.tenant.is_some() || other.as_str() != id.as_str() {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "the endpoint {id} would share its facts and items with another endpoint, which names it as its tenant"
        ),
        format!("choose another tenant; to share on purpose, let the document of {id} say \"tenant\": \"{id}\", too"),
    ))
}

/// A document as it is stored.
pub(crate) fn text_of(document: &EndpointDocument) -> String {
    // Plain data always serialises.
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// Makes a document, with a generated secret where the provider accepts one.
pub(crate) fn fresh(provider: &Provider, settings: BTreeMap<String, String>) -> EndpointDocument {
    EndpointDocument {
        provider: provider.id().to_owned(),
        tenant: None,
        secrets: make_secret(provider).into_iter().collect(),
        settings,
        schemes: Vec::new(),
        on_store_outage: OnStoreOutage::default(),
        on_body_mismatch: None,
        tolerance_seconds: None,
        body_bytes_max: BODY_BYTES_MAX,
        source_ranges: Vec::new(),
    }
}

/// Generates a secret in the provider's form; none where the provider has no secret, or uses its own key pair.
pub(crate) fn make_secret(provider: &Provider) -> Option<String> {
    if provider.fetches_keys() {
        return None;
    }
    let random: [u8; 32] = rand::random();
    let base64 = STANDARD.encode(random);
    let hex = hookonce_protocol::key::hex(&random);
    let prefixed = provider.facts().secret_prefix.as_ref().map(|prefix| format!("{prefix}{base64}"));
    let fits = |secret: &String| provider.keyring(std::slice::from_ref(secret)).is_ok();
    prefixed.into_iter().chain([hex, base64]).find(fits)
}
