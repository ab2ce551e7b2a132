//! Providers whose keys must be fetched: what is requested, from where, and how it is used.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hookonce_providers::{CapturedRequest, Material, MaterialNeeded, Received, Refusal};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{NOW, headers, owned, provider, received, request, settings, valid, vector};

/// What an endpoint with these settings and without a secret makes of a request, with what was fetched for it.
fn receive(captured: &CapturedRequest, pairs: &[(&str, &str)], fetched: Option<Material>) -> Result<Received, Refusal> {
    let provider = provider(&captured.provider);
    let keyring = provider.keyring(&[]).unwrap();
    let keyring = match fetched {
        Some(material) => keyring.with_material(material),
        None => keyring,
    };
    provider.receive(&captured.request(), &keyring, &settings(pairs), None, captured.now)
}

fn needed(received: Result<Received, Refusal>) -> MaterialNeeded {
    match received {
        Ok(Received::NeedsMaterial(needed)) => needed,
        other => panic!("nothing is needed: {other:?}"),
    }
}

/// What an endpoint of PayPal needs.
const WEBHOOK_ID: (&str, &str) = ("webhook_id", "4JH86294D6297924G");

#[test]
fn paypal_needs_its_certificate_and_then_its_own_alone() {
    let captured = &vector("paypal", "py-paypal-valid").captured;
    let needed = needed(receive(captured, &[WEBHOOK_ID], None));
    assert_eq!(needed.url(), "https://api.paypal.com/v1/notifications/certs/CERT-TEST");
    assert_eq!((needed.cache_key(), needed.post_body()), (needed.url(), None));
    let with = |fetched: &str| receive(captured, &[WEBHOOK_ID], Some(Material::new(&needed, fetched.into())));
    assert!(matches!(with(&captured.secrets[0]), Ok(Received::Delivery(_))));
    assert_eq!(with("<html>"), Err(Refusal::SignatureMismatch));
}

#[test]
fn paypals_sandbox_makes_no_live_payment() {
    let mut captured = vector("paypal", "py-paypal-valid").captured.clone();
    for (_, value) in captured.headers.iter_mut().filter(|(name, _)| name == "paypal-cert-url") {
        *value = b"https://api.sandbox.paypal.com/v1/notifications/certs/CERT-TEST".to_vec();
    }
    let in_environment = |word: &str| receive(&captured, &[WEBHOOK_ID, ("environment", word)], None);
    assert_eq!(receive(&captured, &[WEBHOOK_ID], None), Err(Refusal::SignatureMalformed));
    assert_eq!(in_environment("production"), Err(Refusal::SignatureMalformed));
    assert_eq!(in_environment("Sandbox"), Err(Refusal::NotConfigured));
    needed(in_environment("sandbox"));
}

#[test]
fn sns_takes_messages_of_its_own_topics_only() {
    let captured = &vector("aws_sns", "sns-v2-no-subject").captured;
    let message: Value = serde_json::from_slice(&captured.body).unwrap();
    let topic = message["TopicArn"].as_str().unwrap();
    assert_eq!(receive(captured, &[], None), Err(Refusal::NotConfigured));
    let other = receive(captured, &[("topic_arns", "arn:aws:sns:us-east-1:1:other")], None);
    assert_eq!(other, Err(Refusal::SignatureMismatch));
    let topics = format!("arn:aws:sns:us-east-1:1:other, {topic}");
    let own = [("topic_arns", topics.as_str())];
    let needed = needed(receive(captured, &own, None));
    assert_eq!(needed.url(), message["SigningCertURL"].as_str().unwrap());
    let material = Material::new(&needed, captured.secrets[0].clone().into_bytes());
    assert!(matches!(receive(captured, &own, Some(material)), Ok(Received::Delivery(_))));
}

#[test]
fn a_subscription_is_confirmed_for_an_own_topic_only() {
    let captured = &vector("aws_sns", "sns-subscription-confirmation").captured;
    let message: Value = serde_json::from_slice(&captured.body).unwrap();
    let visit = |topics: &str| {
        let settings = settings(&[("topic_arns", topics)]);
        match received(&CapturedRequest { settings, ..captured.clone() }) {
            Ok(Received::Handshake(answer)) => Ok(answer.visit),
            Ok(other) => panic!("not a handshake: {other:?}"),
            Err(refusal) => Err(refusal),
        }
    };
    let url = message["SubscribeURL"].as_str().unwrap().to_owned();
    assert_eq!(visit(message["TopicArn"].as_str().unwrap()), Ok(Some(url)));
    assert_eq!(visit("arn:aws:sns:us-east-1:1:other"), Err(Refusal::SignatureMismatch));
    assert_eq!(visit(""), Err(Refusal::NotConfigured), "a certificate given by hand is no list of topics");
}

/// A token as Plaid makes it, with the key that verifies it.
fn plaid_token(key_id: &str, claims: &Value) -> (String, Value) {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let jwk = json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": key_id, "expired_at": null,
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
    });
    let header = json!({"alg": "ES256", "kid": key_id, "typ": "JWT"}).to_string();
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = pair.sign(&random, signed.as_bytes()).unwrap();
    (format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)), jwk)
}

const PLAID_BODY: &str = r#"{"webhook_type":"TRANSACTIONS","webhook_code":"SYNC_UPDATES_AVAILABLE","item_id":"i"}"#;

/// A request with this token to an endpoint that holds this key.
fn plaid(token: &str, key: &str) -> CapturedRequest {
    CapturedRequest { headers: headers([("plaid-verification", token)]), ..request("plaid", key, PLAID_BODY) }
}

fn plaid_claims(issued_at: i64) -> Value {
    json!({"iat": issued_at, "request_body_sha256": hex::encode(Sha256::digest(PLAID_BODY))})
}

#[test]
fn the_key_that_a_token_names_is_fetched_from_plaid() {
    let (token, jwk) = plaid_token("key-1", &plaid_claims(NOW.0));
    let captured = plaid(&token, "");
    assert_eq!(receive(&captured, &[], None), Err(Refusal::NotConfigured));
    let settings = [("client_id", "id"), ("api_secret", "hunter2"), ("environment", "sandbox")];
    let needed = needed(receive(&captured, &settings, None));
    assert_eq!(needed.url(), "https://sandbox.plaid.com/webhook_verification_key/get");
    let post: Value = serde_json::from_str(needed.post_body().unwrap()).unwrap();
    assert_eq!(post, json!({"client_id": "id", "secret": "hunter2", "key_id": "key-1"}));
    assert!(!format!("{needed:?} {}", needed.cache_key()).contains("hunter2"));
    let answer = json!({"key": jwk, "request_id": "r"}).to_string().into_bytes();
    let received = receive(&captured, &settings, Some(Material::new(&needed, answer)));
    assert!(matches!(received, Ok(Received::Delivery(_))), "{received:?}");
}

/// Asking Plaid for a key sends the owner's credentials, so whatever can be checked without the key comes first.
#[test]
fn a_token_that_no_key_could_save_sends_no_credentials() {
    let judged = |change: fn(&mut Value)| {
        let mut claims = plaid_claims(NOW.0);
        change(&mut claims);
        let captured = plaid(&plaid_token("key-1", &claims).0, "");
        receive(&captured, &[("client_id", "id"), ("api_secret", "hunter2")], None)
    };
    assert!(matches!(judged(|_| ()), Ok(Received::NeedsMaterial(_))));
    assert_eq!(judged(|claims| claims["iat"] = json!(NOW.0 - 90_001)), Err(Refusal::TimestampOutOfRange));
    assert_eq!(judged(|claims| claims["iat"] = Value::Null), Err(Refusal::TimestampMissing));
    let other = |claims: &mut Value| claims["request_body_sha256"] = json!(hex::encode(Sha256::digest(b"other")));
    assert_eq!(judged(other), Err(Refusal::SignatureMismatch));
}

#[test]
fn a_token_does_not_choose_its_algorithm() {
    let (token, jwk) = plaid_token("key-1", &plaid_claims(NOW.0));
    let (_, rest) = token.split_once('.').unwrap();
    for algorithm in ["none", "HS256", "es256", ""] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": algorithm, "kid": "key-1"}).to_string());
        let captured = plaid(&format!("{header}.{rest}"), &jwk.to_string());
        assert_eq!(received(&captured), Err(Refusal::SignatureMalformed), "{algorithm}");
    }
}

#[test]
fn every_form_of_a_public_key_is_taken() {
    let (_, jwk) = plaid_token("key-1", &plaid_claims(NOW.0));
    let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    let spki = hex::decode("3059301306072a8648ce3d020106082a8648ce3d030107034200").unwrap();
    let der = [spki, vec![4], coordinate("x"), coordinate("y")].concat();
    let base64 = STANDARD.encode(der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n{}\n-----END PUBLIC KEY-----\n", &base64[..64], &base64[64..]);
    let takes = |id: &str, key: &str| provider(id).keyring(&owned(&[key])).is_ok();
    for key in [jwk.to_string(), base64, pem] {
        assert!(takes("sendgrid", &key), "{key}");
        assert!(!takes("discord", &key), "a key of another kind");
    }
    assert!(takes("discord", "a3df6d0074323423bcb1530adc6a1bcb416f007753ad8dbae46bc4e2d89a9163"));
}

/// An attacker may get their certificate shown inside a document on the provider's host.
#[test]
fn a_document_that_holds_a_certificate_is_none() {
    let certificate = &valid("aws_sns").secrets[0];
    assert!(provider("aws_sns").keyring(&[format!("\n{certificate}")]).is_ok());
    assert!(provider("aws_sns").keyring(&[format!("<value>{certificate}</value>")]).is_err());
}
