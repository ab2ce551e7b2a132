//! What happens on a running stack, one line for each delivery and each outcome.
//!
//! The functions run unchanged: their invocations are watched from outside, and the records are read afterwards, by a
//! task of its own. So nobody waits for a line.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::Style;
use hookonce_aws::DynamoStore;
use hookonce_local::invoke::{Invoke, InvokeError};
use hookonce_protocol::key::RecordKey;
use hookonce_protocol::message::Message;
use hookonce_protocol::record::{Found, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::port::Store as _;
use hookonce_webhook::answer::{ANSWER_ID, ANSWER_STATUS, Denial};
use hookonce_webhook::endpoint_id;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::dev::capture::Capturer;
use crate::output;
use crate::output::codes;
use crate::records::looks::Look;
use crate::records::{candidates, error_of, states};
use crate::stack::arrivals::{Arrival, Arrivals};
use crate::stack::traffic::{Answer, Traffic};

/// Something that happened.
#[derive(Debug)]
enum FeedEvent {
    /// The webhook function answered.
    Delivery { path: String, answer: Value, started: EpochMs, ended: EpochMs },
    /// The worker, the dispatcher or the relay ended a batch.
    Batch { keys: Vec<RecordKey>, started: EpochMs },
}

/// Where the watched functions tell what happened.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    sender: UnboundedSender<FeedEvent>,
    /// How much happened so far.
    count: Arc<AtomicUsize>,
}

impl Feed {
    fn emit(&self, event: FeedEvent) {
        self.count.fetch_add(1, Ordering::Relaxed);
        // The printer is gone only while the stack stops.
        let _ = self.sender.send(event);
    }
}

/// The other end, which prints, counts and keeps what arrived last.
#[derive(Debug)]
pub(crate) struct Printer {
    events: UnboundedReceiver<FeedEvent>,
    as_json: bool,
}

/// Who else learns of what the printer prints.
#[derive(Debug)]
pub(crate) struct Watchers {
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) traffic: Arc<Traffic>,
}

/// The code of a request to an endpoint that does not exist.
const UNKNOWN_ENDPOINT: &str = Denial::UnknownEndpoint.parts().1;

/// How long the first count after a pause stays in memory alone: what comes at the same moment is saved with it.
const TOGETHER: Duration = Duration::from_millis(200);

/// How often counts are saved at most, because each time waits for the disk.
const SAVE_AFTER: Duration = Duration::from_secs(2);

/// A feed and its printer.
pub(crate) fn feed(as_json: bool) -> (Feed, Printer) {
    let (sender, events) = unbounded_channel();
    (Feed { sender, count: Arc::default() }, Printer { events, as_json })
}

/// The webhook function, watched, and the capturer that keeps its requests.
pub(crate) struct WatchedWebhook<I>(pub(crate) I, pub(crate) Feed, pub(crate) Option<Arc<Capturer>>);

/// A function that takes messages, watched: the worker, the dispatcher, or the relay with its dead letters.
pub(crate) struct WatchedWorker<I>(pub(crate) I, pub(crate) Feed);

impl<I: Invoke> Invoke for WatchedWebhook<I> {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let started = System.moment().now;
        let path = text(&event, "/rawPath").to_owned();
        let kept = self.2.as_ref().map(|capturer| (Arc::clone(capturer), event.clone()));
        let result = self.0.invoke(event).await;
        let answer = result.as_ref().map_or(Value::Null, |answer| {
            let header = |name: &str| answer.pointer(&format!("/headers/{name}"));
            let prescribed = || json!({ "status": header(ANSWER_STATUS), "id": header(ANSWER_ID) });
            let body = serde_json::from_str(text(answer, "/body")).unwrap_or_else(|_| prescribed());
            json!({ "status": answer.get("statusCode"), "body": body })
        });
        let ended = System.moment().now;
        if let Some((capturer, event)) = kept {
            let (status, word) = status_and_word(&answer);
            // The answer waits for it, so that no more than the running requests are held in memory.
            let keeping = tokio::task::spawn_blocking(move || capturer.keep(&event, (status, &word), started));
            let _ = keeping.await;
        }
        self.1.emit(FeedEvent::Delivery { path, answer, started, ended });
        result
    }
}

impl<I: Invoke> Invoke for WatchedWorker<I> {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let started = System.moment().now;
        let messages = event.get("Records").and_then(Value::as_array).into_iter().flatten();
        let key = |message: &Value| Some(Message::decode(text(message, "/body"), None).ok()?.record_key().clone());
        let keys = messages.filter_map(key).collect();
        let result = self.0.invoke(event).await;
        self.1.emit(FeedEvent::Batch { keys, started });
        result
    }
}

/// How many runs in a row may find that nothing happened.
const QUIET_RUNS: usize = 15;

/// From then on, which run begins: one a minute, as on AWS.
const RESTING_RUNS: usize = 30;

/// The relay on its schedule. It reads every shard, which costs a laptop a tenth of a processor in a debug build, so it
/// rests while nothing happens: most runs are then left out.
pub(crate) struct RestingRelay<I> {
    relay: I,
    feed: Feed,
    /// How much had happened at the last tick, and how many ticks ago that changed.
    seen: Mutex<(usize, usize)>,
}

impl<I> RestingRelay<I> {
    pub(crate) fn new(relay: I, feed: Feed) -> Self {
        Self { relay, feed, seen: Mutex::default() }
    }

    fn is_resting(&self) -> bool {
        let count = self.feed.count.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = if seen.0 == count { (count, seen.1 + 1) } else { (count, 0) };
        seen.1 > QUIET_RUNS && !seen.1.is_multiple_of(RESTING_RUNS)
    }
}

impl<I: Invoke> Invoke for RestingRelay<I> {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        if self.is_resting() { Ok(Value::Null) } else { self.relay.invoke(event).await }
    }
}

impl Printer {
    /// Prints until the stack and its feed are gone.
    pub(crate) async fn run(mut self, store: DynamoStore, watchers: Watchers) {
        let (mut save_at, mut saved_at) = (None::<Instant>, None::<Instant>);
        loop {
            let happening = match save_at {
                None => self.events.recv().await,
                Some(at) if at <= Instant::now() => {
                    (save_at, saved_at) = (None, Some(Instant::now()));
                    // It is tried again with the next count.
                    let _ = watchers.traffic.save();
                    continue;
                }
                Some(at) => match timeout_at(at, self.events.recv()).await {
                    Ok(happening) => happening,
                    Err(_) => continue,
                },
            };
            let Some(happening) = happening else { return };
            match happening {
                FeedEvent::Delivery { path, answer, started, ended } => {
                    self.delivery(&store, &watchers, &path, &answer, (started, ended)).await;
                    let soon = Instant::now() + TOGETHER;
                    save_at.get_or_insert_with(|| saved_at.map_or(soon, |at| soon.max(at + SAVE_AFTER)));
                }
                FeedEvent::Batch { keys, started } => {
                    for (key, found) in keys.iter().zip(store.read_heads(&keys).await) {
                        if let Ok(Found::Record(record)) = found {
                            watchers.arrivals.keep(Arrival::of(&record));
                            self.outcome(key, &record, started);
                        }
                    }
                }
            }
        }
    }

    async fn delivery(
        &self,
        store: &DynamoStore,
        watchers: &Watchers,
        path: &str,
        answer: &Value,
        (started, ended): (EpochMs, EpochMs),
    ) {
        let endpoint = endpoint_of(path);
        let endpoint = endpoint.as_str();
        let key = text(answer, "/body/id");
        let (status, word) = status_and_word(answer);
        let found = if key.is_empty() { None } else { head(store, endpoint, key).await };
        watchers.emit(endpoint, found.as_ref(), (status, &word), started);
        let event_type = found.map_or_else(|| "-".to_owned(), |record| record.event_type);
        let took = ended.0 - started.0;
        if self.as_json {
            output::json_line(&json!({
                "what": "delivery", "at_ms": started.0, "endpoint": endpoint, "type": event_type, "key": key,
                "status": status, "answer": word, "duration_ms": took,
            }));
            return;
        }
        let (glyph, style) = match status {
            0..300 if word == "duplicate" => (Look::DUPLICATE.glyph, Style::new().dim()),
            0..300 if word == "accepted" => (Look::SOUND.glyph, Style::new().cyan()),
            0..300 => (Look::ANSWERED.glyph, Style::new().cyan()),
            300..500 => (Look::REFUSED.glyph, Style::new().yellow()),
            _ => (Look::REFUSED.glyph, Style::new().red()),
        };
        let before = format!("{}  in   ", output::local_moment(started));
        let took = output::between(started, ended);
        if status < 300 {
            let after = format!(" {endpoint} {event_type} {key}  {status} {took}");
            return output::styled_line(&before, (&column(glyph, &word), &style), &after);
        }
        let mut page = codes::explaining(&word).map_or_else(String::new, |page| format!(": {page}"));
        if status == 401 {
            page.push_str(", `hookonce verify --last`");
        }
        output::styled_line(
            &before,
            (&column(glyph, "refused"), &style),
            &format!(" {endpoint}  {status} {took}  {word}{page}"),
        );
    }

    fn outcome(&self, key: &RecordKey, record: &Record, started: EpochMs) {
        let (endpoint, own_key) = key.parts();
        let key = record.effect.as_ref().map_or(own_key, |effect| effect.name.as_str());
        let destination = record.effect.as_ref().map(|effect| effect.destination.as_str());
        let now = System.moment().now;
        // A repeated hint finds its record settled before.
        let fresh = |at: Option<EpochMs>| at.is_some_and(|at| at >= started);
        // The queue redelivers after the pause that the record notes. Without one, it only says when the relay would.
        let pending = record.status == Status::Pending;
        let due = record.due.as_ref().map(|due| due.at).filter(|_| pending);
        let again_at = record.not_before.filter(|_| pending);
        // A repeated hint is told later than what it is about.
        let ended_at =
            record.processed_at.or(record.dead_at).or(record.discarded_at).filter(|_| !pending).unwrap_or(now);
        let word = match record.status {
            Status::Processed if fresh(record.processed_at) => record.state_word().to_ascii_lowercase(),
            Status::Dead if fresh(record.dead_at) => "dead".to_owned(),
            Status::Pending if record.last_error.is_some() => "retry".to_owned(),
            Status::Pending => "waiting".to_owned(),
            Status::Processed | Status::Dead | Status::Discarded => "done before".to_owned(),
        };
        if self.as_json {
            output::json_line(&json!({
                "what": "outcome", "at_ms": now.0, "endpoint": endpoint, "type": record.event_type, "key": own_key,
                "effect": record.effect.as_ref().map(|effect| effect.name.as_str()), "destination": destination,
                "outcome": word, "error": error_of(record), "retry_in_ms": again_at.map(|at| (at.0 - now.0).max(0)),
                "retry_in_ms_max": due.map(|due| due.0 - now.0), "since_receipt_ms": ended_at.0 - record.received_at.0,
            }));
            return;
        }
        let error = error_of(record).filter(|_| matches!(word.as_str(), "dead" | "retry"));
        let detail = match (error, again_at, due) {
            (Some(error), Some(at), _) => format!("{error}, again in about {}", about(now, at)),
            (Some(error), None, Some(due)) => format!("{error}, again in at most {}", about(now, due)),
            (Some(error), None, None) => error.to_owned(),
            (None, ..) => format!("{} after receipt", output::between(record.received_at, ended_at)),
        };
        let style = match word.as_str() {
            "applied" | "delivered" => Style::new().green(),
            "dead" => Style::new().red(),
            "retry" | "waiting" => Style::new().yellow(),
            _ => Style::new().dim(),
        };
        let to = destination.map_or_else(String::new, |destination| format!(" to {destination}"));
        let (before, event_type) = (format!("{}  out  ", output::local_moment(now)), &record.event_type);
        let after = format!(" {endpoint} {event_type} {key}{to}  {detail}");
        output::styled_line(&before, (&column(Look::of(record).glyph, &word), &style), &after);
    }
}

impl Watchers {
    /// Counts an answer, and keeps what arrived.
    fn emit(&self, endpoint: &str, record: Option<&Record>, (status, word): (u64, &str), at: EpochMs) {
        // A stranger may ask for any number of endpoints that do not exist.
        let exists = word != UNKNOWN_ENDPOINT;
        let answer = match (status, word) {
            (0..300, "accepted") => {
                Some(Answer::Accepted { by_older_secret: record.is_some_and(|record| record.secret_index > 0) })
            }
            (0..300, "duplicate") => Some(Answer::Duplicate),
            (0..300, _) => None,
            (_, code) => Some(Answer::Refused(code)),
        };
        if let Some(answer) = answer.filter(|_| exists) {
            self.traffic.count(endpoint, answer, at);
        }
        let arrival = match record {
            Some(record) if word == "duplicate" => Arrival { look: Look::DUPLICATE, ..Arrival::of(record) },
            Some(record) => Arrival::of(record),
            None => Arrival {
                at,
                endpoint: if exists { endpoint.to_owned() } else { String::new() },
                event_type: String::new(),
                key: None,
                look: if status < 300 { Look::ANSWERED } else { Look::REFUSED },
                detail: word.to_owned(),
            },
        };
        self.arrivals.keep(arrival);
    }
}

/// The record of an answer, without its body.
async fn head(store: &DynamoStore, endpoint: &str, key: &str) -> Option<Record> {
    let found = states(store, candidates(endpoint, key).ok()?).await.ok()?;
    found.into_iter().find_map(|(_, record)| record)
}

/// The endpoint that the webhook function finds in a path. Of a path that has none, its last part.
fn endpoint_of(path: &str) -> String {
    let last = || path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    endpoint_id(path).map_or_else(last, |id| id.to_string())
}

/// A word in a column that takes the longest one, with its sign for a person on a terminal.
fn column(glyph: &str, word: &str) -> String {
    if output::is_terminal() { format!("{glyph} {word:<11}") } else { format!("{word:<11}") }
}

/// How long it is until then, in whole seconds.
pub(crate) fn about(now: EpochMs, then: EpochMs) -> String {
    let seconds = (then.0 - now.0).max(0).saturating_add(999) / 1_000;
    output::length(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// An answer's status, and its word: `accepted`, `duplicate` or the code of the refusal.
fn status_and_word(answer: &Value) -> (u64, String) {
    let status = answer.get("status").and_then(Value::as_u64).unwrap_or(500);
    let words = ["/body/status", "/body/error"].map(|at| text(answer, at));
    let otherwise = if status < 300 { "answered" } else { "failed" };
    (status, words.into_iter().find(|word| !word.is_empty()).unwrap_or(otherwise).to_owned())
}

/// The text at a place in JSON. Empty if there is none.
fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relay_rests_while_nothing_happens_and_runs_at_once_when_something_does() {
        let (feed, _printer) = feed(false);
        let relay = RestingRelay::new((), feed.clone());
        let runs = |ticks: usize| (0..ticks).filter(|_| !relay.is_resting()).count();
        assert_eq!(runs(QUIET_RUNS), QUIET_RUNS, "what happened last may have lost its hint");
        assert_eq!(runs(RESTING_RUNS * 4), 4);
        feed.emit(FeedEvent::Batch { keys: Vec::new(), started: EpochMs(0) });
        assert_eq!(runs(QUIET_RUNS), QUIET_RUNS);
    }

    #[test]
    fn a_next_try_is_printed_in_whole_seconds() {
        let from_one_second = |then| about(EpochMs(1_000), EpochMs(then));
        assert_eq!([365_000, 2_900, 1_000, 0].map(from_one_second), ["6m 4s", "2s", "0s", "0s"]);
    }

    #[test]
    fn a_path_names_the_endpoint_that_the_function_finds() {
        let paths = ["/webhooks/stripe", "/webhooks/stripe/", "/stage/webhooks/stripe//", "/other/path/", "/"];
        assert_eq!(paths.map(endpoint_of), ["stripe", "stripe", "stripe", "path", ""]);
    }
}
