//! Where a storm may go: to this machine, or to a host that a person calls their own, slowly.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::Failure;

/// How many requests a host that is not this machine gets at most.
pub(crate) const FAR_REQUESTS_MAX: usize = 600;

/// The pause between two requests to it: ten a second.
const FAR_PAUSE: Duration = Duration::from_millis(100);

/// An address that a storm may connect to. Nothing else is ever connected to: a name is looked up once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// As it was typed.
    pub(crate) url: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path and the query.
    pub(crate) path: String,
    pub(crate) is_tls: bool,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether it is another machine.
    pub(crate) is_far: bool,
}

impl Target {
    /// Looks a URL up and decides whether a storm may go there. `own` is the host that a person typed as their own.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it is no URL of HTTP, or leads to another machine that nobody calls their own.
    pub(crate) async fn of(url: &str, own: &str) -> Result<Self, Failure> {
        let parsed = reqwest::Url::parse(url).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let parsed = parsed.filter(reqwest::Url::has_host).ok_or_else(|| {
            Failure::usage(format!("{url:?} is not a URL"), "for instance http://127.0.0.1:3000/webhooks/stripe")
        })?;
        if parsed.password().is_some() || !parsed.username().is_empty() {
            return Err(Failure::usage(
                "the URL holds a user's name or password, which every process of this machine can read",
                "storm an address without one",
            ));
        }
        let host = parsed.host_str().unwrap_or_default().to_owned();
        let port = parsed.port_or_known_default().unwrap_or(80);
        let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await.map_err(|error| {
            Failure::unavailable(format!("{host} has no address: {error}"), "check the host of the URL")
        })?;
        let addresses: Vec<_> = found.collect();
        let is_far = is_far(&host, &addresses, own)?;
        let query = parsed.query().map_or_else(String::new, |query| format!("?{query}"));
        let path = format!("{}{query}", parsed.path());
        let is_tls = parsed.scheme() == "https";
        Ok(Self { url: url.to_owned(), host, port, path, is_tls, addresses, is_far })
    }

    /// Host and port as a request names them.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// Whether a host is another machine: the addresses count, never the name.
fn is_far(host: &str, addresses: &[SocketAddr], own: &str) -> Result<bool, Failure> {
    if !own.is_empty() && own != host {
        return Err(Failure::usage(
            format!("--i-own-this names {own:?}, and the URL's host is {host:?}"),
            "type the host of the URL, letter by letter",
        ));
    }
    let stranger = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    match stranger {
        None if addresses.is_empty() => {
            Err(Failure::unavailable(format!("{host} has no address"), "check the host of the URL"))
        }
        None => Ok(false),
        Some(_) if own == host => Ok(true),
        Some(stranger) => Err(Failure::usage(
            format!("{host} is at {}, which is not this machine", stranger.ip()),
            format!(
                "storm a copy of your service on this machine. If the host is yours and charges nobody, add \
                 `--i-own-this {host}`: it then gets 10 requests a second, and {FAR_REQUESTS_MAX} at most"
            ),
        )),
    }
}

/// How fast requests may go out, and how many.
#[derive(Debug)]
pub(crate) struct Pace {
    is_far: bool,
    sent: AtomicUsize,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn of(target: &Target) -> Self {
        Self { is_far: target.is_far, sent: AtomicUsize::new(0), next: Mutex::new(None) }
    }

    /// Waits until so many requests may go out at once. False if there is no room for them any more.
    pub(crate) async fn turn(&self, requests: usize) -> bool {
        if !self.is_far {
            self.sent.fetch_add(requests, Ordering::SeqCst);
            return true;
        }
        let mut next = self.next.lock().await;
        if self.sent.load(Ordering::SeqCst) + requests > FAR_REQUESTS_MAX {
            return false;
        }
        self.sent.fetch_add(requests, Ordering::SeqCst);
        if let Some(moment) = *next {
            tokio::time::sleep_until(moment).await;
        }
        *next = Some(Instant::now() + FAR_PAUSE * u32::try_from(requests).unwrap_or(u32::MAX));
        true
    }

    /// How many requests went out.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Vec<SocketAddr> {
        address.split(' ').map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn the_address_decides_and_not_the_name() {
        for near in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "127.0.0.1:80 [::1]:80"] {
            assert!(!is_far("shop.example", &at(near), "").unwrap(), "{near}");
        }
        for far in ["10.0.0.1:80", "0.0.0.0:80", "203.0.113.5:80", "[::]:80", "127.0.0.1:80 203.0.113.5:80"] {
            let refused = is_far("localhost", &at(far), "").unwrap_err();
            assert!(refused.hint().contains("--i-own-this localhost"), "{far}: {refused}");
        }
    }

    #[test]
    fn another_machine_is_stormed_only_by_who_types_its_host() {
        let far = at("203.0.113.5:443");
        assert!(is_far("shop.example", &far, "shop.example").unwrap());
        for wrong in ["shop.example.org", "Shop.example", "example", "203.0.113.5", "*"] {
            assert!(is_far("shop.example", &far, wrong).is_err(), "{wrong}");
        }
        assert!(is_far("localhost", &at("127.0.0.1:80"), "shop.example").is_err(), "the flag names another host");
    }

    #[tokio::test]
    async fn a_url_with_a_password_or_another_scheme_goes_nowhere() {
        for wrong in ["ftp://127.0.0.1/", "http://user:word@127.0.0.1/", "127.0.0.1:3000", "file:///etc/passwd"] {
            assert!(matches!(Target::of(wrong, "").await, Err(Failure::Usage { .. })), "{wrong}");
        }
        let target = Target::of("http://127.0.0.1:3000/in?a=1", "").await.unwrap();
        assert_eq!((target.authority().as_str(), target.path.as_str()), ("127.0.0.1:3000", "/in?a=1"));
    }

    async fn pace(is_far: bool) -> Pace {
        Pace::of(&Target { is_far, ..Target::of("http://127.0.0.1:1/", "").await.unwrap() })
    }

    #[tokio::test(start_paused = true)]
    async fn another_machine_gets_ten_requests_a_second_and_six_hundred_at_most() {
        let pace = pace(true).await;
        let started = Instant::now();
        for _ in 0..(FAR_REQUESTS_MAX / 5) {
            assert!(pace.turn(5).await);
        }
        let took = started.elapsed();
        assert!((Duration::from_secs(59)..Duration::from_secs(61)).contains(&took), "{took:?}");
        assert!(!pace.turn(1).await);
        assert_eq!(pace.sent(), FAR_REQUESTS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn this_machine_gets_them_at_once() {
        let pace = pace(false).await;
        let started = Instant::now();
        for _ in 0..2_000 {
            assert!(pace.turn(1).await);
        }
        assert!(started.elapsed() < Duration::from_millis(1));
    }
}
