//! Builds: a push to GitHub asks for one build of each commit.
//!
//! GitHub signs the body but neither the delivery id nor the event's name, so the fact is named by what is signed: the
//! repository and the commit. A replayed push under a fresh id asks for nothing new.

use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::write::Change;
use hookonce_runtime::handler::{Handler, HandlerError};
use serde::Deserialize;

use super::{item, once, read};

/// Build requests out of GitHub pushes.
#[derive(Debug, Clone, Copy)]
pub struct Builds;

#[derive(Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    before: String,
    after: String,
    #[serde(default)]
    deleted: bool,
    repository: Repository,
}

#[derive(Deserialize)]
struct Repository {
    id: i64,
    full_name: String,
}

fn push(event: &Event) -> Result<Push, HandlerError> {
    read(event, "PUSH_UNREADABLE")
}

impl Handler for Builds {
    fn name(&self) -> &'static str {
        "builds"
    }

    fn handles(&self, event: &Event) -> bool {
        event.provider == "github" && event.event_type == "push"
    }

    fn domain_key(&self, event: &Event) -> Result<String, HandlerError> {
        let push = push(event)?;
        let (endpoint, repository) = (&event.endpoint, push.repository.id);
        Ok(if push.deleted {
            format!("{endpoint}/deleted/{repository}/{}/{}", push.reference, push.before)
        } else {
            format!("{endpoint}/build/{repository}/{}", push.after)
        })
    }

    fn plan(&self, event: &Event, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let push = push(event)?;
        if push.deleted {
            return Ok(Plan::default());
        }
        let Push { reference, after, repository, .. } = push;
        let request = item([
            ("repository", repository.full_name.as_str().into()),
            ("commit", after.as_str().into()),
            ("ref", reference.as_str().into()),
            ("requested_at", event.received_at.0.into()),
            ("state", "REQUESTED".into()),
        ]);
        let key = once(event, format!("{}#build#{}#{after}", event.endpoint, repository.id));
        let counter = format!("{}#repository#{}", event.endpoint, repository.id);
        Ok(Plan::default()
            .with(DomainWrite::create(key, request))
            .with(DomainWrite::update(counter, vec![Change::Add("builds".into(), 1)])))
    }
}
