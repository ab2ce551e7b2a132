//! Who may use the console: the person who started it, in a browser on this machine, from the console's own pages.
//!
//! A cookie does not know ports, and every page that a browser shows may send requests to loopback. So the address, the
//! token and what the browser says of the sender are all checked, on every request. The cookie belongs to a path that
//! nobody can guess, so a browser does not send it to the servers at other ports.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// Nothing but the console's own files, no script in a page, no frame, and no form that leads elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'self'; frame-ancestors 'none'";

/// What a browser says of the page that a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// One run of the console: its port, and the secret that only its first address holds.
#[derive(Clone)]
pub(crate) struct Session {
    port: u16,
    token: String,
    /// The path of all pages, with a slash at its end.
    base: String,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("port", &self.port).finish_non_exhaustive()
    }
}

/// What is done with a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It brought the token: it gets the cookie, and an address without the token.
    Enter,
    Pass,
    Refuse(&'static str),
}

impl Session {
    /// A new run on a port, with its pages below a path.
    pub(crate) fn new(port: u16, base: String) -> Self {
        Self { port, token: Uuid::new_v4().simple().to_string(), base }
    }

    /// The first address, which lets a browser in.
    pub(crate) fn entrance(&self) -> String {
        format!("http://127.0.0.1:{}{}?token={}", self.port, self.base, self.token)
    }

    fn cookie(&self) -> String {
        format!("hookonce_{}", self.port)
    }

    fn is_token(&self, text: &str) -> bool {
        self.token.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// A token that agrees to one order and to no other. The page with the form of that order holds it.
    pub(super) fn agreement(&self, order: &str) -> String {
        hex::encode(self.keyed(order).finalize().into_bytes())
    }

    /// Whether a token agrees to an order.
    pub(super) fn agrees(&self, token: &str, order: &str) -> bool {
        hex::decode(token).is_ok_and(|token| self.keyed(order).verify_slice(&token).is_ok())
    }

    fn keyed(&self, order: &str) -> Hmac<Sha256> {
        // HMAC takes a key of any length.
        let mut keyed = Hmac::<Sha256>::new_from_slice(self.token.as_bytes()).unwrap_or_else(|_| unreachable!());
        keyed.update(order.as_bytes());
        keyed
    }

    fn judge(&self, request: &Parts) -> Verdict {
        let header = |name: &HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok());
        let hosts = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let Some(host) = header(&HOST).filter(|host| hosts.iter().any(|own| own == host)) else {
            return Verdict::Refuse("This is not the address of the console.");
        };
        if !matches!(header(&FETCH_SITE), Some("same-origin" | "none")) {
            return Verdict::Refuse("This request comes from another page, or from no browser.");
        }
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        if !is_read && header(&ORIGIN) != Some(&format!("http://{host}")) {
            return Verdict::Refuse("This form is not one of the console's own.");
        }
        let query = request.uri.query().unwrap_or_default();
        let token = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
        if is_read && token.is_some_and(|(_, token)| self.is_token(&token)) {
            return Verdict::Enter;
        }
        let name = self.cookie();
        // Another server on this machine may have set cookies of any bytes.
        let cookies =
            request.headers.get_all(COOKIE).iter().flat_map(|cookies| cookies.as_bytes().split(|b| *b == b';'));
        let texts = cookies.filter_map(|cookie| str::from_utf8(cookie).ok());
        let mut pairs = texts.filter_map(|cookie| cookie.trim().split_once('='));
        if pairs.any(|(cookie, value)| cookie == name && self.is_token(value)) {
            return Verdict::Pass;
        }
        Verdict::Refuse("This browser has not been let in, or the console was started again.")
    }
}

/// Lets in who may, and tells the browser what the pages may do.
pub(super) async fn guard(State(session): State<Session>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match session.judge(&parts) {
        Verdict::Pass => next.run(Request::from_parts(parts, body)).await,
        Verdict::Enter => {
            let cookie =
                format!("{}={}; Path={}; HttpOnly; SameSite=Strict", session.cookie(), session.token, session.base);
            (StatusCode::SEE_OTHER, [(LOCATION, session.base.clone()), (SET_COOKIE, cookie)]).into_response()
        }
        Verdict::Refuse(why) => {
            let next = "Open the address that the command prints; `hookonce console` prints it again.";
            (StatusCode::FORBIDDEN, format!("{why}\n{next}\n")).into_response()
        }
    };
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // With no referrer at all, a browser hides the origin of the console's own forms.
    set(REFERRER_POLICY, "same-origin");
    set(CACHE_CONTROL, "no-store");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Session {
        Session::new(8788, "/path/".to_owned())
    }

    fn judged(session: &Session, method: &str, target: &str, headers: &[(&str, &str)]) -> Verdict {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        session.judge(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_the_browser_that_has_the_token_gets_in_and_only_from_the_consoles_own_pages() {
        let session = started();
        let cookie = format!("other=1; {}={}", session.cookie(), session.token);
        let (host, own, cookie) =
            (("host", "127.0.0.1:8788"), ("sec-fetch-site", "same-origin"), ("cookie", cookie.as_str()));
        let origin = ("origin", "http://127.0.0.1:8788");
        let is_refused = |method: &str, headers: &[(&str, &str)]| {
            matches!(judged(&session, method, "/records", headers), Verdict::Refuse(_))
        };
        assert_eq!(judged(&session, "GET", "/records", &[host, own, cookie]), Verdict::Pass);
        assert_eq!(judged(&session, "POST", "/orders", &[host, own, cookie, origin]), Verdict::Pass);
        for site in ["same-site", "cross-site"] {
            assert!(is_refused("GET", &[host, ("sec-fetch-site", site), cookie]), "{site}");
        }
        assert!(is_refused("GET", &[host, cookie]), "no browser");
        assert!(is_refused("GET", &[own, cookie]), "no host");
        for foreign in ["127.0.0.1:8787", "attacker.example:8788", "127.0.0.1"] {
            assert!(is_refused("GET", &[("host", foreign), own, cookie]), "{foreign}");
        }
        for foreign in ["http://127.0.0.1:8787", "http://localhost:8788", "https://attacker.example", "null"] {
            assert!(is_refused("POST", &[host, own, cookie, ("origin", foreign)]), "{foreign}");
        }
        assert!(is_refused("POST", &[host, own, cookie]), "no origin");
        assert!(is_refused("GET", &[host, own]), "no cookie");
        let of_another_run = format!("{}={}", session.cookie(), started().token);
        assert!(is_refused("GET", &[host, own, ("cookie", &of_another_run)]));
        let of_another_port = format!("hookonce_8787={}", session.token);
        assert!(is_refused("GET", &[host, own, ("cookie", &of_another_port)]));
    }

    #[test]
    fn a_cookie_of_another_server_locks_nobody_out() {
        let session = started();
        let cookies = [b"odd=\xff; ".as_slice(), session.cookie().as_bytes(), b"=", session.token.as_bytes()].concat();
        let request = Request::builder().header("host", "127.0.0.1:8788").header("sec-fetch-site", "same-origin");
        let request = request.header("cookie", HeaderValue::from_bytes(&cookies).unwrap());
        assert_eq!(session.judge(&request.body(()).unwrap().into_parts().0), Verdict::Pass);
    }

    #[test]
    fn the_first_address_lets_in_and_no_other_token_does() {
        let session = started();
        let (host, typed) = (("host", "127.0.0.1:8788"), ("sec-fetch-site", "none"));
        let entrance = session.entrance();
        let target = entrance.strip_prefix("http://127.0.0.1:8788").unwrap();
        assert!(target.starts_with("/path/?token="));
        assert_eq!(judged(&session, "GET", target, &[host, typed]), Verdict::Enter);
        assert!(matches!(judged(&session, "GET", "/?token=", &[host, typed]), Verdict::Refuse(_)));
        assert!(matches!(
            judged(&session, "GET", target, &[host, ("sec-fetch-site", "cross-site")]),
            Verdict::Refuse(_)
        ));
    }

    #[test]
    fn an_agreement_is_to_one_order_of_one_run() {
        let session = started();
        let token = session.agreement("retry 412");
        assert!(session.agrees(&token, "retry 412"));
        assert!(!session.agrees(&token, "retry 413") && !started().agrees(&token, "retry 412"));
        assert!(!session.agrees("", "retry 412") && !session.agrees("zz", "retry 412"));
    }
}
