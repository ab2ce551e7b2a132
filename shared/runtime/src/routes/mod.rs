//! Routes: which event goes to which handler, and who remembers its fact.
//!
//! A [route set](RouteSetDocument) is data that a person writes. [`RouteSet::parse`] checks it as a whole; [`Routes`]
//! keeps the one in use and looks for a changed one at a bounded rate.

mod body;
mod document;
mod names;
mod pattern;
mod set;
mod source;

use std::sync::LazyLock;

use hookonce_protocol::code::Code;
use hookonce_protocol::key::{DomainKey, hex};
use hookonce_protocol::plan::Event;
use hookonce_providers::{Catalog, Provider};
use sha2::{Digest as _, Sha256};

use crate::handlers::remote::{RemoteHandling, RemoteTarget};
use crate::handlers::{Assignment, HandlerError, Handlers, Recognised};

pub use document::{HandlerDocument, Otherwise, ROUTES_VERSION, RouteDocument, RouteSetDocument};
pub use set::{
    Decision, Fit, Handling, Lack, Missing, Offered, ROUTES_MAX, RouteSet, RouteSetError, RouteTarget, SET_BYTES_MAX,
};
pub use source::{BUILTIN_SET, Current, FetchOutcome, Routes, Routing};

/// Who handles an event.
#[derive(Debug)]
pub enum Assigned<'a> {
    /// Nobody: the event is ignored.
    Nobody,
    /// A handler of this build.
    Builtin(Recognised<'a>),
    /// A handler in another language.
    Remote(RemoteHandling),
    /// Nobody: the event itself is forwarded.
    Forward(Assignment),
    /// Nobody yet: the event waits for what its route names and this worker lacks.
    Missing(&'a Missing),
}

/// What an event waits for if no route takes it, and the set hands it to the handlers of a build that has none.
static NO_HANDLERS: LazyLock<Missing> =
    LazyLock::new(|| Missing { route: "otherwise".to_owned(), what: Lack::Handlers });

/// Finds the handler of an event and the name of its fact.
///
/// # Errors
/// [`HandlerError`] when the event cannot be handled: by the set, for want of a fact, or because its handler fails.
pub fn assign<'a>(
    handlers: &'a Handlers,
    set: &'a RouteSet,
    catalog: &Catalog,
    event: &'a Event,
) -> Result<Assigned<'a>, HandlerError> {
    let recognised = match set.decide(event) {
        Decision::Ignore | Decision::Otherwise(Otherwise::Ignore) => return Ok(Assigned::Nobody),
        Decision::Otherwise(Otherwise::Dead) => return Err(HandlerError::permanent(Code::Unrouted.as_str())),
        Decision::Unreadable => return Err(HandlerError::permanent(Code::EventUnreadable.as_str())),
        Decision::Otherwise(Otherwise::Builtin) if handlers.is_empty() => return Ok(Assigned::Missing(&NO_HANDLERS)),
        Decision::Otherwise(Otherwise::Builtin) => handlers.recognise(event)?,
        Decision::Handle(Handling { missing: Some(missing), .. }) => return Ok(Assigned::Missing(missing)),
        Decision::Handle(handling) => {
            let provider = catalog.provider(&event.provider);
            let fact = handling.domain_key(event, provider.is_some_and(Provider::type_is_signed));
            match &handling.handler {
                Some(RouteTarget::Builtin(name)) => {
                    let recognised = handlers.recognise_by(name, event)?;
                    recognised.map(|recognised| {
                        recognised.for_consumer(&handling.consumer, fact).with_grants(&handling.grants)
                    })
                }
                Some(RouteTarget::Remote(target)) => return remote(target, handling, fact),
                None => return forward(handling, fact, event, provider),
            }
        }
    };
    match recognised {
        None => Ok(Assigned::Nobody),
        Some(recognised) if !recognised.domain_key.is_named() => {
            Err(HandlerError::permanent(Code::FactMissing.as_str()))
        }
        Some(recognised) => Ok(Assigned::Builtin(recognised)),
    }
}

fn remote<'a>(
    target: &RemoteTarget,
    handling: &Handling,
    fact: Option<DomainKey>,
) -> Result<Assigned<'a>, HandlerError> {
    if fact.as_ref().is_some_and(|fact| !fact.is_named()) {
        return Err(HandlerError::permanent(Code::FactMissing.as_str()));
    }
    let (consumer, grants) = (handling.consumer.clone(), handling.grants.clone());
    Ok(Assigned::Remote(RemoteHandling { target: target.clone(), consumer, grants, fact }))
}

fn forward<'a>(
    handling: &Handling,
    fact: Option<DomainKey>,
    event: &Event,
    provider: Option<&Provider>,
) -> Result<Assigned<'a>, HandlerError> {
    let domain_key = fact.unwrap_or_else(|| own_fact(event, provider));
    if !domain_key.is_named() {
        return Err(HandlerError::permanent(Code::FactMissing.as_str()));
    }
    let (consumer, grants) = (handling.consumer.clone(), handling.grants.clone());
    Ok(Assigned::Forward(Assignment { consumer, domain_key, grants }))
}

/// A forwarded event is one fact by itself, at the endpoint that took it. Its key names it where the provider signs the
/// key.
///
/// The endpoint is a part of the name, because each endpoint has its own keys: two endpoints of one tenant may both
/// know an `order-1042`, and neither is a copy of the other.
///
/// Elsewhere the body does: whoever holds one signed body could send it again under another key, and it would be
/// forwarded twice. But where the signature does not cover the body, a provider that tries again may sign anew, and the
/// body holds that signature. hookonce binds a signed value to the first body that came with it, so the event's own id
/// in that body is the fact.
fn own_fact(event: &Event, provider: Option<&Provider>) -> DomainKey {
    let (kind, name) = match provider {
        Some(provider) if provider.key_is_signed() || provider.signs_retries_alike() => ("key", event.key.clone()),
        Some(provider) if provider.binds_bodies() => ("id", own_id(event, provider).unwrap_or_default()),
        Some(_) | None => ("sha256", hex(&Sha256::digest(&event.body).into())),
    };
    DomainKey::across_types([kind, event.endpoint.as_str(), &name])
}

/// The id that the provider gave the event. None if the event has none.
fn own_id(event: &Event, provider: &Provider) -> Option<String> {
    let part = provider.split(&event.body, &event.headers).into_iter().next()?;
    part.fallback.is_none().then(|| part.key.as_str().to_owned())
}
