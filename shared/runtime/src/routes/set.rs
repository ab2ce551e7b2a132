//! A checked and compiled route set.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::{DomainKey, is_plain};
use hookonce_protocol::place::TableAlias;
use hookonce_protocol::plan::Event;
use hookonce_providers::JsonPath;
use serde_json::Value;

use super::body::{self, Named};
use super::document::{HandlerDocument, Otherwise, ROUTES_VERSION, RouteDocument, RouteSetDocument};
use super::names::{self, Names};
use super::pattern::Pattern;
use crate::documents::fault::{Checker, DocumentFault, joined};
use crate::documents::strict::{self, ShowNames};
use crate::handlers::Grants;
use crate::handlers::remote::RemoteTarget;
use crate::handlers::tables::OWN_TABLES_MAX;

/// The most routes in a set.
pub const ROUTES_MAX: usize = 1_000;

/// The longest text of a set, in bytes.
pub const SET_BYTES_MAX: usize = 1024 * 1024;

/// The place of a fault of the set itself.
const WHOLE: &str = "the set";

/// The most values and operators that the routes which one event may meet list in their `when`, all together. Each is
/// compared with at most as many values of a body as are looked at.
const ENTRIES_MAX: usize = 1_000;

/// The longest name of a route or a consumer, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The most paths that name one fact.
const FACT_PATHS_MAX: usize = 8;

/// A route set, ready to decide.
#[derive(Debug)]
pub struct RouteSet {
    routes: Vec<Route>,
    otherwise: Otherwise,
}

#[derive(Debug)]
struct Route {
    name: String,
    endpoints: Names,
    types: Names,
    when: Option<Pattern>,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Ignore,
    Handle(Box<Handling>),
}

/// Who handles an event, and who remembers its fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handling {
    /// The handler. None if the event is forwarded only.
    pub handler: Option<RouteTarget>,
    /// The identity that remembers.
    pub consumer: String,
    /// What the plan may use.
    pub grants: Grants,
    /// What the worker lacks. The route's events wait for it.
    pub missing: Option<Missing>,
    fact: Option<FactRule>,
}

/// A handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTarget {
    /// A handler of this build, by its name.
    Builtin(String),
    /// A handler in another language.
    Remote(RemoteTarget),
}

/// What a worker offers to a set.
#[derive(Debug, Clone, Copy)]
pub struct Offered<'a> {
    /// The names of the handlers of its build.
    pub handlers: &'a [&'a str],
    /// Whether it calls handlers at URLs on loopback. Only a worker on a laptop does.
    pub urls: bool,
    /// The aliases of its user tables. None if nobody knows them: none of them is missing then.
    pub tables: Option<&'a BTreeSet<TableAlias>>,
}

/// Something that a route names and the worker lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The name of the route.
    pub route: String,
    /// What is missing.
    pub what: Lack,
}

/// What a worker lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// A handler of its build.
    #[error("this build has no handler `{0}`")]
    Handler(String),
    /// Any handler at all, for events that no route takes.
    #[error("`builtin` asks the handlers of this build, and it has none: the samples run on a laptop only")]
    Handlers,
    /// Calls of handlers at URLs.
    #[error("a deployed worker calls no URL; use `lambda`")]
    Url,
    /// A user table.
    #[error("the worker has no table `{0}`: name it in the parameter `Tables`, or with `--table` of `hookonce dev`")]
    Table(TableAlias),
}

/// The paths that name the fact.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FactRule {
    paths: Vec<JsonPath>,
    across_types: bool,
}

impl Handling {
    /// Everything that the worker lacks, each with the field that names it.
    fn lacks(&self, offered: Offered<'_>) -> Vec<(&'static str, Lack)> {
        let handler = match &self.handler {
            Some(RouteTarget::Builtin(name)) if !offered.handlers.contains(&name.as_str()) => {
                Some(("handler.builtin", Lack::Handler(name.clone())))
            }
            Some(RouteTarget::Remote(RemoteTarget::Url(_))) if !offered.urls => Some(("handler.url", Lack::Url)),
            Some(RouteTarget::Builtin(_) | RouteTarget::Remote(_)) | None => None,
        };
        let tables = self.grants.tables.iter().flatten().copied();
        let unknown = tables.filter(|table| offered.tables.is_some_and(|known| !known.contains(table)));
        handler.into_iter().chain(unknown.map(|table| ("tables", Lack::Table(table)))).collect()
    }

    /// Names the fact as the route says. `None` if the route does not say. The key has no name if the event
    /// lacks one of the values.
    ///
    /// A type that is not signed never becomes part of the key: whoever holds one signed body could send it again as
    /// another type, and it would be applied again.
    pub fn domain_key(&self, event: &Event, type_is_signed: bool) -> Option<DomainKey> {
        let FactRule { paths, across_types } = self.fact.as_ref()?;
        let values = paths.iter().map(|path| path.scalar(&event.body).unwrap_or_default());
        Some(if *across_types || !type_is_signed {
            DomainKey::across_types(values)
        } else {
            DomainKey::of_type(&event.event_type, values)
        })
    }
}

/// What a set says about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// A route takes it, and ignores it.
    Ignore,
    /// A route hands it to a handler.
    Handle(&'a Handling),
    /// No route takes it.
    Otherwise(Otherwise),
    /// A route asks about the body, which is no JSON, cannot be compared or has too many values.
    Unreadable,
}

/// How an event fits a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// The route takes it, unless an earlier one does.
    Fits,
    /// The route is for other endpoints.
    Endpoint,
    /// The route is for other types.
    EventType,
    /// The body does not fit: this field of the pattern is the first that does not.
    When(String),
    /// The route asks about the body, which is no JSON, cannot be compared or has too many values.
    Unreadable,
}

/// The body of an event, as far as the routes for its endpoint and type ask about it, read at most once.
struct Body<'a> {
    event: &'a Event,
    concerned: Vec<&'a Route>,
    json: OnceCell<Option<Value>>,
}

impl Body<'_> {
    fn json(&self) -> Option<&Value> {
        let patterns = self.concerned.iter().filter_map(|route| route.when.as_ref());
        self.json.get_or_init(|| body::read(&self.event.body, &Named::by(patterns))).as_ref()
    }
}

/// A route set that is not valid. It is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.faults))]
pub struct RouteSetError {
    /// The faults. Of very many, only the first are told.
    pub faults: Vec<DocumentFault>,
}

impl RouteSetError {
    /// An error if there is any fault.
    fn unless_none(faults: Vec<DocumentFault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self { faults }) }
    }
}

impl RouteSet {
    /// Checks and compiles a set for a worker. What the worker lacks is no fault: the events of the routes that name it
    /// wait, and all others go on.
    ///
    /// # Errors
    /// [`RouteSetError`] with every fault: a set with any is refused as a whole.
    pub fn parse(text: &str, offered: Offered<'_>) -> Result<Self, RouteSetError> {
        let mut faults = Vec::new();
        let mut set = Self::read(text, &mut faults)?;
        for route in &mut set.routes {
            if let Action::Handle(handling) = &mut route.action {
                let missing = |(_, what)| Missing { route: route.name.clone(), what };
                handling.missing = handling.lacks(offered).into_iter().next().map(missing);
            }
        }
        RouteSetError::unless_none(faults).map(|()| set)
    }

    /// The same for whoever deploys a set: what the worker lacks is a fault, too.
    ///
    /// # Errors
    /// [`RouteSetError`] with every fault, and with all that the worker lacks.
    pub fn check(text: &str, offered: Offered<'_>) -> Result<Self, RouteSetError> {
        let mut faults = Vec::new();
        let set = Self::read(text, &mut faults)?;
        let mut check = Checker::new(&mut faults);
        if set.otherwise == Otherwise::Builtin && offered.handlers.is_empty() {
            check.field("otherwise").add(Lack::Handlers.to_string());
        }
        for (index, handling) in set.handlings() {
            for (field, lack) in handling.lacks(offered) {
                let reason = match lack {
                    Lack::Handler(_) if offered.handlers.is_empty() => {
                        format!("{lack}, nor any other: the samples run on a laptop only")
                    }
                    Lack::Handler(_) => format!("{lack}; it has {}", offered.handlers.join(", ")),
                    Lack::Handlers | Lack::Url | Lack::Table(_) => lack.to_string(),
                };
                check.field("routes").element(index).field(field).add(reason);
            }
        }
        RouteSetError::unless_none(faults).map(|()| set)
    }

    fn read(text: &str, faults: &mut Vec<DocumentFault>) -> Result<Self, RouteSetError> {
        let one = |fault| RouteSetError { faults: vec![fault] };
        if text.len() > SET_BYTES_MAX {
            let reason = format!("has more than {SET_BYTES_MAX} bytes");
            return Err(one(DocumentFault { place: WHOLE.to_owned(), reason }));
        }
        let document = strict::read::<RouteSetDocument>(text.as_bytes(), ShowNames::Whole)
            .map_err(|unread| one(DocumentFault::unread(unread, WHOLE)))?;
        Ok(Self::compile(document, &mut Checker::new(faults)))
    }

    fn compile(document: RouteSetDocument, check: &mut Checker<'_>) -> Self {
        if document.version != ROUTES_VERSION {
            check.field("version").add(format!("must be {ROUTES_VERSION}"));
        }
        if document.routes.len() > ROUTES_MAX {
            check.field("routes").add(format!("has more than {ROUTES_MAX} routes"));
        }
        let mut names = HashMap::new();
        let mut routes = Vec::with_capacity(document.routes.len());
        for (index, route) in document.routes.into_iter().enumerate() {
            let mut list = check.field("routes");
            let mut check = list.element(index);
            if let Some(first) = names.insert(route.name.clone(), index) {
                check.field("name").add(format!("routes[{first}] has the same name"));
            }
            routes.push(compiled(route, &mut check));
        }
        if let Some((index, entries)) = one_too_many(&routes) {
            let reason = format!(
                "lists too much: the routes that one event may meet list at most {ENTRIES_MAX} values and operators \
                 in their `when`, all together, and these list {entries}; narrow the `endpoints` or `types` of this \
                 route or of earlier ones"
            );
            check.field("routes").element(index).field("when").add(reason);
        }
        Self { routes, otherwise: document.otherwise }
    }

    /// What happens to events that no route takes.
    pub fn otherwise(&self) -> Otherwise {
        self.otherwise
    }

    /// How many routes it has.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether it has no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The routes that handle or forward, each with its place in the set.
    pub fn handlings(&self) -> impl Iterator<Item = (usize, &Handling)> {
        self.routes.iter().enumerate().filter_map(|(index, route)| match &route.action {
            Action::Handle(handling) => Some((index, handling.as_ref())),
            Action::Ignore => None,
        })
    }

    /// What the worker lacks, one thing of each route.
    pub fn missing(&self) -> impl Iterator<Item = &Missing> {
        self.handlings().filter_map(|(_, handling)| handling.missing.as_ref())
    }

    fn body<'a>(&'a self, event: &'a Event) -> Body<'a> {
        let is_concerned =
            |route: &&Route| route.endpoints.contain(event.endpoint.as_str()) && route.types.contain(&event.event_type);
        Body { event, concerned: self.routes.iter().filter(is_concerned).collect(), json: OnceCell::new() }
    }

    /// Decides about an event: the first route that fits takes it.
    pub fn decide<'a>(&'a self, event: &'a Event) -> Decision<'a> {
        let body = self.body(event);
        for route in &body.concerned {
            if let Some(pattern) = &route.when {
                let Some(json) = body.json() else { return Decision::Unreadable };
                if !pattern.fits(json) {
                    continue;
                }
            }
            return match &route.action {
                Action::Ignore => Decision::Ignore,
                Action::Handle(handling) => Decision::Handle(handling),
            };
        }
        Decision::Otherwise(self.otherwise)
    }

    /// Says of each route, by its name, how an event fits it.
    pub fn explain(&self, event: &Event) -> Vec<(&str, Fit)> {
        let body = self.body(event);
        self.routes.iter().map(|route| (route.name.as_str(), route.fit(&body))).collect()
    }
}

impl Route {
    fn fit(&self, body: &Body<'_>) -> Fit {
        if !self.endpoints.contain(body.event.endpoint.as_str()) {
            return Fit::Endpoint;
        }
        if !self.types.contain(&body.event.event_type) {
            return Fit::EventType;
        }
        match (&self.when, body.json()) {
            (None, _) => Fit::Fits,
            (Some(_), None) => Fit::Unreadable,
            (Some(pattern), Some(json)) => pattern.misfit(json).map_or(Fit::Fits, Fit::When),
        }
    }
}

/// The first route with which the routes that one event may meet list too much in their `when`, and how much all of these
/// list.
fn one_too_many(routes: &[Route]) -> Option<(usize, usize)> {
    let all: Vec<_> = (0..routes.len()).collect();
    let of_endpoint = crowds(routes, &all, |route| &route.endpoints);
    let of_both = of_endpoint.iter().flat_map(|group| crowds(routes, group, |route| &route.types));
    let beyond = of_both.filter_map(|group| {
        let entries = group.iter().map(|index| entries(routes, *index)).sum();
        Some((first_beyond(routes, &group)?, entries))
    });
    beyond.min_by_key(|(first, _)| *first)
}

/// The groups of these routes that one name concerns and that list too much.
fn crowds(routes: &[Route], among: &[usize], names: impl Fn(&Route) -> &Names) -> Vec<Vec<usize>> {
    if first_beyond(routes, among).is_none() {
        return Vec::new();
    }
    let named = among.iter().filter_map(|index| Some((*index, names(routes.get(*index)?))));
    names::groups(named).into_iter().filter(|group| first_beyond(routes, group).is_some()).collect()
}

fn first_beyond(routes: &[Route], group: &[usize]) -> Option<usize> {
    let mut listed = 0;
    group.iter().copied().find(|index| {
        listed += entries(routes, *index);
        listed > ENTRIES_MAX
    })
}

/// How much a route lists in its `when`.
fn entries(routes: &[Route], index: usize) -> usize {
    routes.get(index).and_then(|route| route.when.as_ref()).map_or(0, Pattern::entries)
}

/// Compiles one route. A route with faults is never used, because its set is refused.
fn compiled(route: RouteDocument, check: &mut Checker<'_>) -> Route {
    if route.name.is_empty() || route.name.len() > NAME_BYTES_MAX || route.name.chars().any(char::is_control) {
        check.field("name").add(format!("must have 1 to {NAME_BYTES_MAX} bytes, without control characters"));
    }
    let when = route.when.as_ref().map(|pattern| Pattern::compile(pattern, &mut check.field("when")));
    Route {
        endpoints: Names::compile(route.endpoints.clone(), &mut check.field("endpoints")),
        types: Names::compile(route.types.clone(), &mut check.field("types")),
        when,
        action: action(&route, check),
        name: route.name,
    }
}

fn action(route: &RouteDocument, check: &mut Checker<'_>) -> Action {
    match (route.handler.is_some() || route.forward.is_some(), route.ignore) {
        (true, None) => {}
        (false, Some(true)) => {
            let unused = [
                ("consumer", route.consumer.is_some()),
                ("fact", route.fact.is_some()),
                ("across_types", route.across_types.is_some()),
                ("tables", route.tables.is_some()),
                ("destinations", route.destinations.is_some()),
            ];
            check.none_of(unused, "nothing is remembered of an ignored event; leave it out");
            return Action::Ignore;
        }
        (true, Some(_)) | (false, Some(false) | None) => {
            check.add("must have either `handler` or `forward`, or `\"ignore\": true`");
            return Action::Ignore;
        }
    }
    let handler =
        route.handler.as_ref().and_then(|document| parse_handler_target(document, &mut check.field("handler")));
    let consumer = route.consumer.clone().unwrap_or_default();
    if !is_plain(&consumer, NAME_BYTES_MAX) {
        let rule = format!("must be there and have 1 to {NAME_BYTES_MAX} of the characters a-z, 0-9, - and _");
        check.field("consumer").add(rule);
    }
    let (grants, fact) = (grants(route, check), fact_rule(route, check));
    Action::Handle(Box::new(Handling { handler, consumer, grants, missing: None, fact }))
}

fn grants(route: &RouteDocument, check: &mut Checker<'_>) -> Grants {
    if route.handler.is_none() {
        let of_handlers = [("tables", route.tables.is_some()), ("destinations", route.destinations.is_some())];
        check.none_of(of_handlers, "is for the plan of a `handler`; leave it out");
    }
    let forward = destinations(route.forward.as_deref(), 8, &mut check.field("forward"));
    let named = destinations(route.destinations.as_deref(), 20, &mut check.field("destinations"));
    let destinations = named.into_iter().chain(forward.clone()).collect();
    Grants { tables: Some(tables(route, &mut check.field("tables"))), destinations, forward }
}

/// A set cannot know which destinations there are: each is a document of its own.
fn destinations(ids: Option<&[String]>, most: usize, check: &mut Checker<'_>) -> Vec<DestinationId> {
    let Some(ids) = ids else { return Vec::new() };
    if ids.is_empty() || ids.len() > most {
        check.add(format!("must list 1 to {most} destinations; leave it out for none"));
    }
    let mut destinations = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        match DestinationId::parse(id) {
            Ok(id) if destinations.contains(&id) => check.element(index).add("appears twice"),
            Ok(id) => destinations.push(id),
            Err(error) => check.element(index).add(error.to_string()),
        }
    }
    destinations
}

fn tables(route: &RouteDocument, check: &mut Checker<'_>) -> Vec<TableAlias> {
    let names = route.tables.as_deref().unwrap_or_default();
    if names.len() > OWN_TABLES_MAX {
        check.add(format!("must list at most {OWN_TABLES_MAX} tables"));
    }
    let mut tables = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        match TableAlias::parse(name) {
            Ok(table) => tables.push(table),
            Err(error) => check.element(index).add(error.to_string()),
        }
    }
    tables
}

fn parse_handler_target(document: &HandlerDocument, check: &mut Checker<'_>) -> Option<RouteTarget> {
    let (target, field, rule) = match document {
        HandlerDocument::Builtin(name) => return Some(RouteTarget::Builtin(name.clone())),
        HandlerDocument::Lambda(name) => {
            (RemoteTarget::lambda(name), "lambda", "must be the name or ARN of a function")
        }
        HandlerDocument::Url(url) => {
            (RemoteTarget::url(url), "url", "must be http:// with an address of loopback and a port")
        }
    };
    if target.is_none() {
        check.field(field).add(rule);
    }
    target.map(RouteTarget::Remote)
}

fn fact_rule(route: &RouteDocument, check: &mut Checker<'_>) -> Option<FactRule> {
    let Some(texts) = &route.fact else {
        if route.across_types.is_some() {
            check.field("across_types").add("needs `fact`: without `fact`, the handler names the fact");
        }
        return None;
    };
    if texts.is_empty() || texts.len() > FACT_PATHS_MAX {
        check.field("fact").add(format!("must list 1 to {FACT_PATHS_MAX} paths"));
    }
    let mut paths = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match JsonPath::parse(text) {
            Ok(path) => paths.push(path),
            Err(error) => check.field("fact").element(index).add(error.to_string()),
        }
    }
    Some(FactRule { paths, across_types: route.across_types.unwrap_or(false) })
}
