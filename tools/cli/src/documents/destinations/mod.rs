//! Destination documents: reading, checking, and showing them without their secrets.

pub(crate) mod ready;
mod waiting;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::effect::DestinationId;
use hookonce_providers::names_a_credential;
use hookonce_runtime::destinations::{Destination, DestinationDocument, DestinationKind};
use hookonce_runtime::documents::DocumentKind;

pub(crate) use self::waiting::{Waiting, waiting};
use crate::documents::{DocumentId, HIDDEN};
use crate::failure::Failure;

/// How many steps of a URL's path are shown, and how long they may be. What comes later, or is longer, may be a secret:
/// that of Slack, Discord and Telegram is.
const STEPS_SHOWN: usize = 2;
const STEP_BYTES_SHOWN: usize = 20;

/// Headers whose values anybody may know.
const OPEN_HEADERS: [&str; 2] = ["accept", "user-agent"];

/// Services whose addresses are secrets, even short ones, by host and the beginning of the path: whoever knows such an
/// address can call it. There are also the ready-made documents whose credential is the address.
const SECRET_ADDRESSES: [(&str, &str); 7] = [
    ("discord.com", "api/webhooks/"),
    ("discordapp.com", "api/webhooks/"),
    ("hooks.slack.com", ""),
    ("hooks.zapier.com", ""),
    ("make.com", ""),
    ("maker.ifttt.com", ""),
    ("webhook.office.com", ""),
];

/// Services that give each receiver a host of its own, whose name is all that a caller has to know. A shared host of
/// theirs is secret by its path.
const SECRET_HOSTS: [&str; 4] = ["beeceptor.com", "pipedream.net", "requestcatcher.com", "webhook.site"];

impl DocumentId for DestinationId {
    const NOUN: &'static str = "destination";
    const KIND: DocumentKind = DocumentKind::Destination;
    const FIELDS: &'static str = "schemas/destination.json describes every field";

    type Document = DestinationDocument;
    type Checked = Destination;

    fn of(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }

    fn parse_document(text: &str) -> Result<DestinationDocument, String> {
        DestinationDocument::parse(text).map_err(|error| error.to_string())
    }

    fn check(&self, document: &DestinationDocument) -> Result<Destination, Failure> {
        Destination::new(self.clone(), document).map_err(|error| {
            let faults = error.faults.iter().map(|fault| match error.faults.len() {
                1 => format!(" {fault}"),
                _ => format!("\n  {fault}"),
            });
            let what = format!("destination {self}:{}", faults.collect::<String>());
            Failure::usage(what, "docs/use/effects.md says what the fields promise")
        })
    }

    fn detail(_: Option<&Destination>) -> Option<(&'static str, Option<&str>)> {
        None
    }

    fn hide(document: &mut DestinationDocument) {
        let open = |name: &str| {
            let name = name.to_ascii_lowercase();
            OPEN_HEADERS.contains(&name.as_str()) || name.ends_with("-version")
        };
        let headers = document.headers.iter_mut().filter(|(name, _)| !open(name)).map(|(_, value)| value);
        for value in headers.chain(&mut document.standard_webhooks_secret) {
            HIDDEN.clone_into(value);
        }
        if document.kind == DestinationKind::Http {
            document.url = document.url.as_deref().map(shown_url);
        }
    }
}

/// Generates a secret of the Standard Webhooks specification.
pub(crate) fn make_signing_secret() -> String {
    let random: [u8; 32] = rand::random();
    format!("whsec_{}", STANDARD.encode(random))
}

/// Where effects go, without what may be secret in it.
pub(crate) fn shown_address(document: &DestinationDocument) -> Option<String> {
    match document.kind {
        DestinationKind::Http => document.url.as_deref().map(shown_url),
        DestinationKind::Sqs => document.url.clone(),
        DestinationKind::Lambda => document.function.clone(),
    }
}

/// The part of a host after its secret labels; `None` for a host that is no secret.
fn open_part(host: &str) -> Option<&'static str> {
    let host = host.split_once(':').map_or(host, |(name, _port)| name).to_ascii_lowercase();
    SECRET_HOSTS.into_iter().find(|known| host.strip_suffix(known).is_some_and(|labels| labels.ends_with('.')))
}

/// Whether an address is, or holds, a secret: by whose it is, by a step or a value as long as a token, or by the name
/// of a parameter.
pub(crate) fn is_secret_address(url: &str) -> bool {
    let ready = ready::all().iter().filter(|ready| matches!(ready.credential, ready::Credential::Url { .. }));
    let mut addresses = ready.filter_map(|ready| ready.document.url.as_deref());
    if addresses.any(|address| url.strip_prefix(address).is_some_and(|rest| !rest.is_empty())) {
        return true;
    }
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let belongs = |(known, start): &(&str, &str)| {
        let is_theirs = host == *known || host.strip_suffix(known).is_some_and(|subdomain| subdomain.ends_with('.'));
        is_theirs && path.strip_prefix(start).is_some_and(|rest| !rest.is_empty())
    };
    let is_long = |text: &str| text.len() >= STEP_BYTES_SHOWN;
    SECRET_ADDRESSES.iter().any(belongs)
        || open_part(host).is_some()
        || path.split('/').any(is_long)
        || query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .any(|(name, value)| names_a_credential(name) || is_long(value))
}

/// A URL without what may be secret in it.
fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').map_or((rest, String::new()), |(rest, _)| (rest, format!("?{HIDDEN}")));
    let mut parts = rest.split('/');
    let host = parts.next().unwrap_or_default();
    let host = open_part(host).map_or_else(|| host.to_owned(), |open| format!("{HIDDEN}.{open}"));
    let mut shown = format!("{scheme}://{host}");
    for (index, step) in parts.enumerate() {
        if step.is_empty() || (index < STEPS_SHOWN && step.len() < STEP_BYTES_SHOWN) {
            shown.push('/');
            shown.push_str(step);
        } else {
            shown = shown + "/" + HIDDEN;
            break;
        }
    }
    shown + &query
}

#[cfg(test)]
mod tests {
    use hookonce_providers::CREDENTIAL_WORDS;

    use super::*;

    #[test]
    fn a_url_is_shown_without_the_secret_that_some_services_keep_in_it() {
        for (url, shown) in [
            ("https://api.stripe.com/v1", "https://api.stripe.com/v1"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/"),
            ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/services/T0/<hidden>"),
            ("https://discord.com/api/webhooks/1/token", "https://discord.com/api/webhooks/<hidden>"),
            ("https://api.telegram.org/bot123:AAAAAAAAAAAAAAAAAAAAA", "https://api.telegram.org/<hidden>"),
            ("https://a.example/in?token=hush", "https://a.example/in?<hidden>"),
            ("https://hush.m.pipedream.net/", "https://<hidden>.pipedream.net/"),
            ("https://Hush.PipeDream.net:443/in", "https://<hidden>.pipedream.net/in"),
            ("https://webhook.site/2f0c1ab6-9d35-4cf9-8f5e-0d7a2c5b7a11", "https://webhook.site/<hidden>"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    #[test]
    fn an_address_that_is_a_secret_is_known_by_its_owner_or_its_form() {
        for secret in [
            "https://discord.com/api/webhooks/1/a",
            "https://canary.discord.com/api/webhooks/1/a",
            "https://hooks.slack.com/services/T0/B0/xyz",
            "https://hooks.zapier.com/hooks/catch/1/abc/",
            "https://hook.eu1.make.com/abc",
            "https://maker.ifttt.com/trigger/x/with/key/y",
            "https://acme.webhook.office.com/webhookb2/a",
            "https://api.telegram.org/bot1:a",
            "https://chat.googleapis.com/v1/spaces/A/messages?key=a&token=b",
            "https://a.logic.azure.com/workflows/a/triggers/manual?sv=1.0&sig=b",
            "https://n8n.example.com/webhook/2f0c1ab6-9d35-4cf9-8f5e-0d7a2c5b7a11",
            "https://eo1a2b3c4d.m.pipedream.net",
            "https://EO1A2B3C4D.m.PIPEDREAM.net:443/in",
            "https://2f0c1ab6.webhook.site/",
        ] {
            assert!(is_secret_address(secret), "{secret}");
        }
        for open in [
            "https://api.stripe.com/v1",
            "https://crm.example.com/a/b/c/d/in",
            "https://crm.example.com/in?version=2",
            "https://PREFIX-checkout-live.adyenpayments.com/checkout/v71",
            "https://discord.com/api/webhooks/",
            "https://notmake.com/in",
            "https://pipedream.net/in",
            "https://notpipedream.net/in",
            "http://127.0.0.1:9000/in",
        ] {
            assert!(!is_secret_address(open), "{open}");
        }
    }

    /// The same names that a capture withholds.
    #[test]
    fn every_name_of_a_credential_makes_an_address_a_secret() {
        for word in CREDENTIAL_WORDS {
            for name in [word.to_owned(), format!("My{}", word.to_uppercase())] {
                assert!(is_secret_address(&format!("https://crm.example.com/in?{name}=a")), "{name}");
            }
        }
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let text = r#"{"kind": "http", "url": "https://a.example/b/c/hush", "class": "at_least_once",
            "headers": {"authorization": "hush", "X-Api-Key": "hush", "Accept": "text/plain", "stripe-version": "2"},
            "standard_webhooks_secret": "whsec_hush"}"#;
        let mut document = DestinationId::parse_document(text).unwrap();
        DestinationId::hide(&mut document);
        let shown = crate::documents::text_of(&document);
        assert!(!shown.contains("hush") && shown.contains("text/plain") && shown.contains(r#""2""#), "{shown}");
    }
}
