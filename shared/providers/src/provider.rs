//! A provider: how to verify, name, split and answer its requests.

#[cfg(feature = "tools")]
use hookonce_protocol::time::Millis;

use crate::answers::Answers;
#[cfg(feature = "tools")]
use crate::facts::{About, Facts};
use crate::handshake::Handshake;
use crate::items::ItemTree;
use crate::key::KeyRule;
use crate::keyring::{Keyring, KeyringError};
use crate::limits::SECRETS_MAX;
use crate::path::Path;
use crate::scheme::Scheme;
use crate::settings::SettingRule;
use crate::source::Source;
use crate::template::TextTemplate;

/// One provider of the catalog.
#[derive(Debug, Clone)]
pub struct Provider {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
    /// Alternatives of a word that stands before key and type of an event of a batch. Each is read from the delivery
    /// that holds only this event.
    pub(crate) prefix: Vec<TextTemplate>,
    /// Where the document is, for a provider that always sends one. Without any it is not known.
    pub(crate) document: Vec<Source>,
    pub(crate) keep: Vec<String>,
    pub(crate) schemes: Vec<SchemeEntry>,
    pub(crate) item_tree: ItemTree,
    pub(crate) item_rules: Vec<ItemRule>,
    pub(crate) handshakes: Vec<Handshake>,
    /// A body of one JSON object per line, or a single object, is read as an array of them.
    pub(crate) lines: bool,
    /// What changes in the body of an event from try to try.
    pub(crate) retry_changes: Vec<Path>,
    /// The provider may give one id to several events.
    pub(crate) ids_repeat: bool,
    pub(crate) answers: Answers,
    pub(crate) settings: Vec<SettingRule>,
    /// The shortest shared secret, in bytes.
    pub(crate) secret_bytes_min: usize,
    #[cfg(feature = "tools")]
    pub(crate) about: About,
}

/// A scheme, and its own rules for key and event type where they differ from the provider's.
#[derive(Debug, Clone)]
pub(crate) struct SchemeEntry {
    /// The name by which an endpoint lists it; empty for an only scheme.
    pub(crate) name: String,
    /// Taken only by an endpoint that lists it.
    pub(crate) only_if_listed: bool,
    pub(crate) scheme: Scheme,
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
}

/// The key and event type of one kind of event in a batch.
#[derive(Debug, Clone)]
pub(crate) struct ItemRule {
    /// Where the events are.
    pub(crate) path: String,
    /// The word that stands before key and type of every event there.
    pub(crate) prefix: Option<String>,
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
}

#[cfg(feature = "tools")]
impl SchemeEntry {
    /// The scheme in one line, with the name by which an endpoint lists it.
    pub(crate) fn summary(&self) -> String {
        let summary = self.scheme.kind().summary();
        match (self.name.as_str(), self.only_if_listed) {
            ("", _) => summary,
            (name, false) => format!("{name}: {summary}"),
            (name, true) => format!("{name}, only for an endpoint that lists it in `schemes`: {summary}"),
        }
    }
}

impl Provider {
    /// The id by which an endpoint names its provider, such as `stripe`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Facts for operators, with sources.
    #[cfg(feature = "tools")]
    pub const fn facts(&self) -> &Facts {
        &self.about.facts
    }

    /// The answers that the provider expects.
    pub const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The settings of an endpoint besides secrets.
    pub fn settings(&self) -> &[SettingRule] {
        &self.settings
    }

    /// The schemes, each described in one line, strongest first.
    #[cfg(feature = "tools")]
    pub fn schemes(&self) -> Vec<String> {
        self.schemes.iter().map(SchemeEntry::summary).collect()
    }

    /// What a person should know who stores a secret of this provider, each as a sentence without its end.
    #[cfg(feature = "tools")]
    pub fn secret_warnings(&self) -> Vec<&'static str> {
        let is_token = self.schemes.iter().all(|entry| matches!(entry.scheme, Scheme::Token(_)));
        self.facts().secret_warnings(!self.can_sign(), is_token)
    }

    /// How old a signed time may be. `None` where no time is signed, or where the sender itself
    /// signs until when a delivery is valid.
    #[cfg(feature = "tools")]
    pub fn age_limit(&self) -> Option<Millis> {
        self.schemes.iter().filter_map(|entry| entry.scheme.age_limit()).max()
    }

    /// The schemes that only an endpoint that lists them takes, because they prove less than another one with the same
    /// secret.
    #[cfg(feature = "tools")]
    pub fn weaker_schemes(&self) -> impl Iterator<Item = &str> {
        self.schemes.iter().filter(|entry| entry.only_if_listed).map(|entry| entry.name.as_str())
    }

    /// True when one delivery can hold several events, each of which is claimed on its own.
    pub const fn batches(&self) -> bool {
        !self.item_tree.is_empty()
    }

    /// True when it asks the address a question before it sends events. Only an endpoint that is stored answers.
    pub fn has_handshake(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// True when its secret comes with that question.
    pub fn hands_out_secret(&self) -> bool {
        self.handshakes.iter().any(|handshake| handshake.hands_out.is_some())
    }

    /// True when keys are fetched from the provider, so that an endpoint needs no secret.
    pub fn fetches_keys(&self) -> bool {
        self.schemes.iter().any(|entry| entry.scheme.kind().fetches_keys())
    }

    /// True when every scheme of this provider also covers the parts of its dedup keys.
    ///
    /// Where this is false, anyone who holds one signed request can send it again with a new id.
    pub fn key_is_signed(&self) -> bool {
        self.schemes.iter().filter(|entry| !entry.only_if_listed).all(|entry| {
            let covers = |rule: &KeyRule| rule.0.iter().all(|source| entry.scheme.kind().covers(source));
            let items = self.item_rules.iter().flat_map(|rule| &rule.key);
            if self.batches() { items.into_iter().all(covers) } else { self.keys_of(entry).iter().all(covers) }
        })
    }

    /// True when every scheme of this provider covers what the event type is read from, also those that an endpoint has
    /// to list.
    ///
    /// Where this is false, anyone who holds one signed request can send it again as another type.
    pub fn type_is_signed(&self) -> bool {
        self.schemes.iter().all(|entry| self.types_of(entry).all(|source| entry.scheme.kind().covers(source)))
    }

    /// True when a delivery is claimed under a value that its signature covers, because the signature does not cover
    /// the body.
    pub fn binds_bodies(&self) -> bool {
        self.schemes.iter().any(|entry| entry.scheme.kind().binds_bodies())
    }

    /// True when a retry is claimed under the same signed value. That value is then the key of the event: whoever divides
    /// what is signed in another way cannot choose it.
    pub fn signs_retries_alike(&self) -> bool {
        self.schemes.iter().any(|entry| entry.scheme.kind().signs_retries_alike())
    }

    /// True when a signed key vouches for a body that is not signed: somebody who holds one delivery could send another
    /// body under its key. Where this is false, either the signature covers the body, so that another one comes from
    /// the provider (some serialize a retry again), or neither is signed, and an attacker would choose a fresh key. Of
    /// schemes that an endpoint has to list, none vouches for a key alone.
    pub fn leaves_body_free(&self) -> bool {
        let free = |entry: &SchemeEntry| !entry.only_if_listed && !entry.scheme.kind().covers(&Source::Sha256);
        self.schemes.iter().any(free) && (self.binds_bodies() || self.key_is_signed())
    }

    /// True when, by its own documentation, the provider may give one id to several events.
    pub const fn ids_repeat(&self) -> bool {
        self.ids_repeat
    }

    /// What the provider changes in the body of an event when it sends it again. [`EventPart::sha256`] leaves it out.
    ///
    /// [`EventPart::sha256`]: crate::EventPart::sha256
    #[cfg(feature = "tools")]
    pub fn retry_changes(&self) -> impl Iterator<Item = String> {
        self.retry_changes.iter().map(|path| format!("json:{path}"))
    }

    /// A key ring of these secrets, newest first, each in the provider's form.
    ///
    /// # Errors
    /// [`KeyringError`] when there is no secret, there are too many, or one cannot be used by any scheme of the
    /// provider.
    pub fn keyring(&self, secrets: &[String]) -> Result<Keyring, KeyringError> {
        if secrets.is_empty() && !self.fetches_keys() {
            return Err(KeyringError::Empty);
        }
        if secrets.len() > SECRETS_MAX {
            return Err(KeyringError::TooMany);
        }
        let accepts = |secret: &String| self.schemes.iter().any(|entry| entry.scheme.kind().accepts_secret(secret));
        if let Some(index) = secrets.iter().position(|secret| !accepts(secret)) {
            return Err(KeyringError::Unusable { index });
        }
        Ok(Keyring::unchecked(&self.id, secrets))
    }

    /// The key rules of deliveries that passed this scheme.
    pub(crate) fn keys_of<'a>(&'a self, entry: &'a SchemeEntry) -> &'a [KeyRule] {
        if entry.key.is_empty() { &self.key } else { &entry.key }
    }

    /// What the event type is read from.
    pub(crate) fn types_of<'a>(&'a self, entry: &'a SchemeEntry) -> impl Iterator<Item = &'a Source> {
        let items = self.item_rules.iter().flat_map(|rule| &rule.event);
        let own = if self.batches() { &[] } else { self.events_of(entry) };
        items.chain(own).flat_map(TextTemplate::sources)
    }

    /// The event rules of deliveries that passed this scheme.
    pub(crate) fn events_of<'a>(&'a self, entry: &'a SchemeEntry) -> &'a [TextTemplate] {
        if entry.event.is_empty() { &self.event } else { &entry.event }
    }
}
