//! A destination whose document was checked.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use hookonce_protocol::check::Shown;
use hookonce_protocol::destination::{Class, Terms};
use hookonce_protocol::effect::{DestinationId, EffectPathError, check_path};
use hookonce_protocol::key::hex;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::{DESTINATION_CALL_MAX, Timing};
use hookonce_providers::StandardSecret;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::address::{Zone, zone};
use super::document::{ClassName, DestinationDocument, DestinationError, DestinationKind};
use super::hand_over::{self, QueueTarget};
use crate::documents::fault::Checker;

/// The most calls that one process has under way to one destination.
pub const IN_FLIGHT_MAX: u16 = 100;

/// The most headers of a document.
pub const HEADERS_MAX: usize = 20;

const TEXT_BYTES_MAX: usize = 2_048;
const STATUSES_MAX: usize = 20;
/// What callees that honour a key answer to a repeat that meets its first call.
const KEY_IN_USE: u16 = 409;

/// A destination, ready to be called.
#[derive(Clone, PartialEq)]
pub struct Destination {
    /// Its id.
    pub id: DestinationId,
    /// What is called.
    pub target: Target,
    /// How many calls one process may have under way.
    pub in_flight_max: u16,
    terms: Terms,
}

/// What effects go to.
#[derive(Clone, PartialEq)]
pub enum Target {
    /// A URL.
    Http(Box<HttpTarget>),
    /// A queue.
    Queue(QueueTarget),
    /// A Lambda function, by its name or ARN.
    Function(String),
}

/// A URL and how it is called.
#[derive(Clone, PartialEq)]
pub struct HttpTarget {
    /// Whether the connection is TLS.
    pub tls: bool,
    /// Host and, if the document gives one, port.
    pub authority: Authority,
    /// The path. An effect's own follows it, in place of a slash at its end.
    pub path: String,
    /// The query after it. An effect then has none of its own.
    pub query: Option<String>,
    /// The document's headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The type of the content, if not the effect's own.
    pub content_type: Option<HeaderValue>,
    /// Where the key goes, beside the header `hookonce-key`.
    pub key: Option<KeyPlace>,
    /// The secret of the signature.
    pub secret: Option<StandardSecret>,
    /// Statuses that say that a call with this key was done before.
    pub done_statuses: Vec<u16>,
    /// Statuses that leave open whether it was done.
    pub retry_statuses: Vec<u16>,
    /// Statuses that say that it was not done.
    pub not_done_statuses: Vec<u16>,
    /// What an answer must say.
    pub success: Option<SuccessCheck>,
    /// Whether the address may be a private one.
    pub allow_private: bool,
}

/// Where the callee looks for the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this header.
    Header(HeaderName),
    /// At this place of the JSON payload, as the names of the fields on the way.
    Json(Vec<String>),
}

/// What the JSON of a 2xx answer must say.
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessCheck {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What is there.
    pub equals: Value,
}

impl fmt::Debug for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Destination")
            .field("id", &self.id)
            .field("class", &self.terms.class)
            .finish_non_exhaustive()
    }
}

impl Destination {
    /// Checks a document.
    ///
    /// # Errors
    /// [`DestinationError`] names each field that is wrong.
    pub fn new(id: DestinationId, document: &DestinationDocument) -> Result<Self, DestinationError> {
        let mut faults = Vec::new();
        let check = &mut Checker::new(&mut faults);
        let class = class(check, document);
        let timeout_max = u32::try_from(DESTINATION_CALL_MAX.0).unwrap_or(u32::MAX);
        let timeout = number(check.field("timeout_ms"), document.timeout_ms, 5_000, 100..=timeout_max);
        let in_flight_max = number(check.field("in_flight_max"), document.in_flight_max, 10, 1..=IN_FLIGHT_MAX);
        let hours = number(check.field("give_up_after_hours"), document.give_up_after_hours, 3 * 24, 1..=7 * 24);
        if document.account.as_ref().is_some_and(|account| account.is_empty() || account.len() > TEXT_BYTES_MAX) {
            let rule = format!("it has 1 to {TEXT_BYTES_MAX} bytes; leave it out if there is one account");
            check.field("account").add(rule);
        }
        let target = match document.kind {
            DestinationKind::Http => {
                http_target(check, document).map(|(target, origin)| (Target::Http(Box::new(target)), origin))
            }
            DestinationKind::Sqs => Some((Target::Queue(hand_over::queue(check, document)), String::new())),
            DestinationKind::Lambda => Some((Target::Function(hand_over::function(check, document)), String::new())),
        };
        let (Some(class), Some((target, origin)), true) = (class, target, faults.is_empty()) else {
            return Err(DestinationError { faults });
        };
        let terms = Terms {
            class,
            callee: callee(&origin, &target, document.account.as_deref().unwrap_or_default(), class),
            timeout: Millis(i64::from(timeout)),
            give_up_after: Millis::hours(i64::from(hours)),
        };
        Ok(Self { id, target, in_flight_max, terms })
    }

    /// The URL, if it is one.
    pub fn http(&self) -> Option<&HttpTarget> {
        match &self.target {
            Target::Http(target) => Some(target),
            Target::Queue(_) | Target::Function(_) => None,
        }
    }

    /// What the protocol knows of it.
    pub fn terms(&self) -> Terms {
        self.terms.clone()
    }
}

/// Names the callee of a call: a repeat must go to the same one. It is made of who honours the key and where the key
/// stands. Another secret does not change it, because the callee still remembers the same keys. `at_least_once` relies
/// on no such memory, so its callee is the class alone: once the address is corrected, calls in doubt go to the new
/// one.
fn callee(origin: &str, target: &Target, account: &str, class: Class) -> String {
    let (class, target) = match (class, target) {
        (Class::Keyed { .. }, Target::Http(target)) => ("keyed", target),
        (Class::AtMostOnce, Target::Http(target)) => ("at_most_once", target),
        (Class::AtLeastOnce, _) | (_, Target::Queue(_) | Target::Function(_)) => return "at_least_once".to_owned(),
    };
    let (place, name) = match &target.key {
        Some(KeyPlace::Header(name)) => ("header", name.to_string()),
        Some(KeyPlace::Json(steps)) => ("json", steps.join("\0")),
        None => ("", String::new()),
    };
    let query = target.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [origin, &target.path, &query, place, &name, account, class] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize().into())
}

/// The statuses to which the document gives a meaning of its own.
struct Statuses {
    done: Vec<u16>,
    not_done: Vec<u16>,
    retry: Vec<u16>,
}

/// The number of a field, or its default.
fn number<T: PartialOrd + Copy + fmt::Display>(
    mut check: Checker<'_>,
    value: Option<T>,
    default: T,
    range: RangeInclusive<T>,
) -> T {
    let value = value.unwrap_or(default);
    if !range.contains(&value) {
        check.add(format!("it must be {} to {}", range.start(), range.end()));
    }
    value
}

fn class(check: &mut Checker<'_>, document: &DestinationDocument) -> Option<Class> {
    let keyed = document.class == Some(ClassName::Keyed);
    let promised = [
        ("key_window_hours", document.key_window_hours.is_some()),
        ("key_source_url", document.key_source_url.is_some()),
    ];
    for (field, there) in promised {
        match (keyed, there) {
            (true, false) => {
                check.field(field).add("`keyed` requires it: the callee must document how long it honours keys");
            }
            (false, true) => check.field(field).add("only `keyed` has it"),
            (true, true) | (false, false) => {}
        }
    }
    if document.key_source_url.as_ref().is_some_and(|url| !url.starts_with("https://") || url.len() > TEXT_BYTES_MAX) {
        check.field("key_source_url").add("it must be the https URL of the callee's documentation");
    }
    match document.class {
        None => {
            check
                .field("class")
                .add("say `keyed`, `at_most_once` or `at_least_once`: what happens if an answer is lost");
            None
        }
        Some(ClassName::Keyed) => {
            // No repeat is made in the last part of the window.
            let min = u32::try_from(Timing::standard().key_margin.0 / Millis::hours(1).0 + 1).unwrap_or(u32::MAX);
            let hours = number(check.field("key_window_hours"), document.key_window_hours, min, min..=365 * 24);
            Some(Class::Keyed { window: Millis::hours(i64::from(hours)) })
        }
        Some(ClassName::AtMostOnce) => Some(Class::AtMostOnce),
        Some(ClassName::AtLeastOnce) => Some(Class::AtLeastOnce),
    }
}

/// The target, and its origin.
fn http_target(check: &mut Checker<'_>, document: &DestinationDocument) -> Option<(HttpTarget, String)> {
    let of_others = [("function", document.function.is_some()), ("message_group", document.message_group.is_some())];
    check.none_of(of_others, "`http` does not have it");
    let key = key(check, document);
    let secret = document.standard_webhooks_secret.as_deref().map(StandardSecret::parse);
    if secret == Some(None) {
        check.field("standard_webhooks_secret").add("it must be `whsec_` and 24 to 64 bytes in base64");
    }
    let Statuses { done, not_done, retry } = statuses(check, document);
    let success = document.success_json.as_ref().map(|success| {
        if !success.pointer.is_empty() && pointer(&success.pointer).is_none() {
            check.field("success_json.pointer").add("it must be a JSON pointer, such as `/ok`");
        }
        SuccessCheck { pointer: success.pointer.clone(), equals: success.equals.clone() }
    });
    let headers = headers(check, document, key.as_ref());
    let content_type = content_type(check, document);
    let (uri, origin) = url(check, document)?;
    let target = HttpTarget {
        tls: uri.scheme() == Some(&Scheme::HTTPS),
        authority: uri.authority()?.clone(),
        path: uri.path().to_owned(),
        query: uri.query().map(str::to_owned),
        headers,
        content_type,
        key,
        secret: secret.flatten(),
        done_statuses: done,
        retry_statuses: retry,
        not_done_statuses: not_done,
        success,
        allow_private: document.allow_private,
    };
    Some((target, origin))
}

fn statuses(check: &mut Checker<'_>, document: &DestinationDocument) -> Statuses {
    let keyed = document.class == Some(ClassName::Keyed);
    let done = document.done_statuses.clone().unwrap_or_default();
    let not_done = document.not_done_statuses.clone().unwrap_or_else(|| vec![429]);
    let in_use = keyed && !not_done.contains(&KEY_IN_USE) && !done.contains(&KEY_IN_USE);
    let retry_default = || in_use.then_some(KEY_IN_USE).into_iter().collect();
    let retry = document.retry_statuses.clone().unwrap_or_else(retry_default);
    if document.done_statuses.is_some() && !keyed {
        check
            .field("done_statuses")
            .add("only `keyed` has it: a callee that honours no key cannot know what it has done");
    }
    // An error on the callee's side promises nothing.
    for (field, statuses, max) in
        [("done_statuses", &done, 499), ("not_done_statuses", &not_done, 599), ("retry_statuses", &retry, 599)]
    {
        if statuses.len() > STATUSES_MAX || !statuses.iter().all(|status| (400..=max).contains(status)) {
            check.field(field).add(format!("it must list at most {STATUSES_MAX} statuses from 400 to {max}"));
        }
    }
    for (field, statuses, other, others) in [
        ("done_statuses", &done, "not_done_statuses", &not_done),
        ("done_statuses", &done, "retry_statuses", &retry),
        ("retry_statuses", &retry, "not_done_statuses", &not_done),
    ] {
        if statuses.iter().any(|status| others.contains(status)) {
            check.field(field).add(format!("a status stands in `{other}`, too; it is one or the other"));
        }
    }
    Statuses { done, not_done, retry }
}

/// Where the key goes. `keyed` needs such a place.
fn key(check: &mut Checker<'_>, document: &DestinationDocument) -> Option<KeyPlace> {
    let keyed = document.class == Some(ClassName::Keyed);
    match (&document.key_header, &document.key_json_pointer) {
        (Some(_), Some(_)) => {
            check.field("key_json_pointer").add("the key goes into a header or into the payload, not into both");
            None
        }
        (Some(header), None) => {
            let name = HeaderName::try_from(header.as_str()).ok().filter(|name| !is_own(name));
            if name.is_none() {
                check.field("key_header").add("it must be a header name, and not one that hookonce sets itself");
            }
            name.map(KeyPlace::Header)
        }
        (None, Some(text)) => {
            let steps = pointer(text);
            if steps.is_none() {
                check.field("key_json_pointer").add("it must be a JSON pointer to a field, such as `/idempotency_key`");
            }
            steps.map(KeyPlace::Json)
        }
        (None, None) => {
            if keyed && document.standard_webhooks_secret.is_none() {
                check.field("key_header").add("`keyed` needs it, or `key_json_pointer`: the callee must find the key");
            }
            None
        }
    }
}

fn headers(
    check: &mut Checker<'_>,
    document: &DestinationDocument,
    key: Option<&KeyPlace>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut check = check.field("headers");
    if document.headers.len() > HEADERS_MAX {
        check.add(format!("there are at most {HEADERS_MAX}"));
    }
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, value) in &document.headers {
        let Ok(header) = HeaderName::try_from(name.as_str()) else {
            // A whole header may stand where its name belongs.
            check.field(&Shown::from(name.as_str()).to_string()).add("this is no name of a header");
            continue;
        };
        let mut check = check.field(name);
        let fits = value.len() <= TEXT_BYTES_MAX && value.is_ascii();
        let Some(mut value) = HeaderValue::from_str(value).ok().filter(|_| fits) else {
            let rule = format!("its value must be ASCII without control characters, at most {TEXT_BYTES_MAX} bytes");
            check.add(rule);
            continue;
        };
        value.set_sensitive(true);
        if is_own(&header) || key == Some(&KeyPlace::Header(header.clone())) {
            check.add("hookonce sets this header; a document cannot");
        } else if headers.iter().any(|(other, _)| *other == header) {
            check.add("this header is there twice");
        } else {
            headers.push((header, value));
        }
    }
    headers
}

fn content_type(check: &mut Checker<'_>, document: &DestinationDocument) -> Option<HeaderValue> {
    let text = document.content_type.as_deref()?;
    let named = text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    let value = HeaderValue::from_str(text).ok().filter(|_| named && text.is_ascii() && text.len() <= TEXT_BYTES_MAX);
    if value.is_none() {
        check.field("content_type").add("it must be a media type, such as `application/x-www-form-urlencoded`");
    }
    value
}

/// The URL, and its origin.
fn url(check: &mut Checker<'_>, document: &DestinationDocument) -> Option<(Uri, String)> {
    let text = document.url.as_deref().filter(|url| url.len() <= TEXT_BYTES_MAX && !url.contains('#'));
    let uri: Option<Uri> = text.and_then(|url| url.parse().ok());
    let (Some(uri), Some(scheme)) = (uri.as_ref(), uri.as_ref().and_then(Uri::scheme)) else {
        check.field("url").add("it must be a URL such as https://api.example.com/v1, without a fragment");
        return None;
    };
    let (authority, host) = (uri.authority()?, uri.host()?);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address: Option<IpAddr> = literal.unwrap_or(host).parse().ok();
    let named =
        literal.map_or_else(|| !host.is_empty() && host.bytes().all(plain), |_| address.is_some_and(|it| it.is_ipv6()));
    if !named || authority.as_str().contains('@') {
        check.field("url").add("its host must be a name or an address, without a user; credentials go into `headers`");
        return None;
    }
    if *scheme != Scheme::HTTPS && !(*scheme == Scheme::HTTP && document.allow_private) {
        check.field("url").add("it must be https; plain http needs `allow_private`");
    }
    // What a name leads to is checked at each connection.
    match address.map(zone) {
        Some(Zone::Forbidden) => check.field("url").add("no effect may be sent to this address"),
        Some(Zone::Private | Zone::Loopback) if !document.allow_private => {
            check.field("url").add("its address is not public, which needs `allow_private`");
        }
        Some(Zone::Private | Zone::Loopback | Zone::Public) | None => {}
    }
    let default = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    // A port that is no number is no port of the authority.
    let ported = authority.as_str().rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if ported && authority.port_u16().is_none_or(|port| port == 0) {
        check.field("url").add("its port must be 1 to 65535");
    }
    if let Err(EffectPathError) = check_path(uri.path()) {
        check.field("url").add(format!("its path {EffectPathError}"));
    }
    let port = authority.port_u16().unwrap_or(default);
    let origin = format!("{scheme}://{}:{port}", host.to_ascii_lowercase());
    Some((uri.clone(), origin))
}

/// Whether only we set this header, or a proxy: the client sets it, or it would change what the request is.
fn is_own(name: &HeaderName) -> bool {
    let families = ["hookonce-", "proxy-", "webhook-"];
    families.iter().any(|family| name.as_str().starts_with(family))
        || matches!(
            name.as_str(),
            "accept-encoding"
                | "connection"
                | "content-encoding"
                | "content-length"
                | "content-type"
                | "expect"
                | "host"
                | "keep-alive"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
                | "x-http-method"
                | "x-http-method-override"
                | "x-method-override"
        )
}

/// The steps of a JSON pointer to a field. `None` if the text is no such pointer.
fn pointer(text: &str) -> Option<Vec<String>> {
    let steps = text.strip_prefix('/')?;
    let unescaped = |step: &str| {
        let bare = step.replace("~0", "").replace("~1", "");
        (!bare.contains('~')).then(|| step.replace("~1", "/").replace("~0", "~"))
    };
    let steps: Vec<_> = steps.split('/').map(unescaped).collect::<Option<_>>()?;
    let fits = text.len() <= TEXT_BYTES_MAX && steps.len() <= 8 && !steps.iter().any(String::is_empty);
    fits.then_some(steps)
}
