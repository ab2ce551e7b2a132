//! A provider: how its requests are proven, named, taken apart and answered.

use hookonce_protocol::time::{EpochSec, Millis};
use serde::{Deserialize, Serialize, Serializer};

use crate::answers::Answers;
use crate::catalog::file::ProviderFile;
use crate::delivery::{Contents, Received, VerifiedDelivery};
use crate::facts::Facts;
use crate::handshake::{Handshake, Method, Question};
use crate::items::ItemTree;
use crate::key::KeyRule;
use crate::keyring::Keyring;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::{Authentic, Context, Scheme, Verdict, public_url};
use crate::settings::Settings;
use crate::template::TextTemplate;

/// One provider of the catalog.
#[derive(Debug, Clone)]
pub struct Provider {
    pub(crate) id: String,
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
    pub(crate) keep: Vec<String>,
    pub(crate) schemes: Vec<SchemeEntry>,
    pub(crate) item_tree: ItemTree,
    pub(crate) item_rules: Vec<ItemRule>,
    pub(crate) handshakes: Vec<Handshake>,
    pub(crate) file: ProviderFile,
}

/// A scheme, and where its deliveries have their key and event type if not where the others have it.
#[derive(Debug, Clone)]
pub(crate) struct SchemeEntry {
    pub(crate) scheme: Scheme,
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
}

/// How one kind of event in a batch is named.
#[derive(Debug, Clone)]
pub(crate) struct ItemRule {
    pub(crate) key: Vec<KeyRule>,
    pub(crate) event: Vec<TextTemplate>,
}

/// A setting of an endpoint that a provider's scheme uses besides secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingFact {
    /// The name under which an endpoint's settings hold it.
    pub name: String,
    /// What it is and where to find it.
    pub about: String,
    /// Whether nothing can be received without it.
    #[serde(default)]
    pub required: bool,
}

impl Provider {
    /// The id by which an endpoint names its provider, such as `stripe`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name for people.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// What an operator has to know, with sources.
    pub const fn facts(&self) -> &Facts {
        &self.file.facts
    }

    /// What the provider wants to hear.
    pub const fn answers(&self) -> &Answers {
        &self.file.answers
    }

    /// What an endpoint has to configure besides secrets.
    pub fn settings(&self) -> &[SettingFact] {
        &self.file.setting
    }

    /// The ways to prove a request, each in one line, strongest first.
    pub fn schemes(&self) -> Vec<String> {
        self.schemes.iter().map(|entry| entry.scheme.kind().summary()).collect()
    }

    /// True when one delivery can hold several events, each of which is claimed on its own.
    pub const fn batches(&self) -> bool {
        !self.item_tree.is_empty()
    }

    /// True when keys are fetched from the provider, so that an endpoint needs no secret.
    pub fn fetches_keys(&self) -> bool {
        self.schemes.iter().any(|entry| entry.scheme.kind().fetches_keys())
    }

    /// True when the provider answers questions of its own before it delivers, or among deliveries.
    pub const fn has_handshake(&self) -> bool {
        !self.handshakes.is_empty()
    }

    /// True when every way of this provider to prove a request also covers what its dedup keys are made of.
    ///
    /// Where this is false, whoever holds one signed request can send it again under a fresh id.
    pub fn key_is_signed(&self) -> bool {
        self.schemes.iter().all(|entry| {
            let covers = |rule: &KeyRule| rule.0.iter().all(|source| entry.scheme.kind().covers(source));
            let items = self.item_rules.iter().flat_map(|rule| &rule.key);
            if self.batches() { items.into_iter().all(covers) } else { self.keys_of(entry).iter().all(covers) }
        })
    }

    pub(crate) fn accepts_secret(&self, secret: &str) -> bool {
        self.schemes.iter().any(|entry| entry.scheme.kind().accepts_secret(secret))
    }

    /// Judges a request: a handshake, an authentic delivery, or a refusal.
    ///
    /// The signature is checked over the raw bytes, against every secret, before anything is read out of the body. Only
    /// a scheme that keeps its signature or timestamp inside the body reads those two values first. `tolerance`, where
    /// given, replaces the provider's own for the age of a timestamp, past and future.
    ///
    /// # Errors
    /// The reason why the request is not accepted. It says nothing that would help a forger.
    pub fn receive(
        &self,
        request: &Request<'_>,
        keyring: &Keyring,
        settings: &Settings,
        tolerance: Option<Millis>,
        now: EpochSec,
    ) -> Result<Received, Refusal> {
        if !keyring.belongs_to(self) {
            return Err(Refusal::NotConfigured);
        }
        if request.method != Method::Post.as_str() {
            return self.open_handshake(request, keyring, settings);
        }
        let Some((scheme_index, entry)) = self.addressed_scheme(request) else {
            return self.unsigned_handshake(request, keyring, settings);
        };
        let url = public_url(request, settings);
        let context = Context { request, url, keyring, settings, tolerance, now, scheme_index };
        let proof = match entry.scheme.kind().verify(&context)? {
            Verdict::Authentic(proof) => proof,
            Verdict::NeedsMaterial(needed) => return Ok(Received::NeedsMaterial(needed)),
        };
        let question = Question::new(request, keyring, settings, &entry.scheme, proof.secret_index());
        for handshake in self.handshakes_by(request.method).filter(|handshake| !handshake.unsigned) {
            if handshake.applies(&question)? {
                return handshake.answer(&question).map(Received::Handshake);
            }
        }
        self.delivery(request, &proof, now).map(Received::Delivery)
    }

    /// The first scheme whose signature the request carries, right or wrong.
    pub(crate) fn addressed_scheme(&self, request: &Request<'_>) -> Option<(usize, &SchemeEntry)> {
        self.schemes.iter().enumerate().find(|(_, entry)| entry.scheme.kind().is_addressed_by(request))
    }

    /// Answers a question that carries no signature, such as Meta's `hub.challenge`.
    fn open_handshake(
        &self,
        request: &Request<'_>,
        keyring: &Keyring,
        settings: &Settings,
    ) -> Result<Received, Refusal> {
        let entry = self.schemes.first().ok_or(Refusal::MethodNotAllowed)?;
        let question = Question::new(request, keyring, settings, &entry.scheme, 0);
        let mut refusal = Refusal::MethodNotAllowed;
        for handshake in self.handshakes_by(request.method) {
            if handshake.applies(&question)? {
                return handshake.answer(&question).map(Received::Handshake);
            }
            refusal = Refusal::Malformed;
        }
        Err(refusal)
    }

    /// Answers a `POST` that the provider never signs, such as Notion's verification token.
    fn unsigned_handshake(
        &self,
        request: &Request<'_>,
        keyring: &Keyring,
        settings: &Settings,
    ) -> Result<Received, Refusal> {
        let entry = self.schemes.first().ok_or(Refusal::SignatureMissing)?;
        let question = Question::new(request, keyring, settings, &entry.scheme, 0);
        for handshake in self.handshakes_by(request.method).filter(|handshake| handshake.unsigned) {
            if handshake.applies(&question)? {
                return handshake.answer(&question).map(Received::Handshake);
            }
        }
        Err(Refusal::SignatureMissing)
    }

    fn handshakes_by(&self, method: &str) -> impl Iterator<Item = &Handshake> {
        self.handshakes.iter().filter(move |handshake| handshake.method.as_str() == method)
    }

    fn delivery(&self, request: &Request<'_>, proof: &Authentic, now: EpochSec) -> Result<VerifiedDelivery, Refusal> {
        let headers = self.kept_headers(request, proof, now)?;
        let parts = self.split(request.body, &headers).map_err(|_| Refusal::Malformed)?;
        let contents = Contents::of(parts).ok_or(Refusal::Malformed)?;
        Ok(VerifiedDelivery::new(proof, &self.id, request.body, headers, contents))
    }

    /// The key rules of deliveries that passed this scheme.
    pub(crate) fn keys_of<'a>(&'a self, entry: &'a SchemeEntry) -> &'a [KeyRule] {
        if entry.key.is_empty() { &self.key } else { &entry.key }
    }

    /// The event rules of deliveries that passed this scheme.
    pub(crate) fn events_of<'a>(&'a self, entry: &'a SchemeEntry) -> &'a [TextTemplate] {
        if entry.event.is_empty() { &self.event } else { &entry.event }
    }
}

/// A provider prints as its catalog file, with its id and what follows from it.
impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Printed<'a> {
            id: &'a str,
            schemes_in_words: Vec<String>,
            key_is_signed: bool,
            batches: bool,
            fetches_keys: bool,
            #[serde(flatten)]
            file: &'a ProviderFile,
        }
        Printed {
            id: &self.id,
            schemes_in_words: self.schemes(),
            key_is_signed: self.key_is_signed(),
            batches: self.batches(),
            fetches_keys: self.fetches_keys(),
            file: &self.file,
        }
        .serialize(serializer)
    }
}
