//! Messages: WhatsApp messages and their statuses.
//!
//! Each message becomes an item and updates its conversation. The first message of a contact creates a lead. A status
//! (sent, delivered, read, played, failed) only moves forward, in whatever order the deliveries arrive. In a group,
//! each participant has statuses of their own.

use hookonce_protocol::item::fields;
use hookonce_protocol::key::{DomainKey, ItemKey};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{DomainWrite, Event, Plan, Snapshot, Tie};
use hookonce_protocol::record::set;
use hookonce_protocol::write::Change;
use hookonce_runtime::handlers::{Handler, HandlerError, read};
use serde::Deserialize;

const UNREADABLE: &str = "MESSAGE_UNREADABLE";
const LAST_MESSAGE_AT: &str = "last_message_at";
const RANK: &str = "rank";

/// The most digits of a time.
const TIMESTAMP_DIGITS_MAX: usize = 18;

/// Turns WhatsApp deliveries into conversations, leads and message statuses.
#[derive(Debug, Clone, Copy)]
pub struct Messages;

#[derive(Deserialize)]
struct MessageStatus {
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
    contacts: Option<Vec<Contact>>,
    messages: Option<Vec<Message>>,
    statuses: Option<Vec<Status>>,
}

#[derive(Deserialize)]
struct Metadata {
    phone_number_id: String,
}

/// A contact has a number, or only a user id: of whoever has a user name.
#[derive(Debug, Deserialize)]
struct Contact {
    wa_id: Option<String>,
    user_id: Option<String>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) id: String,
    from: Option<String>,
    from_user_id: Option<String>,
    timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    text: Option<Text>,
}

#[derive(Debug, Deserialize)]
struct Text {
    body: String,
}

impl Message {
    /// Whether its sender has a number.
    pub(super) fn has_number(&self) -> bool {
        self.from.is_some()
    }

    /// Who sent it: the number, or the user id where there is none.
    pub(super) fn sender(&self) -> &str {
        self.from.as_deref().or(self.from_user_id.as_deref()).unwrap_or_default()
    }
}

/// The status of a sent message.
#[derive(Debug, Deserialize)]
pub struct Status {
    id: String,
    #[serde(rename = "status")]
    word: String,
    timestamp: String,
    /// The participant of a group, by a user id or a number. A message to one contact has neither.
    recipient_participant_user_id: Option<String>,
    recipient_participant_id: Option<String>,
}

impl Status {
    fn participant(&self) -> Option<&str> {
        self.recipient_participant_user_id.as_deref().or(self.recipient_participant_id.as_deref())
    }
}

/// The one update in an event.
#[derive(Debug)]
pub enum Update {
    /// A contact sent a message.
    Message(Sent),
    /// The status of a sent message changed.
    Status(Status),
}

/// A message with its sender and receiver.
#[derive(Debug)]
pub struct Sent {
    pub(super) phone: String,
    contacts: Vec<Contact>,
    pub(super) message: Message,
}

impl Update {
    fn first(value: Value) -> Option<Self> {
        let Value { metadata: Metadata { phone_number_id: phone }, contacts, messages, statuses } = value;
        let contacts = contacts.unwrap_or_default();
        let message = messages.into_iter().flatten().next();
        let message = message.map(|message| Self::Message(Sent { phone, contacts, message }));
        message.or_else(|| statuses.into_iter().flatten().next().map(Self::Status))
    }
}

/// How far along a status is. An unknown status has no rank and changes nothing.
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

/// A longer number is no time in seconds. As the last one of a conversation, it would be newer than every real one.
fn seconds(timestamp: &str) -> Result<i64, HandlerError> {
    let digits = timestamp.strip_prefix(['+', '-']).unwrap_or(timestamp);
    let seconds = if digits.len() <= TIMESTAMP_DIGITS_MAX { timestamp.parse().ok() } else { None };
    seconds.ok_or(HandlerError::permanent("TIMESTAMP_UNREADABLE"))
}

fn conversation_key(event: &Event, sent: &Sent) -> ItemKey {
    event.item_key("conversation", [sent.phone.as_str(), sent.message.sender()])
}

fn lead_key(event: &Event, sent: &Sent) -> ItemKey {
    event.item_key("lead", [sent.message.sender()])
}

fn status_key(event: &Event, status: &Status) -> ItemKey {
    event.item_key("status", [Some(status.id.as_str()), status.participant()].into_iter().flatten())
}

fn plan_message(event: &Event, sent: &Sent, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
    let message = &sent.message;
    let sent_at = seconds(&message.timestamp)?;
    let text = message.text.as_ref().map(|text| text.body.as_str());
    let kept = fields([
        ("from", message.sender().into()),
        ("kind", message.kind.as_str().into()),
        ("text", text.unwrap_or_default().into()),
        ("sent_at", sent_at.into()),
    ]);
    let conversation = conversation_key(event, sent);
    // A message that comes late is counted, but never becomes the last one.
    let counted = DomainWrite::update(conversation, vec![Change::Add("messages".into(), 1)]);
    let last = counted.clone().newer_than(snapshot, LAST_MESSAGE_AT, sent_at, Tie::Skip);
    let is_sender =
        |contact: &&Contact| [&contact.wa_id, &contact.user_id].into_iter().flatten().any(|id| id == message.sender());
    let profile = sent.contacts.iter().find(is_sender);
    let name = profile.and_then(|contact| contact.profile.as_ref()?.name.as_deref()).unwrap_or_default();
    let lead = fields([("name", name.into()), ("first_message", message.id.as_str().into())]);
    Ok(Plan::default()
        .with(DomainWrite::create(event.once("message", [&message.id]), kept))
        .with(last.unwrap_or_else(|| counted.blind()))
        .with(DomainWrite::create_missing(lead_key(event, sent), lead, snapshot)))
}

fn plan_status(event: &Event, status: &Status, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
    let key = status_key(event, status);
    let Some(rank) = rank(&status.word) else { return Ok(Plan::default()) };
    let changes = vec![
        set("status", status.word.as_str()),
        set("at", seconds(&status.timestamp)?),
        Change::Add("changes".into(), 1),
    ];
    Ok(Plan::default().with(DomainWrite::update(key, changes).newer_than(snapshot, RANK, rank, Tie::Skip)))
}

impl Handler for Messages {
    type Fact = Update;

    fn name(&self) -> &'static str {
        "messages"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Update>, HandlerError> {
        let wanted = event.event_type == "message" || event.event_type.starts_with("status");
        if event.provider != "meta_whatsapp" || !wanted {
            return Ok(None);
        }
        let delivery: MessageStatus = read(event, UNREADABLE)?;
        let changes = delivery.entry.into_iter().flat_map(|entry| entry.changes);
        let update = changes.map(|change| change.value).find_map(Update::first);
        match update {
            Some(Update::Message(sent)) if sent.message.sender().is_empty() => Err(HandlerError::permanent(UNREADABLE)),
            update => update.map(Some).ok_or(HandlerError::permanent(UNREADABLE)),
        }
    }

    fn domain_key(&self, update: &Update) -> DomainKey {
        match update {
            Update::Message(sent) => DomainKey::of(["message", &sent.message.id]),
            Update::Status(status) => {
                let parts = [Some("status"), Some(&status.id), Some(&status.word), status.participant()];
                DomainKey::of(parts.into_iter().flatten())
            }
        }
    }

    fn reads(&self, event: &Event, update: &Update) -> Vec<ItemRef> {
        match update {
            Update::Message(sent) => vec![conversation_key(event, sent).into(), lead_key(event, sent).into()],
            Update::Status(status) => vec![status_key(event, status).into()],
        }
    }

    fn plan(&self, event: &Event, update: &Update, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        match update {
            Update::Message(sent) => plan_message(event, sent, snapshot),
            Update::Status(status) => plan_status(event, status, snapshot),
        }
    }
}
