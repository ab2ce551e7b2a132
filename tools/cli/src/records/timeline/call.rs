//! How an effect is called, as far as its record and its destination's document say.

use hookonce_protocol::dispatcher::idempotency_key;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::record::{EffectPart, EndedCall, FailedAttempt, Pass, Record, Status};
use hookonce_protocol::timing::Timing;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::destinations::{ClassName, DestinationDocument, DestinationKind};
use serde_json::{Value, json};

use super::{Mark, Step};
use crate::documents::HIDDEN;
use crate::documents::destinations::shown_address;
use crate::output;
use crate::stack::connection::Connection;

/// What the document of a destination says today.
enum Today {
    Document(Box<DestinationDocument>),
    /// There is none, so its effects wait.
    Missing,
    /// It cannot be read, or is not valid.
    Unknown,
}

/// The calls of one effect.
pub(super) struct EffectCall {
    destination: DestinationId,
    today: Today,
    /// The key that every repeat of the call carries.
    key: String,
}

impl EffectCall {
    /// Reads the document of an effect's destination. The record is shown even if that cannot be read.
    pub(super) async fn of(stack: &Connection, record: &Record, part: &EffectPart) -> Self {
        let key = idempotency_key(&record.key, &record.claim_id, record.generation, part.key_epoch);
        let today = async {
            let documents = stack.documents::<DestinationId>().await.ok()?;
            let Some(stored) = documents.get(&part.destination).await.ok()? else { return Some(Today::Missing) };
            stored.document(&part.destination).ok().map(Box::new).map(Today::Document)
        };
        Self { destination: part.destination.clone(), today: today.await.unwrap_or(Today::Unknown), key }
    }

    fn document(&self) -> Result<&DestinationDocument, &'static str> {
        match &self.today {
            Today::Document(document) => Ok(document),
            Today::Missing => Err("there is no such destination today: its effects wait"),
            Today::Unknown => Err("the document of the destination cannot be read"),
        }
    }

    /// What is called, without what may be secret in it.
    fn address(&self, part: &EffectPart) -> Result<String, &'static str> {
        let document = self.document()?;
        let address = shown_address(document).unwrap_or_default();
        Ok(if document.kind == DestinationKind::Http { below(&address, &part.path) } else { address })
    }

    /// What is called and how, for people.
    pub(super) fn facts(&self, record: &Record, part: &EffectPart) -> Vec<(&'static str, String)> {
        let call = match (self.address(part), self.document()) {
            (Ok(address), Ok(document)) if document.kind == DestinationKind::Http => {
                format!("{} {address}", part.method.as_str())
            }
            (Ok(address), Ok(document)) => format!("{} {address}", document.kind.as_str()),
            (Err(why), _) | (_, Err(why)) => {
                let path = if part.path.is_empty() { String::new() } else { format!(" {}", part.path) };
                format!("{}{path}; {why}", part.method.as_str())
            }
        };
        let epoch = match part.key_epoch {
            0 => String::new(),
            epoch => format!("; an operator replaced it {}", output::number_of(&epoch, "time")),
        };
        let places = self.document().map(key_places).unwrap_or_default();
        let places = if places.is_empty() { String::new() } else { format!(" in {}", places.join(", ")) };
        let mut facts =
            vec![("effect", format!("{} to the destination {}", part.name, self.destination)), ("call", call)];
        facts.extend(self.document().ok().map(|document| ("class", class(document).as_str().to_owned())));
        facts.push(("idempotency key", format!("{}{places}{epoch}", self.key)));
        if part.not_done > 0 {
            let code = record.last_error.as_deref().filter(|_| record.status != Status::Processed);
            let code = code.map_or_else(String::new, |code| format!("; last error {code}"));
            // The story has those that called.
            facts.push(("tries", format!("{} did nothing, or had no turn to call{code}", part.not_done)));
        }
        let took = part.duration.map_or_else(String::new, |took| format!(", after {} ms", took.0));
        facts.extend(calls(record, part).last().map(|call| ("latest answer", format!("{}{took}", answer(call)))));
        facts
    }

    /// The same for programs.
    pub(super) fn json(&self, record: &Record, part: &EffectPart) -> Value {
        let of_call = |call: &EndedCall| json!({ "at_ms": call.at.0, "status": call.status, "sent": !call.unsent });
        let document = self.document().ok();
        json!({
            "method": part.method.as_str(),
            "path": part.path,
            "content_type": part.content_type,
            "address": self.address(part).ok(),
            "kind": document.map(|document| document.kind),
            "class": document.map(class),
            "idempotency_key": self.key,
            "key_places": document.map(key_places),
            "key_epoch": part.key_epoch,
            "first_call_at_ms": part.first_call_at.map(|at| at.0),
            "not_done": part.not_done,
            "calls": calls(record, part).iter().map(of_call).collect::<Vec<_>>(),
            "duration_ms": part.duration.map(|took| took.0),
        })
    }
}

/// The calls, each with its answer, and with its code if it was counted as failed.
pub(super) fn steps(record: &Record, part: &EffectPart) -> Vec<Step> {
    let calls = calls(record, part);
    let is_noted = |failed: &&FailedAttempt| calls.iter().any(|call| call.at == failed.at);
    // The record keeps as many of the ones as of the others, so that some have no call any more.
    let older = record.failures.iter().filter(|failed| !is_noted(failed));
    let older = older.map(|it| Step { at: it.at, mark: Mark::Failed, what: format!("call failed: {}", it.code) });
    let calls = calls.iter().map(|call| {
        let answer = answer(call);
        let failed = record.failures.iter().find(|failed| failed.at == call.at);
        let what = match failed {
            Some(failed) => format!("call failed: {}, answer: {answer}", failed.code),
            None if call.unsent => "not called: nothing was sent".to_owned(),
            None if call.status.is_none() => "it may have been called: no answer is known".to_owned(),
            None => format!("called, answer: {answer}"),
        };
        let mark = if record.processed_at == Some(call.at) { Mark::Done } else { Mark::Failed };
        Step { at: call.at, mark, what }
    });
    let under_way = under_way(record, part);
    let under_way =
        under_way.map(|pass| Step { at: pass.at, mark: Mark::Done, what: "a call is under way".to_owned() });
    older.chain(calls).chain(under_way).collect()
}

/// The calls that ended, and one whose process died.
fn calls(record: &Record, part: &EffectPart) -> Vec<EndedCall> {
    let mut part = part.clone();
    if record.status == Status::Pending && under_way(record, &part).is_none() {
        part.pass_is_over();
    }
    part.calls
}

/// The right to a call whose process may still live.
fn under_way<'a>(record: &Record, part: &'a EffectPart) -> Option<&'a Pass> {
    let lives = |pass: &&Pass| System.moment().now <= pass.held_until(&Timing::standard());
    part.pass.as_ref().filter(|pass| record.status == Status::Pending && lives(pass))
}

/// What a call was answered.
fn answer(call: &EndedCall) -> String {
    match call.status {
        Some(status) => format!("status {status}"),
        None if call.unsent => "none, as nothing was sent".to_owned(),
        None => "none that is known".to_owned(),
    }
}

/// The promise. Only a URL has another one than the weakest.
fn class(document: &DestinationDocument) -> ClassName {
    document.class.unwrap_or(ClassName::AtLeastOnce)
}

/// Where a call carries its key.
fn key_places(document: &DestinationDocument) -> Vec<String> {
    match document.kind {
        DestinationKind::Http => {
            let signed = document.standard_webhooks_secret.as_ref().map(|_| "webhook-id".to_owned());
            let pointer = document.key_json_pointer.clone();
            let own = document.key_header.clone().into_iter().chain(signed).chain(pointer);
            std::iter::once("hookonce-key".to_owned()).chain(own).collect()
        }
        DestinationKind::Sqs => vec!["the attribute hookonce-key".to_owned()],
        DestinationKind::Lambda => vec!["the field key".to_owned()],
    }
}

/// An address with the path of an effect, before the query of the address.
fn below(address: &str, path: &str) -> String {
    let path = output::shown(path);
    if path.is_empty() {
        return address.to_owned();
    }
    match address.split_once('?') {
        Some((address, _)) => format!("{}{path}?{HIDDEN}", address.trim_end_matches('/')),
        None => format!("{}{path}", address.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stands_below_the_address_and_before_its_query() {
        for (address, path, whole) in [
            ("https://a.example/in", "", "https://a.example/in"),
            ("https://a.example/in/", "/v1/charges", "https://a.example/in/v1/charges"),
            ("https://a.example/in?<hidden>", "/v1", "https://a.example/in/v1?<hidden>"),
        ] {
            assert_eq!(below(address, path), whole);
        }
    }
}
