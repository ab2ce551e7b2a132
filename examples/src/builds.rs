//! Builds: each commit pushed to GitHub requests one build.
//!
//! GitHub signs the body, but not the delivery id or the event name. So the fact is named by signed data: the
//! repository and the commit. A push replayed under a new id requests no further build.

use hookonce_protocol::item::fields;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError, read};
use serde::Deserialize;

/// Turns GitHub pushes into build requests.
#[derive(Debug, Clone, Copy)]
pub struct Builds;

/// The signed fields of a push that matter here.
#[derive(Debug, Deserialize)]
pub struct Push {
    #[serde(rename = "ref")]
    reference: String,
    before: String,
    after: String,
    deleted: Option<bool>,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Repository {
    id: i64,
    full_name: String,
}

impl Handler for Builds {
    type Fact = Push;

    fn name(&self) -> &'static str {
        "builds"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Push>, HandlerError> {
        let wanted = event.provider == "github" && event.event_type == "push";
        wanted.then(|| read(event, "PUSH_UNREADABLE")).transpose()
    }

    fn domain_key(&self, push: &Push) -> DomainKey {
        let Push { reference, before, after, deleted, repository } = push;
        let repository = repository.id.to_string();
        if deleted.unwrap_or_default() {
            DomainKey::of(["deleted", &repository, reference, before])
        } else {
            DomainKey::of(["build", &repository, after])
        }
    }

    fn plan(&self, event: &Event, push: &Push, _snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let Push { reference, after, deleted, repository, .. } = push;
        if deleted.unwrap_or_default() {
            return Ok(Plan::default());
        }
        let request = fields([
            ("repository", repository.full_name.as_str().into()),
            ("commit", after.as_str().into()),
            ("ref", reference.as_str().into()),
            ("requested_at", event.received_at.0.into()),
            ("state", "REQUESTED".into()),
        ]);
        let counter = event.item_key("repository", [repository.id]);
        Ok(Plan::default()
            .with(DomainWrite::create(event.once("build", [&repository.id.to_string(), after]), request))
            .with(DomainWrite::update(counter, vec![Change::Add("builds".into(), 1)])))
    }
}
