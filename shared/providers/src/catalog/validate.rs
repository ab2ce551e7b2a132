//! Turns a catalog file into a provider, and checks once that its fields belong together.

use std::borrow::Cow;
use std::collections::BTreeSet;

#[cfg(feature = "tools")]
use super::age;
use super::file::{HandshakeFile, ItemFile, JsonValueFile, ProviderFile};
#[cfg(feature = "tools")]
use super::parts::parts;
use super::problem::{CatalogError, Problem, at, within};
use super::rules::{events, keys};
use super::schemes::scheme_entry;
#[cfg(feature = "tools")]
use crate::answers::{AnswerBody, Answers};
#[cfg(feature = "tools")]
use crate::facts::{About, ReadsAnswer};
use crate::handshake::{Condition, Handshake, HandshakeBody, JsonField, Method};
use crate::items::ItemTree;
use crate::kept::names_a_credential;
use crate::limits::SECRET_BYTES_MIN;
use crate::path::{Path, Root, Segment};
use crate::provider::{ItemRule, Provider, SchemeEntry};
use crate::settings::VERIFY_TOKEN;
use crate::source::{Source, header_name};
use crate::template::TextTemplate;

/// Reads one catalog file.
pub(super) fn provider(file_name: &str, text: &str) -> Result<Provider, CatalogError> {
    let error = |(field, problem): Problem| CatalogError { file: file_name.to_owned(), field, problem };
    let id = provider_id(file_name).map_err(|problem| error(("file".to_owned(), problem)))?;
    build(&id, text).map_err(error)
}

/// What requests are judged by. Without the feature `tools` the build script left nothing else.
#[cfg(not(feature = "tools"))]
fn judged(text: &str) -> Cow<'_, str> {
    text.into()
}

/// What requests are judged by.
#[cfg(feature = "tools")]
fn judged(text: &str) -> Cow<'_, str> {
    parts(text).0.into()
}

/// What people read.
#[cfg(feature = "tools")]
fn about(text: &str, schemes: &[SchemeEntry], answers: &Answers) -> Result<About, Problem> {
    let mut about: About = toml::from_str(&parts(text).1).map_err(|problem| unreadable(&problem))?;
    about.facts.check().map_err(owned)?;
    let instead = answers.instead.iter().map(|instead| &instead.answer);
    let mut all = [&answers.accepted, &answers.duplicate].into_iter().chain(instead);
    let reports = all.any(|answer| answer.body == AnswerBody::Report);
    if reports && about.facts.reads_answer == ReadsAnswer::Body {
        return Err(owned(("answers", "the provider reads the body of an answer: say what it is to read".to_owned())));
    }
    let usual = Answers { retry_please: answers.retry_please, ..Answers::default() };
    if *answers != usual {
        let source = about.facts.check_answer_source();
        source.map_err(|problem| owned(("facts.reads_answer_source", problem)))?;
    }
    age::check(schemes, &about.facts)?;
    about.written = toml::from_str(text).map_err(|problem| unreadable(&problem))?;
    about.written.remove("answers");
    for setting in about.written.get("setting").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |field| setting.get(field).and_then(toml::Value::as_str).map(str::to_owned);
        let (name, description) =
            text("name").zip(text("about")).ok_or_else(|| owned(("setting", NO_ABOUT.to_owned())))?;
        about.settings.insert(name, description);
    }
    Ok(about)
}

#[cfg(feature = "tools")]
const NO_ABOUT: &str = "`about` is missing: what the setting is and where to find it, on one line";

fn unreadable(problem: &toml::de::Error) -> Problem {
    ("file".to_owned(), problem.to_string().trim_end().to_owned())
}

fn owned((field, problem): (&'static str, String)) -> Problem {
    (field.to_owned(), problem)
}

fn provider_id(file_name: &str) -> Result<String, String> {
    let id = file_name.strip_suffix(".toml").ok_or("a catalog file ends in `.toml`")?;
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if id.is_empty() || !id.chars().all(valid) {
        return Err("a provider's id, the file name without `.toml`, is lower-case letters, digits and `_`".to_owned());
    }
    Ok(id.to_owned())
}

fn build(id: &str, text: &str) -> Result<Provider, Problem> {
    let file: ProviderFile = toml::from_str(&judged(text)).map_err(|problem| unreadable(&problem))?;
    file.answers.check().map_err(owned)?;
    if file.scheme.is_empty() {
        return Err(("scheme".to_owned(), "a provider needs at least one scheme".to_owned()));
    }
    let mut schemes = Vec::with_capacity(file.scheme.len());
    for (index, scheme) in file.scheme.iter().enumerate() {
        schemes.push(scheme_entry(scheme).map_err(within(&format!("scheme[{index}]")))?);
    }
    scheme_names(&schemes)?;
    let (item_tree, item_rules) = items(&file.items)?;
    if file.lines && !matches!(file.items.as_slice(), [only] if only.path == "$[*]" && only.also.is_empty()) {
        return Err((
            "lines".to_owned(),
            "lines are read as one array, so there is one `items` with the path `$[*]`".to_owned(),
        ));
    }
    let key = keys("key", &file.key, Root::Body)?;
    let has_key = |entry: &SchemeEntry| !entry.key.is_empty();
    if item_tree.is_empty() && key.is_empty() && !schemes.iter().all(has_key) {
        let problem = "a provider needs a dedup key; `[\"sha256\"]` if a delivery has no id of its own".to_owned();
        return Err(("key".to_owned(), problem));
    }
    let event = events("event", &file.event, Root::Body)?;
    let prefix = events("prefix", &file.prefix, Root::Body)?;
    if item_tree.is_empty() && !prefix.is_empty() {
        return Err(("prefix".to_owned(), "a prefix is for the events of `items`".to_owned()));
    }
    let document = documents(&file.document)?;
    let retry_changes = retry_changes(&file.retry_changes, if item_tree.is_empty() { Root::Body } else { Root::Item })?;
    let keep = keep(&file.keep)?;
    let mut handshakes = Vec::with_capacity(file.handshake.len());
    for (index, handshake) in file.handshake.iter().enumerate() {
        handshakes.push(self::handshake(handshake).map_err(within(&format!("handshake[{index}]")))?);
    }
    settings_fit(&file)?;
    #[cfg(feature = "tools")]
    let about = about(text, &schemes, &file.answers)?;
    Ok(Provider {
        id: id.to_owned(),
        name: file.name,
        key,
        event,
        prefix,
        document,
        keep,
        schemes,
        item_tree,
        item_rules,
        handshakes,
        lines: file.lines,
        retry_changes,
        ids_repeat: file.ids_repeat,
        answers: file.answers,
        settings: file.setting,
        secret_bytes_min: file.secret_bytes_min.unwrap_or(SECRET_BYTES_MIN),
        #[cfg(feature = "tools")]
        about,
    })
}

/// An endpoint lists schemes by their names, so each of several needs one of its own. The first one is taken without a
/// list.
fn scheme_names(schemes: &[SchemeEntry]) -> Result<(), Problem> {
    let names: BTreeSet<&str> = schemes.iter().map(|entry| entry.name.as_str()).collect();
    let plain =
        |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if schemes.len() > 1 && (names.len() < schemes.len() || names.contains("")) || !names.iter().all(plain) {
        let problem = "each of several schemes needs a name of its own, in lower-case letters, digits and hyphens";
        return Err(("scheme.name".to_owned(), problem.to_owned()));
    }
    if schemes.first().is_some_and(|entry| entry.only_if_listed) {
        return Err((
            "scheme[0].only_if_listed".to_owned(),
            "an endpoint without a list takes the first scheme".to_owned(),
        ));
    }
    Ok(())
}

/// An endpoint may only have declared settings, so every setting that is read must be declared.
fn settings_fit(file: &ProviderFile) -> Result<(), Problem> {
    let is_declared = |name: &str| file.setting.iter().any(|rule| rule.name == name);
    let undeclared = |field: String, name: &str| {
        Err((field, format!("the setting `{name}` is not declared; add a `[[setting]]` with this name")))
    };
    for (index, scheme) in file.scheme.iter().enumerate() {
        if let Some(name) = scheme.scheme.settings().into_iter().find(|name| !is_declared(name)) {
            return undeclared(format!("scheme[{index}]"), name);
        }
    }
    if let Some(index) = file.handshake.iter().position(|handshake| handshake.token.is_some())
        && !is_declared(VERIFY_TOKEN)
    {
        return undeclared(format!("handshake[{index}].token"), VERIFY_TOKEN);
    }
    match file.secret_bytes_min {
        Some(bytes) if !(1..SECRET_BYTES_MIN).contains(&bytes) => {
            let problem = format!("it is for providers whose secrets are shorter than {SECRET_BYTES_MIN} bytes");
            Err(("secret_bytes_min".to_owned(), problem))
        }
        Some(_) | None => Ok(()),
    }
}

fn items(files: &[ItemFile]) -> Result<(ItemTree, Vec<ItemRule>), Problem> {
    let mut tree = ItemTree::default();
    let mut rules = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let place = within(&format!("items[{index}]"));
        let key = keys("key", &file.key, Root::Item).map_err(&place)?;
        if key.is_empty() {
            return Err(place(("key".to_owned(), "an event needs a dedup key".to_owned())));
        }
        let event = events("event", &file.event, Root::Item).map_err(&place)?;
        let others = file.also.iter().map(|(word, path)| (format!("also.{word}"), path, Some(word.clone())));
        for (field, text, prefix) in std::iter::once(("path".to_owned(), &file.path, None)).chain(others) {
            let path = item_path(text).map_err(|problem| place((field, problem)))?;
            tree.add(&path.segments, rules.len());
            rules.push(ItemRule { path: text.clone(), prefix, key: key.clone(), event: event.clone() });
        }
    }
    Ok((tree, rules))
}

fn item_path(text: &str) -> Result<Path, String> {
    let path = Path::parse(text)?;
    if path.root != Root::Body || path.segments.last() != Some(&Segment::Each) {
        return Err("the path of items starts with `$` and ends with `[*]`".to_owned());
    }
    if path.segments.iter().any(|segment| matches!(segment, Segment::Index(_))) {
        return Err("a path of items takes every element of an array, `[*]`, not one of them".to_owned());
    }
    Ok(path)
}

/// Where the provider always sends a document.
fn documents(texts: &[String]) -> Result<Vec<Source>, Problem> {
    let sources = texts.iter().enumerate().map(|(index, text)| match Source::parse(text) {
        Ok(source @ Source::Form(_)) => Ok(source),
        Ok(Source::Json(path)) if path.root == Root::Body && path.segments.is_empty() => Ok(Source::Json(path)),
        Ok(_) | Err(_) => Err((format!("document[{index}]"), format!("`{text}` is not `json:$` or `form:NAME`"))),
    });
    sources.collect()
}

/// What changes from try to try, within one event.
fn retry_changes(sources: &[String], root: Root) -> Result<Vec<Path>, Problem> {
    let paths = sources.iter().enumerate().map(|(index, text)| match Source::parse(text) {
        Ok(Source::Json(path)) if path.root == root && !path.segments.is_empty() && !path.has_each() => Ok(path),
        Ok(_) | Err(_) => {
            let start = if root == Root::Body { "$" } else { "@" };
            let problem = format!("`{text}` does not name one value of an event, as `json:{start}.attempt` does");
            Err((format!("retry_changes[{index}]"), problem))
        }
    });
    paths.collect()
}

fn keep(names: &[String]) -> Result<Vec<String>, Problem> {
    let mut kept = BTreeSet::from(["content-type".to_owned()]);
    for (index, name) in names.iter().enumerate() {
        let place = |problem| (format!("keep[{index}]"), problem);
        kept.insert(header_name(name).map_err(place)?);
        if names_a_credential(name) {
            return Err(place(format!("the header `{name}` may hold a credential and is never kept")));
        }
        if name.starts_with("x-hookonce-") {
            return Err(place(format!("the header `{name}` is noted on this side and never taken from a request")));
        }
    }
    Ok(kept.into_iter().collect())
}

fn handshake(file: &HandshakeFile) -> Result<Handshake, Problem> {
    let method = match file.method.as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        other => return Err(("method".to_owned(), format!("`{other}` is not `GET`, `HEAD` or `POST`"))),
    };
    if file.unsigned && method != Method::Post {
        return Err(("unsigned".to_owned(), format!("a `{}` is never signed", file.method)));
    }
    if file.when.is_empty() && method != Method::Head {
        return Err(("when".to_owned(), "a handshake that always matches would answer every request".to_owned()));
    }
    let mut when = Vec::with_capacity(file.when.len());
    for (source, value) in &file.when {
        let place = |problem| (format!("when.\"{source}\""), problem);
        when.push((Source::parse(source).map_err(place)?, Condition::parse(value)));
    }
    let absent = file.absent.iter().map(|source| Source::parse(source)).collect::<Result<Vec<_>, _>>();
    let token = file.token.as_deref().map(Source::parse).transpose().map_err(at("token"))?;
    let hands_out = file.hands_out.as_deref().map(Source::parse).transpose().map_err(at("hands_out"))?;
    let headers = file.headers.iter().map(|(name, text)| Ok((header_name(name)?, TextTemplate::parse(text)?)));
    if !(200..300).contains(&file.status) {
        return Err(("status".to_owned(), format!("the status {} is not a success", file.status)));
    }
    Ok(Handshake {
        method,
        unsigned: file.unsigned,
        when,
        absent: absent.map_err(at("absent"))?,
        token,
        status: file.status,
        body: handshake_body(file)?,
        headers: headers.collect::<Result<Vec<_>, String>>().map_err(at("headers"))?,
        hands_out,
        sns_subscription: file.sns_subscription,
    })
}

fn handshake_body(file: &HandshakeFile) -> Result<HandshakeBody, Problem> {
    match (&file.text, &file.json) {
        (Some(_), Some(_)) => Err(("json".to_owned(), "an answer is either `text` or `json`".to_owned())),
        (Some(text), None) => Ok(HandshakeBody::Text(TextTemplate::parse(text).map_err(at("text"))?)),
        (None, Some(fields)) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), json_field(value)?)));
            Ok(HandshakeBody::Json(fields.collect::<Result<Vec<_>, String>>().map_err(at("json"))?))
        }
        (None, None) => Ok(HandshakeBody::Empty),
    }
}

fn json_field(value: &JsonValueFile) -> Result<JsonField, String> {
    match value {
        JsonValueFile::Number(number) => Ok(JsonField::Number(*number)),
        JsonValueFile::Text(text) => TextTemplate::parse(text).map(JsonField::Text),
    }
}
