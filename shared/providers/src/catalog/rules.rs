//! The rules of a catalog file that name deliveries and events.

use super::problem::Problem;
use crate::key::KeyRule;
use crate::path::Root;
use crate::source::Source;
use crate::template::TextTemplate;

/// Reads the alternatives of a key. Paths from `@` are for events only.
pub(super) fn keys(field: &str, texts: &[String], root: Root) -> Result<Vec<KeyRule>, Problem> {
    let mut rules = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let place = |problem| (format!("{field}[{index}]"), problem);
        let rule = KeyRule::parse(text).map_err(place)?;
        for source in &rule.0 {
            readable_later(source, root).map_err(place)?;
        }
        rules.push(rule);
    }
    Ok(rules)
}

/// Reads the alternatives of an event type.
pub(super) fn events(field: &str, texts: &[String], root: Root) -> Result<Vec<TextTemplate>, Problem> {
    let mut templates = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let place = |problem| (format!("{field}[{index}]"), problem);
        let template = TextTemplate::parse(text).map_err(place)?;
        for source in template.sources() {
            readable_later(source, root).map_err(place)?;
        }
        if template.signs() {
            return Err(place("`{hmac:...}` is for handshakes".to_owned()));
        }
        templates.push(template);
    }
    Ok(templates)
}

/// Key and event type are read again when a stored delivery is processed, only from its body and kept headers.
fn readable_later(source: &Source, root: Root) -> Result<(), String> {
    match source {
        Source::Query(_) | Source::Setting(_) => Err("a query or a setting is not stored with a delivery".to_owned()),
        Source::Json(path) if path.root == Root::Item && root == Root::Body => {
            Err(format!("the path `{path}` starts at an item, but there is none here; start it with `$`"))
        }
        Source::AdyenText if root == Root::Body => Err("`adyen_text` is for items".to_owned()),
        Source::DeliverySha256 if root == Root::Body => Err("`delivery_sha256` is for items; use `sha256`".to_owned()),
        Source::HashOf(inner) => readable_later(inner, root),
        Source::Json(_)
        | Source::Header(_)
        | Source::Form(_)
        | Source::FormXml { .. }
        | Source::Word(_)
        | Source::AdyenText
        | Source::SignedAt
        | Source::RequestSha256
        | Source::Sha256
        | Source::DeliverySha256 => Ok(()),
    }
}
