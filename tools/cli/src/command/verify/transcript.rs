//! The request in the output of `curl -v`: lines that start with `>`.

/// A request as `curl` says it sent it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transcript {
    /// The method.
    pub(super) method: String,
    /// The path, with the query.
    pub(super) path: String,
    /// The headers, in order.
    pub(super) headers: Vec<(String, String)>,
}

/// Why a text is not usable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TranscriptError {
    /// It holds no request.
    #[error("it has no request: no line such as `> POST /webhooks/stripe HTTP/1.1`")]
    None,
    /// It holds several.
    #[error("it has {0} requests")]
    Several(usize),
    /// A line is no header.
    #[error("line {0} is not a header")]
    Header(usize),
}

impl Transcript {
    /// Reads the one request.
    ///
    /// # Errors
    /// [`TranscriptError`] when there is none, or more than one.
    pub(super) fn parse(text: &str) -> Result<Self, TranscriptError> {
        let sent = text.lines().zip(1..).filter_map(|(line, number)| Some((line.strip_prefix('>')?.trim(), number)));
        let sent: Vec<_> = sent.filter(|(line, _)| !line.is_empty()).collect();
        let requests: Vec<_> = sent.iter().filter_map(|(line, _)| request_line(line)).collect();
        let [(method, path)] = requests[..] else {
            return Err(if requests.is_empty() {
                TranscriptError::None
            } else {
                TranscriptError::Several(requests.len())
            });
        };
        let headers = sent.iter().filter(|(line, _)| request_line(line).is_none()).map(|(line, number)| {
            let (name, value) = line.split_once(':').ok_or(TranscriptError::Header(*number))?;
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        let headers = headers.collect::<Result<_, _>>()?;
        Ok(Self { method: method.to_owned(), path: path.to_owned(), headers })
    }
}

/// The method and the path of a line such as `POST /path HTTP/1.1`.
fn request_line(line: &str) -> Option<(&str, &str)> {
    let (request, _version) = line.rsplit_once(" HTTP/")?;
    let (method, path) = request.split_once(' ')?;
    (path.starts_with('/') && method.bytes().all(|byte| byte.is_ascii_uppercase())).then_some((method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBOSE: &str = "\
*   Trying 127.0.0.1:8787...\n* Connected to 127.0.0.1 (127.0.0.1) port 8787\n> POST /webhooks/stripe?a=1 HTTP/1.1\r\n\
> Host: 127.0.0.1:8787\r\n> Stripe-Signature: t=1,v1=00\r\n> Content-Length: 2\r\n>\r\n} [2 bytes data]\n\
* upload completely sent off: 2 bytes\n< HTTP/1.1 401 Unauthorized\r\n< content-type: application/json\r\n<\r\n{\"error\":\"x\"}";

    #[test]
    fn the_request_is_read_and_nothing_else() {
        let transcript = Transcript::parse(VERBOSE).unwrap();
        assert_eq!((transcript.method.as_str(), transcript.path.as_str()), ("POST", "/webhooks/stripe?a=1"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected =
            [pair("host", "127.0.0.1:8787"), pair("stripe-signature", "t=1,v1=00"), pair("content-length", "2")];
        assert_eq!(transcript.headers, expected);
    }

    #[test]
    fn what_is_not_one_request_is_refused() {
        assert_eq!(Transcript::parse("< HTTP/1.1 200 OK"), Err(TranscriptError::None));
        assert_eq!(Transcript::parse(&[VERBOSE, VERBOSE].join("\n")), Err(TranscriptError::Several(2)));
        let folded = "> POST / HTTP/2\n> a: 1\n> folded";
        assert_eq!(Transcript::parse(folded), Err(TranscriptError::Header(3)));
    }
}
