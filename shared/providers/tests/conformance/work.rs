//! What an unauthenticated caller can make an endpoint compute before it knows the sender: bytes that are hashed and
//! parsed.
//!
//! `cargo test --workspace --test conformance work -- --nocapture` prints them.

use hookonce_providers::limits::{SECRETS_MAX, SIGNATURES_MAX};
use hookonce_providers::{CapturedRequest, Catalog, Keyring, Provider, Received, hashed_bytes, parsed_bytes};

use crate::support::{URL, headers, longer, provider, received, sign, valid, vector};

/// How many times as much as an accepted request a refused one may hash. Twilio needs two: it signs one of two URLs.
const RATIO_MAX: usize = 2;

/// How many times the JSON of a refused request may be parsed, each level of it once, and each level's texts again.
const PARSES_MAX: usize = 8;

/// What headers and separators may add, in bytes.
const SLACK_BYTES: usize = 32 * 1024;

/// An endpoint with as many secrets as it may hold, and requests that fit only its oldest.
struct Target {
    provider: &'static Provider,
    keyring: Keyring,
    accepted: CapturedRequest,
    hostile: Vec<CapturedRequest>,
}

/// What one request costs.
#[derive(Debug, Clone, Copy)]
struct Cost {
    hashed: usize,
    parsed: usize,
}

impl Target {
    fn new(provider: &'static Provider, bytes: usize, held: usize) -> Self {
        let secrets = &vector(provider.id(), &format!("{}/rotated-secret", provider.id())).captured.secrets;
        let (other, oldest) = (&secrets[0], &secrets[1]);
        let keyring = provider.keyring(&[vec![other.clone(); held - 1], vec![oldest.clone()]].concat()).unwrap();
        let mut unsigned = CapturedRequest { url: URL.to_owned(), ..valid(provider.id()).clone() };
        unsigned.body = longer(provider.id(), &unsigned.body, bytes);
        unsigned.secrets = vec![oldest.clone()];
        let sent = std::mem::take(&mut unsigned.headers);
        let accepted = match sign(&unsigned) {
            Ok(signed) => {
                let is_made = |name: &String| signed.headers.iter().any(|(made, _)| made == name);
                let others = sent.into_iter().filter(|(name, _)| !is_made(name));
                CapturedRequest { headers: others.chain(signed.headers.clone()).collect(), ..signed.clone() }
            }
            // Only the provider can sign. Its signature of another body is as good as any wrong one.
            Err(_) => CapturedRequest { headers: sent, ..unsigned },
        };
        let hostile = hostile(&accepted);
        Self { provider, keyring, accepted, hostile }
    }

    /// The cost of a request, and whether it was accepted.
    fn cost(&self, sent: &CapturedRequest) -> (Cost, bool) {
        let receive = || self.provider.receive(&sent.request(), &self.keyring, &sent.settings, None, sent.now);
        let ((received, hashed), parsed) = parsed_bytes(|| hashed_bytes(receive));
        (Cost { hashed, parsed }, matches!(received, Ok(Received::Delivery(_))))
    }

    /// The cost of an accepted request, if one can be made here, else one pass for each secret; and of the worst
    /// refused.
    fn costs(&self) -> (Cost, Cost) {
        let hostile = self.hostile.iter().map(|sent| self.cost(sent));
        // A header that only names the delivery, and is not signed, makes no request wrong.
        let refused: Vec<Cost> = hostile.filter_map(|(cost, accepted)| (!accepted).then_some(cost)).collect();
        let hashed = refused.iter().map(|cost| cost.hashed).max().unwrap();
        let parsed = refused.iter().map(|cost| cost.parsed).max().unwrap();
        let accepted = if self.provider.can_sign() {
            let (cost, is_accepted) = self.cost(&self.accepted);
            assert!(is_accepted, "{}", self.provider.id());
            cost
        } else {
            Cost { hashed: self.accepted.body.len() * self.keyring.len(), parsed: 0 }
        };
        (accepted, Cost { hashed, parsed })
    }
}

/// The same text with another digit or letter at its end.
fn spoiled(text: &str) -> String {
    let at = text.rfind(|c: char| c.is_ascii_alphanumeric()).unwrap_or(0);
    let end = if text[at..].starts_with('0') { "1" } else { "0" };
    format!("{}{end}{}", &text[..at], text.get(at + 1..).unwrap_or_default())
}

/// Requests that look like this one, with wrong signatures: one, and as many as a header can hold.
fn hostile(accepted: &CapturedRequest) -> Vec<CapturedRequest> {
    let mut requests = Vec::new();
    for (index, (name, value)) in accepted.headers.iter().enumerate() {
        let Ok(value) = std::str::from_utf8(value) else { continue };
        let mut with = |values: Vec<(String, String)>| {
            let mut request = accepted.clone();
            request.headers.splice(index..=index, headers(values));
            requests.push(request);
        };
        let wrong = spoiled(value);
        with(vec![(name.clone(), wrong.clone())]);
        for between in [",", " ", ";", "&"].into_iter().filter(|between| *between == "," || value.contains(between)) {
            let last = wrong.rsplit(between).next().unwrap().to_owned();
            for item in [last.clone(), last.chars().take(last.len() / 2).collect()] {
                with(vec![(name.clone(), format!("{wrong}{}", format!("{between}{item}").repeat(SIGNATURES_MAX - 1)))]);
            }
        }
        if let Some(prefix) = name.strip_suffix('1') {
            with((1..=SIGNATURES_MAX).map(|number| (format!("{prefix}{number}"), wrong.clone())).collect());
        }
    }
    let (id, text) = (accepted.provider.as_str(), String::from_utf8_lossy(&accepted.body));
    let with_body = |body: String| CapturedRequest { body: body.into_bytes(), ..accepted.clone() };
    if id == "braintree" {
        let (signature, payload) = text.split_once("&bt_payload=").unwrap();
        let (_, pair) = signature.split_once('=').unwrap();
        let pairs = vec![spoiled(pair); SIGNATURES_MAX].join("%26");
        requests.push(with_body(format!("bt_signature={pairs}&bt_payload={payload}")));
    } else if !text.contains(' ') || id == "adyen" || id == "mailgun" {
        requests.push(with_body(text.replacen("777", "778", 1)));
    }
    requests
}

fn check(provider: &'static Provider, bytes: usize, held: usize) {
    let target = Target::new(provider, bytes, held);
    let (accepted, refused) = target.costs();
    println!(
        "{:26} hashed bytes: accepted {:>9}, worst refused {:>9}, {:.2} times as many; parsed: worst refused {:>9}",
        provider.id(),
        accepted.hashed,
        refused.hashed,
        f64::from(u32::try_from(refused.hashed).unwrap()) / f64::from(u32::try_from(accepted.hashed).unwrap()),
        refused.parsed,
    );
    let max = accepted.hashed * RATIO_MAX + SLACK_BYTES;
    assert!(refused.hashed <= max, "{}: a refused request hashes {} bytes", provider.id(), refused.hashed);
    let max = target.hostile.iter().map(|request| request.body.len()).max().unwrap() * PARSES_MAX;
    assert!(refused.parsed <= max, "{}: a refused request has {} bytes parsed", provider.id(), refused.parsed);
}

/// Many short names cost more than one long text: each is a string of its own.
#[test]
fn what_a_stranger_sends_is_not_read_once_per_path() {
    const MEMBERS: usize = 300_000;
    let names: Vec<String> = (0..MEMBERS).map(|index| format!("\"{index}\":1")).collect();
    let names = names.join(",");
    let signed = r#""additionalData":{"hmacSignature":"AAAA"}"#;
    for (id, body) in [
        ("adyen", format!(r#"{{"notificationItems":[{{"NotificationRequestItem":{{{signed},{names}}}}}]}}"#)),
        (
            "adyen",
            format!(r#"{{"notificationItems":[{}]}}"#, vec![r#"{"NotificationRequestItem":{}}"#; 90_000].join(",")),
        ),
        ("aws_sns", format!("{{{names}}}")),
        ("mailgun", format!(r#"{{"signature":{{{names}}}}}"#)),
        ("mailgun", format!(r#"{{{names},"signature":{{}}}}"#)),
    ] {
        let (headers, bytes) = (headers([("content-type", "application/json")]), body.len());
        let captured = CapturedRequest { headers, body: body.into_bytes(), ..valid(id).clone() };
        let (received, parsed) = parsed_bytes(|| received(&captured));
        let times = parsed.div_ceil(bytes);
        println!("{id:10} {bytes} bytes, parsed {times} times");
        assert_eq!(received.unwrap_err().status(), 401, "{id}");
        assert!(times <= PARSES_MAX, "{id}: parsed {times} times");
    }
}

#[test]
fn no_refused_request_hashes_more_than_twice_an_accepted_one() {
    for provider in Catalog::built_in().iter() {
        check(provider, 32 * 1024, SECRETS_MAX);
    }
}

/// One provider for each kind of scheme and each layout of a signature.
#[test]
fn no_refused_mebibyte_hashes_more_than_twice_an_accepted_one() {
    let providers = "github stripe standard_webhooks docusign hubspot sendgrid discord telegram postmark livekit plaid twilio \
                     paypal adyen braintree aws_sns contentful mailgun";
    for id in providers.split(' ') {
        check(provider(id), 1024 * 1024, 1);
    }
}

/// Whoever hashes elsewhere is not counted.
#[test]
fn one_file_hashes_for_all_schemes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scheme");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A draft is of this side; a public key counts what it verifies.
        if ["hash.rs", "draft.rs"].contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for hasher in ["sha1::", "sha2::", "hmac::", "crc32fast::"] {
            assert!(!text.contains(hasher), "{name} names {hasher}");
        }
        assert!(name == "public_key.rs" || !text.contains("use ring::"), "{name} names ring");
    }
}
