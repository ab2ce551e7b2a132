//! How a stack is: what waits, what died, what is paused, and what of it needs a person. The command `status` prints it,
//! and the console shows it. It is read during outages, so a service that does not answer must not hide the others.

mod needs;
mod queues;
mod records;
mod refused;
mod silence;

use std::collections::BTreeMap;

use hookonce_aws::DynamoStore;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};

pub(crate) use self::needs::{Need, RELAY_AWAY};
pub(crate) use self::queues::{Depth, Depths, dead_letter_queue};
pub(crate) use self::records::{Due, Records, Unreached, dead};
use self::refused::{RefusedDocument, refused_documents};
use self::silence::silent_of;
pub(crate) use self::silence::{Silent, silence};
use crate::documents::{DocumentId, Stored, route_set};
use crate::failure::Failure;
use crate::stack::connection::{Connection, Deployed, Local, RunningStack};
use crate::stack::lambda::DeployedFunctions;
use crate::stack::pauses::{self, Act, Acts, PausedFunction};
use crate::stack::traffic::Traffic;
use crate::stack::watch::{Looking, Requests, Watch};

/// How long a record may be due before somebody should know. The alarm of the template says the same.
pub(crate) const OVERDUE: Millis = Millis::minutes(10);

/// How a stack is.
#[derive(Debug)]
pub(crate) struct StackStatus {
    pub(crate) records: Records,
    pub(crate) depths: Depths,
    /// What people paused, and what they did before. `None` where the domain table is not known, and for a restored
    /// copy.
    pauses: Result<Option<[Acts; 2]>, Failure>,
    /// The stack on this machine. `None` for any other.
    pub(crate) local: Option<RunningStack>,
    /// Why no worker takes the route set.
    routes: Result<Option<String>, Failure>,
    /// The documents that are not valid.
    refused: Result<Vec<RefusedDocument>, Failure>,
    /// The endpoints of the stack on this machine that refused their latest deliveries: how many, and the latest code. On
    /// AWS, `endpoint list` searches the log for that.
    refusing: Vec<(String, u64, String)>,
    /// The endpoints that are silent for longer than their documents expect. `None` if nobody looked, or may not.
    pub(crate) silent: Result<Option<Vec<Silent>>, Failure>,
    pub(crate) aws: Option<AwsStatus>,
}

impl StackStatus {
    /// Reads everything that can be read.
    ///
    /// # Errors
    /// [`Failure`] when nothing is known: no stack runs or is named so, or there are no credentials.
    pub(crate) async fn read(
        stack: &Connection,
        store: Result<DynamoStore, Failure>,
        looking: Looking,
        now: EpochMs,
    ) -> Result<Self, Failure> {
        let deployed = stack.deployed().filter(|_| !stack.is_copy());
        let aws = match deployed {
            Some(deployed) => Some(Box::pin(AwsStatus::of(deployed, looking, now)).await?),
            None => None,
        };
        let pauses = pauses(stack, store.clone());
        // On AWS it is a search in a log, which is billed: not for a page that keeps up by itself.
        let looks = deployed.is_none() || looking == Looking::Whole;
        let of_documents = async {
            let endpoints = documents_of::<EndpointId>(stack).await;
            let destinations = documents_of::<DestinationId>(stack).await;
            let silent = if looks { silent_of(stack, endpoints.clone(), now).await } else { Ok(None) };
            let refused = endpoints.and_then(|endpoints| {
                let (mut refused, destinations) = (refused_documents(endpoints), refused_documents(destinations?));
                refused.extend(destinations);
                Ok(refused)
            });
            (silent, refused)
        };
        let routes = async { if takes_events(stack) { route_set::refusal(stack).await } else { Ok(None) } };
        let (records, depths, pauses, (silent, refused), routes) =
            futures::join!(Records::read(store, looking), queues::depths(stack), pauses, of_documents, routes);
        let depths = match deployed {
            Some(deployed) if looking == Looking::Whole => depths.with_ages(deployed.account().await?, now).await,
            Some(_) | None => depths,
        };
        let is_usage = matches!(records.pending, Err(Failure::Usage { .. }));
        if let (true, Err(failure), Err(_)) = (stack.local().is_some() || is_usage, &records.pending, &depths.queue) {
            return Err(failure.clone());
        }
        let local = stack.local().map(Local::running).and_then(Result::ok).cloned();
        let refusing = local.as_ref().map(|_| Traffic::of(&stack.folder).refusing(now)).unwrap_or_default();
        Ok(Self { records, depths, pauses, local, routes, refused, refusing, silent, aws })
    }

    /// What could not be read, and why.
    pub(crate) fn unknown(&self) -> Vec<(&'static str, &Failure)> {
        let parts = [
            ("pending", self.records.pending.as_ref().err()),
            ("waiting", self.records.waiting.as_ref().err()),
            ("effects", self.records.effects.as_ref().err()),
            ("dead", self.records.dead.as_ref().err()),
            ("queue", self.depths.queue.as_ref().err()),
            ("slow_queue", self.depths.slow_queue.as_ref().err()),
            ("effects_queue", self.depths.effects_queue.as_ref().err()),
            ("dead_letters", self.depths.dead_letters.as_ref().err()),
            ("pauses", self.pauses.as_ref().err()),
            ("silent_endpoints", self.silent.as_ref().err()),
            ("routes", self.routes.as_ref().err()),
            ("documents", self.refused.as_ref().err()),
        ];
        let parts = parts.into_iter().chain(self.aws.iter().flat_map(|aws| {
            let (watch, functions) = (aws.watch.as_ref().err(), aws.functions.as_ref().err());
            let (release, caller) = (aws.version.as_ref().err(), aws.caller.as_ref().err());
            // Without the outputs, the functions' names are unknown, too.
            let functions = functions.filter(|_| release.is_none());
            let requests = aws.requests.as_ref().err().filter(|_| release.is_none());
            [
                ("alarms", watch),
                ("release", release),
                ("functions", functions),
                ("caller", caller),
                ("requests", requests),
            ]
        }));
        parts.into_iter().filter_map(|(part, failure)| Some((part, failure?))).collect()
    }
    /// The pauses that hold.
    pub(crate) fn paused(&self) -> impl Iterator<Item = (PausedFunction, &Act)> {
        let acts = self.pauses.as_ref().ok().and_then(Option::as_ref).into_iter().flatten();
        PausedFunction::ALL.into_iter().zip(acts).filter_map(|(function, acts)| Some((function, acts.pause()?)))
    }
}

/// Whether workers take events from this stack: it is no copy of a table, and runs.
fn takes_events(stack: &Connection) -> bool {
    !stack.is_copy() && stack.local().is_none_or(|local| local.running().is_ok())
}

/// The documents of a family. `None` where no stack takes events, or the caller has no right to them: they hold secrets, so a
/// reader has none.
async fn documents_of<I: DocumentId>(stack: &Connection) -> Result<Option<BTreeMap<I, Stored>>, Failure> {
    if !takes_events(stack) {
        return Ok(None);
    }
    match stack.all_documents().await {
        Ok(documents) => Ok(Some(documents)),
        Err(Failure::Denied { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What people paused.
async fn pauses(stack: &Connection, store: Result<DynamoStore, Failure>) -> Result<Option<[Acts; 2]>, Failure> {
    if stack.is_copy() {
        return Ok(None);
    }
    pauses::read(&store?).await.map(Some)
}

/// What AWS knows of a stack beside its tables and queues. A service that does not answer does not hide the others.
#[derive(Debug)]
pub(crate) struct AwsStatus {
    /// The stack's name.
    pub(crate) stack: String,
    /// The caller's AWS identity.
    pub(crate) caller: Result<String, Failure>,
    /// The release that is deployed.
    pub(crate) version: Result<String, Failure>,
    /// What CloudWatch knows.
    pub(crate) watch: Result<Watch, Failure>,
    /// What Lambda knows.
    pub(crate) functions: Result<DeployedFunctions, Failure>,
    /// How near requests came to the gateway's limit. `None` if the limit is not known.
    pub(crate) requests: Result<Option<Requests>, Failure>,
}

impl AwsStatus {
    /// # Errors
    /// [`Failure`] when there are no credentials or no region.
    async fn of(stack: &Deployed, looking: Looking, now: EpochMs) -> Result<Self, Failure> {
        let account = stack.account().await?;
        let functions = async { DeployedFunctions::of(account, &stack.outputs().await?.functions, looking).await };
        let (caller, watch) = (stack.caller(), Watch::of(account, &stack.name, now));
        let requests = async { Requests::of(account, stack.outputs().await?, now).await };
        let (caller, functions, watch, requests) = futures::join!(caller, functions, watch, requests);
        let version = stack.outputs().await.map(|outputs| outputs.parts.version.clone());
        Ok(Self { stack: stack.name.clone(), caller, version, watch, functions, requests })
    }
}
