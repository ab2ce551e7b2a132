//! Reformatted copies of a body or a URL, as proxies and frameworks make them.
//!
//! The body may be a stranger's. Indented, a deeply nested one would grow hundreds of times, so each copy has a limit,
//! and they are made one at a time.

use std::fmt::Write as _;

/// A copy of a body is at most this many times as long; a longer one is not tried.
pub(super) const GROWTH_MAX: usize = 4;

/// But a copy of so many bytes is always tried.
const SMALL_BYTES: usize = 64 * 1024;

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

/// A change of the body's bytes, and how it is told.
type Edge = (&'static str, fn(&[u8]) -> Vec<u8>);

/// The copies to try, likeliest first: as many as have no more bytes than this together. Each is made when it is asked
/// for.
pub(super) fn rewrites(body: &[u8], mut bytes_left: usize) -> impl Iterator<Item = Rewrite> {
    let edges: [Edge; 5] = [
        ("a line break was removed from its end", |body| [body, b"\n"].concat()),
        ("a line break was removed from its end", |body| [body, b"\r\n"].concat()),
        ("white space was added around it", |body| body.trim_ascii().to_vec()),
        ("its line breaks were changed", |body| replaced(body, "\n", "\r\n")),
        ("its line breaks were changed", |body| replaced(body, "\r\n", "\n")),
    ];
    let edges = edges.into_iter().map(move |(how, rewrite)| Rewrite { how, body: rewrite(body) });
    let text = std::str::from_utf8(body).ok().map(|text| text.trim_start_matches('\u{feff}'));
    let text = text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    edges.chain(text.into_iter().flat_map(layouts)).take_while(move |rewrite| {
        let left = bytes_left.checked_sub(rewrite.body.len());
        bytes_left = left.unwrap_or(0);
        left.is_some()
    })
}

/// The same JSON in every layout, and as other languages write it.
fn layouts(text: &str) -> impl Iterator<Item = Rewrite> {
    let bytes_max = text.len().saturating_mul(GROWTH_MAX).max(SMALL_BYTES);
    let writers: [fn(String) -> String; 4] = [
        |laid_out| laid_out,
        |laid_out| escaped(&laid_out),
        |laid_out| unescaped_slashes(&laid_out),
        |laid_out| laid_out + "\n",
    ];
    let layouts = [COMPACT, SPACED, INDENTED_BY_TWO, INDENTED_BY_FOUR].into_iter();
    let written = layouts.flat_map(move |layout| {
        writers.into_iter().filter_map(move |write| laid_out(text, layout, bytes_max).map(write))
    });
    let fitting = written.filter(move |body| body.len() <= bytes_max);
    fitting.map(|body| Rewrite { how: "it was parsed as JSON and written again", body: body.into_bytes() })
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

/// The same JSON in another layout, if that has no more bytes. Only white space between tokens changes.
fn laid_out(text: &str, layout: Layout, bytes_max: usize) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut is_escaped, mut after_open) = (0_usize, false, false, false);
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = layout.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    };
    for character in text.chars() {
        if out.len() > bytes_max {
            return None;
        }
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
    Some(out)
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

    fn laid_out(text: &str, layout: Layout) -> String {
        super::laid_out(text, layout, 1_000).unwrap()
    }

    /// A stranger's body of 1 MiB: indented, it would take 400 MiB.
    #[test]
    fn no_copy_of_a_nested_body_is_longer_than_a_few_bodies() {
        let nested = format!("{}{}", "[".repeat(120), "]".repeat(120));
        let body = format!("[{}]", vec![nested; 4_300].join(","));
        let lengths = |bytes| rewrites(body.as_bytes(), bytes).map(|rewrite| rewrite.body.len()).collect::<Vec<_>>();
        let lengths_of_all = lengths(usize::MAX);
        let few = lengths(4 * body.len());
        assert!(few.len() == 3 && few.iter().sum::<usize>() <= 4 * body.len(), "{few:?}");
        let lengths = lengths_of_all;
        assert!(body.len() > 1_000_000 && lengths.iter().all(|length| *length <= GROWTH_MAX * body.len()));
        assert_eq!(lengths.len(), 5 + 2 * 4, "the indented ones are left out");
        assert_eq!(rewrites(b"{\"a\":[1,{}]}", usize::MAX).count(), 5 + 4 * 4);
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        assert_eq!(rewrites(deep.as_bytes(), usize::MAX).count(), 5 + 4 * 4, "a small body is tried in every layout");
    }

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
