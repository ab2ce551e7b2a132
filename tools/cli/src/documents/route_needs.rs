//! What a route set names outside of itself: tables, destinations and Lambda functions.
//!
//! It is no fault of a set if one is missing, because each is deployed apart: what needs it waits, and an alarm rings.

use std::collections::BTreeMap;

use hookonce_local::invoke_api::plain_name;
use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::handlers::remote::RemoteTarget;
use hookonce_runtime::routes::{RouteSet, RouteTarget};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::stack::connection::{Connection, Local, RunningStack};

/// Something that a route names.
#[derive(Debug, Serialize)]
pub(crate) struct Named {
    /// Where the set names it first.
    place: String,
    /// `table`, `destination` or `function`.
    kind: &'static str,
    name: String,
}

/// What is missing, and what could not be checked.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) missing: Vec<Named>,
    pub(crate) unchecked: Vec<(Named, Failure)>,
    /// Why nobody could look at anything.
    nobody: Option<Failure>,
}

impl Needs {
    /// Looks at everything that a set names. A local stack is asked while it runs. The tables of a stack that answers
    /// are checked with the set itself.
    pub(crate) async fn of(set: &RouteSet, stack: &Connection) -> Self {
        let mut needs = Self::default();
        match stack.local().map(Local::running) {
            None => {
                needs.look_at_destinations(set, stack).await;
                needs.look_at_functions(set, stack).await;
            }
            Some(Ok(running)) => {
                needs.look_at_destinations(set, stack).await;
                needs.look_at_handlers(set, running);
            }
            Some(Err(failure)) => {
                for named in tables(set).into_iter().chain(destinations(set)).chain(functions(set)) {
                    needs.unchecked.push((named, failure.clone()));
                    needs.nobody = Some(failure.clone());
                }
            }
        }
        needs
    }

    async fn look_at_destinations(&mut self, set: &RouteSet, stack: &Connection) {
        let named = destinations(set);
        if named.is_empty() {
            return;
        }
        let mut store = stack.documents::<DestinationId>().await;
        for named in named {
            let found = match (&store, DestinationId::parse(&named.name)) {
                (Ok(store), Ok(id)) => store.get(&id).await.map(|stored| stored.is_some()),
                (Err(failure), _) => Err(failure.clone()),
                // A set with such a name is refused.
                (Ok(_), Err(_)) => Ok(false),
            };
            // If one lookup fails, the others are not tried.
            if let Err(failure) = &found {
                store = Err(failure.clone());
            }
            self.add(found, named);
        }
    }

    async fn look_at_functions(&mut self, set: &RouteSet, stack: &Connection) {
        let Some(deployed) = stack.deployed() else { return };
        for named in functions(set) {
            let found = match deployed.account().await {
                Ok(config) => crate::stack::lambda::exists(config, &named.name).await,
                Err(failure) => Err(failure),
            };
            self.add(found, named);
        }
    }

    /// The functions of a local stack are the handlers that it was started with.
    fn look_at_handlers(&mut self, set: &RouteSet, running: &RunningStack) {
        for named in functions(set) {
            let found = running.handlers.as_ref().ok_or_else(|| {
                Failure::unavailable(
                    "the running stack does not say which handlers it has",
                    "start it with this release and its own functions",
                )
            });
            let is_there = found.map(|handlers| handlers.iter().any(|handler| handler == plain_name(&named.name)));
            self.add(is_there, named);
        }
    }

    fn add(&mut self, is_there: Result<bool, Failure>, named: Named) {
        match is_there {
            Ok(true) => {}
            Ok(false) => self.missing.push(named),
            Err(failure) => self.unchecked.push((named, failure)),
        }
    }

    /// Prints what is missing, and what is not checked.
    pub(crate) fn print(&self) {
        if let Some(failure) = &self.nobody {
            let named =
                self.unchecked.iter().map(|(Named { place, kind, name }, _)| format!("{kind} {name} ({place})"));
            let named: Vec<_> = named.collect();
            output::note(&format!("not checked, because {failure}: {}", named.join(", ")));
            return;
        }
        for Named { place, kind, name } in &self.missing {
            output::note(&format!("{place}: there is no {kind} {name}: events that need it wait until it exists"));
        }
        for (Named { place, kind, name }, failure) in &self.unchecked {
            output::note(&format!("{place}: the {kind} {name} is not checked: {failure}"));
        }
    }
}

/// What the routes name of one kind, each with the place that names it first.
fn each(kind: &'static str, named: impl Iterator<Item = (String, String)>) -> Vec<Named> {
    let mut first = BTreeMap::new();
    for (name, place) in named {
        first.entry(name).or_insert(place);
    }
    first.into_iter().map(|(name, place)| Named { place, kind, name }).collect()
}

fn tables(set: &RouteSet) -> Vec<Named> {
    let named = set.handlings().flat_map(|(index, handling)| {
        let tables = handling.grants.tables.iter().flatten();
        tables.map(move |table| (table.to_string(), format!("routes[{index}].tables")))
    });
    each("table", named)
}

fn destinations(set: &RouteSet) -> Vec<Named> {
    let named = set.handlings().flat_map(|(index, handling)| {
        handling.grants.destinations.iter().map(move |id| {
            let list = if handling.grants.forward.contains(id) { "forward" } else { "destinations" };
            (id.to_string(), format!("routes[{index}].{list}"))
        })
    });
    each("destination", named)
}

/// Whether a handler of the set is a function of Lambda.
pub(crate) fn calls_functions(set: &RouteSet) -> bool {
    !functions(set).is_empty()
}

fn functions(set: &RouteSet) -> Vec<Named> {
    let named = set.handlings().filter_map(|(index, handling)| match &handling.handler {
        Some(RouteTarget::Remote(RemoteTarget::Lambda(name))) => {
            Some((name.clone(), format!("routes[{index}].handler.lambda")))
        }
        Some(RouteTarget::Remote(RemoteTarget::Url(_)) | RouteTarget::Builtin(_)) | None => None,
    });
    each("function", named)
}
