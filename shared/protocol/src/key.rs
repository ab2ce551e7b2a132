//! Keys of endpoints, records, facts and domain items.
//!
//! `#` separates the parts of a key. Parts that a provider chooses are escaped: `%23` stands for `#`, `%25` for `%`,
//! and a lone `%` for an empty part. Parts that are longer than [`PARTS_BYTES_MAX`] together are replaced by `%h` and
//! their hash. So two different lists of parts never make the same key, and no list of parts makes `##`.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::item::{Item, PARTITION_KEY, Value};

/// The longest list of parts that is not hashed, in bytes.
pub const PARTS_BYTES_MAX: usize = 512;

/// The longest key of a domain item, in bytes. DynamoDB accepts no longer one.
pub const ITEM_KEY_BYTES_MAX: usize = 2_048;

/// The longest endpoint id, in bytes.
pub const ENDPOINT_BYTES_MAX: usize = 64;

/// Whether a text has 1 to this many bytes, each `a-z`, `0-9`, `-` or `_`: the form of ids and names that people
/// choose.
pub fn is_plain(text: &str, bytes_max: usize) -> bool {
    let plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(plain)
}

/// The id of an endpoint: one tenant, provider, set of secrets and policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EndpointId(String);

/// The text is not a valid endpoint id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an endpoint id has 1 to 64 of the characters a-z, 0-9, '-' and '_'")]
pub struct EndpointIdError;

impl EndpointId {
    /// Parses an endpoint id.
    ///
    /// # Errors
    /// [`EndpointIdError`] when it is empty, too long or has a character other than `a-z`, `0-9`, `-`, `_`.
    pub fn parse(text: &str) -> Result<Self, EndpointIdError> {
        if is_plain(text, ENDPOINT_BYTES_MAX) { Ok(Self(text.to_owned())) } else { Err(EndpointIdError) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EndpointId {
    type Error = EndpointIdError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<EndpointId> for String {
    fn from(endpoint: EndpointId) -> Self {
        endpoint.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whose business an event is: the first part of every domain key and of every domain item.
///
/// By default an endpoint is a tenant of its own. Endpoints whose documents name one tenant share its facts and items.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(EndpointId);

/// The text is not the name of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tenant has 1 to 64 of the characters a-z, 0-9, '-' and '_'")]
pub struct TenantError;

impl Tenant {
    /// Parses the name of a tenant.
    ///
    /// # Errors
    /// [`TenantError`] when it does not have the form of an endpoint id.
    pub fn parse(text: &str) -> Result<Self, TenantError> {
        EndpointId::parse(text).map(Self).map_err(|EndpointIdError| TenantError)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<String> for Tenant {
    type Error = TenantError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0.into()
    }
}

impl From<EndpointId> for Tenant {
    fn from(endpoint: EndpointId) -> Self {
        Self(endpoint)
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a record stands for, as its key shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// A delivery with one event.
    Delivery,
    /// One event of a provider that batches. Its record must outlive every envelope that may name it.
    Event,
    /// A delivery with several events, which fans out into their records.
    Envelope,
    /// One effect of an event, which leaves the account. The commit of the event creates it.
    Effect,
}

/// The partition key of a record in the inbox table.
///
/// The same names in code that compiles, so that the example fails for its reason alone:
///
/// ```
/// let key = hookonce_protocol::key::RecordKey::parse("in#stripe#evt_1");
/// assert!(key.is_some());
/// ```
///
/// ```compile_fail,E0423
/// // A key begins with an endpoint's id: text is parsed, or a constructor makes it.
/// let key = hookonce_protocol::key::RecordKey("in#anything".to_owned());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RecordKey(String);

/// The text is not the key of a record. A later release may know more kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the key of a record that this version knows")]
pub struct RecordKeyError;

const PREFIX: &str = "in#";
const EVENT: &str = "ev#";
const ENVELOPE: &str = "en#";
const EFFECT: &str = "fx#";
const ALTERNATE: &str = "#alt#1";

impl RecordKey {
    /// The key of a delivery with one event.
    pub fn delivery(endpoint: &EndpointId, delivery_key: &str) -> Self {
        Self(format!("{PREFIX}{endpoint}#{}", joined([delivery_key])))
    }

    /// The key of one event of a provider that batches.
    pub fn event(endpoint: &EndpointId, event_id: &str) -> Self {
        Self(format!("{PREFIX}{endpoint}#{EVENT}{}", joined([event_id])))
    }

    /// The key of a delivery with several events.
    pub fn envelope(endpoint: &EndpointId, body_sha256: &[u8; 32]) -> Self {
        Self(format!("{PREFIX}{endpoint}#{ENVELOPE}{}", hex(body_sha256)))
    }

    /// The key of an effect of an event. Each generation of the event has effects of its own, and so has the next claim
    /// of its key, once its record has expired.
    pub fn effect(event: &Self, claim: &ClaimId, generation: i64, name: &str) -> Self {
        let commit = digest_of([event.as_str(), &claim.0, &generation.to_string()]);
        Self(format!("{PREFIX}{}#{EFFECT}{}#{name}", event.parts().0, hex(&commit)))
    }

    /// The key under which another body is kept that came under this record's id. There is one: whoever can send
    /// another body can send any number of them, and such a record never expires by itself.
    #[must_use]
    pub fn alternate(&self) -> Self {
        Self(format!("{}{ALTERNATE}", self.0))
    }

    /// Whether it is the [alternate](Self::alternate) of another key. An id has no `#` of its own.
    pub fn is_alternate(&self) -> bool {
        self.0.ends_with(ALTERNATE)
    }

    /// The id that it was claimed under, as the provider wrote it. Of one that is too long for a key, its hash. Where the
    /// id is not signed, it is the signed value beside it.
    pub fn event_id(&self) -> String {
        let (_, rest) = self.parts();
        let id = if self.kind() == RecordKind::Event { rest.strip_prefix(EVENT).unwrap_or(rest) } else { rest };
        let id = id.strip_suffix(ALTERNATE).unwrap_or(id);
        if id == "%" { String::new() } else { id.replace("%23", "#").replace("%25", "%") }
    }

    /// Parses a stored or received key. `None` if it does not have the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let (endpoint, rest) = text.strip_prefix(PREFIX)?.split_once('#')?;
        (EndpointId::parse(endpoint).is_ok() && !rest.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The endpoint's id and the rest of the key.
    pub fn parts(&self) -> (&str, &str) {
        self.0.strip_prefix(PREFIX).and_then(|rest| rest.split_once('#')).unwrap_or(("", &self.0))
    }

    /// What the record stands for.
    pub fn kind(&self) -> RecordKind {
        let (_, rest) = self.parts();
        // A delivery's own id may be `ev`, `en` or `fx`; its alternate key then has three parts, an event's has four.
        // An effect has three, with a hash in the middle.
        if matches!(rest.split('#').collect::<Vec<_>>().as_slice(), [_, "alt", _]) {
            RecordKind::Delivery
        } else if rest.starts_with(EVENT) {
            RecordKind::Event
        } else if rest.starts_with(ENVELOPE) {
            RecordKind::Envelope
        } else if rest.starts_with(EFFECT) {
            RecordKind::Effect
        } else {
            RecordKind::Delivery
        }
    }

    /// The shard of this key, in `0..shards`. It never changes.
    pub fn shard(&self, shards: u16) -> u16 {
        let digest = Sha256::digest(self.0.as_bytes());
        let head = digest.iter().take(8).fold(0_u64, |head, byte| (head << 8) | u64::from(*byte));
        u16::try_from(head % u64::from(shards.max(1))).unwrap_or(0)
    }
}

impl TryFrom<String> for RecordKey {
    type Error = RecordKeyError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or(RecordKeyError)
    }
}

impl From<RecordKey> for String {
    fn from(key: RecordKey) -> Self {
        key.0
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Identifies one accepted request. Made once per request, before the first call to the store, so that the request's
/// own retry differs from another delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimId(pub String);

impl ClaimId {
    /// The claim id of one event of an envelope, or of one effect of an event. It is the same on every run.
    pub fn of_child(parent: &RecordKey, claim: &Self, child: &RecordKey) -> Self {
        Self(hex(&digest_of([parent.as_str(), &claim.0, child.as_str()])))
    }
}

/// The hash of parts. Each comes after its length, so no other list of parts has the same.
pub(crate) fn digest_of<const N: usize>(parts: [&str; N]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().into()
}

/// The prefix of domain keys in the domain table. It differs from the prefix of every endpoint's items, because an
/// endpoint id is never empty.
pub const DOMAIN_KEY_PREFIX: &str = "#dk#";

/// The attribute that names the record an item of the protocol's own was written for.
pub const RECORD: &str = "record";

/// The attribute of a domain key that says when the fact was applied.
pub const APPLIED_AT: &str = "applied_at";

/// The longest name of a fact that a handler in another language gives, in bytes.
const FACT_BYTES_MAX: usize = 1_024;

/// Names a business fact. It leaves out the tenant, the consumer and the generation, because the protocol adds them.
/// The consumer is who remembers the fact: a handler's name, or the name that a route gives.
///
/// - `#dk#stripe#payments#invoice.paid#in_1`: tenant, consumer, a fact as its handler names it.
/// - `#dk#stripe#payments#invoice.paid#in_1##in#stripe#evt_1#g1`: the same fact once more, because an operator forced
///   this record into generation 1.
/// - `#dk#acme#billing#%type#invoice.paid#in_1`: a fact that a route reads out of events of this type.
/// - `#dk#acme#crm#%fact#m_1`: a fact that a route reads out of events of any type.
///
/// No escaped part begins with `%t` or `%f`, so facts of different kinds never share a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainKey(String);

impl DomainKey {
    /// Names the fact by these parts.
    ///
    /// With an empty part, the fact has no name. Otherwise all events that lack the part would be the same fact.
    pub fn of<P: fmt::Display>(parts: impl IntoIterator<Item = P>) -> Self {
        let parts: Vec<_> = parts.into_iter().map(|part| part.to_string()).collect();
        Self(if parts.iter().any(String::is_empty) { String::new() } else { joined(parts) })
    }

    /// Names the fact by these parts of an event of this type. The same parts of another type are another fact.
    pub fn of_type<P: fmt::Display>(event_type: &str, parts: impl IntoIterator<Item = P>) -> Self {
        Self::of(parts).kind(&format!("%type#{}", joined([event_type])))
    }

    /// Names the fact by these parts, whatever the type of its event.
    pub fn across_types<P: fmt::Display>(parts: impl IntoIterator<Item = P>) -> Self {
        Self::of(parts).kind("%fact")
    }

    /// The fact as a handler in another language names it: parts between `#`, with `%23` for a `#` and `%25` for a `%`
    /// of a part's own. An empty text is a fact without a name. `None` if a part between two `#` is empty, the text is
    /// too long, or it begins as only the fact of a route does.
    pub fn parse(text: &str) -> Option<Self> {
        let parts_fit = text.is_empty() || text.split('#').all(|part| !part.is_empty());
        let of_route = ["%type", "%fact"].iter().any(|kind| text.split('#').next() == Some(kind));
        (parts_fit && !of_route && text.len() <= FACT_BYTES_MAX).then(|| Self(text.to_owned()))
    }

    fn kind(self, kind: &str) -> Self {
        if self.is_named() { Self(format!("{kind}#{}", self.0)) } else { self }
    }

    /// The fact as a handler names it, or as a route does. Empty for one without a name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it has a name.
    pub fn is_named(&self) -> bool {
        !self.0.is_empty()
    }

    /// The partition key of the item that marks the fact as applied for this tenant by this consumer.
    ///
    /// A forced replay (generation 1 and up) has a separate key, because the operator asked for one more effect.
    pub fn item(&self, tenant: &Tenant, consumer: &str, record: &RecordKey, generation: i64) -> String {
        let first = format!("{DOMAIN_KEY_PREFIX}{tenant}#{}#{}", escaped(consumer), self.0);
        forced(first, record, generation)
    }
}

/// What the item of a domain key says: a fact, and who applied it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedFact<'a> {
    /// The fact with its tenant and consumer, as `tenant#consumer#fact`.
    pub fact: &'a str,
    /// The key of the record that applied it.
    pub record: &'a str,
    /// The generation of that record.
    pub generation: i64,
}

impl<'a> AppliedFact<'a> {
    /// Reads an item of the domain table. `None` if its key is no domain key.
    pub fn of(item: &'a Item) -> Option<Self> {
        let text = |name| item.get(name).and_then(Value::as_text).unwrap_or_default();
        let (key, record) = (text(PARTITION_KEY).strip_prefix(DOMAIN_KEY_PREFIX)?, text(RECORD));
        // No list of parts makes `##`, so it is there only if the fact was forced.
        let forced = key.split_once("##").and_then(|(fact, forced)| {
            let generation = forced.strip_prefix(record)?.strip_prefix("#g")?;
            Some((fact, generation.parse().ok()?))
        });
        let (fact, generation) = forced.unwrap_or((key, 0));
        Some(Self { fact, record, generation })
    }
}

/// The partition key of a domain item that a handler may read and change. It starts with the tenant:
/// `stripe#balance#cus_1#eur`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemKey(String);

impl ItemKey {
    /// Names the item of this kind by these parts.
    pub fn new<P: fmt::Display>(tenant: &Tenant, kind: &str, parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(|part| part.to_string());
        Self(format!("{tenant}#{}#{}", escaped(kind), joined(parts)))
    }

    /// Whether a text is the key of an item of this tenant. The keys of the protocol's own items begin with `#`, so no
    /// tenant's name is before it.
    pub fn names(tenant: &Tenant, text: &str) -> bool {
        let rest = text.strip_prefix(tenant.as_str()).and_then(|rest| rest.strip_prefix('#'));
        text.len() <= ITEM_KEY_BYTES_MAX && rest.is_some_and(|rest| !rest.is_empty())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<ItemKey> for String {
    fn from(key: ItemKey) -> Self {
        key.0
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The key of an item that stands for one effect of an event. [`Event::once`](crate::plan::Event::once) makes it.
///
/// A forced replay creates a further item, so from generation 1 the key contains the record and the generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceKey(ItemKey);

impl OnceKey {
    pub(crate) fn new(first: ItemKey, record: &RecordKey, generation: i64) -> Self {
        Self(ItemKey(forced(first.0, record, generation)))
    }
}

impl From<OnceKey> for ItemKey {
    fn from(key: OnceKey) -> Self {
        key.0
    }
}

/// The partition key of the item that notes which record of an endpoint a body first came with.
pub fn first_seen_item(endpoint: &str, body_sha256: &[u8; 32]) -> String {
    format!("#seen#{endpoint}#{}", hex(body_sha256))
}

/// Makes a key that is unique per forced generation. Generation 0 was not forced, so it keeps the plain key.
fn forced(first: String, record: &RecordKey, generation: i64) -> String {
    if generation == 0 { first } else { format!("{first}##{record}#g{generation}") }
}

fn joined(parts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let parts: Vec<_> = parts.into_iter().map(|part| escaped(part.as_ref())).collect();
    let text = parts.join("#");
    if text.len() <= PARTS_BYTES_MAX { text } else { format!("%h{}", hex(&Sha256::digest(text.as_bytes()).into())) }
}

fn escaped(part: &str) -> String {
    if part.is_empty() { "%".to_owned() } else { part.replace('%', "%25").replace('#', "%23") }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8; 32]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
