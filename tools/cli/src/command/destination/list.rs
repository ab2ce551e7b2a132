//! `hookonce destination list`: the destinations of a stack, or the ready-made documents.

use clap::Args;
use hookonce_protocol::effect::DestinationId;
use serde_json::json;

use crate::documents;
use crate::documents::destinations::ready::{Ready, all};
use crate::documents::destinations::shown_address;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::target::Place;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// List the ready-made documents instead: what they are based on, and what they need.
    #[arg(long, conflicts_with = "stack")]
    ready: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.ready {
        ready(arguments.json);
        return Ok(Exit::Done);
    }
    let stack = arguments.place.connect();
    let destinations = documents::valid::<DestinationId>(&*stack.documents().await?).await?;
    if arguments.json {
        let rows = destinations.iter().map(|(id, document, changed_at)| {
            json!({ "id": id, "kind": document.kind, "class": document.class,
                "url": document.url.as_ref().and_then(|_| shown_address(document)), "function": document.function,
                "changed_at_ms": changed_at.map(|at| at.0) })
        });
        output::json(&rows.collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["id", "kind", "class", "address", "last written"]);
    for (id, document, changed_at) in &destinations {
        let class = document.class.map_or("-", |class| class.as_str());
        let address = shown_address(document).unwrap_or_else(|| "-".to_owned());
        table.add_row([id.as_str(), document.kind.as_str(), class, &address, &output::known_moment(*changed_at)]);
    }
    if table.row_count() > 0 || !output::is_terminal() {
        output::print(&table);
    }
    if table.row_count() == 0 {
        output::note("there is no destination; `hookonce destination add --help` shows how one is written");
    }
    Ok(Exit::Done)
}

fn ready(as_json: bool) {
    if as_json {
        let row = |ready: &Ready| {
            json!({ "id": ready.id, "name": ready.name, "because": ready.because, "source": ready.source,
                "address_source": ready.address_source,
                "note": ready.note, "url_from": ready.url_from, "credential": ready.credential.what(),
                "document": ready.document })
        };
        return output::json(&all().iter().map(row).collect::<Vec<_>>());
    }
    let mut table = output::table(&["id", "class", "because", "needs"]);
    for ready in all() {
        let class = ready.document.class.map_or("-", |class| class.as_str());
        table.add_row([ready.id.as_str(), class, &ready.because, ready.credential.what()]);
    }
    output::print(&table);
    output::note(
        "\n`hookonce destination add ID --secret -` adds one; docs/use/destinations.md names the page of each.",
    );
}
