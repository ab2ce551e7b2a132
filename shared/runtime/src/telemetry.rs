//! Structured logs and metrics.
//!
//! Metrics are log lines in CloudWatch's embedded metric format, so they cost no API call. Their names are stable;
//! [`METRICS`] lists them. No id is a dimension. The only bytes of a request in a line are the id of a verified
//! delivery.

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

use crate::differences;

/// The default namespace of all metrics.
pub const NAMESPACE: &str = "hookonce";

/// All metrics except those of [`Signal`].
pub const METRICS: &[&str] = &[
    "delivery_accepted",
    "delivery_duplicate",
    "delivery_refused",
    "delivery_retry_please",
    "unproven_retry_please",
    "key_fallback",
    "handshake_answered",
    "old_secret_used",
    "secret_index",
    "delivery_duration_ms",
    "event_applied",
    "event_duplicate",
    "event_ignored",
    "event_moved",
    "event_retried",
    "event_deferred",
    "effect_retried",
    "envelope_fanned_out",
    "message_acknowledged",
    "message_panicked",
    "message_out_of_time",
    "routes_refused",
    "routes_unavailable",
    "relay_due",
    "relay_sent",
    "relay_failed",
    "relay_oldest_due_age_ms",
    "relay_untried_resends",
    "relay_shards_unavailable",
    "waiting_due",
    "waiting_sent",
    "waiting_oldest_due_age_ms",
    "effects_due",
    "effects_sent",
    "effects_oldest_due_age_ms",
    "effects_untried_resends",
    "effects_failed_tries",
    "dead_records",
    "dead_oldest_age_ms",
    "dead_shards_capped",
    "dead_letter_settled",
    "dead_letter_kept",
];

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
    code: Option<&'static str>,
    properties: BTreeMap<&'static str, String>,
}

impl Counts {
    /// Counts for the messages of an endpoint, which becomes a property.
    pub fn of(endpoint: Option<&EndpointId>) -> Self {
        let properties = endpoint.map(|endpoint| ("endpoint", endpoint.as_str().to_owned())).into_iter().collect();
        Self { properties, ..Self::default() }
    }

    /// Adds to a counter.
    pub fn add(&mut self, metric: &'static str, amount: usize) {
        *self.metrics.entry(metric).or_default() += i64::try_from(amount).unwrap_or(i64::MAX);
    }

    /// Sets a value. The metric's name ends with the unit.
    pub fn set(&mut self, metric: &'static str, value: i64) {
        self.metrics.insert(metric, value);
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

    /// Sets the fixed code of a refusal, which becomes a dimension.
    pub fn code(&mut self, code: &'static str) {
        self.code = Some(code);
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
        let mut dimensions = vec![json!(["function"])];
        let mut line = Map::new();
        line.insert("function".to_owned(), json!(self.function));
        if let Some(code) = counts.code {
            dimensions.push(json!(["function", "code"]));
            line.insert("code".to_owned(), json!(code));
        }
        let unit = |name: &str| if name.ends_with("_ms") { "Milliseconds" } else { "Count" };
        let metrics: Vec<_> = counts.metrics.keys().map(|name| json!({"Name": name, "Unit": unit(name)})).collect();
        line.extend(counts.metrics.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        line.extend(counts.properties.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        let directive = json!({"Namespace": self.namespace, "Dimensions": dimensions, "Metrics": metrics});
        line.insert("_aws".to_owned(), json!({"Timestamp": now.0, "CloudWatchMetrics": [directive]}));
        (self.sink)(&Value::Object(line).to_string());
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
        | Signal::PlanOvertaken
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
    let format = format.with_current_span(false).with_span_list(false).with_filter(targets(level));
    // It only fails on a second call in one process, which changes nothing.
    let _ = tracing_subscriber::registry().with(format).try_init();
    std::panic::set_hook(Box::new(|panic| tracing::error!(at = panic.location().map(ToString::to_string), "panicked")));
}
