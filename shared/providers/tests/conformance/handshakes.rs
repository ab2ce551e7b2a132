//! Handshakes: answered if they are valid, refused if they are not, and never a delivery.

use hookonce_protocol::time::EpochSec;
use hookonce_providers::{HandshakeAnswer, Received, Refusal, Request, Settings, UnsignedRequest};

use crate::support::{provider, settings};

const NOW: EpochSec = EpochSec(1_767_225_600);

/// Sends a request as it is.
fn ask(
    id: &str,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    settings: &[(&str, &str)],
) -> Result<HandshakeAnswer, Refusal> {
    let provider = provider(id);
    let keyring = provider.keyring(&["app-secret".to_owned()]).unwrap();
    let headers: Vec<(String, Vec<u8>)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let request = Request { method, url, headers: &headers, body: b"" };
    answer(provider.receive(&request, &keyring, &self::settings(settings), None, NOW))
}

/// Sends a body that is signed as the provider would, or one whose signature belongs to another body.
fn tell(id: &str, secret: &str, headers: &[(&str, &str)], body: &str, signed_body: &str) -> Result<Received, Refusal> {
    let provider = provider(id);
    let url = "https://example.com/hook";
    let given: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let unsigned = UnsignedRequest { method: "POST", url, headers: &given, body: signed_body.as_bytes() };
    let signed = provider.sign_request(&unsigned, secret, NOW).unwrap();
    let headers: Vec<(String, Vec<u8>)> =
        given.into_iter().chain(signed.headers).map(|(name, value)| (name, value.into_bytes())).collect();
    let keyring = provider.keyring(&[secret.to_owned()]).unwrap();
    let request = Request { method: "POST", url, headers: &headers, body: body.as_bytes() };
    provider.receive(&request, &keyring, &Settings::none(), None, NOW)
}

fn answer(received: Result<Received, Refusal>) -> Result<HandshakeAnswer, Refusal> {
    match received? {
        Received::Handshake(answer) => Ok(answer),
        other => panic!("not a handshake: {other:?}"),
    }
}

fn text(answer: &HandshakeAnswer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}

const HUB: &str = "https://example.com/hook?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=";

#[test]
fn meta_is_answered_with_its_challenge() {
    for id in ["meta_whatsapp", "meta_messenger_instagram"] {
        let answer = ask(id, "GET", &format!("{HUB}t%20k"), &[], &[("verify_token", "t k")]).unwrap();
        assert_eq!((answer.status, text(&answer)), (200, "1158201444"));
        assert!(answer.content_type.starts_with("text/plain"));
        assert!(answer.headers.contains(&("x-content-type-options".to_owned(), "nosniff".to_owned())));
    }
}

/// Who knows the verify token may choose what comes back, but not how much of it, and no second header.
#[test]
fn a_challenge_is_echoed_only_if_it_is_short_and_printable() {
    let asked = |challenge: &str| {
        let url =
            format!("https://example.com/hook?hub.mode=subscribe&hub.challenge={challenge}&hub.verify_token=token");
        ask("meta_whatsapp", "GET", &url, &[], &[("verify_token", "token")]).map(|answer| answer.body.len())
    };
    assert_eq!(asked(&"1".repeat(2_048)), Ok(2_048));
    for challenge in [&"1".repeat(2_049), "1%0d%0aset-cookie:a", "%00", "%7f"] {
        assert_eq!(asked(challenge), Err(Refusal::Malformed), "{challenge}");
    }
}

#[test]
fn meta_with_another_token_is_refused() {
    let settings = [("verify_token", "token")];
    for token in ["", "toke", "tokens", "app-secret", "token&hub.verify_token=token"] {
        assert!(ask("meta_whatsapp", "GET", &format!("{HUB}{token}"), &[], &settings).is_err(), "{token}");
    }
    assert_eq!(ask("meta_whatsapp", "GET", &format!("{HUB}x"), &[], &settings), Err(Refusal::SignatureMismatch));
}

#[test]
fn without_a_verify_token_nothing_stands_for_it() {
    for secret in ["app-secret", ""] {
        let asked = ask("meta_whatsapp", "GET", &format!("{HUB}{secret}"), &[], &[]);
        assert!(matches!(asked, Err(Refusal::NotConfigured | Refusal::SignatureMissing)), "{asked:?}");
    }
}

#[test]
fn a_method_that_nobody_sends_is_not_allowed() {
    assert_eq!(ask("stripe", "GET", "https://example.com/", &[], &[]), Err(Refusal::MethodNotAllowed));
    assert_eq!(ask("meta_whatsapp", "PUT", HUB, &[], &[]), Err(Refusal::MethodNotAllowed));
    assert_eq!(ask("meta_whatsapp", "GET", "https://example.com/", &[], &[]), Err(Refusal::Malformed));
}

#[test]
fn an_event_that_mentions_a_handshake_is_an_event() {
    let body = r#"{"event_id":"Ev1","event":{"type":"url_verification","challenge":"x"}}"#;
    assert!(matches!(tell("slack", "secret", &[], body, body), Ok(Received::Delivery(_))));
}
