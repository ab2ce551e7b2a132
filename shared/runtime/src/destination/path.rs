//! What an effect may add to the address of its destination: never another origin, nor a step out of its folder.

/// Why a path cannot follow the address of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with one `/`.
    #[error("the path must begin with one '/'")]
    Start,
    /// It has a character that no path of a URL has as it is: a space, a control character, a fragment's `#`, a letter that
    /// is not ASCII.
    #[error("the path has a character that a URL's path cannot have as it is; percent-encode it")]
    Character,
    /// A `%` without two hexadecimal digits.
    #[error("a '%' in the path lacks its two hexadecimal digits")]
    Encoding,
    /// It has `//`, `\`, `.` or `..` as a step, or a control character, perhaps percent-encoded.
    #[error("the path has '//', '\\', '.' or '..' as a step, or a control character, perhaps percent-encoded")]
    Step,
}

/// How often a text may be percent-encoded. Some servers decode what stands behind them once more.
const ENCODED_MAX: usize = 3;

/// Checks what an effect adds to the address of its destination. Nothing at all is fine.
///
/// # Errors
/// [`PathError`] when it could lead elsewhere.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Ok(());
    }
    if !path.starts_with('/') || path.starts_with("//") {
        return Err(PathError::Start);
    }
    let plain = |byte: u8| {
        byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}')
    };
    if !path.bytes().all(plain) {
        return Err(PathError::Character);
    }
    let (steps, query) = path.split_once('?').unwrap_or((path, ""));
    decoded(query.as_bytes()).ok_or(PathError::Encoding)?;
    let mut text = steps.as_bytes().to_vec();
    for _ in 0..=ENCODED_MAX {
        if !stays(&text) {
            return Err(PathError::Step);
        }
        let next = decoded(&text).ok_or(PathError::Encoding)?;
        if next == text {
            return Ok(());
        }
        text = next;
    }
    Err(PathError::Step)
}

/// Whether no step of this path leaves its folder. What follows a `;` is a parameter to some servers.
fn stays(path: &[u8]) -> bool {
    let away = |step: &[u8]| {
        let name = step.split(|byte| *byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    };
    let odd = |byte: &u8| *byte == b'\\' || byte.is_ascii_control();
    !path.windows(2).any(|pair| pair == b"//") && !path.iter().any(odd) && !path.split(|byte| *byte == b'/').any(away)
}

/// Undoes one percent-encoding. `None` where a `%` lacks its digits.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.extend(hex::decode(digits).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_destination() {
        for path in
            ["", "/", "/a/b", "/a/", "/a?b=c&d=%2F..", "/a%20b", "/v1/customers/cus_1:cancel", "/a..b/...", "/%7Ea"]
        {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for (path, error) in [
            ("a", PathError::Start),
            ("//evil.example/a", PathError::Start),
            ("@evil.example/", PathError::Start),
            (".evil.example/", PathError::Start),
            ("?a=b", PathError::Start),
            ("/a b", PathError::Character),
            ("/a#b", PathError::Character),
            ("/a\r\nx: y", PathError::Character),
            ("/ä", PathError::Character),
            ("/a%", PathError::Encoding),
            ("/a%2", PathError::Encoding),
            ("/a%zz", PathError::Encoding),
            ("/a?b=%", PathError::Encoding),
            ("/a//b", PathError::Step),
            ("/a/%2fb", PathError::Step),
            ("/a\\b", PathError::Step),
            ("/a%5Cb", PathError::Step),
            ("/..", PathError::Step),
            ("/a/../b", PathError::Step),
            ("/a/./b", PathError::Step),
            ("/a/%2e%2E/b", PathError::Step),
            ("/a/.%2e", PathError::Step),
            ("/a%2f..%2fb", PathError::Step),
            ("/a/%252e%252e/b", PathError::Step),
            ("/a/..;x=1/b", PathError::Step),
            ("/a%00", PathError::Step),
            ("/a%0d%0ab", PathError::Step),
            ("/%25252525252e", PathError::Step),
        ] {
            assert_eq!(check_path(path), Err(error), "{path}");
        }
    }
}
