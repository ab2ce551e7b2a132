//! `hookonce endpoint list`: the endpoints, and what each answered.

use clap::Args;
use hookonce_protocol::key::{EndpointId, Tenant};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::documents::document::EndpointDocument;
use serde_json::{Value, json};

use crate::documents;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::logs::LoggedDay;
use crate::stack::target::Place;
use crate::stack::traffic::{EndpointTraffic, Traffic};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What the endpoints answered, where that is known.
pub(super) enum Answered {
    /// By the running stack itself.
    Counted(Traffic),
    /// By the log of a stack on AWS, within 24 hours.
    Logged(LoggedDay),
    Unknown,
}

impl Answered {
    /// A log that cannot be searched hides no endpoint.
    pub(super) async fn by(stack: &Connection, now: EpochMs) -> Self {
        let Some(deployed) = stack.deployed() else { return Self::Counted(Traffic::of(&stack.folder)) };
        let searching = output::working("searching the log of 24 hours");
        let day = LoggedDay::of(deployed, now).await;
        drop(searching);
        match day {
            Ok(day) => Self::Logged(day),
            Err(failure) => {
                output::note(&format!("what they answered is not known: {failure}"));
                output::note(&format!("  try: {}", failure.hint()));
                Self::Unknown
            }
        }
    }

    pub(super) fn endpoint(&self, id: &EndpointId) -> Option<EndpointTraffic> {
        match self {
            Self::Counted(traffic) => Some(traffic.endpoint(id.as_str())),
            Self::Logged(day) => Some(day.endpoint(id.as_str())),
            Self::Unknown => None,
        }
    }

    /// Notes where the counts come from, if that is not this machine.
    pub(super) fn note_source(&self) {
        if let Self::Logged(day) = self {
            output::note(&day.source());
        }
    }

    /// What stands in the place of the moment of an acceptance that is not known.
    const fn no_acceptance(&self) -> &'static str {
        match self {
            Self::Counted(_) => "never",
            Self::Logged(_) => "not in 24h",
            Self::Unknown => "",
        }
    }
}

pub(super) async fn run(arguments: &List) -> Result<Exit, Failure> {
    let stack = arguments.place.connect();
    let endpoints = documents::valid(&*stack.documents::<EndpointId>().await?).await?;
    let now = System.moment().now;
    let answered = Answered::by(&stack, now).await;
    if arguments.json {
        let rows = endpoints.iter().map(|(id, document, changed_at)| {
            json!({ "id": id, "provider": document.provider, "tenant": tenant_of(id, document),
                "secrets": document.secrets.len(), "changed_at_ms": changed_at.map(|at| at.0),
                "answered": answered.endpoint(id).map(|answered| json_of(&answered, now)) })
        });
        output::json(&rows.collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    let own = ["id", "provider", "tenant", "secrets"];
    let counted = ["last accepted", "accepted 24h", "old secret 24h", "refused 24h", "latest refusal"];
    let is_known = !matches!(answered, Answered::Unknown);
    let header = [&own[..], if is_known { &counted } else { &[] }].concat();
    let mut table = output::table(&header);
    table.may_leave_out(&["secrets", "old secret 24h", "tenant", "provider"]);
    for (id, document, _) in &endpoints {
        let own = [
            id.to_string(),
            document.provider.clone(),
            // Most endpoints are a tenant of their own.
            document.tenant.as_ref().map_or("-", Tenant::as_str).to_owned(),
            document.secrets.len().to_string(),
        ];
        let counted = answered.endpoint(id).map(|traffic| cells(&traffic, now, answered.no_acceptance()));
        table.add_row(own.into_iter().chain(counted.into_iter().flatten()));
    }
    output::print(&table);
    answered.note_source();
    Ok(Exit::Done)
}

fn tenant_of<'a>(id: &'a EndpointId, document: &'a EndpointDocument) -> &'a str {
    document.tenant.as_ref().map_or(id.as_str(), Tenant::as_str)
}

/// What an endpoint answered, for people. The last acceptance may be older than the counts.
fn cells(answered: &EndpointTraffic, now: EpochMs, no_acceptance: &str) -> [String; 5] {
    let (accepted, refused) = answered.totals(now);
    let refusal = answered.last_refusal.as_ref().filter(|_| refused > 0);
    [
        answered.last_accepted.map_or_else(|| no_acceptance.to_owned(), output::local_moment),
        accepted.to_string(),
        Some(answered.by_older_secret(now))
            .filter(|count| *count > 0)
            .map_or_else(|| "-".to_owned(), |it| it.to_string()),
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
        "old_secret_24h": answered.by_older_secret(now),
        "last_old_secret_at_ms": answered.last_older_secret.map(|at| at.0),
        "refused_24h": refused,
        "last_refusal": answered.last_refusal.as_ref().map(|(at, code)| json!({ "at_ms": at.0, "code": code })),
    })
}
