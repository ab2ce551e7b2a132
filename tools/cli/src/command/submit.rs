//! `hookonce submit`: hands an operation of your own to a Standard Webhooks endpoint, under an idempotency key.
//!
//! It is an ordinary delivery: signed with the endpoint's secret, sent through the gateway, stored by one conditional
//! write. The key is the `webhook-id`, so a second submission is a duplicate, and the record says how far the first
//! one is.

use std::path::PathBuf;

use clap::Args;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::{DeadReason, Record};
use hookonce_providers::{Catalog, Settings};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::providers::find;
use super::send;
use crate::dev::sender::{ATTEMPTS_MAX, Delivered, DeliveryToSend, Sender};
use crate::documents::parse_id;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::progress::{Progress, Wait};
use crate::records::{format_tries, summary};
use crate::stack::connection::Connection;
use crate::stack::target::Place;

/// The provider whose scheme everybody can sign by.
const PROVIDER: &str = "standard_webhooks";

/// The header that holds the key.
const KEY_HEADER: &str = "webhook-id";

/// The longest key, in bytes. Longer ones would be stored as their hash.
const KEY_BYTES_MAX: usize = 512;

#[derive(Debug, Args)]
#[command(override_usage = "hookonce submit [OPTIONS] --endpoint <ID> --key <KEY> --type <TYPE>\n       --file <FILE>")]
pub(crate) struct Arguments {
    /// Endpoint of the provider standard_webhooks.
    #[arg(long, value_name = "ID")]
    endpoint: String,
    /// Idempotency key: the same for every repeat of one operation, and for no other operation.
    #[arg(long, value_parser = parse_key)]
    key: String,
    /// Type of the event that the operation becomes, such as job.requested.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// File with the operation's data, as JSON; - reads standard input.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// URL of the endpoint [default: that of the stack].
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    wait: Wait,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What the operation becomes: the payload that Standard Webhooks recommends. It has no time of its own, so that the
/// same submission always has the same bytes.
#[derive(Debug, Serialize)]
struct Payload<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    data: &'a RawValue,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id = parse_id(&arguments.endpoint)?;
    let body = body(&arguments)?;
    let sha256: [u8; 32] = Sha256::digest(&body).into();
    let stack = arguments.place.connect();
    let delivery = delivery(&arguments, &stack, &id, body).await?;
    let delivered = Sender::new(&delivery.url, ATTEMPTS_MAX).deliver(&delivery).await.map_err(|error| {
        let hint = format!("`hookonce endpoint check` checks the secret of {id}");
        Failure::usage(format!("nothing was sent: {error}"), hint)
    })?;
    let answer = Answer::of(&delivered, &delivery.url)?;
    let found = match (answer, arguments.wait.at_most) {
        (Answer::Refused, _) | (Answer::Accepted, None) => None,
        (Answer::Accepted | Answer::Duplicate, _) => Some(follow(&arguments, &stack, &id, sha256).await?),
    };
    let submission = Submission { arguments: &arguments, delivered: &delivered, found, sha256 };
    if arguments.json {
        output::json(&submission.json());
    } else {
        submission.print();
    }
    Ok(submission.exit(answer))
}

/// Checks an idempotency key.
fn parse_key(text: &str) -> Result<String, String> {
    // A full stop separates the key from the rest of what is signed.
    let fits = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.');
    if fits && (1..=KEY_BYTES_MAX).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("a key has 1 to {KEY_BYTES_MAX} visible ASCII characters, and no full stop"))
}

fn body(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let file = arguments.file.display();
    let data = send::read(&arguments.file)
        .map_err(|error| Failure::usage(format!("reading {file} failed: {error}"), "check the path"))?;
    let data: &RawValue = serde_json::from_slice(&data).map_err(|error| {
        Failure::usage(format!("{file} is not JSON: {error}"), "write the operation's data as one JSON value")
    })?;
    // Text and JSON always serialise.
    Ok(serde_json::to_vec(&Payload { event_type: &arguments.event_type, data }).unwrap_or_default())
}

async fn delivery(
    arguments: &Arguments,
    stack: &Connection,
    id: &EndpointId,
    body: Vec<u8>,
) -> Result<DeliveryToSend, Failure> {
    // Without a stack there may be no endpoint either, so this says what to do first.
    let url = match &arguments.url {
        Some(url) => url.clone(),
        None => format!("{}{id}", stack.webhook_url().await?),
    };
    send::check_url(&url)?;
    let add = format!("add one: `hookonce endpoint add {id} --provider {PROVIDER}`");
    let Some(stored) = stack.documents::<EndpointId>().await?.get(id).await? else {
        return Err(Failure::usage(format!("there is no endpoint {id}"), add));
    };
    let document = stored.document(id)?;
    if document.provider != PROVIDER {
        return Err(Failure::usage(
            format!("only {} signs for the endpoint {id}: submit takes endpoints of {PROVIDER}", document.provider),
            add.replacen(id.as_str(), "jobs", 1) + ", then --endpoint jobs",
        ));
    }
    Ok(DeliveryToSend {
        url,
        provider: find(Catalog::built_in(), PROVIDER)?,
        secret: document.secrets.into_iter().next().unwrap_or_default(),
        settings: Settings::none(),
        schemes: document.schemes,
        headers: vec![(KEY_HEADER.to_owned(), arguments.key.clone())],
        body,
        clock_offset_seconds: 0,
    })
}

/// How the gateway answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Accepted,
    Duplicate,
    Refused,
}

impl Answer {
    /// # Errors
    /// [`Failure::Unavailable`] when it is unknown whether it was taken. The same submission may be made again.
    fn of(delivered: &Delivered, url: &str) -> Result<Self, Failure> {
        match (delivered.status, delivered.word.as_str()) {
            (Some(200..300), "accepted") => Ok(Self::Accepted),
            (Some(200..300), "duplicate") => Ok(Self::Duplicate),
            (Some(200..300), _) => Err(Failure::usage(
                format!("{url} answered, but not like a hookonce endpoint: nothing shows that it was stored"),
                "check --url",
            )),
            (Some(300..400), word) => Err(Failure::usage(
                format!("{url} answered {word}: nothing was stored"),
                delivered.redirect_note().unwrap_or_else(|| "check --url".to_owned()),
            )),
            (Some(400..500), word) if word != "too_many_requests" => Ok(Self::Refused),
            (status, word) => Err(Failure::unavailable(
                match status {
                    Some(_) => format!("{url} answered {word}: whether it was stored is not known"),
                    None => format!("{url} did not answer: whether it was stored is not known"),
                },
                "run the same command again: the same key is applied once",
            )),
        }
    }
}

/// Whether the record has the bytes that were submitted. If it does not, nothing that it says is about this submission.
fn same_body(progress: &Progress, sha256: [u8; 32]) -> bool {
    progress.record.as_ref().is_none_or(|record| record.body_sha256 == sha256)
}

/// Reads how far the operation is, until it is settled if a person waits for that.
async fn follow(
    arguments: &Arguments,
    stack: &Connection,
    id: &EndpointId,
    sha256: [u8; 32],
) -> Result<Progress, Failure> {
    let stored = |failure: Failure| failure.with("; the operation is stored, but its state is unknown", "");
    let store = stack.store().await.map_err(stored)?;
    let keys = [RecordKey::delivery(id, &arguments.key)];
    let Some(at_most) = arguments.wait.at_most else { return Progress::read(&store, &keys).await.map_err(stored) };
    let enough = |progress: &Progress| !same_body(progress, sha256) || progress.is_settled();
    let settled = Progress::read_until(&store, &keys, at_most, enough).await.map_err(stored)?;
    settled.ok_or_else(|| {
        Failure::unavailable(
            format!("it is stored, and not settled after {}", humantime::format_duration(at_most)),
            format!("run the same command again, or look at it:\n{}", looking(&arguments.endpoint, &arguments.key)),
        )
    })
}

/// What is told of a submission.
struct Submission<'a> {
    arguments: &'a Arguments,
    delivered: &'a Delivered,
    found: Option<Progress>,
    sha256: [u8; 32],
}

impl Submission<'_> {
    fn json(&self) -> Value {
        let found = self.found.as_ref();
        let state = |(key, record): &(RecordKey, Option<Record>)| json!({ "key": key.parts().1, "state": record.as_ref().map(Record::state_word) });
        json!({
            "endpoint": self.arguments.endpoint,
            "key": self.arguments.key,
            "status": self.delivered.status,
            "answer": self.delivered.word,
            "same_body": found.map(|found| same_body(found, self.sha256)),
            "record": found.and_then(|found| found.record.as_ref()).map(summary),
            "effects": found.map(|found| found.effects.iter().map(state).collect::<Vec<_>>()),
        })
    }

    fn print(&self) {
        output::line(&format!("{}  {}", self.delivered.word, self.arguments.key));
        let Some(found) = &self.found else { return };
        let mut table = output::table(&[]);
        let mut row =
            |name: &str, state: &str, more: String| table.add_row([format!("  {name}"), state.to_owned(), more]);
        match &found.record {
            None => row("event", "unknown", "its record is not written yet, or has expired".to_owned()),
            Some(record) => row("event", record.state_word(), describe(record)),
        }
        for (key, effect) in &found.effects {
            let state = effect.as_ref().map_or("EXPIRED", Record::state_word);
            row("effect", state, effect.as_ref().map_or_else(|| key.parts().1.to_owned(), describe));
        }
        output::print(&table);
    }

    /// What a person must look at.
    fn trouble(&self, found: &Progress) -> Option<&'static str> {
        if same_body(found, self.sha256) {
            return found.trouble();
        }
        Some("the key was used before with a different body; this body was not stored")
    }

    fn exit(&self, answer: Answer) -> Exit {
        let Arguments { endpoint, key, .. } = self.arguments;
        if answer == Answer::Refused {
            output::note("it was refused, and nothing was stored: docs/errors explains each code");
            return Exit::No;
        }
        let Some(trouble) = self.found.as_ref().and_then(|found| self.trouble(found)) else { return Exit::Done };
        output::note(&format!("{trouble}. Its record has more:"));
        output::note(&looking(endpoint, key));
        Exit::No
    }
}

/// The command that shows the record of a key. No command takes a key that begins as an option does: a list has it.
fn looking(endpoint: &str, key: &str) -> String {
    match output::word(key) {
        Some(key) => format!("  hookonce show {endpoint} {key}"),
        None => format!("  hookonce list --endpoint {endpoint}"),
    }
}

/// What else is worth a word of a record: its attempts, its effect's name, why it died.
fn describe(record: &Record) -> String {
    let name = record.effect.as_ref().map(|effect| format!("{} to {}", effect.name, effect.destination));
    let attempts = Some(output::number_of(&format_tries(record), "attempt"));
    let error = record.dead_reason.map(DeadReason::as_str).or(record.last_error.as_deref()).map(str::to_owned);
    [name, attempts, error].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_and_has_no_full_stop() {
        for key in ["order-17", "a", "2026/11#x", &"k".repeat(512)] {
            assert_eq!(parse_key(key).as_deref(), Ok(key));
        }
        for key in ["", "a.b", "a b", "a\n", "é", &"k".repeat(513)] {
            assert!(parse_key(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn the_command_that_shows_an_operation_is_for_a_shell() {
        for (key, expected) in [
            ("order-17", "  hookonce show jobs order-17"),
            ("a;b`c`$d", "  hookonce show jobs 'a;b`c`$d'"),
            ("2026/11#x", "  hookonce show jobs '2026/11#x'"),
            ("--html=x", "  hookonce list --endpoint jobs"),
        ] {
            assert_eq!(looking("jobs", key), expected);
        }
    }

    #[test]
    fn the_data_keeps_every_digit() {
        let data: &RawValue = serde_json::from_str(" {\"n\": 1.10}\n").unwrap();
        let payload = serde_json::to_string(&Payload { event_type: "a\"b", data }).unwrap();
        assert_eq!(payload, r#"{"type":"a\"b","data":{"n": 1.10}}"#);
    }
}
