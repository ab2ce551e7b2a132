//! Who may talk to a local server. A web page in this machine's browser can send requests to loopback, directly or with
//! a name that it lets point here. A browser says so in `Sec-Fetch-Site`, `Origin` and `Host`, and a page cannot change
//! any of them. For an image or a link it sends no `Origin`, and old browsers send no `Sec-Fetch-Site`. The servers
//! that stand for AWS also want a key that was made for their run, so that another user's program cannot use them by
//! their port alone.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// The names of this machine.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// Says where the page stands that sent a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What it says of a person's own doing, such as an address that they typed, and of a page of this very server.
const OWN_SITES: [&str; 2] = ["none", "same-origin"];

/// What a server that stands for AWS asks of a request.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) port: u16,
    pub(crate) access_key_id: String,
}

/// What AWS answers to an unknown access key id.
pub(crate) const REFUSED: &str = concat!(
    r#"{"__type":"com.amazon.coral.service#UnrecognizedClientException","#,
    r#""message":"The access key id is not the one of this run. It is in functions.env."}"#
);

impl Guard {
    /// True when the request names this machine, comes from no web page and is signed with the access key id of this
    /// run.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        is_local(headers, self.port) && self.is_signer(headers)
    }

    /// Compares only the access key id: its holder needs no secret.
    fn is_signer(&self, headers: &HeaderMap) -> bool {
        let signed = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let scope = signed.and_then(|text| text.split_once("Credential=")).map(|(_, scope)| scope);
        let given = scope.and_then(|scope| scope.split_once('/')).map(|(id, _)| id);
        given.is_some_and(|id| id.as_bytes().ct_eq(self.access_key_id.as_bytes()).into())
    }
}

/// An access key id that nobody can guess, in the form of AWS's.
pub(crate) fn random_access_key_id() -> String {
    format!("LOCAL{}", Uuid::new_v4().simple().to_string().to_uppercase())
}

/// True when the request names this machine and comes from no web page of another origin. The port is the server's.
pub fn is_local(headers: &HeaderMap, port: u16) -> bool {
    names_this_machine(headers) && !is_foreign_page(headers, port)
}

/// True when a web page of another origin sent the request.
pub(crate) fn is_foreign_page(headers: &HeaderMap, port: u16) -> bool {
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|authority| is_own(authority, port));
    let own_site = |site: &str| OWN_SITES.contains(&site);
    headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(own))
        || headers.get_all(FETCH_SITE).iter().any(|site| !site.to_str().is_ok_and(own_site))
}

/// True when the request names the server by an address of this machine. The port may be that of a proxy before it.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let is_named = hosts.next().is_some_and(|host| host.to_str().is_ok_and(|host| own_port(host).is_some()));
    is_named && hosts.next().is_none()
}

/// True when the request names this machine, or the public name under which a tunnel leads here.
pub(crate) fn names_us(headers: &HeaderMap, public_host: Option<&str>) -> bool {
    let given = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_public = |host: &str| public_host.is_some_and(|public| host.eq_ignore_ascii_case(public));
    names_this_machine(headers) || (headers.get_all(HOST).iter().count() == 1 && given.is_some_and(is_public))
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

    /// An image or a link of a page is requested without an origin. A page at another port is of the same site.
    #[test]
    fn what_a_browser_requests_for_another_site_is_foreign_without_an_origin() {
        for site in ["cross-site", "same-site", "", "None"] {
            assert!(is_foreign_page(&headers(&[("sec-fetch-site", site)]), 80), "{site}");
        }
        assert!(is_foreign_page(&headers(&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]), 80));
        for site in OWN_SITES {
            assert!(!is_foreign_page(&headers(&[("sec-fetch-site", site)]), 80), "{site}");
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
        assert!(!names_us(&headers(&[]), Some("abc.example")));
    }
}
