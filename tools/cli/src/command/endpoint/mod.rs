//! `hookonce endpoint`: manages endpoints, of the local stack or of a deployed one. Each is one JSON document.

mod check;
mod import;
mod list;
mod rotate;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_providers::{Catalog, Provider, SecretFrom};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::documents::document::EndpointDocument;
use hookonce_runtime::documents::endpoint::on_body_mismatch_default;

use super::providers::find;
use crate::documents::endpoints::{OPEN_SETTINGS, check_tenant, pasted_secret};
pub(crate) use crate::documents::endpoints::{fresh, read, read_all, store};
use crate::documents::secret::{Input, SecretOption, on_the_command_line};
use crate::documents::{self, Check, DocumentId as _, DocumentStore, Remove, Show, parse_id, print_generated_secret};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::target::Place;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add an endpoint.
    ///
    /// Without `--secret -`, generate a secret and print it, unless the provider issues it.
    Add(Add),
    /// List the endpoints.
    List(list::List),
    /// Show one endpoint; secrets and settings are hidden without --reveal.
    Show(Show),
    /// Change the secret: add a new one, and later --finish.
    ///
    /// The second step removes the older ones, once no delivery uses them.
    Rotate(rotate::Arguments),
    /// Validate an endpoint document before you store it, or all that are stored.
    Check(Check),
    /// Remove an endpoint; its records stay.
    Remove(Remove),
    /// Add many endpoints from a file. If it stops, run it again to continue.
    Import(import::Arguments),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Endpoint id: a-z, 0-9, - and _.
    id: String,
    /// Provider id; `hookonce providers` lists them.
    #[arg(long, value_name = "ID")]
    provider: String,
    /// `-`: read the secret from standard input.
    ///
    /// It is taken as the provider shows it. A terminal asks for it.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Tenant [default: the endpoint's id].
    ///
    /// Choose it before the first event. Endpoints of one tenant share facts and items. A change forgets the facts of the last 95 days.
    #[arg(long, value_name = "NAME", value_parser = |text: &str| Tenant::parse(text))]
    tenant: Option<Tenant>,
    /// Setting of the provider; may be repeated.
    ///
    /// `NAME=-` reads a secret one from standard input. For instance public_url=https://... or verify_token=-.
    #[arg(long, value_name = "NAME=VALUE")]
    setting: Vec<String>,
    /// Signature scheme to accept; may be repeated.
    ///
    /// Without this, all but those that `hookonce providers ID` calls "only for an endpoint that lists it".
    #[arg(long, value_name = "NAME")]
    scheme: Vec<String>,
    /// DynamoDB is down: reject (default), enqueue.
    ///
    /// While it is down, ask the provider to retry, or queue the event.
    #[arg(long, value_name = "WORD", default_value = "reject", hide_default_value = true, hide_possible_values = true, value_parser = word(OnStoreOutage::ALL, OnStoreOutage::as_str))]
    on_store_outage: OnStoreOutage,
    /// Known id, other body: duplicate, quarantine.
    ///
    /// Under a known id, it counts as a duplicate, or is kept as a DEAD record. The default is quarantine if the provider signs the key but not the whole body, or may give one id to several
    /// events; otherwise duplicate.
    #[arg(long, value_name = "WORD", hide_possible_values = true, value_parser = word(OnBodyMismatch::ALL, OnBodyMismatch::as_str))]
    on_body_mismatch: Option<OnBodyMismatch>,
    /// Longest usual silence, from 1h to 30days.
    #[arg(long, value_name = "TIME")]
    expect_every: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Parses a word into one of these values.
pub(crate) fn word<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    as_str: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> + use<T> {
    let words = PossibleValuesParser::new(values.iter().map(|value| as_str(*value)));
    words.try_map(move |word| values.iter().copied().find(|value| as_str(*value) == word).ok_or("no such word"))
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add(arguments).await,
        Command::List(arguments) => list::run(&arguments).await,
        Command::Show(show) => show.run::<EndpointId>(shown).await,
        Command::Rotate(arguments) => rotate::run(arguments).await,
        Command::Check(arguments) => check::run(arguments).await,
        Command::Remove(arguments) => remove(&arguments).await,
        Command::Import(arguments) => import::run(arguments).await,
    }
}

async fn add(arguments: Add) -> Result<Exit, Failure> {
    let id: EndpointId = parse_id(&arguments.id)?;
    let provider = find(Catalog::built_in(), &arguments.provider)?;
    let is_issued = provider.facts().secret_from == SecretFrom::Provider;
    let settings = Pair::settings(&arguments.setting)?;
    let stack = arguments.place.connect();
    let mut option = arguments.secret.clone();
    let needs_secret = is_issued && option.is_none() && arguments.place.deployed().is_some();
    if needs_secret && provider.hands_out_secret() {
        return Err(handed_out(provider));
    }
    let address = public_address(&stack, &id).await?;
    if needs_secret {
        // Without a person to ask, nothing is read that may belong to something else.
        option = Some(SecretOption::from_terminal().ok_or_else(|| unregistered(provider, address.as_deref()))?);
    }
    let mut input = Input::of(option.iter().chain(settings.iter().map(|setting| &setting.value)));
    if let Some(address) = address.as_ref().filter(|_| input.is_prompted()) {
        print_steps(provider, address);
    }
    let given = option.as_ref().map(|secret| secret.secret("secret", &mut input)).transpose()?;
    let settings = settings.iter().map(|setting| setting.read(&mut input)).collect::<Result<_, _>>()?;
    let made = given.is_none();
    let mut document = fresh(provider, settings);
    if let Some(secret) = given {
        document.secrets = vec![pasted_secret(provider, &secret)?];
    } else if document.secrets.is_empty() && !provider.fetches_keys() {
        return Err(no_secret(provider));
    }
    document.tenant = arguments.tenant;
    document.schemes = arguments.scheme;
    document.on_store_outage = arguments.on_store_outage;
    document.on_body_mismatch = arguments.on_body_mismatch;
    document.expect_every = arguments.expect_every;
    id.check(&document)?;
    let store = stack.documents::<EndpointId>().await?;
    check_its_tenant(&*store, &id, &document).await?;
    documents::add(&*store, &id, &document).await?;
    // Print the result first: nobody else knows the secret.
    let here = stack.local().and_then(|local| local.running().ok()).map_or_else(String::new, |it| it.url.clone());
    let place = address.clone().unwrap_or_else(|| format!("{here}/webhooks/{id}"));
    output::note(&format!("endpoint {id} receives webhooks from {} at {place}", provider.name()));
    if address.is_some() && provider.has_handshake() && input.is_prompted() {
        output::note(&format!("3. Register the address at {}", where_to_register(provider)));
    } else if address.is_some() && !input.is_prompted() {
        output::note(&format!("register this address at {}", where_to_register(provider)));
    }
    if let (true, Some(secret)) = (made, document.secrets.first()) {
        print_generated_secret(&id, secret);
        if is_issued {
            output::note(&format!(
                "{} issues its secrets, so this one signs only what you send from here: `hookonce trigger --list` shows \
                 samples. For real deliveries: `hookonce endpoint rotate {id} --secret -`",
                provider.name()
            ));
        }
    }
    for warning in EndpointId::warnings(&document) {
        output::note(&format!("note: {warning}"));
    }
    Ok(Exit::Done)
}

/// The order of the provider. Most show a secret once the address is registered. One that asks the address a question first
/// gets no answer before the endpoint is stored.
fn print_steps(provider: &Provider, address: &str) {
    output::note(&format!("1. The endpoint's address: {address}"));
    let prefix = provider.facts().secret_prefix.as_ref();
    let form = prefix.map_or_else(String::new, |prefix| format!("; it begins with {prefix}"));
    if provider.has_handshake() {
        output::note(&format!("2. Give its secret here{form}. The address is asked a question, so register it last"));
    } else {
        output::note(&format!("2. Register it at {}", where_to_register(provider)));
        output::note(&format!("3. Give its secret here{form}"));
    }
}

fn where_to_register(provider: &Provider) -> String {
    let (name, place) = (provider.name(), provider.facts().registered_at());
    place.map_or_else(|| name.to_owned(), |place| format!("{name}: {place}"))
}

/// Where the provider reaches the endpoint. `None` on a laptop that nobody reaches.
async fn public_address(stack: &Connection, id: &EndpointId) -> Result<Option<String>, Failure> {
    if let Some(local) = stack.local() {
        let public = local.running().ok().and_then(|running| running.public_url.as_ref());
        return Ok(public.map(|origin| format!("{origin}/webhooks/{id}")));
    }
    stack.webhook_url().await.map(|url| Some(format!("{url}{id}")))
}

/// Checks that the tenant it names is not the id of an endpoint that does not share it. This reads one document;
/// `endpoint check` checks all.
async fn check_its_tenant(
    store: &dyn DocumentStore<EndpointId>,
    id: &EndpointId,
    document: &EndpointDocument,
) -> Result<(), Failure> {
    let Some(tenant) = document.tenant.as_ref().filter(|tenant| tenant.as_str() != id.as_str()) else { return Ok(()) };
    let namesake = parse_id(tenant.as_str())?;
    let Some(stored) = store.get(&namesake).await? else { return Ok(()) };
    check_tenant(&namesake, &stored.document(&namesake)?, tenant)
}

/// The failure where nobody can be asked for the secret: the provider shows it once the address is registered.
fn unregistered(provider: &Provider, address: Option<&str>) -> Failure {
    let Some(address) = address.filter(|_| !provider.has_handshake()) else { return no_secret(provider) };
    let (name, place) = (provider.name(), where_to_register(provider));
    Failure::usage(
        format!("{name} shows the secret once the address is registered: {address}"),
        format!("register it at {place}, then pass `--secret -`. Nothing was written"),
    )
}

/// The failure where the secret comes to the address, and nobody sees it there.
fn handed_out(provider: &Provider) -> Failure {
    Failure::usage(
        format!("{} sends its secret to the address, and hookonce does not show it", provider.name()),
        "register an address that shows what it gets, pass what came with `--secret -`, and change the address before you \
         confirm it. Nothing was written",
    )
}

/// The failure where hookonce cannot make the secret.
fn no_secret(provider: &Provider) -> Failure {
    let (name, id) = (provider.name(), provider.id());
    let why = match provider.facts().secret_from {
        SecretFrom::Nobody => format!("the keys of {name} are fetched, so there is no secret to generate"),
        SecretFrom::Provider => format!("{name} issues its secrets and signs with no other, so none can be generated"),
        SecretFrom::You | SecretFrom::Either => {
            format!("you choose the secret of {name}, in a form that cannot be generated: {}", provider.facts().secret)
        }
    };
    let hint = format!("pass `--secret -`; `hookonce providers {id}` shows which secret it is. Nothing was written");
    Failure::usage(why, hint)
}

/// NAME=VALUE of the command line.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: SecretOption,
}

impl Pair {
    /// Takes it apart.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it is not NAME=VALUE. What it is stays unsaid, because it may be a secret.
    pub(crate) fn parse(text: &str, what: &str) -> Result<Self, Failure> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::usage(
                format!("a {what} is not NAME=VALUE"),
                format!("write --{what} NAME=VALUE, or NAME=- for a secret"),
            )
        })?;
        Ok(Self { name: name.to_owned(), value: value.into() })
    }

    /// Settings of an endpoint.
    ///
    /// # Errors
    /// [`Failure::Usage`] for one that is not NAME=VALUE, or that may be a secret and is not `-`.
    pub(crate) fn settings(texts: &[String]) -> Result<Vec<Self>, Failure> {
        let settings = texts.iter().map(|text| {
            let setting = Self::parse(text, "setting")?;
            let name = &setting.name;
            if setting.value.is_input() || OPEN_SETTINGS.contains(&name.as_str()) {
                return Ok(setting);
            }
            Err(on_the_command_line(
                &format!("value of {name}"),
                &format!("pass `--setting {}=-`", output::quoted(name)),
            ))
        });
        settings.collect()
    }

    /// The name, and the value as it is given or read from standard input.
    ///
    /// # Errors
    /// [`Failure::Usage`] when standard input does not give it.
    pub(crate) fn read(&self, input: &mut Input) -> Result<(String, String), Failure> {
        Ok((self.name.clone(), self.value.open(&self.name, input)?))
    }
}

/// What is shown of an endpoint. While it has several secrets, a person asks whether the older ones are in use.
async fn shown(stack: &Connection, id: &EndpointId, document: &EndpointDocument) -> Vec<(String, String)> {
    let mut rows = rows(document);
    if document.secrets.len() < 2 {
        return rows;
    }
    let now = System.moment().now;
    let answered = list::Answered::by(stack, now).await;
    if let Some(traffic) = answered.endpoint(id) {
        let accepted = traffic.totals(now).0;
        let latest = traffic.last_older_secret.filter(|_| traffic.by_older_secret(now) > 0);
        let latest = latest.map_or_else(String::new, |at| format!(", the latest at {}", output::local_moment(at)));
        let used = format!("verified {} of the {accepted} accepted in 24h{latest}", traffic.by_older_secret(now));
        rows.push(("older secrets".to_owned(), used));
    }
    answered.note_source();
    rows
}

/// What is shown of a document.
fn rows(document: &EndpointDocument) -> Vec<(String, String)> {
    let mut rows = vec![("provider".to_owned(), document.provider.clone())];
    rows.extend(document.tenant.iter().map(|tenant| ("tenant".to_owned(), tenant.as_str().to_owned())));
    rows.extend(document.secrets.iter().enumerate().map(|(index, secret)| (format!("secret {index}"), secret.clone())));
    rows.extend(document.settings.clone());
    rows.push(("on store outage".to_owned(), document.on_store_outage.as_str().to_owned()));
    let provider = Catalog::built_in().provider(&document.provider);
    let default = || provider.map(|it| format!("{} (default)", on_body_mismatch_default(it).as_str()));
    let choice = document.on_body_mismatch.map(|it| it.as_str().to_owned()).or_else(default);
    rows.extend(choice.map(|choice| ("on body mismatch".to_owned(), choice)));
    rows.extend(document.expect_every.clone().map(|time| ("expect every".to_owned(), time)));
    rows
}

async fn remove(arguments: &Remove) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let stack = arguments.place.connect();
    let store = stack.documents::<EndpointId>().await?;
    let stored = store.find(&id).await?;
    if let (Some(name), false) = (arguments.place.deployed(), arguments.yes) {
        output::note(&format!(
            "within 5 minutes, {name} will refuse every delivery to {id}, and its secrets are gone for good"
        ));
        output::confirm("Remove it?", "pass --yes to remove it")?;
    }
    store.remove(&id, &stored).await?;
    output::note(&format!("endpoint {id} is removed; its records stay"));
    Ok(Exit::Done)
}
