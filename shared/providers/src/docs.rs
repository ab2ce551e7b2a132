//! The catalog as a Markdown page.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use crate::answers::{AnswerBody, Answers, Instead, ProviderAnswer};
use crate::catalog::Catalog;
use crate::coverage::Coverage;
use crate::facts::{Facts, ReadsAnswer, SecretFrom, SecretKind, SecretScope, SourceKind, TimeOnRetry, UNCONFIRMED};
use crate::handshake::Handshake;
use crate::provider::Provider;

/// The catalog as Markdown: an overview, then the facts about each provider.
///
/// `docs/use/providers.md` is this text; a test keeps the two equal.
pub fn markdown(catalog: &Catalog) -> String {
    let mut page = String::from(
        "# Providers\n\n\
         Generated from `shared/providers/catalog`; change the catalog, not this page. Where a text says \"unconfirmed\", \
         no source confirmed it.\n\n\
         A key that is not signed can be replaced by whoever holds one signed request: the handler's domain key is what \
         keeps such a replay from being applied.\n\n\
         A delivery whose signature holds is never refused for its content. An event without an id is kept under the \
         SHA-256 of the body or, in a batch, of its place and its own canonical form; its siblings keep their ids. A body that cannot be \
         read is kept as one event of type `unreadable`. The metric `key_fallback` counts both. \
         What a retry is known to change in the event itself, such as LINE's `isRedelivery` and HubSpot's `attemptNumber`, is \
         no part of these hashes. A header that decides the key or the type and comes with different values counts as \
         missing, because which of them the provider wrote cannot be known.\n\n\
         | provider | scheme | dedup key | signed | several events | retries, hours | deadline, s |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for provider in catalog.iter() {
        page.push_str(&overview(provider));
    }
    page.push_str(
        "\n## What is signed\n\n\
         Whoever holds one delivery of a provider can send it again with another value in every part that is not signed: \
         `part` is a body of which only some values are signed. Where the body is not signed but a value that stands for \
         the delivery is, the delivery is claimed under that value: the first body that comes with it counts. Another body under \
         its key is quarantined by default, and so is it at every provider whose signature covers the key and not the \
         body or whose ids may come twice; elsewhere it counts as a duplicate. What a retry is known to change makes no other body. An endpoint's `on_body_mismatch` says otherwise.\n\n\
         | provider | body | id | time | type | URL |\n\
         |---|---|---|---|---|---|\n",
    );
    for provider in catalog.iter() {
        let words = provider.coverage().parts().map(|(_, extent)| extent.as_str());
        // Writing into a string cannot fail.
        let _ = writeln!(page, "| [{}](#{}) | {} |", provider.id(), provider.id(), words.join(" | "));
    }
    for provider in catalog.iter() {
        section(&mut page, provider);
    }
    page
}

fn overview(provider: &Provider) -> String {
    let known = |number: Option<u32>| number.map_or("?".to_owned(), |number| number.to_string());
    let yes = |is: bool| if is { "yes" } else { "no" };
    format!(
        "| [{}](#{}) | {} | {} | {} | {} | {} | {} |\n",
        provider.id(),
        provider.id(),
        cell(&provider.schemes().first().cloned().unwrap_or_default()),
        cell(&usual_key(&keys(provider))),
        yes(provider.key_is_signed()),
        yes(provider.batches()),
        known(provider.facts().retry_hours_max),
        known(provider.facts().deadline_seconds),
    )
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The alternatives of the dedup key, of events first.
fn keys(provider: &Provider) -> Vec<String> {
    let items = provider.item_rules.iter().flat_map(|rule| &rule.key);
    let own = provider.schemes.iter().flat_map(|entry| provider.keys_of(entry));
    let mut keys: Vec<String> = Vec::new();
    for key in items.chain(own).map(|rule| format!("`{rule}`")) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The first alternative that is no hash, if there is one.
fn usual_key(keys: &[String]) -> String {
    let usual = keys.iter().find(|key| !key.contains("sha256"));
    usual.or(keys.first()).cloned().unwrap_or_default()
}

/// What stands before the keys and types of some events of a batch, and when.
fn apart(provider: &Provider) -> Vec<String> {
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for rule in &provider.item_rules {
        let Some(word) = &rule.prefix else { continue };
        match places.iter_mut().find(|(known, _)| known == word) {
            Some((_, paths)) => paths.push(format!("`{}`", rule.path)),
            None => places.push((word, vec![format!("`{}`", rule.path)])),
        }
    }
    let at = |(word, paths): (&str, Vec<String>)| format!("`{word}` before key and type at {}", paths.join(", "));
    let prefixes = provider.prefix.iter().map(|template| format!("`{template}` before key and type"));
    places.into_iter().map(at).chain(prefixes).collect()
}

/// Where the document is that the provider always sends.
fn document(provider: &Provider) -> String {
    let places: Vec<String> = provider.document.iter().map(|place| format!("`{place}`")).collect();
    if places.is_empty() { String::new() } else { format!("always a document at {}", places.join(" or ")) }
}

/// Whose id may stand for several events.
const REPEATED: &str = "by its own documentation, so another body under a known key is quarantined by default";

/// What a delivery is claimed under where the signature covers a value in place of the body.
const BOUND: &str =
    "the value that is signed in place of the body, whatever id the body names; a second body is quarantined";

fn section(page: &mut String, provider: &Provider) {
    let facts = provider.facts();
    let signed = if provider.key_is_signed() { "signed" } else { "not signed" };
    let settings: Vec<String> = provider
        .settings()
        .iter()
        .map(|setting| {
            let about = provider.about.settings.get(&setting.name).map_or("", String::as_str);
            format!("`{}`{}: {about}", setting.name, if setting.required { "" } else { " (optional)" })
        })
        .collect();
    let sources: Vec<String> =
        facts.sources.iter().map(|source| format!("{} ({})", source.at, source_kind(source.kind))).collect();
    let changed: Vec<String> = provider.retry_changes().map(|source| format!("`{source}`")).collect();
    // Writing into a string cannot fail.
    let _ = write!(page, "\n## {}\n\n{}\n\n", provider.id(), provider.name());
    let mut line = |name: &str, text: &str| {
        if !text.is_empty() {
            let _ = writeln!(page, "- **{name}**: {text}");
        }
    };
    line("Scheme", &provider.schemes().join("; or "));
    line("Secret", &facts.secret);
    line("Who makes it", secret_from(facts.secret_from));
    line("Whose it is", &secret_owner(provider));
    line("Register at", &registration(facts));
    line("Rotation", &facts.rotation);
    line("Settings", &settings.join("; "));
    line("Dedup key", &format!("{} ({signed})", keys(provider).join(", else ")));
    line("Kept apart", &apart(provider).join("; "));
    line("Body", &document(provider));
    line("Claimed under", if provider.binds_bodies() { BOUND } else { "" });
    line("Same key on a retry", &facts.key_on_retry);
    line("Same key on a redelivery", &facts.key_on_redelivery);
    line("Retries", &facts.retries);
    line("Signed time", &signed_time(provider));
    line("A retry changes", &changed.join(", "));
    line("An id can come twice", if provider.ids_repeat() { REPEATED } else { "" });
    line("Deadline", &facts.deadline);
    line("Reads of an answer", &format!("{} ({})", reads_answer(facts.reads_answer), facts.reads_answer_source));
    line("Several events in a delivery", &facts.batching);
    line("A retry may group them differently", &facts.regrouping);
    line("Size", &facts.size);
    line("Handshake", &provider.handshakes.iter().map(handshake).collect::<Vec<_>>().join("; "));
    line("Answers", &answers(provider.answers()));
    line("Official code", &facts.sdk);
    line("Notes", &facts.notes);
    line("Sources", &format!("{}; checked {}", sources.join("; "), facts.checked));
}

const fn reads_answer(reads: ReadsAnswer) -> &'static str {
    match reads {
        ReadsAnswer::Status => "its status",
        ReadsAnswer::Headers => "its status and headers",
        ReadsAnswer::Body => "its body, too",
    }
}

/// For what the secret counts, what else it is, and who says so.
fn secret_owner(provider: &Provider) -> String {
    let facts = provider.facts();
    let scope = match facts.secret_scope {
        SecretScope::Endpoint => "one endpoint's",
        SecretScope::Account => "an account's",
        SecretScope::App => "an app's, for all its customers",
        SecretScope::None => return String::new(),
    };
    let app = if facts.apps_share { ", or an app's, for all its customers" } else { "" };
    let kind = match facts.secret_is {
        SecretKind::WebhookOnly => "for webhooks alone",
        SecretKind::ApiCredential => "a credential of the API, too",
        SecretKind::None => return String::new(),
    };
    format!("{scope}{app}; {kind} ({})", facts.secret_source)
}

fn registration(facts: &Facts) -> String {
    if facts.register_source == UNCONFIRMED {
        return facts.register_at.clone();
    }
    format!("{} ({})", facts.register_at, facts.register_source)
}

/// Whether a retry has a time of its own, and how old a signed time may be.
fn signed_time(provider: &Provider) -> String {
    let facts = provider.facts();
    let retry = match facts.time_on_retry {
        TimeOnRetry::None => return String::new(),
        TimeOnRetry::New => "a retry has a time of its own",
        TimeOnRetry::Same => "a retry has the time of the first try",
        TimeOnRetry::Unknown => "unconfirmed whether a retry has a time of its own",
    };
    let limit = provider.age_limit().map_or_else(
        || "the sender signs until when a delivery is valid".to_owned(),
        |limit| format!("refused if it is more than {} s old", limit.as_seconds()),
    );
    let why = facts.time_limit_from.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    format!("{retry}; {limit}{why}")
}

const fn secret_from(from: SecretFrom) -> &'static str {
    match from {
        SecretFrom::Provider => "the provider; hookonce makes none for a deployed stack",
        SecretFrom::You => "you, or hookonce for you",
        SecretFrom::Either => "the provider, or you, or hookonce for you",
        SecretFrom::Nobody => "",
    }
}

const fn source_kind(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Official => "official",
        SourceKind::OfficialExcerpt => "official, stored excerpt",
        SourceKind::SdkSource => "SDK source",
        SourceKind::Secondary => "secondary",
    }
}

fn handshake(handshake: &Handshake) -> String {
    let when: Vec<String> = handshake.when.iter().map(|(source, _)| format!("`{source}`")).collect();
    let signed = match (handshake.method.as_str(), handshake.unsigned) {
        ("POST", true) => "unsigned ",
        ("POST", false) => "signed ",
        _ => "",
    };
    let with = if when.is_empty() { String::new() } else { format!(" with {}", when.join(", ")) };
    format!("{signed}`{}`{with}, answered {}", handshake.method.as_str(), handshake.status)
}

fn answers(answers: &Answers) -> String {
    let of_kind = |instead: &Instead| format!("with `{}` {}, ", instead.present, answer(&instead.answer));
    format!(
        "{}accepted {}, duplicate {}, please retry {} after {} s",
        answers.instead.iter().map(of_kind).collect::<String>(),
        answer(&answers.accepted),
        answer(&answers.duplicate),
        answers.retry_please.status,
        answers.retry_please.after_seconds
    )
}

fn answer(answer: &ProviderAnswer) -> String {
    match &answer.body {
        AnswerBody::Report => answer.status.to_string(),
        AnswerBody::Empty => format!("{} without a body", answer.status),
        AnswerBody::Text(text) | AnswerBody::Xml(text) => format!("{} `{text}`", answer.status),
    }
}

/// A provider serialises as its catalog file, with its id and what is derived from the file.
impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[expect(clippy::struct_excessive_bools, reason = "each is a line of what is printed")]
        struct Printed<'a> {
            id: &'a str,
            schemes_in_words: Vec<String>,
            key_is_signed: bool,
            binds_bodies: bool,
            signed: Coverage,
            batches: bool,
            fetches_keys: bool,
            answers: &'a Answers,
            #[serde(flatten)]
            written: &'a toml::Table,
        }
        Printed {
            id: &self.id,
            schemes_in_words: self.schemes(),
            key_is_signed: self.key_is_signed(),
            binds_bodies: self.binds_bodies(),
            signed: self.coverage(),
            batches: self.batches(),
            fetches_keys: self.fetches_keys(),
            answers: &self.answers,
            written: &self.about.written,
        }
        .serialize(serializer)
    }
}
