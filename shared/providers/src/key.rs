//! Dedup keys: two deliveries with the same key are the same delivery.

use crate::source::{Facets, Source};

/// One alternative of a key: a value, or several joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRule(pub(crate) Vec<Source>);

impl KeyRule {
    /// Reads `json:$.event + json:$.payload.uri`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.split(" + ").map(|part| Source::parse(part.trim())).collect::<Result<Vec<_>, _>>().map(Self)
    }

    /// The key, if every part of it is present.
    pub(crate) fn key(&self, facets: &Facets<'_>) -> Option<String> {
        let mut parts = Vec::with_capacity(self.0.len());
        for source in &self.0 {
            let text = facets.text(source)?;
            parts.push(if source.is_hash() { format!("sha256:{text}") } else { text });
        }
        Some(joined(&parts))
    }
}

impl std::fmt::Display for KeyRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.iter().map(Source::to_string).collect();
        formatter.write_str(&parts.join(" + "))
    }
}

/// Joins the parts of a key. Different parts never give the same key: a colon in any part but the last is escaped.
pub(crate) fn joined(parts: &[String]) -> String {
    let Some((last, leading)) = parts.split_last() else { return String::new() };
    let mut key = String::new();
    for part in leading {
        key.push_str(&part.replace('%', "%25").replace(':', "%3A"));
        key.push(':');
    }
    key.push_str(last);
    key
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn key(rule: &str, body: &str) -> Option<String> {
        let headers = BTreeMap::from([("x-id".to_owned(), "1".to_owned())]);
        KeyRule::parse(rule).unwrap().key(&Facets::new(body.as_bytes(), &headers))
    }

    #[test]
    fn a_key_is_whole_or_not_there() {
        assert_eq!(key("json:$.a + json:$.b", r#"{"a":"x","b":2}"#).as_deref(), Some("x:2"));
        assert_eq!(key("json:$.a + json:$.b", r#"{"a":"x"}"#), None);
        assert_eq!(key("json:$.a", r#"{"a":""}"#), None);
        assert_eq!(key("json:$.a", "not json"), None);
        assert_eq!(key("header:x-id", "").as_deref(), Some("1"));
        assert!(key("sha256", "").unwrap().starts_with("sha256:e3b0c442"));
    }

    #[test]
    fn different_parts_never_make_one_key() {
        let rule = "json:$.a + json:$.b";
        assert_ne!(key(rule, r#"{"a":"x:y","b":"z"}"#), key(rule, r#"{"a":"x","b":"y:z"}"#));
        assert_ne!(key(rule, r#"{"a":"x%3Ay","b":"z"}"#), key(rule, r#"{"a":"x:y","b":"z"}"#));
    }
}
