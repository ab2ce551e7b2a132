//! Explanations of refused requests: they name the cause and never show a secret.

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{CapturedRequest, Cause, Explanation, hashed_bytes};

use crate::support::{NOW, URL, all, explain, owned, provider, request, sign, without_headers};

const BODY: &str = r#"{"id":"evt_1","type":"invoice.paid","note":"caf\u00e9"}"#;
/// A secret that is easy to recognise.
const SECRET: &str = "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==";

/// Explains a request that was signed correctly and then changed.
fn changed(signed: &CapturedRequest, change: impl FnOnce(&mut CapturedRequest)) -> Explanation {
    let mut captured = sign(signed).unwrap();
    change(&mut captured);
    let explanation = explain(&captured);
    let printed = format!("{explanation} {}", serde_json::to_string(&explanation).unwrap());
    assert!(!printed.contains("aHVudGVyM") && !printed.contains("hunter2"), "{printed}");
    explanation
}

fn codes(explanation: &Explanation) -> Vec<&'static str> {
    explanation.causes.iter().map(Cause::code).collect()
}

/// What Stripe signs.
fn stripe(body: &str) -> CapturedRequest {
    request("stripe", SECRET, body)
}

/// The causes if a delivery of Stripe is changed after it was signed.
fn causes(change: impl FnOnce(&mut CapturedRequest)) -> Vec<&'static str> {
    codes(&changed(&stripe(BODY), change))
}

#[test]
fn an_authentic_request_has_no_cause() {
    let explanation = changed(&stripe(BODY), |_| ());
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
        assert_eq!(causes(|captured| captured.secrets = vec![held]), [cause]);
    }
}

/// What is wrong with an endpoint otherwise says nothing about a signature.
#[test]
fn a_signature_is_judged_with_a_secret_that_is_only_too_weak() {
    let judged = |held: &str, schemes: &[&str]| {
        let mut captured = sign(&request("github", "short", BODY)).unwrap();
        captured.secrets = vec![held.to_owned()];
        captured.schemes = owned(schemes);
        let explanation = provider("github").explain_captured(&captured);
        (explanation.authentic, explanation.code, codes(&explanation))
    };
    let refused = Some("not_configured");
    assert_eq!(judged("short", &[]), (true, refused, vec!["configuration"]));
    assert_eq!(judged("other", &[]), (false, refused, vec!["configuration", "other_secret_or_body"]));
    assert!(!judged("short", &["nobody"]).0, "no scheme is known to judge by");
}

/// A stranger's capture: every way to write such a body in lines would take hundreds of times its bytes.
#[test]
fn a_deeply_nested_body_costs_no_more_than_a_few_passes_for_each_secret() {
    let nested = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let body = format!("[{}]", vec![nested; 1_000].join(","));
    let mut captured = sign(&stripe(&body)).unwrap();
    captured.secrets = (0..8).map(|number| format!("whsec_another_{number}_of_the_endpoint")).collect();
    let (explanation, hashed) = hashed_bytes(|| explain(&captured));
    assert_eq!(codes(&explanation), ["other_secret_or_body"]);
    let passes = hashed / body.len() / captured.secrets.len();
    assert!(passes <= 32, "{passes} passes over the body for each secret");
}

#[test]
fn a_signature_that_is_forged_and_old_has_two_causes() {
    let body = BODY.replace("paid", "void");
    for (seconds, expected) in [
        (0, &["other_secret_or_body"][..]),
        (300, &["other_secret_or_body"]),
        (301, &["other_secret_or_body", "skew_too"]),
        (-30 * 86_400, &["other_secret_or_body", "skew_too"]),
    ] {
        let explanation = changed(&stripe(BODY), |captured| {
            captured.body = body.as_str().into();
            captured.now = EpochSec(captured.now.0 + seconds);
        });
        assert_eq!(codes(&explanation), expected, "{seconds}");
    }
    assert_eq!(
        codes(&changed(&request("github", SECRET, BODY), |captured| captured.body = body.as_str().into())),
        ["other_secret_or_body"]
    );
}

#[test]
fn a_secret_of_the_wrong_form_is_recognised() {
    // Signed with the decoded secret, as Standard Webhooks does, and checked as literal text, as Stripe does.
    let decoded = request("stripe", "hunter2hunter2hunter2hunter2", BODY);
    let base64 = changed(&decoded, |captured| captured.secrets = vec![SECRET.to_owned()]);
    assert_eq!(codes(&base64), ["secret_form"]);
    let standard = request("standard_webhooks", SECRET, BODY);
    let broken = changed(&standard, |captured| captured.secrets = vec!["whsec_!".to_owned()]);
    assert_eq!(codes(&broken)[0], "secret_unusable");
    assert_eq!(causes(|captured| captured.secrets.clear())[0], "no_secret");
}

#[test]
fn a_body_that_was_written_again_is_recognised() {
    let spaced = r#"{"id": "evt_1", "type": "invoice.paid", "note": "caf\u00e9"}"#;
    let pretty = "{\n  \"id\": \"evt_1\",\n  \"type\": \"invoice.paid\",\n  \"note\": \"caf\\u00e9\"\n}";
    let (ended, unescaped) = (format!("{BODY}\n"), BODY.replace("\\u00e9", "\u{e9}"));
    for (signed, body, cause) in [
        (BODY, spaced, "body_changed"),
        (BODY, pretty, "body_changed"),
        (BODY, &ended, "body_changed"),
        (BODY, &unescaped, "body_changed"),
        ("{\"id\":\"1\"}\r\n", "{\"id\":\"1\"}", "body_changed"),
        (BODY, &BODY.replace("paid", "void"), "other_secret_or_body"),
    ] {
        assert_eq!(codes(&changed(&stripe(signed), |captured| captured.body = body.into())), [cause], "{body}");
    }
}

#[test]
fn a_wrong_public_url_is_recognised_and_its_query_is_not_shown() {
    let square = |signed: &str, url: &str| {
        let signed = CapturedRequest { url: signed.to_owned(), ..request("square", SECRET, r#"{"event_id":"1"}"#) };
        changed(&signed, |captured| url.clone_into(&mut captured.url))
    };
    for (signed, url) in [
        (URL, "http://example.com/hook"),
        (URL, "https://example.com/prod/hook"),
        (URL, "https://example.com/hook/"),
        (URL, "https://example.com/hook?k=1"),
        ("https://example.com/hook/", URL),
        ("https://example.com/hook?x=1", "https://example.com/prod/hook?x=1"),
        ("https://example.com/hook/?x=1", "https://example.com/hook?x=1"),
    ] {
        let explanation = square(signed, url);
        assert_eq!(explanation.causes[0].code(), "other_url", "{url}");
        let shown = signed.split('?').next().unwrap();
        assert!(explanation.causes[0].to_string().contains(shown), "{url}");
    }
    let secret_query = square("http://example.com/hook?k=hunter2", "https://example.com/hook?k=hunter2");
    assert_eq!(codes(&secret_query), ["other_url"]);
}

#[test]
fn a_clock_that_is_wrong_is_recognised() {
    let judged_after = |seconds: i64| changed(&stripe(BODY), |captured| captured.now = EpochSec(NOW.0 + seconds));
    let late = judged_after(400);
    assert_eq!(late.code, Some("timestamp_out_of_range"));
    assert!(late.to_string().contains("400 s old, and 300 s are allowed"), "{late}");
    let early = judged_after(-400);
    assert!(early.to_string().contains("400 s in the future"), "{early}");
}

#[test]
fn a_missing_or_duplicate_header_is_named() {
    let missing = changed(&stripe(BODY), |captured| captured.headers.clear());
    assert_eq!(missing.causes[0].code(), "signature_missing");
    assert!(missing.to_string().contains("signature stripe-signature: missing"), "{missing}");
    let renamed = causes(|captured| captured.headers[0].0 = "paddle-signature".to_owned());
    assert_eq!(renamed, ["other_provider", "signature_missing"]);
    let by_hand = changed(&stripe(BODY), |captured| captured.headers[0].1 = "hello".into());
    assert_eq!((by_hand.code, by_hand.causes[0].code()), (Some("signature_malformed"), "signature_malformed"));
    assert!(by_hand.to_string().contains("does not have this provider's form"), "{by_hand}");
    assert_eq!(causes(|captured| captured.headers.push(captured.headers[0].clone())), ["duplicate_header"]);
    assert_eq!(causes(|captured| captured.headers[0].1.truncate(40)).len(), 1);
}

#[test]
fn the_explanation_of_a_missing_id_names_its_place() {
    let explanation = changed(&stripe("{}"), |_| ());
    assert_eq!((explanation.authentic, explanation.code), (true, None));
    assert_eq!(explanation.causes[0].code(), "id_missing");
    assert!(explanation.causes[0].to_string().contains("json:$.id"));
    let garbage = changed(&stripe("}{"), |_| ());
    assert_eq!((garbage.authentic, garbage.causes[0].code()), (true, "body_unreadable"));
    let forged = changed(&stripe("{}"), |captured| captured.body = b"[]".to_vec());
    assert_eq!((forged.authentic, forged.code), (false, Some("signature_mismatch")));
}

#[test]
fn a_missing_setting_is_named() {
    let headers = vec![("paypal-transmission-sig".to_owned(), b"AA==".to_vec())];
    let captured = CapturedRequest { headers, secrets: Vec::new(), ..request("paypal", "", "{}") };
    assert_eq!(explain(&captured).causes[0].to_string(), "The endpoint needs the setting `webhook_id`.");
}

/// The correct signatures: what the provider would add, in pieces long enough to be a signature.
fn right_signatures(captured: &CapturedRequest) -> Vec<String> {
    let unsigned = without_headers(captured, &["signature", "mac", "hmac", "authorization"]);
    let given = unsigned.headers.len();
    let sign = |secret: &String| sign(&CapturedRequest { secrets: vec![secret.clone()], ..unsigned.clone() }).ok();
    let signed = captured.secrets.iter().filter_map(sign).flat_map(|signed| signed.headers.into_iter().skip(given));
    let signed = signed.filter(|(name, _)| !name.ends_with("signed-headers"));
    let pieces = signed.flat_map(|(_, value)| {
        let value = String::from_utf8(value).unwrap();
        value.split([',', '=', ' ', '.']).filter(|piece| piece.len() >= 20).map(str::to_owned).collect::<Vec<_>>()
    });
    pieces.collect()
}

#[test]
fn no_explanation_of_any_vector_holds_a_secret_or_the_signature_that_would_be_right() {
    let (mut explained, mut compared) = (0, 0);
    for vector in all().values().flatten() {
        let captured = &vector.captured;
        let explanation = explain(captured);
        let printed = format!("{explanation} {}", serde_json::to_string(&explanation).unwrap());
        let core = |secret: &String| secret.trim_start_matches("whsec_").trim().chars().take(12).collect::<String>();
        for secret in captured.secrets.iter().map(core).filter(|core| core.len() >= 8) {
            assert!(!printed.contains(&secret) || secret.starts_with("-----BEGIN"), "{}: {printed}", vector.id);
        }
        for signature in right_signatures(captured) {
            assert!(!printed.contains(&signature), "{}: {printed}", vector.id);
            compared += 1;
        }
        explained += 1;
    }
    println!("{explained} explanations, {compared} signatures");
    assert!(explained > 800 && compared > 500, "{explained} explanations, {compared} signatures");
}
