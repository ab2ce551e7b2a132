//! Endpoint documents: reading, checking and making them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use error_reporter::Report;
use hookonce_protocol::ingress::OnStoreOutage;
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::time::Millis;
use hookonce_providers::settings::{ENVIRONMENT, HEADER, PUBLIC_KEY, PUBLIC_URL, TOPIC_ARNS, WEBHOOK_ID};
use hookonce_providers::{Catalog, Provider, SecretFrom};
use hookonce_runtime::documents::DocumentKind;
use hookonce_runtime::documents::document::{BODY_BYTES_MAX, EndpointDocument};
use hookonce_runtime::documents::endpoint::Endpoint;

use crate::documents::{DocumentId, Folder, HIDDEN, missing, text_of};
use crate::failure::Failure;
use crate::output;
use crate::stack::target::{DataFolder, write};

/// The settings that everybody may know. Any other is hidden like a secret, because it may be one: an API secret, the
/// token that answers a subscription request.
pub(crate) const OPEN_SETTINGS: [&str; 6] = [PUBLIC_URL, WEBHOOK_ID, ENVIRONMENT, PUBLIC_KEY, TOPIC_ARNS, HEADER];

/// What an operator should know whose document holds a text that `add` would refuse. A function takes it, and the provider
/// may have issued it.
const ODD_SECRET: &str = "a secret has no form of this provider's secrets, as an API key or a quoted text has none; unless the \
                          provider issued it, rotate it";

impl DocumentId for EndpointId {
    const NOUN: &'static str = "endpoint";
    const KIND: DocumentKind = DocumentKind::Endpoint;
    const FIELDS: &'static str = "docs/run/deploy.md lists the fields of an endpoint document";

    type Document = EndpointDocument;
    type Checked = Endpoint;

    fn of(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }

    fn parse_document(text: &str) -> Result<EndpointDocument, String> {
        EndpointDocument::parse(text).map_err(|error| error.to_string())
    }

    fn check(&self, document: &EndpointDocument) -> Result<Endpoint, Failure> {
        expect_every(document)?;
        let hint = || format!("`hookonce providers {}` shows the form of a secret and the settings", document.provider);
        let endpoint = Endpoint::new(self.clone(), document.clone(), Catalog::built_in());
        endpoint.map_err(|error| Failure::usage(Report::new(&error).to_string(), hint()))
    }

    fn detail(checked: Option<&Endpoint>) -> Option<(&'static str, Option<&str>)> {
        Some(("provider", checked.map(|endpoint| endpoint.provider.id())))
    }

    fn warnings(document: &EndpointDocument) -> Vec<&'static str> {
        let provider = Catalog::built_in().provider(&document.provider).filter(|_| !document.secrets.is_empty());
        let Some(provider) = provider else { return Vec::new() };
        let is_odd = document.secrets.iter().any(|secret| check_secret(provider, secret).is_err());
        provider.secret_warnings().into_iter().chain(is_odd.then_some(ODD_SECRET)).collect()
    }

    fn hide(document: &mut EndpointDocument) {
        let settings = document.settings.iter_mut().filter(|(name, _)| !OPEN_SETTINGS.contains(&name.as_str()));
        for value in document.secrets.iter_mut().chain(settings.map(|(_, value)| value)) {
            HIDDEN.clone_into(value);
        }
    }
}

/// The most endpoints that a warning names.
const IDS_MAX: usize = 5;

/// The first of these ids, and how many more there are.
pub(crate) fn some(ids: &[String]) -> String {
    let shown = ids.iter().take(IDS_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if ids.len() > IDS_MAX { format!("{shown} and {} more", ids.len() - IDS_MAX) } else { shown }
}

/// Each warning once, with the endpoints that it is about.
pub(crate) fn by_warning(warned: impl IntoIterator<Item = (&'static str, String)>) -> Vec<String> {
    let mut holders: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (warning, id) in warned {
        holders.entry(warning).or_default().push(id);
    }
    holders.into_iter().map(|(warning, ids)| format!("{}: {warning}", some(&ids))).collect()
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
        format!("another endpoint names {id} as its tenant, so {id} would share facts and items with it"),
        format!("choose another tenant; to share on purpose, let the document of {id} say \"tenant\": \"{id}\", too"),
    ))
}

/// Within how long a document expects a delivery, if it says so.
///
/// # Errors
/// [`Failure::Usage`] when it is no length of time, or one that the counts and logs of a stack do not show.
pub(crate) fn expect_every(document: &EndpointDocument) -> Result<Option<Millis>, Failure> {
    let Some(text) = &document.expect_every else { return Ok(None) };
    let length = humantime::parse_duration(text).ok().and_then(|length| i64::try_from(length.as_millis()).ok());
    let length = length.map(Millis).filter(|length| (Millis::hours(1)..=Millis::days(30)).contains(length));
    length.map(Some).ok_or_else(|| {
        Failure::usage("expect_every is not a time from 1h to 30days", "write a number and a unit, such as 26h")
    })
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
        expect_every: None,
    }
}

/// The secret in what a person pasted, without quotation marks or a name in front of it. It says what was taken off.
///
/// # Errors
/// [`Failure::Usage`] when it has another form than this provider's secrets, so that an API key or a secret of another
/// provider is noticed before it is stored. It holds nothing of what was pasted.
pub(crate) fn pasted_secret(provider: &Provider, text: &str) -> Result<String, Failure> {
    let pasted = provider.pasted_secret(text).map_err(|error| no_such_secret(provider, &error))?;
    provider.facts().check_secret(&pasted.secret).map_err(|error| no_such_secret(provider, &error))?;
    if !pasted.taken_off.is_empty() {
        output::note(&format!("the secret is taken without {}", pasted.taken_off.join(" and ")));
    }
    Ok(pasted.secret)
}

/// Checks that a secret of a document is one of this provider's, as it stands there.
///
/// # Errors
/// [`Failure::Usage`] as [`pasted_secret`], and when something stands around it.
pub(crate) fn check_secret(provider: &Provider, secret: &str) -> Result<(), Failure> {
    let pasted = provider.pasted_secret(secret).map_err(|error| no_such_secret(provider, &error))?;
    if !pasted.taken_off.is_empty() {
        let problem = format!("a secret has {}; store the secret alone", pasted.taken_off.join(" and "));
        return Err(Failure::usage(problem, "nothing else may stand in `secrets`"));
    }
    provider.facts().check_secret(secret).map_err(|error| no_such_secret(provider, &error))
}

fn no_such_secret(provider: &Provider, error: &dyn std::error::Error) -> Failure {
    let facts = provider.facts();
    let prefix = facts.secret_prefix.as_ref().filter(|_| facts.secret_from == SecretFrom::Provider);
    let form = prefix.map_or_else(String::new, |prefix| format!("the secret begins with `{prefix}`; "));
    let hint = format!("{form}nothing was written; `hookonce providers {}` says which secret it is", provider.id());
    Failure::usage(error.to_string(), hint)
}

/// Generates a secret in the provider's form; none where the provider has no secret, or uses its own key pair.
pub(crate) fn make_secret(provider: &Provider) -> Option<String> {
    secret_of(provider, rand::random())
}

/// The secret in the provider's form that these bytes make.
pub(crate) fn secret_of(provider: &Provider, random: [u8; 32]) -> Option<String> {
    if provider.fetches_keys() {
        return None;
    }
    let base64 = STANDARD.encode(random);
    let hex = hookonce_protocol::key::hex(&random);
    let facts = provider.facts();
    let hex: String = hex.chars().take(facts.secret_chars_max.unwrap_or(usize::MAX)).collect();
    let prefixed = facts.secret_prefix.as_ref().map(|prefix| format!("{prefix}{base64}"));
    let fits =
        |secret: &String| provider.keyring(std::slice::from_ref(secret)).is_ok() && facts.check_secret(secret).is_ok();
    prefixed.into_iter().chain([hex, base64]).find(fits)
}

/// Reads the document of a local endpoint.
///
/// # Errors
/// [`Failure::Usage`] when there is none, or it is not valid.
pub(crate) fn read(folder: &DataFolder, id: &EndpointId) -> Result<EndpointDocument, Failure> {
    Folder::of(folder).stored(id)?.ok_or_else(|| missing(id))?.document(id)
}

/// All local endpoints, by id. Leaves out each one that is not valid, and prints why.
pub(crate) fn read_all(folder: &DataFolder) -> BTreeMap<EndpointId, EndpointDocument> {
    let read = |id: EndpointId| match read(folder, &id) {
        Ok(document) => Some((id, document)),
        Err(failure) => {
            output::failure(&failure);
            None
        }
    };
    Folder::of(folder).ids().into_iter().filter_map(read).collect()
}

/// Checks and stores a local document, over any other.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid, or cannot be written.
pub(crate) fn store(folder: &DataFolder, id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    id.check(document)?;
    write(&folder.documents().path(DocumentKind::Endpoint, id.as_str()), &text_of(document))
}
