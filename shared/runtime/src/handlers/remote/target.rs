//! Which handler plans for an event, and where it is.

use std::fmt;
use std::net::SocketAddr;

use hookonce_protocol::key::DomainKey;

use crate::handlers::Grants;

/// The longest name of a Lambda function, in characters: an ARN with a qualifier.
const FUNCTION_CHARS_MAX: usize = 170;

/// The longest URL of a handler, in bytes.
const URL_BYTES_MAX: usize = 1_024;

/// Where a handler in another language is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteTarget {
    /// A Lambda function, by its name or ARN; a qualifier may follow.
    Lambda(String),
    /// A URL on loopback, for development.
    Url(String),
}

impl RemoteTarget {
    /// The Lambda function of this name or ARN. `None` if it is neither.
    pub fn lambda(name: &str) -> Option<Self> {
        let plain = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'$' | b'.');
            !part.is_empty() && part.bytes().all(known)
        };
        let parts: Vec<_> = name.split(':').collect();
        let fits = matches!(
            parts.as_slice(),
            [_] | [_, _] | ["arn", _, "lambda", _, _, "function", _] | ["arn", _, "lambda", _, _, "function", _, _]
        );
        let known = fits && name.len() <= FUNCTION_CHARS_MAX && parts.into_iter().all(plain);
        known.then(|| Self::Lambda(name.to_owned()))
    }

    /// The handler at this URL: `http://`, an address of loopback, a port, perhaps a path. `None` for any other URL.
    pub fn url(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let authority = rest.split('/').next()?;
        let loopback = authority.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        let path = rest.get(authority.len()..)?;
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>'));
        (loopback && plain && url.len() <= URL_BYTES_MAX).then(|| Self::Url(url.to_owned()))
    }

    /// The function's name or ARN, or the URL.
    pub fn name(&self) -> &str {
        match self {
            Self::Lambda(name) | Self::Url(name) => name,
        }
    }
}

impl fmt::Display for RemoteTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lambda(name) => write!(formatter, "lambda {name}"),
            Self::Url(url) => formatter.write_str(url),
        }
    }
}

/// An event's handler in another language, and who remembers its fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHandling {
    /// The handler.
    pub target: RemoteTarget,
    /// The identity that remembers.
    pub consumer: String,
    /// What the handler's plan may use.
    pub grants: Grants,
    /// The fact, if the route names it. Otherwise the handler does.
    pub fact: Option<DomainKey>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_and_loopback_are_targets() {
        for name in ["plan", "plan:live", "plan:$LATEST", "arn:aws:lambda:eu-west-1:123456789012:function:plan:3"] {
            assert_eq!(RemoteTarget::lambda(name), Some(RemoteTarget::Lambda(name.to_owned())));
        }
        for name in ["", "a b", "a/b", "a:", "a:b:c", "arn:aws:sqs:eu-west-1:1:plan", "arn:aws:lambda:a:b:layer:c"] {
            assert_eq!(RemoteTarget::lambda(name), None, "{name}");
        }
        for url in ["http://127.0.0.1:9000", "http://127.0.0.2:1/plan?x=1", "http://[::1]:9000/"] {
            assert_eq!(RemoteTarget::url(url), Some(RemoteTarget::Url(url.to_owned())));
        }
        let others = [
            "https://127.0.0.1:9000",
            "http://127.0.0.1",
            "http://localhost:9000",
            "http://10.0.0.1:80/",
            "http://user@127.0.0.1:80",
            "http://127.0.0.1:80@evil.example/",
            "http://127.0.0.1:80/a b",
            "http://[::ffff:10.0.0.1]:80/",
        ];
        for url in others {
            assert_eq!(RemoteTarget::url(url), None, "{url}");
        }
        let name = |chars: usize| "a".repeat(chars);
        assert!(RemoteTarget::lambda(&name(FUNCTION_CHARS_MAX)).is_some());
        assert_eq!(RemoteTarget::lambda(&name(FUNCTION_CHARS_MAX + 1)), None);
        let url = |bytes: usize| format!("{:/<bytes$}", "http://127.0.0.1:9000");
        assert!(RemoteTarget::url(&url(URL_BYTES_MAX)).is_some());
        assert_eq!(RemoteTarget::url(&url(URL_BYTES_MAX + 1)), None);
    }
}
