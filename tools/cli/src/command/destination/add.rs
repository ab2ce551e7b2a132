//! `hookonce destination add`: a ready-made document and its secret, a file, or a document of your own from options.

use std::path::{Path, PathBuf};

use clap::Args;
use hookonce_protocol::destination::Class;
use hookonce_runtime::destination::{ClassName, DestinationDocument};
use serde_json::json;

use super::super::endpoint::{pair, word};
use crate::destinations::ready::{Ready, find};
use crate::destinations::{check, make_signing_secret, parse, parse_id, text_of};
use crate::documents::Place;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::route_set;
use crate::secret::SecretOption;

/// What the name of a header with a credential contains. Its value does not belong on the command line.
const CREDENTIAL_WORDS: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Destination id: a-z, 0-9, - and _. The id of a ready-made document selects that document; `hookonce destination
    /// list --ready` lists them.
    id: String,
    /// Ready-made document to start from [default: the one named like the id].
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    ready: Option<String>,
    /// Document as JSON; `-` reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["secret", "signed"])]
    file: Option<PathBuf>,
    /// `-`: read the secret from standard input; a terminal asks for it.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Address. An effect's path follows it.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Queue of SQS, by its URL: effects become its messages, at least once.
    #[arg(long, value_name = "URL", conflicts_with_all = ["ready", "file", "url", "function"])]
    queue: Option<String>,
    /// The one group of all messages, if the queue is a FIFO queue; without it, each event is a group.
    #[arg(long, value_name = "GROUP", requires = "queue")]
    message_group: Option<String>,
    /// Lambda function, by its name or ARN: it is invoked asynchronously, at least once.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ready", "file", "url"])]
    function: Option<String>,
    /// Promise: what to do when the result of a call is unknown.
    #[arg(long, value_parser = word(ClassName::ALL, ClassName::as_str))]
    class: Option<ClassName>,
    /// Header that carries the key.
    #[arg(long, value_name = "NAME")]
    key_header: Option<String>,
    /// Field of the JSON payload that carries the key, as a JSON pointer.
    #[arg(long, value_name = "POINTER", conflicts_with = "key_header")]
    key_json_pointer: Option<String>,
    /// Hours for which the callee remembers a key; required with --class keyed.
    #[arg(long, value_name = "HOURS")]
    key_window_hours: Option<u32>,
    /// URL of the callee's page on idempotency keys; required with --class keyed.
    #[arg(long, value_name = "URL")]
    key_source_url: Option<String>,
    /// Header of every call; may be repeated. `NAME=-` reads a secret value from standard input.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Sign every call as Standard Webhooks says; without `--secret -`, generate the secret and print it.
    #[arg(long)]
    signed: bool,
    /// Account at the callee, if one address serves several. Keep it when the secret of the same account changes.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Content type of every call; overrides that of the effect.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Timeout of one call, in milliseconds.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u32>,
    /// Allow an address in a private network, and plain http.
    #[arg(long)]
    allow_private: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.id)?;
    let ready = chosen(&arguments)?;
    let mut document = match (&arguments.file, ready) {
        (Some(file), _) => from_file(file)?,
        (None, Some(ready)) => ready.document.clone(),
        (None, None) => own(&arguments)?,
    };
    set(&mut document, &arguments)?;
    let made = secret(&mut document, &arguments, ready)?;
    if let (None, Some(url_from)) = (&document.url, ready.and_then(|ready| ready.url_from.as_ref())) {
        return Err(Failure::usage("it has no address", format!("pass --url URL: {url_from}")));
    }
    let destination = check(&id, &document)?;
    if !arguments.place.destinations().await?.create(&id, &text_of(&document)).await? {
        return Err(Failure::usage(
            format!("the destination {id} already exists"),
            "rotate its secret, or remove it first",
        ));
    }
    let promise = match destination.terms().class {
        Class::Keyed { .. } => "keyed: once, as long as the callee honours the key",
        Class::AtMostOnce => "at_most_once: never twice; may end unknown",
        Class::AtLeastOnce => "at_least_once: at least once, with the key for the callee",
    };
    output::note(&format!("destination {id} is {promise}"));
    if let Some(made) = made {
        output::note("generated secret (`destination show --reveal` prints it again):");
        output::line(&made);
    }
    if let Some(ready) = ready {
        output::note(&format!("{}: {}, {}", ready.name, ready.because, ready.source));
        if let Some(note) = &ready.note {
            output::note(note);
        }
    }
    let option = arguments.place.option();
    if destination.http().is_some() {
        output::note(&format!("next: list it in a route, and `hookonce destination test {id}{option}`"));
    } else if arguments.place.stack.is_some() {
        output::note("next: list it in a route, and permit it by the stack's parameter DestinationPolicyArn");
    } else {
        output::note("`hookonce dev` calls URLs only: effects to a queue or a function wait, and go out on AWS");
    }
    Ok(Exit::Done)
}

/// The ready-made document that is meant, if one is.
fn chosen(arguments: &Arguments) -> Result<Option<&'static Ready>, Failure> {
    match &arguments.ready {
        Some(name) => find(name).map(Some).ok_or_else(|| {
            let what = format!("there is no ready-made document {name:?}");
            Failure::usage(what, "list them with `hookonce destination list --ready`")
        }),
        // Who gives an address and a class writes a document of their own.
        None if arguments.queue.is_some() || arguments.function.is_some() => Ok(None),
        None if arguments.file.is_some() || (arguments.url.is_some() && arguments.class.is_some()) => Ok(None),
        None => Ok(find(&arguments.id)),
    }
}

/// The beginning of a document of one's own: what it is.
fn own(arguments: &Arguments) -> Result<DestinationDocument, Failure> {
    let document = match (&arguments.queue, &arguments.function) {
        (Some(url), _) => {
            json!({"kind": "sqs", "url": url, "message_group": arguments.message_group, "class": "at_least_once"})
        }
        (None, Some(name)) => json!({"kind": "lambda", "function": name, "class": "at_least_once"}),
        (None, None) => json!({"kind": "http"}),
    };
    parse("the document", &document.to_string())
}

fn from_file(file: &Path) -> Result<DestinationDocument, Failure> {
    let text = if file == Path::new("-") { SecretOption::from("-").given("document")? } else { route_set::text(file)? };
    parse(&file.display().to_string(), &text)
}

/// Sets what the options say.
fn set(document: &mut DestinationDocument, arguments: &Arguments) -> Result<(), Failure> {
    let over = |field: &mut Option<String>, option: &Option<String>| {
        if option.is_some() {
            field.clone_from(option);
        }
    };
    over(&mut document.url, &arguments.url);
    over(&mut document.account, &arguments.account);
    over(&mut document.content_type, &arguments.content_type);
    over(&mut document.key_source_url, &arguments.key_source_url);
    if arguments.key_header.is_some() || arguments.key_json_pointer.is_some() {
        document.key_header.clone_from(&arguments.key_header);
        document.key_json_pointer.clone_from(&arguments.key_json_pointer);
    }
    document.class = arguments.class.or(document.class);
    if document.class != Some(ClassName::Keyed) && arguments.class.is_some() && arguments.file.is_none() {
        // A ready-made document promised more.
        (document.key_window_hours, document.key_source_url) = (None, arguments.key_source_url.clone());
    }
    document.key_window_hours = arguments.key_window_hours.or(document.key_window_hours);
    document.timeout_ms = arguments.timeout_ms.or(document.timeout_ms);
    document.allow_private |= arguments.allow_private;
    for header in &arguments.header {
        let name = header.split('=').next().unwrap_or_default().to_ascii_lowercase();
        if CREDENTIAL_WORDS.iter().any(|word| name.contains(word)) && !header.ends_with("=-") {
            return Err(Failure::usage(
                format!(
                    "the value of {name} stands on the command line, where every process of this machine can read it"
                ),
                format!("pass `--header {name}=-`, and give the value on standard input"),
            ));
        }
        let (name, value) = pair(header)?;
        document.headers.insert(name, value);
    }
    Ok(())
}

/// Puts the secret where it belongs. Returns it if it was generated.
fn secret(
    document: &mut DestinationDocument,
    arguments: &Arguments,
    ready: Option<&'static Ready>,
) -> Result<Option<String>, Failure> {
    let what = ready.map_or("secret", |ready| ready.credential.what());
    let given = arguments.secret.as_ref().map(|secret| secret.read_from_input(what)).transpose()?;
    if given.as_ref().is_some_and(|given| given.trim().is_empty()) {
        return Err(Failure::usage(
            format!("no {what} came on standard input"),
            "type it, or pipe it into the command",
        ));
    }
    match (given, ready) {
        (Some(given), Some(ready)) => ready.credential.fill(&given, document).map(|()| None),
        (None, Some(ready)) => Err(Failure::usage(
            format!("{} needs a secret: {what}", ready.name),
            "pass `--secret -`, which asks for it or reads it from standard input",
        )),
        (Some(given), None) if arguments.signed => {
            document.standard_webhooks_secret = Some(given);
            Ok(None)
        }
        (Some(_), None) => Err(Failure::usage(
            "the document does not say where the secret goes",
            "pass `--header authorization=-` for a header, or `--signed` for a signature",
        )),
        (None, None) if arguments.signed => {
            let made = make_signing_secret();
            document.standard_webhooks_secret = Some(made.clone());
            Ok(Some(made))
        }
        (None, None) => Ok(None),
    }
}
