//! `hookonce endpoint rotate`: changes a secret in two steps, so that no delivery is refused in between.
//!
//! The first step adds the new secret in front of the older ones. Between the two, the provider is told, and retries
//! that it signed before may still arrive. The second step removes the older secrets once no delivery uses them any
//! more. Each record holds the place of the secret that verified it, so the records say when that is.

use clap::Args;
use hookonce_aws::{DynamoStore, IndexQuery};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::record::Found;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_providers::limits::SECRETS_MAX;
use hookonce_providers::{Catalog, SecretFrom};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::documents::endpoint::CACHE_AGE_MAX;
use hookonce_runtime::port::Store as _;

use super::no_secret;
use crate::command::providers::find;
use crate::documents::endpoints::{make_secret, pasted_secret};
use crate::documents::secret::{Input, SecretOption};
use crate::documents::{DocumentId as _, DocumentStore, Stored, parse_id, text_of};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::Filter;
use crate::stack::connection::Connection;
use crate::stack::target::{Place, store_unavailable};

/// How long no delivery may have used an older secret before it goes. Providers send most retries within a day.
const QUIET: Millis = Millis::hours(24);

/// The most deliveries of the endpoint that are read to find a use.
const DELIVERIES_MAX: usize = 20_000;

/// The most index entries that are looked through for them. The index has those of all endpoints.
const ENTRIES_MAX: usize = 2_000_000;

/// How many entries are looked through at a time.
const PAGE: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint id.
    id: String,
    /// `-`: read the new secret from standard input.
    ///
    /// A terminal asks for it. Without this, one is generated and printed, unless the provider issues it.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Remove every older secret at once, as for a leak.
    ///
    /// Functions stop accepting it within 5 minutes. Asks first on a deployed stack.
    #[arg(long, group = "removal")]
    retire: bool,
    /// The second step: remove the older ones, if unused.
    ///
    /// Refused while deliveries still use them.
    #[arg(long, group = "removal", conflicts_with = "secret")]
    finish: bool,
    /// With these: remove them even if they are in use.
    ///
    /// Or if that cannot be determined.
    #[arg(long, requires = "removal")]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id: EndpointId = parse_id(&arguments.id)?;
    let mut input = Input::of(&arguments.secret);
    let given = arguments.secret.as_ref().map(|secret| secret.secret("new secret", &mut input)).transpose()?;
    let stack = arguments.place.connect();
    let store = stack.documents::<EndpointId>().await?;
    let stored = store.find(&id).await?;
    if arguments.finish {
        return finish(&arguments, &stack, &*store, &id, &stored).await;
    }
    let mut document = stored.document(&id)?;
    let provider = find(Catalog::built_in(), &document.provider)?;
    let made = given.is_none();
    let secret = match given {
        Some(secret) => pasted_secret(provider, &secret)?,
        None if provider.facts().secret_from == SecretFrom::Provider => return Err(no_secret(provider)),
        None => make_secret(provider).ok_or_else(|| no_secret(provider))?,
    };
    let stays = document.secrets.iter().position(|older| *older == secret);
    let older = document.secrets.iter().filter(|older| !arguments.retire && **older != secret).cloned();
    let secrets: Vec<_> = std::iter::once(secret.clone()).chain(older).collect();
    if secrets == document.secrets {
        output::note(&format!("endpoint {id} has this secret as its newest: nothing was written"));
        return Ok(Exit::Done);
    }
    if secrets.len() > SECRETS_MAX {
        return Err(full(&id));
    }
    document.secrets = secrets;
    id.check(&document)?;
    if arguments.retire && !arguments.yes {
        agree_to_retire(&arguments, &stack, &id, stays).await?;
    }
    store.replace(&id, &stored, &text_of(&document)).await?;
    output::note(&format!(
        "endpoint {id} has {}; the newest is secret 0",
        output::number_of(&document.secrets.len(), "secret")
    ));
    if made {
        output::line(&secret);
    }
    if arguments.retire {
        output::note(
            "functions of a deployed stack accept the older secrets for up to 5 minutes more: docs/run/runbook.md",
        );
    }
    if made {
        output::note("next: give the new secret to the provider");
    }
    if document.secrets.len() > 1 {
        output::note("deliveries with an older secret are accepted as well");
        output::note(&format!("`hookonce endpoint show {id}` counts those of 24 hours. When there is none:"));
        output::note(&format!("  hookonce endpoint rotate {id} --finish"));
    }
    Ok(Exit::Done)
}

/// Says what it costs to remove the older secrets at once on a deployed stack, and asks.
///
/// # Errors
/// [`Failure::Usage`] when the person does not agree, or cannot be asked.
async fn agree_to_retire(
    arguments: &Arguments,
    stack: &Connection,
    id: &EndpointId,
    stays: Option<usize>,
) -> Result<(), Failure> {
    let Some(name) = arguments.place.deployed() else { return Ok(()) };
    output::note(&format!(
        "within 5 minutes, {name} will refuse every delivery to {id} that an older secret signed, and those secrets are \
         gone for good"
    ));
    output::note(&match Search::of_retired(stays).day(stack, id).await {
        Ok((search, None)) => {
            format!("{} deliveries of the last day were verified by a secret that goes", search.older)
        }
        Ok((search, Some(_))) => format!(
            "at least {} deliveries of the last day were verified by a secret that goes; the rest was not read",
            search.older
        ),
        Err(failure) => format!("how many deliveries use them is unknown: {failure}"),
    });
    output::confirm("Remove them?", "pass --yes to remove them; without --retire, they stay until --finish")
}

/// The failure when there is no room for another secret. This step removes none, because it may be in use.
fn full(id: &EndpointId) -> Failure {
    Failure::usage(
        format!("endpoint {id} has {SECRETS_MAX} secrets, the most that it can hold; nothing was written"),
        format!("remove the older ones first: `hookonce endpoint rotate {id} --finish`"),
    )
}

async fn finish(
    arguments: &Arguments,
    stack: &Connection,
    store: &dyn DocumentStore<EndpointId>,
    id: &EndpointId,
    stored: &Stored,
) -> Result<Exit, Failure> {
    let mut document = stored.document(id)?;
    let older = document.secrets.len().saturating_sub(1);
    if older == 0 {
        output::note(&format!("endpoint {id} has one secret: nothing is left to remove"));
        return Ok(Exit::Done);
    }
    match older_use(stack, id, stored.changed_at).await {
        Ok(OlderUse::Silent { deliveries }) => {
            output::note(&format!("{deliveries} deliveries used the newest secret, and none an older one for a day"));
        }
        seen if arguments.yes => output::note(&format!("{}; --yes was given", warning(&seen))),
        seen => {
            output::note(&warning(&seen));
            output::note("nothing was changed. Pass --yes to remove the older secrets all the same");
            return Ok(if seen.is_err() { Exit::Unavailable } else { Exit::No });
        }
    }
    document.secrets.truncate(1);
    store.replace(id, stored, &text_of(&document)).await?;
    output::note(&format!(
        "endpoint {id}: {} removed; functions forget within 5 minutes",
        output::number_of(&older, "older secret")
    ));
    Ok(Exit::Done)
}

/// What the records of an endpoint say about its older secrets.
#[derive(Debug, PartialEq, Eq)]
enum OlderUse {
    /// The document changed too short a time ago to tell.
    TooEarly { until: EpochMs },
    /// A delivery used one.
    Used { at: EpochMs },
    /// No delivery came.
    NoDelivery,
    /// It has more deliveries than are read. Those that were read used the newest secret.
    TooMany { deliveries: usize },
    /// Other endpoints have more entries than are looked through. What was looked through shows no use of an older one.
    TooBusy { deliveries: usize },
    /// Deliveries came, and all used the newest.
    Silent { deliveries: usize },
}

/// Where to look when the records are too many.
const METRIC: &str = "look whether the metric old_secret_used has been 0 for a day";

fn warning(seen: &Result<OlderUse, Failure>) -> String {
    match seen {
        Ok(OlderUse::TooEarly { until }) => format!(
            "the endpoint was changed less than a day ago, and retries that were signed before may still arrive: wait until {}",
            output::local_moment(*until)
        ),
        Ok(OlderUse::Used { at }) => {
            format!(
                "a delivery used an older secret at {}: does the provider have the new one?",
                output::local_moment(*at)
            )
        }
        Ok(OlderUse::NoDelivery) => {
            "no delivery came for a day, so nothing shows that the provider has the new secret".to_owned()
        }
        Ok(OlderUse::TooMany { deliveries }) => {
            format!(
                "its latest {deliveries} deliveries used the newest secret, and the rest of the day was not read: {METRIC}"
            )
        }
        Ok(OlderUse::TooBusy { deliveries }) => format!(
            "{deliveries} of its deliveries used the newest secret, and the rest of the day was not read, because the other \
             endpoints have too many: {METRIC}"
        ),
        Ok(OlderUse::Silent { .. }) => String::new(),
        Err(failure) => format!("the records cannot be read: {failure}; {}", failure.hint()),
    }
}

/// Looks for a delivery of the last day that an older secret verified.
async fn older_use(stack: &Connection, id: &EndpointId, changed_at: Option<EpochMs>) -> Result<OlderUse, Failure> {
    let now = System.moment().now;
    // Until its cache expires, a function still takes the previous secret for the newest.
    // Nobody knows when another program wrote it: perhaps a moment ago.
    let known_at = changed_at.unwrap_or_else(|| System.moment().now).plus(CACHE_AGE_MAX);
    if now.0 - known_at.0 < QUIET.0 {
        return Ok(OlderUse::TooEarly { until: known_at.plus(QUIET) });
    }
    let (search, seen) = Search::of_older().day(stack, id).await?;
    Ok(seen.unwrap_or(match search.deliveries {
        0 => OlderUse::NoDelivery,
        deliveries => OlderUse::Silent { deliveries },
    }))
}

/// What was read so far.
#[derive(Debug)]
struct Search {
    /// The place of the secret whose deliveries are not counted as `older`.
    stays: Option<usize>,
    /// Whether the first older one ends the search.
    ends_at_older: bool,
    entries: usize,
    deliveries: usize,
    /// Those that another secret verified.
    older: usize,
}

impl Search {
    /// Finds the first delivery that did not use the newest secret.
    const fn of_older() -> Self {
        Self { stays: Some(0), ends_at_older: true, entries: 0, deliveries: 0, older: 0 }
    }

    /// Counts the deliveries that any other secret than this one verified.
    const fn of_retired(stays: Option<usize>) -> Self {
        Self { stays, ends_at_older: false, entries: 0, deliveries: 0, older: 0 }
    }

    /// Reads the endpoint's deliveries of the last day, and says why it ended early, if it did.
    async fn day(mut self, stack: &Connection, id: &EndpointId) -> Result<(Self, Option<OlderUse>), Failure> {
        let store = stack.store().await?;
        let filter = Filter::received(id, EpochMs(System.moment().now.0 - QUIET.0));
        let hours = filter.queries();
        let length = u64::try_from(hours.len()).unwrap_or(0);
        let bar = output::bar("hours", length);
        // The latest hour first: a use that is still going on is found at once.
        for hour in hours {
            for query in &hour {
                if let Some(seen) = self.partition(&store, query, id).await? {
                    bar.finish_and_clear();
                    return Ok((self, Some(seen)));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok((self, None))
    }

    /// Why the search must stop before it has covered the day, if it must.
    fn too_many(&self) -> Option<OlderUse> {
        let deliveries = self.deliveries;
        match (deliveries > DELIVERIES_MAX, self.entries > ENTRIES_MAX) {
            (true, _) => Some(OlderUse::TooMany { deliveries }),
            (false, true) => Some(OlderUse::TooBusy { deliveries }),
            (false, false) => None,
        }
    }

    /// Reads the endpoint's records of one partition of the index. An answer ends the search.
    async fn partition(
        &mut self,
        store: &DynamoStore,
        query: &IndexQuery,
        id: &EndpointId,
    ) -> Result<Option<OlderUse>, Failure> {
        let mut from = None;
        loop {
            let page = store.index_page(query, from, PAGE).await.map_err(|_| store_unavailable())?;
            self.entries += page.entries.len();
            let own: Vec<_> = page.keys().filter(|key| key.parts().0 == id.as_str()).collect();
            for found in store.read_heads(&own).await {
                let Found::Record(record) = found.map_err(|_| store_unavailable())? else { continue };
                let is_older = self.stays != usize::try_from(record.secret_index).ok();
                if is_older && self.ends_at_older {
                    return Ok(Some(OlderUse::Used { at: record.received_at }));
                }
                self.deliveries += 1;
                // The events of a batch came with one delivery.
                self.older += usize::from(is_older && record.parent.is_none());
            }
            if let Some(too_many) = self.too_many() {
                return Ok(Some(too_many));
            }
            from = page.next;
            if from.is_none() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_ends_early_names_its_own_cause() {
        let printed = |entries, deliveries| {
            let seen = Search { entries, deliveries, ..Search::of_older() }.too_many();
            seen.map_or_else(String::new, |seen| warning(&Ok(seen)))
        };
        assert_eq!(printed(ENTRIES_MAX, DELIVERIES_MAX), "");
        assert!(printed(DELIVERIES_MAX + 1, DELIVERIES_MAX + 1).starts_with("its latest 20001 deliveries"));
        assert!(printed(ENTRIES_MAX + 1, 3).contains("because the other endpoints have too many"));
    }
}
