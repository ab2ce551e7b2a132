//! Reformatted copies of a body or a URL, as proxies and frameworks make them.

use std::fmt::Write as _;

/// A body as it may have been before a change.
pub(super) struct Rewrite {
    pub(super) how: &'static str,
    pub(super) body: Vec<u8>,
}

/// How JSON is laid out between its tokens.
#[derive(Clone, Copy)]
struct Layout {
    comma: &'static str,
    colon: &'static str,
    indent: Option<&'static str>,
}

const COMPACT: Layout = Layout { comma: ",", colon: ":", indent: None };
const SPACED: Layout = Layout { comma: ", ", colon: ": ", indent: None };
const INDENTED_BY_TWO: Layout = Layout { comma: ",", colon: ": ", indent: Some("  ") };
const INDENTED_BY_FOUR: Layout = Layout { comma: ",", colon: ": ", indent: Some("    ") };

/// The copies to try, likeliest first.
pub(super) fn rewrites(body: &[u8]) -> Vec<Rewrite> {
    let mut rewrites = vec![
        Rewrite { how: "a line break was removed from its end", body: [body, b"\n"].concat() },
        Rewrite { how: "a line break was removed from its end", body: [body, b"\r\n"].concat() },
        Rewrite { how: "white space was added around it", body: body.trim_ascii().to_vec() },
        Rewrite { how: "its line breaks were changed", body: replaced(body, "\n", "\r\n") },
        Rewrite { how: "its line breaks were changed", body: replaced(body, "\r\n", "\n") },
    ];
    let Ok(text) = std::str::from_utf8(body) else { return rewrites };
    let text = text.trim_start_matches('\u{feff}');
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return rewrites;
    }
    for layout in [COMPACT, SPACED, INDENTED_BY_TWO, INDENTED_BY_FOUR] {
        let laid_out = laid_out(text, layout);
        for body in [laid_out.clone(), escaped(&laid_out), unescaped_slashes(&laid_out), format!("{laid_out}\n")] {
            rewrites.push(Rewrite { how: "it was parsed as JSON and written again", body: body.into_bytes() });
        }
    }
    rewrites
}

fn replaced(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(body.to_vec()).map(|text| text.replace(from, to).into_bytes()).unwrap_or_default()
}

/// Writes every character beyond ASCII as an escape like `\u00e4` with lower-case digits, as Meta and Python do.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing into a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// Undoes PHP's escaping of slashes.
fn unescaped_slashes(text: &str) -> String {
    text.replace("\\/", "/")
}

/// The same JSON in another layout. Only white space between tokens changes.
fn laid_out(text: &str, layout: Layout) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut is_escaped, mut after_open) = (0_usize, false, false, false);
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = layout.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    for character in text.chars() {
        if in_string {
            out.push(character);
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        let closes = matches!(character, '}' | ']');
        if character.is_ascii_whitespace() {
            continue;
        }
        if after_open && !closes {
            line(&mut out, depth);
        }
        match character {
            '{' | '[' => {
                depth += 1;
                out.push(character);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !after_open {
                    line(&mut out, depth);
                }
                out.push(character);
            }
            ',' => {
                out.push_str(layout.comma);
                line(&mut out, depth);
            }
            ':' => out.push_str(layout.colon),
            other => {
                in_string = other == '"';
                out.push(other);
            }
        }
        after_open = matches!(character, '{' | '[');
    }
    out
}

/// The URLs to try: another scheme, one slash more or less, no query, no stage before the path.
pub(super) fn urls(url: &str) -> Vec<String> {
    let (bare, query) = url.split_once('?').map_or((url, String::new()), |(bare, query)| (bare, format!("?{query}")));
    let mut bases = vec![bare.to_owned()];
    if let Some(rest) = bare.strip_prefix("http://") {
        bases.push(format!("https://{rest}"));
    } else if let Some(rest) = bare.strip_prefix("https://") {
        bases.push(format!("http://{rest}"));
    }
    let mut urls = Vec::new();
    for base in bases {
        let without_slash = base.trim_end_matches('/').to_owned();
        for path in [base.clone(), without_slash.clone(), format!("{without_slash}/"), without_stage(&base)] {
            urls.push(format!("{path}{query}"));
            urls.push(path);
        }
    }
    urls.retain(|candidate| candidate != url);
    urls
}

/// The URL without the first segment of its path, where API Gateway puts the stage.
fn without_stage(url: &str) -> String {
    let shortened = || {
        let (scheme, rest) = url.split_once("://")?;
        let (host, path) = rest.split_once('/')?;
        let (_, path) = path.split_once('/')?;
        Some(format!("{scheme}://{host}/{path}"))
    };
    shortened().unwrap_or_else(|| url.to_owned())
}

/// The URL without its query, which can hold a token and must not be shown.
pub(super) fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_changes_white_space_only() {
        let text = "{ \"a\" : [1, 2,\n {}], \"b c\":\"x, y: {\\\"z\" }";
        assert_eq!(laid_out(text, COMPACT), r#"{"a":[1,2,{}],"b c":"x, y: {\"z"}"#);
        assert_eq!(laid_out(text, SPACED), r#"{"a": [1, 2, {}], "b c": "x, y: {\"z"}"#);
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(laid_out(text, INDENTED_BY_TWO), serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn text_beyond_ascii_is_escaped_in_utf_16() {
        assert_eq!(escaped("a\u{e4}\u{1f600}"), "a\\u00e4\\ud83d\\ude00");
    }
}
