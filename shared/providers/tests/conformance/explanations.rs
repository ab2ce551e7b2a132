//! Explanations of refused requests: they name the cause and never show a secret.

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Explanation, Provider, Request, Settings, UnsignedRequest};

use crate::support::{Vector, all, provider};

const NOW: EpochSec = EpochSec(1_767_225_600);
const URL: &str = "https://example.com/hook";
const BODY: &str = r#"{"id":"evt_1","type":"invoice.paid","note":"caf\u00e9"}"#;
/// A secret that is easy to recognise.
const SECRET: &str = "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==";

/// A request that was signed correctly and then changed.
struct Case {
    id: &'static str,
    signed_url: &'static str,
    signed_body: &'static str,
    signed_with: &'static str,
    signed_at: EpochSec,
    url: &'static str,
    body: String,
    held: Vec<String>,
    headers: fn(&mut Vec<(String, Vec<u8>)>),
}

impl Case {
    fn of(id: &'static str) -> Self {
        Self {
            id,
            signed_url: URL,
            signed_body: BODY,
            signed_with: SECRET,
            signed_at: NOW,
            url: URL,
            body: BODY.to_owned(),
            held: vec![SECRET.to_owned()],
            headers: |_| (),
        }
    }

    fn explain(&self) -> Explanation {
        let provider = provider(self.id);
        let unsigned =
            UnsignedRequest { method: "POST", url: self.signed_url, headers: &[], body: self.signed_body.as_bytes() };
        let signed = provider.sign_request(&unsigned, self.signed_with, self.signed_at).unwrap();
        let mut headers: Vec<(String, Vec<u8>)> =
            signed.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
        (self.headers)(&mut headers);
        let request = Request { method: "POST", url: self.url, headers: &headers, body: self.body.as_bytes() };
        let explanation = provider.explain(&request, &self.held, &Settings::none(), None, NOW);
        let printed = format!("{explanation} {}", serde_json::to_string(&explanation).unwrap());
        assert!(!printed.contains("aHVudGVyM") && !printed.contains("hunter2"), "{printed}");
        explanation
    }

    fn causes(&self) -> Vec<&'static str> {
        self.explain().causes.iter().map(hookonce_providers::Cause::code).collect()
    }
}

#[test]
fn an_authentic_request_has_no_cause() {
    let explanation = Case::of("stripe").explain();
    assert_eq!((explanation.code, explanation.causes.as_slice()), (None, [].as_slice()));
    assert_eq!(explanation.looked_for[0].place, "stripe-signature");
}

#[test]
fn a_secret_that_was_copied_badly_is_recognised() {
    for (held, cause) in [
        (format!("{SECRET}\n"), "secret_has_space"),
        (format!(" {SECRET}"), "secret_has_space"),
        (format!("\"{SECRET}\""), "secret_has_quotes"),
        ("another".to_owned(), "other_secret_or_body"),
    ] {
        assert_eq!(Case { held: vec![held], ..Case::of("stripe") }.causes(), [cause]);
    }
}

#[test]
fn a_secret_of_the_wrong_form_is_recognised() {
    let literal = Case { signed_with: SECRET, held: vec![SECRET.to_owned()], ..Case::of("stripe") };
    assert!(literal.causes().is_empty());
    // Signed with the decoded secret, as Standard Webhooks does, and checked as literal text, as Stripe does.
    let decoded = "hunter2hunter2hunter2hunter2";
    let base64 = Case { signed_with: decoded, ..Case::of("stripe") };
    assert_eq!(base64.causes(), ["secret_form"]);
    let broken = Case { held: vec!["whsec_!".to_owned()], ..Case::of("standard_webhooks") };
    assert_eq!(broken.causes()[0], "secret_unusable");
    let none = Case { held: vec![], ..Case::of("stripe") };
    assert_eq!(none.causes()[0], "no_secret");
}

#[test]
fn a_body_that_was_written_again_is_recognised() {
    let spaced = r#"{"id": "evt_1", "type": "invoice.paid", "note": "caf\u00e9"}"#;
    let pretty = "{\n  \"id\": \"evt_1\",\n  \"type\": \"invoice.paid\",\n  \"note\": \"caf\\u00e9\"\n}";
    for body in [spaced, pretty, &format!("{BODY}\n"), &BODY.replace("\\u00e9", "\u{e9}")] {
        assert_eq!(Case { body: body.to_owned(), ..Case::of("stripe") }.causes(), ["body_changed"], "{body}");
    }
    let stripped = Case { signed_body: "{\"id\":\"1\"}\r\n", body: "{\"id\":\"1\"}".to_owned(), ..Case::of("stripe") };
    assert_eq!(stripped.causes(), ["body_changed"]);
    let other = Case { body: BODY.replace("paid", "void"), ..Case::of("stripe") };
    assert_eq!(other.causes(), ["other_secret_or_body"]);
}

#[test]
fn a_wrong_public_url_is_recognised_and_its_query_is_not_shown() {
    let body = r#"{"event_id":"1"}"#;
    let square = |url| Case { url, signed_body: body, body: body.to_owned(), ..Case::of("square") };
    for url in [
        "http://example.com/hook",
        "https://example.com/prod/hook",
        "https://example.com/hook/",
        "https://example.com/hook?k=1",
    ] {
        let explanation = square(url).explain();
        assert_eq!(explanation.causes[0].code(), "other_url", "{url}");
        assert!(explanation.causes[0].to_string().contains(URL));
    }
    let secret_query =
        Case { signed_url: "http://example.com/hook?k=hunter2", ..square("https://example.com/hook?k=hunter2") };
    assert_eq!(secret_query.causes(), ["other_url"]);
}

#[test]
fn a_clock_that_is_wrong_is_recognised() {
    let late = Case { signed_at: EpochSec(NOW.0 - 400), ..Case::of("stripe") }.explain();
    assert_eq!(late.code, Some("timestamp_out_of_range"));
    assert!(late.to_string().contains("400 s old, and 300 s are allowed"), "{late}");
    let early = Case { signed_at: EpochSec(NOW.0 + 400), ..Case::of("stripe") }.explain();
    assert!(early.to_string().contains("400 s in the future"), "{early}");
}

#[test]
fn what_is_missing_or_twice_is_said() {
    let missing = Case { headers: Vec::clear, ..Case::of("stripe") }.explain();
    assert_eq!(missing.causes[0].code(), "signature_missing");
    assert!(missing.to_string().contains("signature stripe-signature: missing"), "{missing}");
    let renamed: fn(&mut Vec<(String, Vec<u8>)>) = |headers| headers[0].0 = "paddle-signature".to_owned();
    assert_eq!(Case { headers: renamed, ..Case::of("stripe") }.causes(), ["other_provider", "signature_missing"]);
    let twice: fn(&mut Vec<(String, Vec<u8>)>) = |headers| headers.push(headers[0].clone());
    assert_eq!(Case { headers: twice, ..Case::of("stripe") }.causes(), ["duplicate_header"]);
    let cut: fn(&mut Vec<(String, Vec<u8>)>) = |headers| headers[0].1.truncate(40);
    assert_eq!(Case { headers: cut, ..Case::of("stripe") }.causes().len(), 1);
}

#[test]
fn an_authentic_request_without_an_id_says_where_it_was_looked_for() {
    let explanation = Case { signed_body: "{}", body: "{}".to_owned(), ..Case::of("stripe") }.explain();
    assert_eq!((explanation.authentic, explanation.code), (true, None));
    assert_eq!(explanation.causes[0].code(), "id_missing");
    assert!(explanation.causes[0].to_string().contains("json:$.id"));
    let garbage = Case { signed_body: "}{", body: "}{".to_owned(), ..Case::of("stripe") }.explain();
    assert_eq!((garbage.authentic, garbage.causes[0].code()), (true, "body_unreadable"));
    let forged = Case { signed_body: "{}", body: "[]".to_owned(), ..Case::of("stripe") }.explain();
    assert_eq!((forged.authentic, forged.code), (false, Some("signature_mismatch")));
}

#[test]
fn a_missing_setting_is_named() {
    let headers = [("paypal-transmission-sig".to_owned(), b"AA==".to_vec())];
    let request = Request { method: "POST", url: URL, headers: &headers, body: b"{}" };
    let explanation = provider("paypal").explain(&request, &[], &Settings::none(), None, NOW);
    assert_eq!(explanation.causes[0].to_string(), "The endpoint needs the setting `webhook_id`.");
}

/// The correct signatures: what the provider would add, in pieces long enough to be a signature.
fn right_signatures(provider: &Provider, vector: &Vector) -> Vec<String> {
    let captured = &vector.captured;
    let given: Vec<(String, String)> = captured
        .headers
        .iter()
        .cloned()
        .filter_map(|(name, value)| Some((name, String::from_utf8(value).ok()?)))
        .filter(|(name, _)| !["signature", "mac", "hmac", "authorization"].iter().any(|part| name.contains(part)))
        .collect();
    let unsigned =
        UnsignedRequest { method: &captured.method, url: &captured.url, headers: &given, body: &captured.body };
    let sign =
        |secret: &String| provider.sign_request_with(&unsigned, secret, &captured.settings, &[], captured.now).ok();
    let signed = captured.secrets.iter().filter_map(sign).flat_map(|signed| signed.headers);
    let signed = signed.filter(|(name, _)| !name.ends_with("signed-headers"));
    let pieces = signed.flat_map(|(_, value)| {
        value.split([',', '=', ' ', '.']).filter(|piece| piece.len() >= 20).map(str::to_owned).collect::<Vec<_>>()
    });
    pieces.collect()
}

#[test]
fn no_explanation_of_any_vector_holds_a_secret_or_the_signature_that_would_be_right() {
    let (mut explained, mut compared) = (0, 0);
    for file in all() {
        let provider = provider(&file.provider);
        for vector in &file.vectors {
            let captured = &vector.captured;
            let explanation =
                provider.explain(&captured.request(), &captured.secrets, &captured.settings, None, captured.now);
            let printed = format!("{explanation} {}", serde_json::to_string(&explanation).unwrap());
            let core = |secret: &str| secret.trim_start_matches("whsec_").trim().chars().take(12).collect::<String>();
            for secret in captured.secrets.iter().map(|secret| core(secret)).filter(|core| core.len() >= 8) {
                assert!(!printed.contains(&secret) || secret.starts_with("-----BEGIN"), "{}: {printed}", vector.id);
            }
            for signature in right_signatures(provider, vector) {
                assert!(!printed.contains(&signature), "{}: {printed}", vector.id);
                compared += 1;
            }
            explained += 1;
        }
    }
    println!("{explained} explanations, {compared} signatures");
    assert!(explained > 800 && compared > 500, "{explained} explanations, {compared} signatures");
}
