//! `hookonce destination add`: a ready-made document and its secret, a file, or a document of your own from options.

use std::path::{Path, PathBuf};

use clap::Args;
use hookonce_protocol::destination::Class;
use hookonce_protocol::effect::DestinationId;
use hookonce_providers::names_a_credential;
use hookonce_runtime::destinations::{ClassName, DestinationDocument};
use serde_json::json;

use super::super::endpoint::{Pair, word};
use crate::documents::destinations::ready::{Ready, find};
use crate::documents::destinations::{is_secret_address, make_signing_secret};
use crate::documents::secret::{Input, SecretOption, on_the_command_line};
use crate::documents::{self, DocumentId as _, parse, parse_id, print_generated_secret};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::target::{Place, text};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Id: a-z, 0-9, - and _, or that of a ready-made document (`list --ready`).
    id: String,
    /// Ready-made document [default: named like the id].
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    ready: Option<String>,
    /// Document as JSON; `-`: standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["secret", "signed"])]
    file: Option<PathBuf>,
    /// `-`: read the secret from standard input.
    ///
    /// A terminal asks for it.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Address; `-` reads it from standard input.
    ///
    /// An effect's path follows it. One that is a secret comes from standard input.
    #[arg(long, value_name = "URL", allow_hyphen_values = true)]
    url: Option<SecretOption>,
    /// Queue of SQS, by its URL.
    ///
    /// Effects become its messages, at least once.
    #[arg(long, value_name = "URL", conflicts_with_all = ["ready", "file", "url", "function"])]
    queue: Option<String>,
    /// Lambda function, by its name or ARN.
    ///
    /// It is invoked asynchronously, at least once.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ready", "file", "url"])]
    function: Option<String>,
    /// keyed, at_most_once or at_least_once.
    ///
    /// It says what to do when the result of a call is unknown. A document with --file says how its callee takes keys.
    #[arg(long, hide_possible_values = true, value_parser = word(ClassName::ALL, ClassName::as_str))]
    class: Option<ClassName>,
    /// Header of every call; may be repeated.
    ///
    /// `NAME=-` reads a secret value from standard input.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Sign calls as Standard Webhooks says.
    ///
    /// Without `--secret -`, generate the secret and print it.
    #[arg(long)]
    signed: bool,
    /// Account at the callee.
    ///
    /// It tells accounts apart that one address serves. Keep it when the secret of the same account changes.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    account: Option<String>,
    /// Allow a private address, and plain http.
    #[arg(long)]
    allow_private: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id: DestinationId = parse_id(&arguments.id)?;
    let headers = arguments.header.iter().map(|header| Pair::parse(header, "header")).collect::<Result<Vec<_>, _>>()?;
    let hyphens = headers.iter().map(|header| &header.value);
    let mut input = Input::of(arguments.secret.iter().chain(&arguments.url).chain(hyphens));
    let ready = chosen(&arguments)?;
    let mut document = match (&arguments.file, ready) {
        (Some(file), _) => from_file(file, &input)?,
        (None, Some(ready)) => ready.document.clone(),
        (None, None) => own(&arguments)?,
    };
    let what = ready.map_or("secret", |ready| ready.credential.what());
    let given = arguments.secret.as_ref().map(|secret| secret.secret(what, &mut input)).transpose()?;
    document.url = arguments.url.as_ref().map(|url| address(url, &mut input)).transpose()?.or(document.url);
    for header in &headers {
        document.headers.insert(header.name.clone(), header_value(header, &mut input)?);
    }
    set(&mut document, &arguments);
    let made = place(given, &mut document, &arguments, ready)?;
    if let (None, Some(url_from)) = (&document.url, ready.and_then(|ready| ready.url_from.as_ref())) {
        return Err(Failure::usage("the destination has no address", format!("pass --url URL: {url_from}")));
    }
    let destination = id.check(&document).map_err(|failure| of_options(failure, arguments.file.is_some()))?;
    let stack = arguments.place.connect();
    documents::add(&*stack.documents::<DestinationId>().await?, &id, &document).await?;
    let promise = match destination.terms().class {
        Class::Keyed { .. } => "keyed: once, as long as the callee honours the key",
        Class::AtMostOnce => "at_most_once: never twice; may end unknown",
        Class::AtLeastOnce => "at_least_once: at least once, with the key for the callee",
    };
    output::note(&format!("destination {id} is {promise}"));
    if let Some(made) = made {
        print_generated_secret(&id, &made);
    }
    if let Some(ready) = ready {
        output::note(&format!("{}: {}, {}", ready.name, ready.because, ready.source));
        if let Some(note) = &ready.note {
            output::note(note);
        }
    }
    if destination.http().is_some() {
        output::note(&format!("next: list it in a route, and `hookonce destination test {id}`"));
    } else if arguments.place.deployed().is_some() {
        output::note(&format!(
            "next: list it in a route, permit it by the stack's parameter DestinationPolicyArn, and `hookonce destination \
             test {id}`"
        ));
    } else {
        output::note("`hookonce dev` calls URLs only: effects to a queue or a function wait, and go out on AWS");
    }
    Ok(Exit::Done)
}

/// A failure that names the options where a document of one's own would have fields.
fn of_options(failure: Failure, is_file: bool) -> Failure {
    if is_file { failure } else { failure.with_option("`allow_private`", "--allow-private") }
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
        (Some(url), _) => json!({"kind": "sqs", "url": url, "class": "at_least_once"}),
        (None, Some(name)) => json!({"kind": "lambda", "function": name, "class": "at_least_once"}),
        (None, None) => json!({"kind": "http"}),
    };
    parse::<DestinationId>("the document", &document.to_string())
}

fn from_file(file: &Path, input: &Input) -> Result<DestinationDocument, Failure> {
    let text = if file == Path::new("-") {
        input.taken_by_file("--file")?;
        let document = SecretOption::from("-");
        document.open("document", &mut Input::of([&document]))?
    } else {
        text(file)?
    };
    parse::<DestinationId>(&file.display().to_string(), &text)
}

/// The address. Some callees trust whoever knows it.
fn address(url: &SecretOption, input: &mut Input) -> Result<String, Failure> {
    if is_secret_address(url.text()) {
        return Err(on_the_command_line("address, which is or holds a secret,", "pass `--url -`"));
    }
    url.open("address", input).map(|url| url.trim().to_owned())
}

/// The value of a header.
fn header_value(header: &Pair, input: &mut Input) -> Result<String, Failure> {
    let name = &header.name.to_ascii_lowercase();
    if !names_a_credential(name) {
        return header.value.open(name, input);
    }
    let pass = format!("pass `--header {}=-`", output::quoted(name));
    if header.value.is_input() {
        header.value.secret(name, input)
    } else {
        Err(on_the_command_line(&format!("value of {name}"), &pass))
    }
}

/// Sets what the other options say.
fn set(document: &mut DestinationDocument, arguments: &Arguments) {
    let over = |field: &mut Option<String>, option: &Option<String>| {
        if option.is_some() {
            field.clone_from(option);
        }
    };
    over(&mut document.account, &arguments.account);
    document.class = arguments.class.or(document.class);
    if document.class != Some(ClassName::Keyed) && arguments.class.is_some() && arguments.file.is_none() {
        // A ready-made document promised more.
        (document.key_window_hours, document.key_source_url) = (None, None);
    }
    document.allow_private |= arguments.allow_private;
}

/// Puts the secret where it belongs. Returns it if it was generated.
fn place(
    given: Option<String>,
    document: &mut DestinationDocument,
    arguments: &Arguments,
    ready: Option<&'static Ready>,
) -> Result<Option<String>, Failure> {
    match (given, ready) {
        (Some(given), Some(ready)) => ready.credential.fill(&given, document).map(|()| None),
        (None, Some(ready)) => Err(Failure::usage(
            format!("{} needs a secret: {}", ready.name, ready.credential.what()),
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
