//! `hookonce providers`: prints the catalog.

use clap::Args;
use hookonce_providers::{Catalog, Provider};
use hookonce_runtime::documents::document::{BODY_BYTES_MAX, TEXT_BODY_BYTES_MAX};
use hookonce_runtime::inbox::ingest::CLAIM_BYTES_MAX;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Show everything about this provider.
    id: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let catalog = Catalog::built_in();
    match &arguments.id {
        Some(id) => show(find(catalog, id)?, arguments.json),
        None => list(catalog, arguments.json),
    }
    Ok(Exit::Done)
}

/// Names by which people look for a sender that has no file of its own: how they begin, without marks between words,
/// what to say, and what to do.
const WITHOUT_FILE: [(&str, &str, &str); 7] = [
    (
        "supabaseauth",
        "Supabase's auth hooks are calls whose answer decides a login, and an inbox answers 200 before anybody decided",
        "answer them with a function of your own; for Supabase's database webhooks there is `--provider token`",
    ),
    (
        "supabase",
        "Supabase signs no database webhook, and its auth hooks are calls whose answer decides a login, which no inbox can \
         give",
        "use `--provider token` for database webhooks, and a function of your own for auth hooks",
    ),
    (
        "monday",
        "Monday signs no body: it sends a token with each call, which gives access to the account and is never kept",
        "read its calls with a function of your own",
    ),
    ("assemblyai", "AssemblyAI signs nothing", "use `--provider token`"),
    ("huggingface", "Hugging Face signs nothing", "use `--provider token` with `--setting header=x-webhook-secret`"),
    ("deepgram", "Deepgram signs nothing", "use `--provider basic`"),
    ("pipedrive", "Pipedrive signs nothing", "use `--provider basic`"),
];

/// The provider with this id.
///
/// # Errors
/// [`Failure::Usage`] when the catalog has none. A sender that signs nothing, or wants more than an inbox, is named.
pub(crate) fn find(catalog: &'static Catalog, id: &str) -> Result<&'static Provider, Failure> {
    catalog.provider(id).ok_or_else(|| {
        let name: String = id.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        match WITHOUT_FILE.iter().find(|(start, ..)| name.starts_with(start)) {
            Some((_, problem, hint)) => Failure::usage((*problem).to_owned(), *hint),
            None => Failure::usage(format!("there is no provider {id:?}"), near(catalog, &name)),
        }
    })
}

/// How alike two names must be for one to be meant by the other.
const LIKENESS_MIN: f64 = 0.85;

/// What to do about a name that no provider has.
fn near(catalog: &Catalog, name: &str) -> String {
    let likeness = |id: &str| strsim::jaro_winkler(&id.replace('_', ""), name);
    let nearest = catalog.iter().map(|provider| (likeness(provider.id()), provider.id()));
    match nearest.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((likeness, id)) if likeness >= LIKENESS_MIN => {
            format!("did you mean {id}? `hookonce providers` lists them")
        }
        Some(_) | None => "list them with `hookonce providers`".to_owned(),
    }
}

fn list(catalog: &Catalog, json: bool) {
    if json {
        return output::json(&catalog.iter().map(described).collect::<Vec<_>>());
    }
    let mut table = output::table(&["id", "name", "deadline", "retries"]);
    for provider in catalog.iter() {
        let facts = provider.facts();
        table.add_row([provider.id(), provider.name(), short(&facts.deadline), short(&facts.retries)]);
    }
    output::print(&table);
    output::note("\n`hookonce providers ID` shows everything about one of them.");
}

/// The beginning of a fact, up to its first remark.
fn short(fact: &str) -> &str {
    let end = fact.find([';', '(']).unwrap_or(fact.len());
    let longest = fact.char_indices().nth(48).map_or(fact.len(), |(at, _)| at);
    fact.get(..end.min(longest)).unwrap_or(fact).trim()
}

fn show(provider: &Provider, json: bool) {
    if json {
        return output::json(&described(provider));
    }
    output::line(&format!("{} ({})", provider.name(), provider.id()));
    for (name, text) in rows(&described(provider)) {
        output::line(&output::wrapped(&format!("  {name}: {text}")));
    }
    output::note(&format!(
        "\n`hookonce providers {id} --json` has every field, with its source.\nAn endpoint takes a body of up to {BODY_BYTES_MAX} bytes if it fits, compressed and with its headers, into \
         {CLAIM_BYTES_MAX} bytes. A text of more than {TEXT_BODY_BYTES_MAX} bytes may not pass the gateway: quotation marks, \
         backslashes and line breaks count twice there.",
        id = provider.id(),
    ));
}

/// What a person asks of a provider: the questions, and where the answers stand in its description.
const QUESTIONS: [(&str, &str); 10] = [
    ("signs", "/schemes_in_words"),
    ("secret", "/facts/secret"),
    ("register at", "/facts/register_at"),
    ("event type", "/event"),
    ("dedup key", "/key"),
    ("on a retry", "/facts/key_on_retry"),
    ("retries", "/facts/retries"),
    ("deadline", "/facts/deadline"),
    ("rotation", "/facts/rotation"),
    ("notes", "/facts/notes"),
];

fn rows(described: &Value) -> Vec<(&'static str, String)> {
    let texts = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    let answers = QUESTIONS.iter().map(|(name, at)| (*name, described.pointer(at).map(texts).unwrap_or_default()));
    answers.filter(|(_, text)| !text.is_empty()).collect()
}

/// The provider's file, and three limits for a body, in bytes: the longest body, the longest that passes a gateway as
/// text whatever it holds, and the longest once it is compressed, with its headers.
fn described(provider: &Provider) -> Value {
    let mut value = serde_json::to_value(provider).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("body_bytes_max".to_owned(), BODY_BYTES_MAX.into());
        fields.insert("text_body_bytes_max".to_owned(), TEXT_BODY_BYTES_MAX.into());
        fields.insert("compressed_bytes_max".to_owned(), CLAIM_BYTES_MAX.into());
    }
    value
}
