//! Messages: what WhatsApp tells about a conversation.
//!
//! A message becomes an item of its own and moves its conversation on; the first message of a contact makes a lead. A
//! status (sent, delivered, read, played, failed) only ever moves forward, whatever order the deliveries come in.

use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot};
use hookonce_protocol::record::set;
use hookonce_protocol::write::Change;
use hookonce_runtime::handler::{Handler, HandlerError};
use serde::Deserialize;

use super::{item, once, read};

const PROVIDER: &str = "meta_whatsapp";
const UNREADABLE: &str = "MESSAGE_UNREADABLE";
const LAST_MESSAGE_AT: &str = "last_message_at";
const RANK: &str = "rank";

/// Conversations, leads and message statuses out of WhatsApp deliveries.
#[derive(Debug, Clone, Copy)]
pub struct Messages;

#[derive(Deserialize)]
struct Delivery {
    entry: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    changes: Vec<ChangeEntry>,
}

#[derive(Deserialize)]
struct ChangeEntry {
    value: Value,
}

#[derive(Deserialize)]
struct Value {
    metadata: Metadata,
    #[serde(default)]
    contacts: Vec<Contact>,
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    statuses: Vec<Status>,
}

#[derive(Deserialize)]
struct Metadata {
    phone_number_id: String,
}

#[derive(Deserialize)]
struct Contact {
    wa_id: String,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    from: String,
    timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    text: Option<Text>,
}

#[derive(Deserialize)]
struct Text {
    body: String,
}

#[derive(Deserialize)]
struct Status {
    id: String,
    #[serde(rename = "status")]
    word: String,
    timestamp: String,
}

/// The one update that an event holds.
enum Update {
    Message { phone: String, contacts: Vec<Contact>, message: Message },
    Status(Status),
}

impl Update {
    fn of(event: &Event) -> Result<Self, HandlerError> {
        let delivery: Delivery = read(event, UNREADABLE)?;
        let values = delivery.entry.into_iter().flat_map(|entry| entry.changes).map(|change| change.value);
        values.into_iter().find_map(Self::first).ok_or(HandlerError::permanent(UNREADABLE))
    }

    fn first(value: Value) -> Option<Self> {
        let Value { metadata, contacts, messages, statuses } = value;
        let message = messages.into_iter().next().map(|message| Self::Message {
            phone: metadata.phone_number_id,
            contacts,
            message,
        });
        message.or_else(|| statuses.into_iter().next().map(Self::Status))
    }
}

/// How far along a status is. A status that is not known here has no rank and changes nothing.
fn rank(status: &str) -> Option<i64> {
    match status {
        "sent" => Some(1),
        "delivered" => Some(2),
        "read" => Some(3),
        "played" => Some(4),
        "failed" => Some(5),
        _ => None,
    }
}

fn seconds(timestamp: &str) -> Result<i64, HandlerError> {
    timestamp.parse().map_err(|_| HandlerError::permanent("TIMESTAMP_UNREADABLE"))
}

fn conversation_key(event: &Event, phone: &str, contact: &str) -> String {
    format!("{}#conversation#{phone}#{contact}", event.endpoint)
}

fn lead_key(event: &Event, contact: &str) -> String {
    format!("{}#lead#{contact}", event.endpoint)
}

fn status_key(event: &Event, message: &str) -> String {
    format!("{}#status#{message}", event.endpoint)
}

fn plan_message(
    event: &Event,
    snapshot: &Snapshot,
    phone: &str,
    contacts: &[Contact],
    message: &Message,
) -> Result<Plan, HandlerError> {
    let sent_at = seconds(&message.timestamp)?;
    let text = message.text.as_ref().map(|text| text.body.as_str());
    let kept = item([
        ("from", message.from.as_str().into()),
        ("kind", message.kind.as_str().into()),
        ("text", text.unwrap_or_default().into()),
        ("sent_at", sent_at.into()),
    ]);
    let conversation = conversation_key(event, phone, &message.from);
    let mut changes = vec![Change::Add("messages".into(), 1)];
    let moves_on = sent_at > snapshot.number(&conversation, LAST_MESSAGE_AT);
    if moves_on {
        changes.push(set(LAST_MESSAGE_AT, sent_at));
    }
    let update = DomainWrite::update(conversation, changes);
    let update = if moves_on { update.as_seen(snapshot, LAST_MESSAGE_AT) } else { update };
    let mut plan = Plan::default()
        .with(DomainWrite::create(once(event, format!("{}#message#{}", event.endpoint, message.id)), kept))
        .with(update);
    let lead = lead_key(event, &message.from);
    if snapshot.item(&lead).is_none() {
        let profile = contacts.iter().find(|contact| contact.wa_id == message.from).and_then(|it| it.profile.as_ref());
        let name = profile.and_then(|profile| profile.name.as_deref()).unwrap_or_default();
        let fields = item([("name", name.into()), ("first_message", message.id.as_str().into())]);
        plan = plan.with(DomainWrite::create(lead, fields));
    }
    Ok(plan)
}

fn plan_status(event: &Event, snapshot: &Snapshot, status: &Status) -> Result<Plan, HandlerError> {
    let key = status_key(event, &status.id);
    let forward = rank(&status.word).filter(|rank| *rank > snapshot.number(&key, RANK));
    let Some(rank) = forward else { return Ok(Plan::default()) };
    let changes = vec![
        set(RANK, rank),
        set("status", status.word.as_str()),
        set("at", seconds(&status.timestamp)?),
        Change::Add("changes".into(), 1),
    ];
    Ok(Plan::default().with(DomainWrite::update(key, changes).as_seen(snapshot, RANK)))
}

impl Handler for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn handles(&self, event: &Event) -> bool {
        let wanted = event.event_type == "message" || event.event_type.starts_with("status");
        event.provider == PROVIDER && wanted
    }

    fn domain_key(&self, event: &Event) -> Result<String, HandlerError> {
        let endpoint = &event.endpoint;
        Ok(match Update::of(event)? {
            Update::Message { message, .. } => format!("{endpoint}/message/{}", message.id),
            Update::Status(status) => format!("{endpoint}/status/{}/{}", status.id, status.word),
        })
    }

    fn reads(&self, event: &Event) -> Result<Vec<String>, HandlerError> {
        Ok(match Update::of(event)? {
            Update::Message { phone, message, .. } => {
                vec![conversation_key(event, &phone, &message.from), lead_key(event, &message.from)]
            }
            Update::Status(status) => vec![status_key(event, &status.id)],
        })
    }

    fn plan(&self, event: &Event, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        match Update::of(event)? {
            Update::Message { phone, contacts, message } => plan_message(event, snapshot, &phone, &contacts, &message),
            Update::Status(status) => plan_status(event, snapshot, &status),
        }
    }
}
