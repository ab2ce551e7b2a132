//! `hookonce trigger`: delivers a sample event, signed as its provider would.

use clap::Args;
use hookonce_providers::Catalog;
use serde_json::json;

use super::providers::find;
use super::send::Destination;
use crate::dev::fixtures::{self, EventName, NoSample, Sample, SampleRequest};
use crate::failure::{Exit, Failure};
use crate::output::{self, hints};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Event, such as stripe.invoice.paid; see --list.
    #[arg(value_name = "PROVIDER.TYPE", required_unless_present = "list")]
    event: Option<String>,
    /// List the events.
    #[arg(long, conflicts_with_all = ["event", "id", "set"])]
    list: bool,
    /// Id of the event [default: a fresh one].
    ///
    /// The same id delivers the same event again.
    #[arg(long)]
    id: Option<EventName>,
    /// Value to change in the body; may be repeated.
    ///
    /// For instance data.object.amount_paid=100. Text stays text; any other value is read as JSON.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    destination: Destination,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let destination = arguments.destination;
    let Some(name) = arguments.event.filter(|_| !arguments.list) else {
        list(destination.json);
        return Ok(Exit::Done);
    };
    let sample = fixtures::find(&name).map_err(|near| no_sample(&name, near))?;
    let provider = find(Catalog::built_in(), sample.provider)?;
    let event = arguments.id.unwrap_or_else(EventName::fresh);
    let changes = arguments.set.iter().map(|change| pair(change)).collect::<Result<Vec<_>, _>>()?;
    let SampleRequest { headers, body } = sample.request(&event, &changes).map_err(|error| {
        Failure::usage(error.to_string(), "only the last step of a --set path may be missing in the body")
    })?;
    let deliveries = destination.deliver(provider, headers, body).await?;
    let again = again(&sample.name(), event.as_str(), &arguments.set, &destination);
    if destination.json {
        output::json(&json!({ "event": sample.name(), "id": event.as_str(), "deliveries": deliveries.rows() }));
    } else {
        deliveries.print();
        if let (false, Some(again)) = (deliveries.has_refusal(), &again) {
            output::note(&format!("\nthe same event again: {again}"));
        }
    }
    deliveries.exit(&again.map_or_else(String::new, |again| format!("; {again} delivers the same event again")))
}

/// The command for the same event. `None` if it cannot be typed.
fn again(name: &str, id: &str, changes: &[String], destination: &Destination) -> Option<String> {
    let changes = changes.iter().map(|change| ("--set", change.as_str()));
    let options = changes.chain(destination.options()).map(|(flag, value)| match value {
        "-" => Some(format!("{flag} -")),
        // A value that begins like an option belongs to the same word.
        value => match value.strip_prefix('-') {
            Some(rest) => output::word(rest).map(|rest| format!("{flag}=-{rest}")),
            None => output::word(value).map(|value| format!("{flag} {value}")),
        },
    });
    let options = options.collect::<Option<Vec<_>>>()?;
    let words = ["hookonce", "trigger", name, "--id", id].into_iter().chain(options.iter().map(String::as_str));
    Some(format!("`{}`", hints::command(&words.collect::<Vec<_>>(), "")))
}

/// Takes a change apart.
fn pair(change: &str) -> Result<(String, String), Failure> {
    let pair = change.split_once('=').map(|(path, value)| (path.to_owned(), value.to_owned()));
    pair.ok_or_else(|| Failure::usage("a change is not PATH=VALUE", "for instance --set data.object.amount_paid=100"))
}

fn list(as_json: bool) {
    if as_json {
        let row =
            |sample: &Sample| json!({ "event": sample.name(), "provider": sample.provider, "type": sample.event_type });
        return output::json(&fixtures::all().iter().map(row).collect::<Vec<_>>());
    }
    let mut table = output::table(&["event", "provider"]);
    for sample in fixtures::all() {
        let provider = sample.provider().map_or(sample.provider, |provider| provider.name());
        table.add_row([sample.name().as_str(), provider]);
    }
    output::print(&table);
    output::note("\n`hookonce trigger EVENT` delivers one to the running local stack.");
}

fn no_sample(name: &str, near: NoSample) -> Failure {
    let what = format!("there is no sample event {name:?}");
    match near {
        NoSample::Near(names) => Failure::usage(what, names.join(", ")),
        NoSample::NoneOf(provider) => Failure::usage(
            format!("only {} can sign its events: it has a private key of its own", provider.name()),
            "start a tunnel and `hookonce dev --public https://NAME`, and let the provider send a real event",
        ),
        NoSample::Unknown => Failure::usage(what, "list them with `hookonce trigger --list`"),
    }
}
