//! Credentials in a captured request. A capture that is kept holds a label in the place of each: a short hash. Only
//! someone who has the credential can recognise it and put it back.
//!
//! What is a credential is decided by its place, never by its value. A wrong token, or one that the endpoint holds no
//! longer, is one too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::captured::CapturedRequest;
use crate::catalog::Catalog;
use crate::json::Node;
use crate::kept::names_a_credential;
use crate::provider::{Provider, SchemeEntry};
use crate::request::percent_decoded;
use crate::scheme::Scheme;
use crate::scheme::tools::{CREDENTIAL, SignatureLocation};
use crate::settings::{HEADER, VERIFY_TOKEN};
use crate::source::Source;

/// The bytes of the hash in a label. Few, so that it helps little to guess a weak token.
const LABEL_BYTES: usize = 4;

/// How HTTP Basic credentials begin.
const BASIC: &str = "Basic ";

/// A credential of a capture that its endpoint does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownCredential {
    /// Where the request held it, in the form of a catalog file, such as `header:x-gitlab-token`.
    pub place: String,
    /// What the capture holds instead.
    pub label: String,
}

impl CapturedRequest {
    /// Puts labels in the place of credentials, and returns the places.
    pub fn withhold(&mut self) -> Vec<String> {
        let provider = Catalog::built_in().provider(&self.provider);
        let mut places = provider.map(Provider::credential_places).unwrap_or_default();
        let named = self.headers.iter().map(|(name, _)| Source::Header(name.to_ascii_lowercase()));
        let named = named.chain(query_names(&self.url).into_iter().map(Source::Query));
        for place in named.filter(is_named_like_a_credential) {
            if !places.contains(&place) && !provider.is_some_and(|provider| provider.reads(&place)) {
                places.push(place);
            }
        }
        places.retain(|place| self.rewrite(place, |value| Some(labelled(value))) > 0);
        places.iter().map(ToString::to_string).collect()
    }

    /// Puts the endpoint's own credentials back in the place of their labels. Returns those that the provider's rules
    /// read and the endpoint does not hold; their labels stay, so they fit no secret.
    pub fn restore(&mut self, withheld: &[String]) -> Vec<UnknownCredential> {
        let token = self.settings.get(VERIFY_TOKEN).map(str::to_owned);
        let held = self.secrets.iter().cloned().chain(token);
        let held: Vec<_> = held.flat_map(|text| [format!("{BASIC}{}", STANDARD.encode(&text)), text]).collect();
        let provider = Catalog::built_in().provider(&self.provider);
        let mut own = provider.map(Provider::credential_places).unwrap_or_default();
        own.extend(self.settings.get(HEADER).map(|name| Source::Header(name.to_owned())));
        let mut unknown = Vec::new();
        for place in withheld.iter().filter_map(|place| Source::parse(place).ok()) {
            self.rewrite(&place, |label| {
                let found = held.iter().find(|text| labelled(text) == label).cloned();
                if found.is_none() && own.contains(&place) {
                    unknown.push(UnknownCredential { place: place.to_string(), label: label.to_owned() });
                }
                found
            });
        }
        unknown
    }

    /// Replaces every value at a place for which there is another one. Returns how many there were.
    fn rewrite(&mut self, place: &Source, mut other: impl FnMut(&str) -> Option<String>) -> usize {
        let mut count = 0;
        let mut other = |value: &str| {
            let replaced = if value.is_empty() { None } else { other(value) };
            count += usize::from(replaced.is_some());
            replaced
        };
        match place {
            Source::Header(name) => {
                for (_, value) in self.headers.iter_mut().filter(|(key, _)| key.eq_ignore_ascii_case(name)) {
                    if let Some(text) = other(&String::from_utf8_lossy(value)) {
                        *value = text.into_bytes();
                    }
                }
            }
            Source::Query(name) => {
                let Some((address, query)) = self.url.split_once('?') else { return 0 };
                let pair = |pair: &str| match pair.split_once('=') {
                    Some((key, value)) if decoded(key) == *name => other(&decoded(value))
                        .map_or_else(|| pair.to_owned(), |text| format!("{key}={}", encoded(&text))),
                    _ => pair.to_owned(),
                };
                self.url = format!("{address}?{}", query.split('&').map(pair).collect::<Vec<_>>().join("&"));
            }
            Source::Json(path) => {
                let Ok(Some(node)) = Node::parse_unproven(&self.body).and_then(|root| path.find(root)) else {
                    return 0;
                };
                let Ok(value) = serde_json::from_str::<String>(node.text()) else { return 0 };
                if let Some(text) = other(&value) {
                    let range = node.start()..node.end();
                    self.body.splice(range, Value::from(text).to_string().into_bytes());
                }
            }
            // Not a place that holds a credential.
            Source::Setting(_)
            | Source::Form(_)
            | Source::FormXml { .. }
            | Source::Word(_)
            | Source::AdyenText
            | Source::HashOf(_)
            | Source::SignedAt
            | Source::RequestSha256
            | Source::Sha256
            | Source::DeliverySha256 => {}
        }
        count
    }
}

impl Provider {
    /// The places where its requests hold a credential: the header of a token, and what a handshake compares or hands
    /// out.
    fn credential_places(&self) -> Vec<Source> {
        let lookups = self.schemes.iter().flat_map(|entry| entry.scheme.kind().lookups());
        let headers = lookups.filter(|lookup| lookup.what == CREDENTIAL).filter_map(|lookup| match lookup.place {
            SignatureLocation::Header(name) => Some(Source::Header(name)),
            // Its name says that it holds one, or no endpoint may have it.
            SignatureLocation::Headers(_) | SignatureLocation::Setting(_) | SignatureLocation::Body(_) => None,
        });
        let handshakes = self.handshakes.iter().flat_map(|it| it.token.iter().chain(&it.hands_out)).cloned();
        headers.chain(handshakes).collect()
    }

    /// Where its requests hold a credential, as it is: the first such place among these headers and the URL's
    /// parameters, in the form of a catalog file.
    pub fn credential_among<'a>(&self, headers: impl IntoIterator<Item = &'a str>, url: &str) -> Option<String> {
        let places = self.credential_places();
        let headers = headers.into_iter().map(|name| Source::Header(name.to_ascii_lowercase()));
        let mut given = headers.chain(query_names(url).into_iter().map(Source::Query));
        // The header that an endpoint may name.
        let may_be = |place: &Source| {
            self.reads_setting(HEADER) && matches!(place, Source::Header(name) if names_a_credential(name))
        };
        given.find(|place| places.contains(place) || may_be(place)).map(|place| place.to_string())
    }

    /// Whether it reads or signs what stands at a place, so that nothing could be judged without it.
    fn reads(&self, place: &Source) -> bool {
        match place {
            Source::Header(name) => {
                self.keep.contains(name) || self.schemes.iter().any(|it| self.reads_header(it, name))
            }
            Source::Query(_) => {
                let signs_it = self.schemes.iter().any(|entry| entry.scheme.kind().covers_url());
                let mut conditions = self.handshakes.iter().flat_map(|handshake| &handshake.when);
                signs_it || conditions.any(|(source, _)| source == place)
            }
            Source::Json(_)
            | Source::Setting(_)
            | Source::Form(_)
            | Source::FormXml { .. }
            | Source::Word(_)
            | Source::AdyenText
            | Source::HashOf(_)
            | Source::SignedAt
            | Source::RequestSha256
            | Source::Sha256
            | Source::DeliverySha256 => true,
        }
    }
}

impl Provider {
    /// Whether a delivery of this scheme is judged, named or typed by a header.
    fn reads_header(&self, entry: &SchemeEntry, name: &str) -> bool {
        let looks_up = || {
            entry.scheme.kind().lookups().into_iter().any(|lookup| match lookup.place {
                SignatureLocation::Header(read) => read == name,
                SignatureLocation::Headers(prefix) => name.starts_with(&prefix),
                SignatureLocation::Setting(_) | SignatureLocation::Body(_) => false,
            })
        };
        let chooses =
            || matches!(&entry.scheme, Scheme::Signed(scheme) if scheme.when.iter().any(|(it, _)| it == name));
        looks_up() || chooses() || self.deciding_headers(entry).contains(name)
    }
}

fn query_names(url: &str) -> Vec<String> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let name = |pair: &str| decoded(pair.split_once('=').unwrap_or((pair, "")).0);
    query.split('&').map(name).collect()
}

fn is_named_like_a_credential(place: &Source) -> bool {
    matches!(place, Source::Header(name) | Source::Query(name) if names_a_credential(name))
}

/// What stands for a credential. HTTP Basic credentials keep their form, so that they are judged as such.
fn labelled(value: &str) -> String {
    let basic = value.strip_prefix(BASIC).and_then(|rest| STANDARD.decode(rest).ok()).filter(|it| !it.is_empty());
    basic.map_or_else(|| label(value.as_bytes()), |bytes| format!("{BASIC}{}", STANDARD.encode(label(&bytes))))
}

fn label(value: &[u8]) -> String {
    let hash = hex::encode(Sha256::digest(value));
    format!("sha256:{}", hash.get(..2 * LABEL_BYTES).unwrap_or_default())
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(text)).into_owned()
}

fn encoded(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kept::CREDENTIAL_WORDS;

    fn captured(provider: &str, url: &str, headers: &Value, body: &str) -> CapturedRequest {
        let form = json!({ "provider": provider, "method": "POST", "url": url, "headers": headers,
            "body_base64": STANDARD.encode(body), "secrets": [], "now_unix": 7,
            "settings": { "header": "x-webhook-secret" } });
        CapturedRequest::parse(form.to_string().as_bytes()).unwrap()
    }

    fn parts(captured: &CapturedRequest) -> String {
        let headers =
            captured.headers.iter().map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value)));
        format!("{}\n{}{}", captured.url, headers.collect::<String>(), String::from_utf8_lossy(&captured.body))
    }

    /// Provider, query, header, body, and where the credential is.
    type Case = (&'static str, &'static str, (&'static str, &'static str), &'static str, &'static str);

    /// Each credential fits no secret of its endpoint.
    const CASES: [Case; 9] = [
        ("gitlab", "", ("X-Gitlab-Token", "LEAKMENOT"), "", "header:x-gitlab-token"),
        (
            "telegram",
            "",
            ("x-telegram-bot-api-secret-token", "LEAKMENOT"),
            "",
            "header:x-telegram-bot-api-secret-token",
        ),
        ("okta", "", ("authorization", "LEAKMENOT"), "", "header:authorization"),
        ("token", "", ("X-Webhook-Secret", "LEAKMENOT"), "", "header:x-webhook-secret"),
        ("postmark", "", ("authorization", "Basic TEVBS01FTk9UOkxFQUtNRU5PVA=="), "", "header:authorization"),
        ("meta_whatsapp", "?a=1&hub.verify%5Ftoken=LEAK%4DENOT", ("a", "b"), "", "query:hub.verify_token"),
        ("notion", "", ("a", "b"), r#"{"verification_token": "LEAKM\u0045NOT"}"#, "json:$.verification_token"),
        // What another provider, or a person, sends to an endpoint that does not read it.
        ("stripe", "", ("x-gitlab-token", "LEAKMENOT"), "", "header:x-gitlab-token"),
        ("stripe", "?token=LEAKMENOT", ("a", "b"), "", "query:token"),
    ];

    #[test]
    fn a_credential_is_withheld_by_its_place_and_only_who_has_it_can_put_it_back() {
        for (provider, query, (name, value), body, place) in CASES {
            let original = captured(provider, &format!("https://x/{query}"), &json!({ name: value }), body);
            let mut kept = original.clone();
            let withheld = kept.withhold();
            assert_eq!(withheld, [place], "{provider}: no endpoint holds it");
            let labels = parts(&kept);
            for leak in ["LEAK", "TEVBS01FTk9U", "%4DENOT", "0045NOT"] {
                assert!(!labels.contains(leak), "{provider}: {labels}");
            }
            kept.secrets = vec!["another".to_owned()];
            let unknown = kept.restore(&withheld);
            let read = if provider == "stripe" { vec![] } else { vec![place] };
            assert_eq!(unknown.iter().map(|it| it.place.as_str()).collect::<Vec<_>>(), read);
            assert_eq!(parts(&kept), labels, "{provider}");
            let secret = if provider == "postmark" { "LEAKMENOT:LEAKMENOT" } else { "LEAKMENOT" };
            kept.secrets.push(secret.to_owned());
            assert_eq!(kept.restore(&withheld), [], "{provider}");
            let plain = |text: String| text.replace("%4D", "M").replace("\\u0045", "E");
            assert_eq!(plain(parts(&kept)), plain(parts(&original)), "{provider}");
        }
    }

    #[test]
    fn every_name_of_a_credential_is_withheld() {
        for word in CREDENTIAL_WORDS {
            for name in [word.to_owned(), format!("X-My-{}", word.to_uppercase())] {
                let url = format!("https://x/?a=1&{name}=LEAKMENOT");
                let mut kept = captured("stripe", &url, &json!({ &name: "LEAKMENOT" }), "");
                kept.withhold();
                assert!(!parts(&kept).contains("LEAK"), "{}", parts(&kept));
            }
        }
        for name in ["key", "auth", "password", "sig", "pass", "apikey", "x-auth", "x-password", "x-shared-key"] {
            assert!(names_a_credential(name), "{name}");
        }
    }

    #[test]
    fn what_the_provider_reads_or_signs_stays() {
        let headers = json!({ "stripe-signature": "t=1,v1=00", "content-type": "application/json" });
        assert_eq!(captured("stripe", "https://x/?a=1", &headers, "{}").withhold(), [""; 0]);
        let bearer = json!({ "authorization": "a.b.c" });
        assert_eq!(captured("livekit", "https://x/", &bearer, "{}").withhold(), [""; 0]);
        assert_eq!(captured("x_twitter", "https://x/?crc_token=a", &json!({}), "").withhold(), [""; 0]);
        assert_eq!(captured("square", "https://x/?token=a", &json!({}), "").withhold(), [""; 0]);
        assert_eq!(captured("gitlab", "https://x/", &json!({ "x-gitlab-token": "" }), "").withhold(), [""; 0]);
        for (provider, name) in
            [("bitbucket", "x-event-key"), ("gitlab", "Idempotency-Key"), ("hubspot", "x-hubspot-signature-version")]
        {
            assert_eq!(captured(provider, "https://x/", &json!({ name: "a" }), "").withhold(), [""; 0], "{provider}");
        }
    }
}
