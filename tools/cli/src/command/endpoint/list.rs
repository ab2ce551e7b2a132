//! `hookonce endpoint list`: the endpoints, and what each answered.

use clap::Args;
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::document::EndpointDocument;
use serde_json::{Value, json};

use crate::documents;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::target::Place;
use crate::traffic::{EndpointTraffic, Traffic};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &List) -> Result<Exit, Failure> {
    let stack = arguments.place.connect();
    let endpoints = documents::valid(&*stack.documents::<EndpointId>().await?).await?;
    let now = System.moment().now;
    // The functions of a stack on AWS count what they answer in CloudWatch alone.
    let traffic = stack.local().map(|_| Traffic::of(&arguments.place.folder));
    let answered = |id: &EndpointId| traffic.as_ref().map(|traffic| traffic.endpoint(id.as_str()));
    if arguments.json {
        let rows = endpoints.iter().map(|(id, document, changed_at)| {
            json!({ "id": id, "provider": document.provider, "tenant": tenant_of(id, document),
                "secrets": document.secrets.len(), "changed_at_ms": changed_at.map(|at| at.0),
                "answered": answered(id).map(|answered| json_of(&answered, now)) })
        });
        output::json(&rows.collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    let own = ["id", "provider", "tenant", "secrets"];
    let counted = ["last accepted", "accepted 24h", "refused 24h", "latest refusal"];
    let header = [&own[..], traffic.as_ref().map_or(&[], |_| &counted)].concat();
    let mut table = output::table(&header);
    for (id, document, _) in &endpoints {
        let own = [
            id.to_string(),
            document.provider.clone(),
            tenant_of(id, document).to_owned(),
            document.secrets.len().to_string(),
        ];
        table.add_row(own.into_iter().chain(answered(id).into_iter().flat_map(|answered| cells(&answered, now))));
    }
    output::print(&table);
    if traffic.is_none() {
        output::note("what they answered is in CloudWatch: docs/run/runbook.md#an-endpoint-is-silent");
    }
    Ok(Exit::Done)
}

fn tenant_of<'a>(id: &'a EndpointId, document: &'a EndpointDocument) -> &'a str {
    document.tenant.as_ref().map_or(id.as_str(), Tenant::as_str)
}

/// What an endpoint answered, for people. The last acceptance may be older than the counts.
fn cells(answered: &EndpointTraffic, now: EpochMs) -> [String; 4] {
    let (accepted, refused) = answered.totals(now);
    let refusal = answered.last_refusal.as_ref().filter(|_| refused > 0);
    [
        answered.last_accepted.map_or_else(|| "never".to_owned(), output::local_time),
        accepted.to_string(),
        refused.to_string(),
        refusal.map_or_else(|| "-".to_owned(), |(_, code)| code.clone()),
    ]
}

/// The same for programs.
fn json_of(answered: &EndpointTraffic, now: EpochMs) -> Value {
    let (accepted, refused) = answered.totals(now);
    json!({
        "last_accepted_at_ms": answered.last_accepted.map(|at| at.0),
        "accepted_24h": accepted,
        "refused_24h": refused,
        "last_refusal": answered.last_refusal.as_ref().map(|(at, code)| json!({ "at_ms": at.0, "code": code })),
    })
}
