//! `hookonce send`: signs and delivers a file as its provider would.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::StreamExt as _;
use hookonce_protocol::key::EndpointId;
use hookonce_providers::settings::PUBLIC_URL;
use hookonce_providers::{Catalog, Provider, Settings, SignError};
use hookonce_runtime::documents::document::EndpointDocument;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::endpoint::{self, Pair};
use super::providers::find;
use crate::dev::sender::{ATTEMPTS_MAX, Delivered, DeliveryToSend, Sender};
use crate::documents::parse_id;
use crate::documents::secret::{Input, SecretOption, on_the_command_line};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::target::DataFolder;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Provider id; `hookonce providers` lists them.
    #[arg(long, value_name = "ID")]
    provider: String,
    /// File with the body to deliver; - reads standard input.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    destination: Destination,
}

/// Where to deliver, how often, and what to sign with.
#[derive(Debug, Args)]
pub(crate) struct Destination {
    /// URL to deliver to [default: the local stack].
    #[arg(long)]
    url: Option<String>,
    /// `-`: read the secret from standard input.
    ///
    /// A terminal asks for it. Without this, the endpoint's newest secret signs.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Endpoint [default: the provider's only one].
    #[arg(long, value_name = "ID")]
    pub(crate) endpoint: Option<String>,
    /// Further setting to sign with.
    ///
    /// Without this, those of the endpoint count. A secret one is given as `NAME=-` and read from standard input.
    #[arg(long, value_name = "NAME=VALUE", hide_short_help = true)]
    setting: Vec<String>,
    /// Header to add; may be repeated.
    ///
    /// For instance x-github-event:push.
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Number of deliveries.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = at_least_one)]
    copies: NonZeroUsize,
    /// Number of deliveries in parallel.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN, value_parser = at_least_one)]
    concurrency: NonZeroUsize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    folder: DataFolder,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let provider = find(Catalog::built_in(), &arguments.provider)?;
    if arguments.file == Path::new("-") {
        arguments.destination.input()?.0.taken_by_file("--file")?;
    }
    let body = read(&arguments.file).map_err(|error| {
        Failure::usage(
            format!("reading {} failed: {error}", arguments.file.display()),
            "check the path, or deliver a sample event with `hookonce trigger stripe.invoice.paid`",
        )
    })?;
    let deliveries = arguments.destination.deliver(provider, Vec::new(), body).await?;
    if arguments.destination.json {
        output::json(&deliveries.rows());
    } else {
        deliveries.print();
    }
    deliveries.exit("")
}

/// Reads how many there are to be.
pub(super) fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "it must be a whole number from 1 on")
}

/// What a destination comes to.
struct Address {
    url: String,
    secret: String,
    settings: Settings,
    /// Those of the endpoint's document, if that is read.
    schemes: Vec<String>,
}

impl Destination {
    /// The options that lead there again.
    pub(crate) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let secret = self.secret.iter().map(|_| ("--secret", "-"));
        let url = self.url.iter().map(|url| ("--url", url.as_str()));
        let endpoint = self.endpoint.iter().map(|id| ("--endpoint", id.as_str()));
        let settings = self.setting.iter().map(|setting| ("--setting", setting.as_str()));
        let headers = self.header.iter().map(|header| ("--header", header.as_str()));
        secret.chain(url).chain(endpoint).chain(settings).chain(headers)
    }

    /// The stack on this machine: the provider's only endpoint.
    pub(crate) fn local(folder: DataFolder, json: bool) -> Self {
        let one = NonZeroUsize::MIN;
        let (setting, header) = (Vec::new(), Vec::new());
        Self { url: None, secret: None, endpoint: None, setting, header, copies: one, concurrency: one, json, folder }
    }

    /// Signs and delivers a body, as often as asked for. A header that a person gave counts, not one of the same name
    /// that belongs to the body.
    ///
    /// # Errors
    /// [`Failure`] when the destination or the secret cannot be used.
    pub(crate) async fn deliver(
        &self,
        provider: &'static Provider,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Deliveries, Failure> {
        let Address { url, secret, settings, schemes } = self.address(provider)?;
        let given: Vec<_> = open_headers(&self.header, provider)?;
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        let mut headers: Vec<_> = headers.into_iter().filter(|(name, _)| !is_given(name)).collect();
        headers.extend(given);
        let delivery =
            DeliveryToSend { url, provider, secret, settings, schemes, headers, body, clock_offset_seconds: 0 };
        check_url(&delivery.url)?;
        let sender = Sender::new(&delivery.url, ATTEMPTS_MAX);
        let copies = futures::stream::iter(0..self.copies.get()).map(|_| sender.deliver(&delivery));
        let delivered: Vec<_> = copies.buffered(self.concurrency.get()).collect().await;
        let delivered: Vec<_> = delivered.into_iter().collect::<Result<_, _>>().map_err(|error: SignError| {
            let hint = match error {
                // Nobody else can make its signature.
                SignError::NotSharedSecret => format!(
                    "let {} itself send an event, to `hookonce dev --public https://NAME` (docs/use/local.md)",
                    provider.name()
                ),
                SignError::NoScheme
                | SignError::Secret
                | SignError::BodyLacks { .. }
                | SignError::BodyChanges
                | SignError::Setting { .. }
                | SignError::Time => {
                    format!("`hookonce providers {}` shows how it signs", provider.id())
                }
            };
            Failure::usage(error.to_string(), hint)
        })?;
        Ok(Deliveries { url: delivery.url, is_to_this_stack: self.url.is_none(), delivered })
    }

    /// What it takes of standard input.
    fn input(&self) -> Result<(Input, Vec<Pair>), Failure> {
        let settings = Pair::settings(&self.setting)?;
        Ok((Input::of(self.secret.iter().chain(settings.iter().map(|setting| &setting.value))), settings))
    }

    /// Where to deliver, and how to sign.
    fn address(&self, provider: &Provider) -> Result<Address, Failure> {
        let (mut input, settings) = self.input()?;
        let secret = self.secret.as_ref().map(|secret| secret.secret("secret", &mut input)).transpose()?;
        let given = settings.iter().map(|setting| setting.read(&mut input)).collect::<Result<Vec<_>, _>>()?;
        if let (Some(url), Some(secret)) = (&self.url, &secret) {
            let (url, secret, settings) = (url.clone(), secret.clone(), given.into_iter().collect());
            return Ok(Address { url, secret, settings, schemes: Vec::new() });
        }
        // Without a stack there is no endpoint either, so this says what to do first.
        let running = if self.url.is_none() { Some(self.folder.running()?) } else { None };
        let id = match &self.endpoint {
            Some(id) => parse_id(id)?,
            None => self.only_endpoint(provider)?,
        };
        let EndpointDocument { secrets, mut settings, schemes, .. } = endpoint::read(&self.folder, &id)?;
        if let Some(public) = running.as_ref().and_then(|running| running.public_url.as_ref()) {
            settings.entry(PUBLIC_URL.to_owned()).or_insert(format!("{public}/webhooks/{id}"));
        }
        let local = running.map(|running| format!("{}/webhooks/{id}", running.url));
        let url = self.url.clone().or(local).unwrap_or_default();
        let secret = secret.unwrap_or_else(|| secrets.into_iter().next().unwrap_or_default());
        Ok(Address { url, secret, settings: settings.into_iter().chain(given).collect(), schemes })
    }

    fn only_endpoint(&self, provider: &Provider) -> Result<EndpointId, Failure> {
        let endpoints = endpoint::read_all(&self.folder);
        let ids = endpoints.into_iter().filter(|(_, it)| it.provider == provider.id()).map(|(id, _)| id);
        let ids: Vec<_> = ids.collect();
        match ids.as_slice() {
            [id] => Ok(id.clone()),
            [] => Err(Failure::usage(
                format!("no endpoint of the local stack belongs to {}", provider.id()),
                format!("add one: `hookonce endpoint add {0} --provider {0}`", provider.id()),
            )),
            several => {
                let names: Vec<_> = several.iter().map(EndpointId::as_str).collect();
                Err(Failure::usage(
                    format!("several endpoints of the local stack belong to {}: {}", provider.id(), names.join(", ")),
                    "choose one with --endpoint",
                ))
            }
        }
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    Ok(body)
}

/// Checks a URL to deliver to.
///
/// # Errors
/// [`Failure::Usage`] when it names no host, or holds a password.
pub(crate) fn check_url(url: &str) -> Result<(), Failure> {
    let parsed = reqwest::Url::parse(url).ok().filter(reqwest::Url::has_host);
    if let Some(parsed) = parsed {
        let has_user = parsed.password().is_some() || !parsed.username().is_empty();
        return if has_user { Err(user_in_url()) } else { Ok(()) };
    }
    Err(Failure::usage(format!("{url:?} is not a URL"), "for instance --url http://127.0.0.1:8787/webhooks/stripe"))
}

fn user_in_url() -> Failure {
    Failure::usage(
        "the URL holds a user's name or password, which every process of this machine can read",
        "deliver to an address without one",
    )
}

/// Reads `NAME:VALUE`.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be a header.
pub(crate) fn header(header: &str) -> Result<(String, String), Failure> {
    let pair = header.split_once(':').map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    let valid =
        |pair: &(String, String)| HeaderName::try_from(&pair.0).is_ok() && HeaderValue::try_from(&pair.1).is_ok();
    pair.filter(valid).ok_or_else(|| {
        Failure::usage(format!("{header:?} is not NAME:VALUE"), "for instance --header x-github-event:push")
    })
}

/// Reads the headers of an option. None of them is one that signing adds and that holds the secret itself.
///
/// # Errors
/// [`Failure::Usage`] for a text that is no header, and for a credential, which every process of the machine can read.
pub(crate) fn open_headers<T>(texts: &[String], provider: &Provider) -> Result<T, Failure>
where
    T: FromIterator<(String, String)>,
{
    let names = texts.iter().filter_map(|text| text.split_once(':')).map(|(name, _)| name.trim());
    if let Some(place) = provider.credential_among(names, "") {
        return Err(on_the_command_line(
            &format!("credential at {place}"),
            "leave it out: it is made of the secret. For another one than the endpoint's, pass `--secret -`",
        ));
    }
    texts.iter().map(|text| header(text)).collect()
}

/// The results of all copies. Print them before [`Self::exit`], because an answer of one copy may be lost while others
/// were taken.
pub(crate) struct Deliveries {
    url: String,
    /// Whether the local stack of the folder answered, which keeps what it refused.
    is_to_this_stack: bool,
    delivered: Vec<Delivered>,
}

impl Deliveries {
    /// The results as JSON.
    pub(crate) fn rows(&self) -> Value {
        let row = |one: &Delivered| {
            json!({
                "status": one.status, "answer": one.word, "id": one.id, "location": one.location,
                "attempts": one.attempts,
                "duration_ms": u64::try_from(one.duration.as_millis()).unwrap_or(u64::MAX),
            })
        };
        self.delivered.iter().map(row).collect()
    }

    /// Prints the results for a person.
    pub(crate) fn print(&self) {
        let mut table = output::table(&["status", "answer", "id", "attempts", "took"]);
        for one in &self.delivered {
            table.add_row([
                one.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
                one.word.clone(),
                one.id.clone().unwrap_or_default(),
                one.attempts.to_string(),
                output::length(one.duration),
            ]);
        }
        output::print(&table);
    }

    /// Whether a delivery was refused, and not only put off.
    pub(crate) fn has_refusal(&self) -> bool {
        self.delivered.iter().any(|one| one.status.is_some_and(|status| (400..500).contains(&status)))
    }

    /// Done if every delivery was taken. A redirect is told, because nothing follows it. `next` is what else to do when
    /// answers are missing.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when a delivery got no answer.
    pub(crate) fn exit(&self, next: &str) -> Result<Exit, Failure> {
        let unanswered = self.delivered.iter().filter(|one| one.status.is_none()).count();
        if unanswered > 0 {
            return Err(Failure::unavailable(
                format!("{} did not answer {unanswered} of {} deliveries", self.url, self.delivered.len()),
                format!("start a stack with `hookonce dev`, or check --url{next}"),
            ));
        }
        if let Some(note) = self.delivered.iter().find_map(Delivered::redirect_note) {
            output::note(&note);
        }
        if self.is_to_this_stack && self.has_refusal() {
            output::note("why it was refused: `hookonce verify --last`");
        }
        let all = self.delivered.iter().all(|one| one.status.is_some_and(|status| (200..300).contains(&status)));
        Ok(if all { Exit::Done } else { Exit::No })
    }
}
