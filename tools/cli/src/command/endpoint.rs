//! `hookonce endpoint`: endpoints of the local stack, one document each.

use std::collections::BTreeMap;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use hookonce_protocol::key::EndpointId;
use hookonce_providers::{Catalog, Keyring, Provider};
use hookonce_runtime::endpoint::{
    BODY_BYTES_DEFAULT, Endpoint, EndpointDocument, MismatchPolicy, OutagePolicy, SECRETS_MAX,
};
use serde_json::json;

use super::providers::find;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::target::{DataFolder, write};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add an endpoint. Without --secret, one is made and printed.
    Add(Add),
    /// List the endpoints.
    List(List),
    /// Show one endpoint; its secrets only with --reveal.
    Show(Show),
    /// Put a new secret in front of the others; the newest of the old ones stays valid.
    Rotate(Rotate),
    /// Remove an endpoint. Its records stay.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The endpoint's id: a-z, 0-9, - and _.
    id: String,
    /// The provider's id in the catalog.
    #[arg(long, value_name = "ID")]
    provider: String,
    /// A secret as the provider hands it out; several, newest first.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    secret: Vec<String>,
    /// What else the scheme needs, such as verify_token=…
    #[arg(long, value_name = "NAME=VALUE")]
    setting: Vec<String>,
    /// While the store is down.
    #[arg(long, value_enum, default_value = "reject")]
    on_store_outage: Outage,
    /// When a known id comes with another body.
    #[arg(long, value_enum, default_value = "duplicate")]
    on_body_mismatch: Mismatch,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Outage {
    /// Ask the provider to retry.
    Reject,
    /// Accept on the strength of the queue.
    Enqueue,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mismatch {
    /// A duplicate like any other.
    Duplicate,
    /// Keep the other body apart, dead.
    Quarantine,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The endpoint's id.
    id: String,
    /// Print the secrets, too.
    #[arg(long)]
    reveal: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The endpoint's id.
    id: String,
    /// The new secret; made and printed if absent.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    secret: Option<String>,
    /// Drop every older secret at once.
    #[arg(long)]
    retire: bool,
    #[command(flatten)]
    folder: DataFolder,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The endpoint's id.
    id: String,
    #[command(flatten)]
    folder: DataFolder,
}

pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => list(&arguments),
        Command::Show(arguments) => show(&arguments),
        Command::Rotate(arguments) => rotate(arguments),
        Command::Remove(arguments) => remove(&arguments),
    }
}

/// Checks an endpoint's id.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be one.
pub(crate) fn parse_id(id: &str) -> Result<EndpointId, Failure> {
    EndpointId::parse(id).map_err(|error| Failure::usage(error.to_string(), "choose another id, such as stripe-main"))
}

/// The document of an endpoint of the local stack.
///
/// # Errors
/// [`Failure::Usage`] when there is none, or it is not valid.
pub(crate) fn read(folder: &DataFolder, id: &EndpointId) -> Result<EndpointDocument, Failure> {
    let path = folder.endpoints().path(id);
    let text = fs::read_to_string(&path).map_err(|_| {
        Failure::usage(
            format!("there is no endpoint {id}"),
            "`hookonce endpoint list` lists them, `endpoint add` adds one",
        )
    })?;
    EndpointDocument::parse(&text).map_err(|error| {
        Failure::usage(format!("{}: {error}", path.display()), "mend the file, or add the endpoint anew")
    })
}

/// All endpoints of the local stack, by id.
///
/// # Errors
/// [`Failure::Usage`] when one of them is not valid.
pub(crate) fn read_all(folder: &DataFolder) -> Result<BTreeMap<EndpointId, EndpointDocument>, Failure> {
    let files = fs::read_dir(folder.endpoints().folder()).into_iter().flatten().flatten();
    let ids = files.filter_map(|file| EndpointId::parse(file.file_name().to_str()?.strip_suffix(".json")?).ok());
    ids.map(|id| read(folder, &id).map(|document| (id, document))).collect()
}

/// Makes a document with a fresh secret.
pub(crate) fn fresh(provider: &Provider, settings: BTreeMap<String, String>) -> EndpointDocument {
    EndpointDocument {
        provider: provider.id().to_owned(),
        secrets: vec![make_secret(provider)],
        settings,
        on_store_outage: OutagePolicy::Reject,
        on_body_mismatch: MismatchPolicy::Duplicate,
        tolerance_seconds: None,
        body_bytes_max: BODY_BYTES_DEFAULT,
        source_ranges: Vec::new(),
    }
}

/// Checks and stores a document.
///
/// # Errors
/// [`Failure::Usage`] when it is not valid, or cannot be written.
pub(crate) fn store(folder: &DataFolder, id: &EndpointId, document: &EndpointDocument) -> Result<(), Failure> {
    Endpoint::new(id.clone(), document.clone(), Catalog::built_in()).map_err(|error| {
        Failure::usage(
            hookonce_runtime::telemetry::chain(&error),
            format!("`hookonce providers {}` tells the form of a secret", document.provider),
        )
    })?;
    write(&folder.endpoints().path(id), &serde_json::to_string_pretty(document).unwrap_or_default())
}

/// A secret of the form that the provider's own have.
fn make_secret(provider: &Provider) -> String {
    let random: [u8; 32] = rand::random();
    let base64 = STANDARD.encode(random);
    let hex = hookonce_protocol::key::hex(&random);
    let prefixed = format!("whsec_{base64}");
    let candidates =
        if provider.facts().secret.contains("whsec_") { [prefixed, hex, base64] } else { [hex, base64, prefixed] };
    let fits = |secret: &String| Keyring::new(provider, std::slice::from_ref(secret)).is_ok();
    candidates.into_iter().find(fits).unwrap_or_default()
}

fn add(arguments: Add) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let provider = find(Catalog::built_in(), &arguments.provider)?;
    if arguments.folder.endpoints().path(&id).exists() {
        return Err(Failure::usage(format!("the endpoint {id} exists"), "rotate its secret, or remove it first"));
    }
    let settings = arguments.setting.iter().map(|setting| pair(setting)).collect::<Result<_, _>>()?;
    let made = arguments.secret.is_empty();
    let mut document = fresh(provider, settings);
    if !made {
        document.secrets = arguments.secret;
    }
    document.on_store_outage = match arguments.on_store_outage {
        Outage::Reject => OutagePolicy::Reject,
        Outage::Enqueue => OutagePolicy::Enqueue,
    };
    document.on_body_mismatch = match arguments.on_body_mismatch {
        Mismatch::Duplicate => MismatchPolicy::Duplicate,
        Mismatch::Quarantine => MismatchPolicy::Quarantine,
    };
    store(&arguments.folder, &id, &document)?;
    output::note(&format!("endpoint {id} receives from {} at /webhooks/{id}", provider.name()));
    if let (true, Some(secret)) = (made, document.secrets.first()) {
        output::note("its secret, printed this once:");
        output::line(secret);
    }
    Ok(Exit::Done)
}

/// A setting as it is typed.
///
/// # Errors
/// [`Failure::Usage`] when it is not NAME=VALUE.
pub(crate) fn pair(setting: &str) -> Result<(String, String), Failure> {
    let pair = setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| {
        Failure::usage(format!("{setting:?} is not NAME=VALUE"), "for instance --setting verify_token=abc")
    })
}

fn list(arguments: &List) -> Result<Exit, Failure> {
    let endpoints = read_all(&arguments.folder)?;
    if arguments.json {
        let rows = endpoints.iter().map(
            |(id, document)| json!({ "id": id, "provider": document.provider, "secrets": document.secrets.len() }),
        );
        output::json(&rows.collect::<Vec<_>>());
        return Ok(Exit::Done);
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
    Ok(Exit::Done)
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
    for (index, secret) in document.secrets.iter().enumerate() {
        table.add_row([format!("secret {index}").as_str(), secret.as_str()]);
    }
    for (name, value) in &document.settings {
        table.add_row([name.as_str(), value.as_str()]);
    }
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    table.add_row(["on store outage", &word(json!(document.on_store_outage))]);
    table.add_row(["on body mismatch", &word(json!(document.on_body_mismatch))]);
    output::print(&table);
    Ok(Exit::Done)
}

fn rotate(arguments: Rotate) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let mut document = read(&arguments.folder, &id)?;
    let provider = find(Catalog::built_in(), &document.provider)?;
    let made = arguments.secret.is_none();
    let secret = arguments.secret.unwrap_or_else(|| make_secret(provider));
    if arguments.retire {
        document.secrets.clear();
    }
    document.secrets.insert(0, secret.clone());
    document.secrets.truncate(SECRETS_MAX);
    store(&arguments.folder, &id, &document)?;
    output::note(&format!("endpoint {id} has {} secret(s); the newest is secret 0", document.secrets.len()));
    if made {
        output::line(&secret);
    }
    Ok(Exit::Done)
}

fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    read(&arguments.folder, &id)?;
    fs::remove_file(arguments.folder.endpoints().path(&id)).map_err(|error| {
        Failure::usage(format!("the endpoint {id} cannot be removed: {error}"), "check the folder's rights")
    })?;
    output::note(&format!("endpoint {id} is removed; its records stay"));
    Ok(Exit::Done)
}
