//! Structured logs and metrics.
//!
//! Metrics are log lines in CloudWatch's embedded metric format, so they cost no API call. Their names are stable;
//! `tests/metrics.txt` lists them. No id is a dimension. The only bytes of a request in a line are the id of a verified
//! delivery and, of another body under it, the names of fields that differ.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hookonce_protocol::call::Signal;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Environment, unknown_variables};
use crate::differences;

/// Where metric lines go.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Emits metrics for one function.
#[derive(Clone)]
pub struct Telemetry {
    function: &'static str,
    namespace: String,
    sink: Sink,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Telemetry {{ function: {:?} }}", self.function)
    }
}

/// What one metric line counts.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    metrics: BTreeMap<&'static str, i64>,
    /// A counter that has its code as a dimension, beside the function.
    coded: Option<(&'static str, &'static str)>,
    properties: BTreeMap<&'static str, String>,
}

impl Counts {
    /// Counts for the messages of an endpoint, which becomes a property.
    pub fn of(endpoint: Option<&EndpointId>) -> Self {
        let properties = endpoint.map(|endpoint| ("endpoint", endpoint.as_str().to_owned())).into_iter().collect();
        Self { properties, ..Self::default() }
    }

    /// Adds to a counter. A zero is not counted: CloudWatch bills a metric that only has zeros like any other.
    pub fn add(&mut self, metric: &'static str, amount: usize) {
        if amount > 0 {
            *self.metrics.entry(metric).or_default() += i64::try_from(amount).unwrap_or(i64::MAX);
        }
    }

    /// Adds to a counter with a fixed code. The code becomes a dimension of this counter, and of no other metric.
    pub fn add_coded(&mut self, metric: &'static str, amount: usize, code: &'static str) {
        self.add(metric, amount);
        self.coded = Some((metric, code));
    }

    /// Sets a value that means something when it is zero, too: a duration, or a level that an alarm waits for.
    pub fn set(&mut self, metric: &'static str, value: i64) {
        self.metrics.insert(metric, value);
    }

    /// Sets a value, unless it is zero.
    pub fn set_unless_zero(&mut self, metric: &'static str, value: i64) {
        if value != 0 {
            self.set(metric, value);
        }
    }

    /// Counts signals.
    pub fn signals(&mut self, signals: &[Signal]) {
        for signal in signals {
            self.add(signal.metric(), 1);
        }
    }

    /// Counts the signals that [`Telemetry::record`] did not count.
    pub fn unrecorded(&mut self, signals: &[Signal]) {
        for signal in signals.iter().filter(|signal| !is_death(signal)) {
            self.add(signal.metric(), 1);
        }
    }

    /// Adds a searchable property that is not a dimension.
    pub fn property(&mut self, name: &'static str, value: impl Into<String>) {
        self.properties.insert(name, value.into());
    }
}

impl Telemetry {
    /// Creates telemetry for this function, with `sink` for its metric lines.
    pub fn new(function: &'static str, namespace: impl Into<String>, sink: Sink) -> Self {
        Self { function, namespace: namespace.into(), sink }
    }

    /// Creates telemetry that prints to standard output, where Lambda collects it.
    pub fn stdout(function: &'static str, namespace: impl Into<String>) -> Self {
        #[expect(clippy::print_stdout, reason = "the embedded metric format is read from standard output")]
        let sink: Sink = Arc::new(|line: &str| println!("{line}"));
        Self::new(function, namespace, sink)
    }

    /// Writes one line, unless nothing was counted.
    pub fn emit(&self, counts: &Counts, now: EpochMs) {
        if counts.metrics.is_empty() {
            return;
        }
        let mut line = Map::new();
        line.insert("function".to_owned(), json!(self.function));
        let is_coded = |name: &str| counts.coded.is_some_and(|(metric, _)| metric == name);
        let unit = |name: &str| if name.ends_with("_ms") { "Milliseconds" } else { "Count" };
        let definition = |name: &&'static str| json!({"Name": name, "Unit": unit(name)});
        let (coded, plain): (Vec<_>, Vec<_>) = counts.metrics.keys().partition(|name| is_coded(name));
        let directive = |names: &[&&'static str], dimensions: Value| {
            let metrics: Vec<_> = names.iter().map(|name| definition(name)).collect();
            json!({"Namespace": self.namespace, "Dimensions": dimensions, "Metrics": metrics})
        };
        let mut directives = Vec::new();
        if !plain.is_empty() {
            directives.push(directive(&plain, json!([["function"]])));
        }
        if let (Some((_, code)), false) = (counts.coded, coded.is_empty()) {
            directives.push(directive(&coded, json!([["function"], ["function", "code"]])));
            line.insert("code".to_owned(), json!(code));
        }
        line.extend(counts.metrics.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        line.extend(counts.properties.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        line.insert("_aws".to_owned(), json!({"Timestamp": now.0, "CloudWatchMetrics": directives}));
        (self.sink)(&Value::Object(line).to_string());
    }

    /// Logs and counts the variables that this release does not know. A process does so once, when it starts.
    pub fn unknown_variables(&self, environment: &Environment, now: EpochMs) {
        let unknown = unknown_variables(environment.keys());
        if !unknown.is_empty() {
            tracing::error!(
                config.unknown = unknown.join(","),
                "variables that this release does not know are ignored"
            );
        }
        let mut counts = Counts::default();
        counts.add("config_unknown", unknown.len());
        self.emit(&counts, now);
    }

    /// Logs a signal, and counts a death at once. The other counts follow at the end of the batch, which may never
    /// come: what they count is met again with the message, but a record dies once.
    pub fn record(&self, signal: &Signal, now: EpochMs) {
        log(signal);
        if let Signal::RecordDead { key, .. } = signal {
            let mut counts = Counts::of(EndpointId::parse(key.parts().0).ok().as_ref());
            counts.signals(std::slice::from_ref(signal));
            self.emit(&counts, now);
        }
    }
}

const fn is_death(signal: &Signal) -> bool {
    matches!(signal, Signal::RecordDead { .. })
}

/// Logs a signal if it names the record that a person looks for.
pub fn log(signal: &Signal) {
    match signal {
        Signal::RecordDead { key, reason } => {
            let reason = reason.as_str();
            tracing::warn!(record.key = %key, record.dead_reason = reason, "a record died; `hookonce show` tells more");
        }
        Signal::BodyMismatch { key, bodies } => {
            let differ = bodies.as_deref().map(|[first, other]| differences::paths(first, other)).unwrap_or_default();
            tracing::warn!(record.key = %key, differ, "another body came under a known id");
        }
        // Not a byte of it: nobody knows who wrote it.
        Signal::MessageForged => {
            tracing::error!(
                "a message carries a payload that the webhook function did not seal; nothing of it was used"
            );
        }
        Signal::PlanRefused { key, error } => {
            tracing::warn!(record.key = %key, error = %error, "the handler's plan is refused");
        }
        Signal::PlanOvertaken { key, error } => {
            let error = error.as_ref().map(ToString::to_string);
            tracing::warn!(
                record.key = %key,
                error,
                "the event waits, as a condition of its plan did not hold; `hookonce show KEY --call-handlers` names one that \
                 does not hold now"
            );
        }
        Signal::SuspectedReplay
        | Signal::ClaimReplyLost
        | Signal::ClaimConflict
        | Signal::FailOpen
        | Signal::HintFailed
        | Signal::RecordAbsent
        | Signal::WriteInvalid
        | Signal::UnknownVersion
        | Signal::MessageMalformed
        | Signal::MessageUnverified
        | Signal::CommitConflict
        | Signal::CommitUnknown
        | Signal::HandlerFailed
        | Signal::HandlerCalled
        | Signal::HandlerAway
        | Signal::UserTableUnavailable
        | Signal::EffectDelivered
        | Signal::EffectWaits
        | Signal::DestinationUnknown
        | Signal::HintMisrouted => {}
    }
}

/// The log levels. Only this project may log more than `info`: at lower levels, libraries print requests.
fn targets(level: LevelFilter) -> Targets {
    Targets::new().with_default(level.min(LevelFilter::INFO)).with_target("hookonce", level)
}

/// Sends logs as JSON lines to standard output.
///
/// For a panic, only its location is logged: the panic message may contain bytes of a request.
pub fn log_as_json(level: LevelFilter) {
    let format = tracing_subscriber::fmt::layer().json().flatten_event(true);
    let format = format.with_span_list(false).with_filter(targets(level));
    // It only fails on a second call in one process, which changes nothing.
    let _ = tracing_subscriber::registry().with(format).try_init();
    std::panic::set_hook(Box::new(|panic| tracing::error!(at = panic.location().map(ToString::to_string), "panicked")));
}
