//! Handshakes: answered if they are valid, refused if they are not, and never a delivery.

use hookonce_providers::{CapturedRequest, HandshakeAnswer, Received, Refusal};

use crate::support::{received, request, settings};

/// Asks an endpoint with these settings.
fn shake_hands(id: &str, method: &str, url: &str, pairs: &[(&str, &str)]) -> Result<HandshakeAnswer, Refusal> {
    let (method, url, settings) = (method.to_owned(), url.to_owned(), settings(pairs));
    match received(&CapturedRequest { method, url, settings, ..request(id, "app-secret", "") })? {
        Received::Handshake(answer) => Ok(answer),
        other => panic!("not a handshake: {other:?}"),
    }
}

const HUB: &str = "https://example.com/hook?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=";

#[test]
fn meta_is_answered_with_its_challenge() {
    for id in ["meta_whatsapp", "meta_messenger_instagram"] {
        let answer = shake_hands(id, "GET", &format!("{HUB}t%20k"), &[("verify_token", "t k")]).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"1158201444"[..]));
        assert!(answer.content_type.starts_with("text/plain"));
        assert!(answer.headers.contains(&("x-content-type-options".to_owned(), "nosniff".to_owned())));
    }
}

/// Who knows the verify token may choose what comes back, but not how much of it, and no second header.
#[test]
fn a_challenge_is_echoed_only_if_it_is_short_and_printable() {
    let answer_length = |challenge: &str| {
        let url = HUB.replace("1158201444", challenge) + "token";
        shake_hands("meta_whatsapp", "GET", &url, &[("verify_token", "token")]).map(|answer| answer.body.len())
    };
    assert_eq!(answer_length(&"1".repeat(2_048)), Ok(2_048));
    for challenge in [&"1".repeat(2_049), "1%0d%0aset-cookie:a", "%00", "%7f"] {
        assert_eq!(answer_length(challenge), Err(Refusal::Malformed), "{challenge}");
    }
}

#[test]
fn meta_with_another_token_is_refused() {
    let settings = [("verify_token", "token")];
    for token in ["", "toke", "tokens", "app-secret", "token&hub.verify_token=token"] {
        assert!(shake_hands("meta_whatsapp", "GET", &format!("{HUB}{token}"), &settings).is_err(), "{token}");
    }
    assert_eq!(shake_hands("meta_whatsapp", "GET", &format!("{HUB}x"), &settings), Err(Refusal::SignatureMismatch));
}

#[test]
fn without_a_verify_token_nothing_stands_for_it() {
    for secret in ["app-secret", ""] {
        let answer = shake_hands("meta_whatsapp", "GET", &format!("{HUB}{secret}"), &[]);
        assert!(matches!(answer, Err(Refusal::NotConfigured | Refusal::SignatureMissing)), "{answer:?}");
    }
}

#[test]
fn a_method_that_nobody_sends_is_not_allowed() {
    assert_eq!(shake_hands("stripe", "GET", "https://example.com/", &[]), Err(Refusal::MethodNotAllowed));
    assert_eq!(shake_hands("meta_whatsapp", "PUT", HUB, &[]), Err(Refusal::MethodNotAllowed));
    assert_eq!(shake_hands("meta_whatsapp", "GET", "https://example.com/", &[]), Err(Refusal::Malformed));
}
