//! `hookonce list`: lists records, newest first.

use std::num::NonZeroUsize;

use clap::Args;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::Record;

use super::send::at_least_one;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt;
use crate::records::looks::Look;
use crate::records::{Filter, Latest, error_of, format_tries, note_default_since, shown_key, summary, type_of};
use crate::stack::connection::Connection;
use crate::stack::target::Target;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of records.
    #[arg(long, default_value = "50", value_parser = at_least_one)]
    limit: NonZeroUsize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.filter.check()?;
    let limit = arguments.limit.get();
    let stack = arguments.target.connect();
    let reading = output::working("reading records");
    let store = stack.store().await?;
    let mut latest = Latest::default();
    let is_stopped = tokio::select! {
        biased;
        () = interrupt::ctrl_c() => true,
        read = latest.read(&store, &arguments.filter, limit, |hours, of| {
            if hours > 0 {
                reading.shows(format!("reading records, {hours} of {of} hours"));
            }
        }) => read.map(|()| false)?,
    };
    drop(reading);
    if is_stopped {
        return Ok(interrupt::stopped_reading(&latest.records.len()));
    }
    let mut records: Vec<_> = latest.records.into_values().collect();
    records.sort_by(|a, b| (b.received_at, &a.key).cmp(&(a.received_at, &b.key)));
    let cut = latest.cut || records.len() > limit;
    records.truncate(limit);
    if arguments.json {
        output::json(&records.iter().map(summary).collect::<Vec<_>>());
    } else {
        print(&records);
    }
    note_default_since(arguments.filter.default_since());
    arguments.filter.note_exact_type();
    if let (true, Some(endpoint)) = (records.is_empty(), &arguments.filter.endpoint) {
        note_missing_endpoint(&stack, endpoint).await;
    }
    if cut {
        output::note("there may be more records: raise --limit, or narrow --since and --until");
    }
    if latest.unreadable > 0 {
        output::note(&format!(
            "left out {} of another hookonce version: list them with that version",
            output::number_of(&latest.unreadable, "record")
        ));
    }
    Ok(Exit::Done)
}

/// Notes that there is no such endpoint. A removed one may still have records, so this looks only if there are none.
/// Prints nothing without permission to read the documents.
pub(super) async fn note_missing_endpoint(stack: &Connection, endpoint: &str) {
    let Ok(id) = EndpointId::parse(endpoint) else { return };
    if stack.is_copy() {
        return;
    }
    let Ok(endpoints) = stack.documents::<EndpointId>().await else { return };
    if let Ok(None) = endpoints.get(&id).await {
        output::note(&format!("there is no endpoint {id}; list them with `hookonce endpoint list`"));
    }
}

fn print(records: &[Record]) {
    let mut table = output::table(&["received", "state", "endpoint", "type", "tries", "dups", "error", "key"]);
    table.may_leave_out(&["dups", "tries"]);
    // A column of zeros says nothing to a person.
    let duplicates = |count: i64| if count == 0 && output::is_terminal() { String::new() } else { count.to_string() };
    for record in records {
        table.add_row([
            output::local_moment(record.received_at).into(),
            Look::cell_of(record),
            record.key.parts().0.into(),
            type_of(record).as_ref().into(),
            format_tries(record).into(),
            duplicates(record.duplicate_count).into(),
            error_of(record).unwrap_or("-").into(),
            shown_key(&record.key).into(),
        ]);
    }
    if !records.is_empty() || !output::is_terminal() {
        output::print(&table);
    }
    output::note(&output::number_of(&records.len(), "record"));
}
