//! Who may talk to a local server. A web page in this machine's browser can send requests to loopback, directly or with a
//! name that it lets point here. A browser says so in `Origin` and `Host`, and a page cannot change either.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

/// The names of this machine.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// True when a web page of another origin sent the request.
pub(crate) fn is_foreign_page(headers: &HeaderMap, port: u16) -> bool {
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|authority| is_own(authority, port));
    headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(own))
}

/// True when the request names the server by an address of this machine. The port may be that of a proxy before it.
pub(crate) fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let is_named = hosts.next().is_some_and(|host| host.to_str().is_ok_and(|host| own_port(host).is_some()));
    is_named && hosts.next().is_none()
}

fn is_own(authority: &str, port: u16) -> bool {
    own_port(authority).is_some_and(|given| given == port.to_string())
}

/// The port of an address of this machine.
fn own_port(authority: &str) -> Option<&str> {
    let (name, port) = authority.rsplit_once(':')?;
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (axum::http::HeaderName::from_static(name), axum::http::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_page_of_another_origin_is_foreign() {
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:81", "https://127.0.0.1:80", "http://127.0.0.1.evil:80"]
        {
            assert!(is_foreign_page(&headers(&[("origin", origin)]), 80), "{origin}");
        }
        for own in [&[][..], &[("origin", "http://127.0.0.1:80")], &[("origin", "http://localhost:80")]] {
            assert!(!is_foreign_page(&headers(own), 80), "{own:?}");
        }
    }

    #[test]
    fn a_name_that_only_points_here_is_not_ours() {
        for host in ["evil.example:80", "127.0.0.1", "127.0.0.1.evil.example:80"] {
            assert!(!names_this_machine(&headers(&[("host", host)])), "{host}");
        }
        assert!(!names_this_machine(&headers(&[])));
        for own in ["LocalHost:80", "127.0.0.1:81"] {
            assert!(names_this_machine(&headers(&[("host", own)])), "{own}");
        }
    }
}
