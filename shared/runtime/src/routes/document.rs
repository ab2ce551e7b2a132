//! The form of a route set, as its author writes it. `schemas/routes.json` describes it to editors.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::documents::strict::present;

/// The version of the form.
pub const ROUTES_VERSION: u32 = 1;

/// A route set: what happens to which event. It is always replaced as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSetDocument {
    /// Where an editor finds the form. Nothing else reads it.
    #[serde(rename = "$schema", default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// [`ROUTES_VERSION`].
    pub version: u32,
    /// What happens to events that no route takes.
    pub otherwise: Otherwise,
    /// The routes, in order: the first one that fits takes an event.
    pub routes: Vec<RouteDocument>,
}

/// What happens to events that no route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// They end as IGNORED.
    Ignore,
    /// They die as UNROUTED, with their payload.
    Dead,
    /// The handlers are asked in their order, as without a set.
    Builtin,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteDocument {
    /// A label for people.
    pub name: String,
    /// Who remembers the facts: the identity in the stored domain keys. It must never change.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Ids of endpoints; `*` at the end stands for any text. Every endpoint if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
    /// Types of events, in the same form. Every type if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// What the body must hold, in EventBridge's pattern language.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub when: Option<Map<String, Value>>,
    /// The paths whose values name the business fact. Without them, the handler names it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fact: Option<Vec<String>>,
    /// Whether events of different types may report one fact.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub across_types: Option<bool>,
    /// Who handles the event.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub handler: Option<HandlerDocument>,
    /// The user tables that the handler may use, by their aliases. None if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
    /// Where effects of the handler's plan may go. Nowhere if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Vec<String>>,
    /// Where the event itself goes, beside or without a handler.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub forward: Option<Vec<String>>,
    /// The event ends as IGNORED.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub ignore: Option<bool>,
}

/// Who handles an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerDocument {
    /// A handler of this build, by its name.
    Builtin(String),
    /// A Lambda function, by its name or ARN.
    Lambda(String),
    /// A handler at a URL on loopback, for development.
    Url(String),
}
