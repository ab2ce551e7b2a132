//! `hookonce endpoint`: manages the local stack's endpoints. Each is one JSON document.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use error_reporter::Report;
use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_providers::limits::SECRETS_MAX;
use hookonce_providers::{Catalog, Provider};
use hookonce_runtime::document::{BODY_BYTES_MAX, EndpointDocument};
use hookonce_runtime::endpoint::Endpoint;
use hookonce_runtime::index;
use serde_json::json;

use super::providers::find;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::secret::SecretOption;
use crate::target::{DataFolder, write};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add an endpoint; without `--secret -`, generate a secret and print it.
    Add(Add),
    /// List the endpoints.
    List(List),
    /// Show one endpoint; secrets are hidden without --reveal.
    Show(Show),
    /// Add a new secret; the older ones stay valid unless --retire is given, eight at most.
    Rotate(Rotate),
    /// Validate an endpoint document before you deploy it.
    Check(Check),
    /// Remove an endpoint; its records stay.
    Remove(Remove),
    /// Print the index of endpoint ids as lines of name and value, for Parameter Store. Reads ids or names of parameters from
    /// standard input.
    Index,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Endpoint id: a-z, 0-9, - and _.
    id: String,
    /// Provider id; `hookonce providers` lists them.
    #[arg(long, value_name = "ID")]
    provider: String,
    /// `-`: read the secret, exactly as the provider shows it, from standard input; a terminal asks for it.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Whose events it receives; the endpoint's own id if absent. Endpoints of one tenant share facts and items.
    #[arg(long, value_name = "NAME", value_parser = |text: &str| Tenant::parse(text))]
    tenant: Option<Tenant>,
    /// Further setting of the provider, such as verify_token=…; may be repeated. `NAME=-` reads a secret one from standard input.
    #[arg(long, value_name = "NAME=VALUE")]
    setting: Vec<String>,
    /// Scheme to take, if not those that the provider's page calls the strongest; may be repeated.
    #[arg(long, value_name = "NAME")]
    scheme: Vec<String>,
    /// What to do while DynamoDB is down: ask the provider to retry, or accept once the event is in the queue.
    #[arg(long, default_value = "reject", value_parser = word(OnStoreOutage::ALL, OnStoreOutage::as_str))]
    on_store_outage: OnStoreOutage,
    /// What to do when a known event id arrives with a different body: treat it as a duplicate, or keep the new body as a
    /// DEAD record. Without this, it is kept if the provider does not sign the body.
    #[arg(long, value_parser = word(OnBodyMismatch::ALL, OnBodyMismatch::as_str))]
    on_body_mismatch: Option<OnBodyMismatch>,
    #[command(flatten)]
    folder: DataFolder,
}

/// Parses a word into one of these values.
fn word<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    as_str: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> + use<T> {
    let words = PossibleValuesParser::new(values.iter().map(|value| as_str(*value)));
    words.try_map(move |word| values.iter().copied().find(|value| as_str(*value) == word).ok_or("no such word"))
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Endpoint id.
    id: String,
    /// Print the secrets.
    #[arg(long)]
    reveal: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Endpoint id.
    id: String,
    /// `-`: read the new secret from standard input; a terminal asks for it. Without this, one is generated and printed.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Remove every older secret at once.
    #[arg(long)]
    retire: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Endpoint document, as JSON.
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Endpoint id.
    id: String,
    #[command(flatten)]
    folder: DataFolder,
}

pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => {
            list(&arguments);
            Ok(Exit::Done)
        }
        Command::Show(arguments) => show(&arguments),
        Command::Rotate(arguments) => rotate(&arguments),
        Command::Check(arguments) => check(&arguments),
        Command::Remove(arguments) => remove(&arguments),
        Command::Index => print_index(),
    }
}

/// Checks an endpoint's id.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid.
pub(crate) fn parse_id(id: &str) -> Result<EndpointId, Failure> {
    EndpointId::parse(id).map_err(|error| Failure::usage(error.to_string(), "choose another id, such as stripe-main"))
}

/// Reads the document of a local endpoint.
///
/// # Errors
/// [`Failure::Usage`] when there is none, or it is not valid.
pub(crate) fn read(folder: &DataFolder, id: &EndpointId) -> Result<EndpointDocument, Failure> {
    let path = folder.endpoints().path(id);
    let text = fs::read_to_string(&path).map_err(|_| {
        Failure::usage(
            format!("there is no endpoint {id}"),
            "list them with `hookonce endpoint list`, or add it with `hookonce endpoint add`",
        )
    })?;
    EndpointDocument::parse(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display()), "fix the file, or remove the endpoint"))
}

/// The ids of all local endpoints, valid or not.
pub(crate) fn ids(folder: &DataFolder) -> Vec<EndpointId> {
    let files = fs::read_dir(folder.endpoints().folder()).into_iter().flatten().flatten();
    files.filter_map(|file| EndpointId::parse(file.file_name().to_str()?.strip_suffix(".json")?).ok()).collect()
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
    ids(folder).into_iter().filter_map(read).collect()
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

/// Checks a document as the webhook function does.
fn checked(id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    let hint = || format!("`hookonce providers {}` shows the form of a secret and the settings", document.provider);
    let endpoint = Endpoint::new(id.clone(), document.clone(), Catalog::built_in());
    endpoint.map(|_| ()).map_err(|error| Failure::usage(Report::new(&error).to_string(), hint()))
}

/// Checks and stores a document.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid, or cannot be written.
pub(crate) fn store(folder: &DataFolder, id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    checked(id, document)?;
    write(&folder.endpoints().path(id), &serde_json::to_string_pretty(document).unwrap_or_default())
}

/// Generates a secret in the provider's form; none where the provider has no secret, or uses its own key pair.
fn make_secret(provider: &Provider) -> Option<String> {
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

fn add(arguments: Add) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let provider = find(Catalog::built_in(), &arguments.provider)?;
    if arguments.folder.endpoints().path(&id).exists() {
        return Err(Failure::usage(
            format!("the endpoint {id} already exists"),
            "rotate its secret, or remove it first",
        ));
    }
    let settings = arguments.setting.iter().map(|setting| pair(setting)).collect::<Result<_, _>>()?;
    let made = arguments.secret.is_none();
    let mut document = fresh(provider, settings);
    if let Some(secret) = &arguments.secret {
        document.secrets = vec![secret.read_from_input("secret")?];
    } else if document.secrets.is_empty() && !provider.fetches_keys() {
        return Err(no_secret(provider));
    }
    document.tenant = arguments.tenant;
    document.schemes = arguments.scheme;
    document.on_store_outage = arguments.on_store_outage;
    document.on_body_mismatch = arguments.on_body_mismatch;
    store(&arguments.folder, &id, &document)?;
    output::note(&format!("endpoint {id} receives webhooks from {} at /webhooks/{id}", provider.name()));
    if let (true, Some(secret)) = (made, document.secrets.first()) {
        output::note("generated secret (`endpoint show --reveal` prints it again):");
        output::line(secret);
    }
    Ok(Exit::Done)
}

/// The failure for a provider that signs with its own private key.
fn no_secret(provider: &Provider) -> Failure {
    Failure::usage(
        format!("a secret for {} cannot be generated", provider.name()),
        format!("pass `--secret -`; `hookonce providers {}` shows where to find it", provider.id()),
    )
}

/// Parses a setting from the command line.
///
/// # Errors
/// [`Failure::Usage`] when it is not NAME=VALUE.
pub(crate) fn pair(setting: &str) -> Result<(String, String), Failure> {
    let Some((name, value)) = setting.split_once('=') else {
        return Err(Failure::usage("a setting is not NAME=VALUE", "for instance --setting verify_token=abc"));
    };
    Ok((name.to_owned(), SecretOption::from(value).given(name)?))
}

/// Prints one line for each text of the index.
fn print_index() -> Result<Exit, Failure> {
    let read = std::io::read_to_string(std::io::stdin());
    let names = read.map_err(|error| {
        Failure::usage(format!("reading standard input failed: {error}"), "pipe the names of the endpoints into it")
    })?;
    let names = names.split_whitespace().filter_map(|name| name.rsplit('/').next());
    // The index itself stands beside the endpoints.
    let ids = names.filter(|name| !name.contains('.')).map(parse_id).collect::<Result<Vec<_>, _>>()?;
    for (shard, text) in (0..index::SHARDS).zip(index::texts(&ids)) {
        output::line(&format!("{} {text}", index::parameter(shard)));
    }
    Ok(Exit::Done)
}

fn list(arguments: &List) {
    let endpoints = read_all(&arguments.folder);
    if arguments.json {
        let rows = endpoints.iter().map(
            |(id, document)| json!({ "id": id, "provider": document.provider, "secrets": document.secrets.len() }),
        );
        output::json(&rows.collect::<Vec<_>>());
        return;
    }
    let mut table = output::table(&["id", "provider", "secrets", "path"]);
    for (id, document) in &endpoints {
        table.add_row([
            id.as_str(),
            document.provider.as_str(),
            &document.secrets.len().to_string(),
            &format!("/webhooks/{id}"),
        ]);
    }
    output::print(&table);
}

fn show(arguments: &Show) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let mut document = read(&arguments.folder, &id)?;
    if !arguments.reveal {
        document.secrets = document.secrets.iter().map(|_| "<hidden>".to_owned()).collect();
    }
    if arguments.json {
        output::json(&document);
        return Ok(Exit::Done);
    }
    let mut table = output::table(&[]);
    table.add_row(["provider", document.provider.as_str()]);
    if let Some(tenant) = &document.tenant {
        table.add_row(["tenant", tenant.as_str()]);
    }
    for (index, secret) in document.secrets.iter().enumerate() {
        table.add_row([format!("secret {index}").as_str(), secret.as_str()]);
    }
    for (name, value) in &document.settings {
        table.add_row([name.as_str(), value.as_str()]);
    }
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    table.add_row(["on store outage", &word(json!(document.on_store_outage))]);
    if let Some(choice) = document.on_body_mismatch {
        table.add_row(["on body mismatch", choice.as_str()]);
    }
    output::print(&table);
    Ok(Exit::Done)
}

fn rotate(arguments: &Rotate) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let given = arguments.secret.as_ref().map(|secret| secret.read_from_input("new secret")).transpose()?;
    let mut document = read(&arguments.folder, &id)?;
    let provider = find(Catalog::built_in(), &document.provider)?;
    let made = arguments.secret.is_none();
    let secret = given.or_else(|| make_secret(provider)).ok_or_else(|| no_secret(provider))?;
    if arguments.retire {
        document.secrets.clear();
    }
    document.secrets.insert(0, secret.clone());
    let dropped = document.secrets.len().saturating_sub(SECRETS_MAX);
    document.secrets.truncate(SECRETS_MAX);
    store(&arguments.folder, &id, &document)?;
    output::note(&format!("endpoint {id} has {} secret(s); the newest is secret 0", document.secrets.len()));
    if dropped > 0 {
        output::note(&format!("the oldest secret was removed: an endpoint holds at most {SECRETS_MAX}"));
    }
    if made {
        output::line(&secret);
    }
    Ok(Exit::Done)
}

fn check(arguments: &Check) -> Result<Exit, Failure> {
    let file = arguments.file.display();
    let text = fs::read_to_string(&arguments.file)
        .map_err(|error| Failure::usage(format!("reading {file} failed: {error}"), "check the path"))?;
    let id = parse_id("checked")?;
    let checked = EndpointDocument::parse(&text)
        .map_err(|error| Failure::usage(error.to_string(), "docs/deploy.md lists the fields of an endpoint document"))
        .and_then(|document| checked(&id, &document).map(|()| document));
    match checked {
        Ok(document) => {
            output::line(&format!("{file}: valid (provider: {})", document.provider));
            Ok(Exit::Done)
        }
        Err(failure) => {
            output::failure(&failure);
            Ok(Exit::No)
        }
    }
}

fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    fs::remove_file(arguments.folder.endpoints().path(&id)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::usage(format!("there is no endpoint {id}"), "list them with `hookonce endpoint list`")
        }
        _ => Failure::usage(format!("removing the endpoint {id} failed: {error}"), "check the folder's permissions"),
    })?;
    output::note(&format!("endpoint {id} is removed; its records stay"));
    Ok(Exit::Done)
}
