//! `hookonce endpoint check`: validates documents as the webhook function does.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use error_reporter::Report;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::document::EndpointDocument;
use serde_json::json;

use crate::documents::told_as_json;
use crate::endpoints::{Place, Stored, check, check_tenant, parse_id};
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint document, as JSON. Without it, every stored document is checked.
    #[arg(conflicts_with_all = ["stack", "data"])]
    file: Option<PathBuf>,
    /// Print JSON, one line for each document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Some(file) = arguments.file else { return check_all(&arguments).await };
    let name = file.display();
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::usage(format!("reading {name} failed: {error}"), "check the path"))?;
    let id = parse_id("checked")?;
    let checked = EndpointDocument::parse(&text)
        .map_err(|error| {
            Failure::usage(Report::new(&error).to_string(), "docs/deploy.md lists the fields of an endpoint document")
        })
        .and_then(|document| check(&id, &document).map(|()| document));
    Ok(told(&name.to_string(), checked, arguments.json))
}

/// Checks every document that is stored.
async fn check_all(Arguments { place, json, .. }: &Arguments) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let all = place.open().await?.all().await?;
    let tenant_elsewhere = |(id, stored): (&EndpointId, &Stored)| {
        stored.document(id).ok()?.tenant.filter(|tenant| tenant.as_str() != id.as_str())
    };
    let tenants: BTreeSet<_> = all.iter().filter_map(tenant_elsewhere).collect();
    for (id, stored) in all {
        let checked = stored.document(&id).and_then(|document| {
            check(&id, &document)?;
            let shared = tenants.iter().try_for_each(|tenant| check_tenant(&id, &document, tenant));
            shared.map(|()| document)
        });
        if told(id.as_str(), checked, *json) == Exit::No {
            exit = Exit::No;
        }
    }
    Ok(exit)
}

fn told(name: &str, checked: Result<EndpointDocument, Failure>, json: bool) -> Exit {
    let checked = checked.map(|document| document.provider);
    if json {
        let provider = json!(checked.as_ref().ok());
        return told_as_json(name, &checked, &[("provider", provider)]);
    }
    match checked {
        Ok(provider) => {
            output::line(&format!("{name}: valid (provider: {provider})"));
            Exit::Done
        }
        Err(failure) => {
            output::line(&format!("{name}: not valid"));
            output::failure(&failure);
            Exit::No
        }
    }
}
