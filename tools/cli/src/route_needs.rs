//! What a route set names outside of itself: destinations and Lambda functions.
//!
//! It is no fault of a set if one is missing, because each is deployed apart: what needs it waits, and an alarm rings.

use std::collections::BTreeMap;

use hookonce_protocol::effect::DestinationId;
#[cfg(feature = "aws")]
use hookonce_runtime::remote::RemoteTarget;
use hookonce_runtime::route::RouteSet;
#[cfg(feature = "aws")]
use hookonce_runtime::route::Taker;
use serde::Serialize;

use crate::documents::Place;
use crate::failure::Failure;
use crate::output;

/// Something that a route names.
#[derive(Debug, Serialize)]
pub(crate) struct Named {
    /// Where the set names it first.
    place: String,
    /// `destination` or `function`.
    kind: &'static str,
    name: String,
}

/// What is not there, and what nobody could look at.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) missing: Vec<Named>,
    pub(crate) unchecked: Vec<(Named, Failure)>,
}

impl Needs {
    /// Looks at everything that a set names. A local stack is asked for its destinations while it runs; nobody knows the
    /// functions that it will find.
    pub(crate) async fn of(set: &RouteSet, place: &Place) -> Self {
        let mut needs = Self::default();
        if place.stack.is_some() || place.folder.running().is_ok() {
            needs.look_at_destinations(set, place).await;
        }
        #[cfg(feature = "aws")]
        if place.stack.is_some() {
            needs.look_at_functions(set).await;
        }
        needs
    }

    async fn look_at_destinations(&mut self, set: &RouteSet, place: &Place) {
        let mut named = BTreeMap::<&DestinationId, String>::new();
        for (index, handling) in set.handlings() {
            for id in &handling.reach.destinations {
                let list = if handling.reach.forward.contains(id) { "forward" } else { "destinations" };
                named.entry(id).or_insert_with(|| format!("routes[{index}].{list}"));
            }
        }
        if named.is_empty() {
            return;
        }
        let mut store = place.destinations().await;
        for (id, place) in named {
            let found = match &store {
                Ok(store) => store.get(id).await,
                Err(failure) => Err(failure.clone()),
            };
            // What one cannot be asked about, no other will be told.
            if let Err(failure) = &found {
                store = Err(failure.clone());
            }
            self.add(found.map(|stored| stored.is_some()), Named { place, kind: "destination", name: id.to_string() });
        }
    }

    #[cfg(feature = "aws")]
    async fn look_at_functions(&mut self, set: &RouteSet) {
        let mut named = BTreeMap::<&str, String>::new();
        for (index, handling) in set.handlings() {
            if let Some(Taker::Remote(RemoteTarget::Lambda(name))) = &handling.handler {
                named.entry(name).or_insert_with(|| format!("routes[{index}].handler.lambda"));
            }
        }
        if named.is_empty() {
            return;
        }
        let config = crate::account::signed_in().await;
        for (name, place) in named {
            let found = match &config {
                Ok(config) => crate::lambda::exists(config, name).await,
                Err(failure) => Err(failure.clone()),
            };
            self.add(found, Named { place, kind: "function", name: name.to_owned() });
        }
    }

    fn add(&mut self, is_there: Result<bool, Failure>, named: Named) {
        match is_there {
            Ok(true) => {}
            Ok(false) => self.missing.push(named),
            Err(failure) => self.unchecked.push((named, failure)),
        }
    }

    /// Tells a person.
    pub(crate) fn tell(&self) {
        for Named { place, kind, name } in &self.missing {
            output::note(&format!("{place}: there is no {kind} {name}: what needs it waits until there is"));
        }
        for (Named { place, kind, name }, failure) in &self.unchecked {
            output::note(&format!("{place}: the {kind} {name} is not checked: {failure}"));
        }
    }
}
