//! Signs as the providers do that keep a private key: with a pair that is thrown away, whose public half the endpoint
//! then holds. The signed texts are those of the providers' documents, written anew here.

use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hookonce_providers::{CapturedRequest, SignError};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{provider, sign};

/// The providers that have a private key.
pub(crate) const KEPT: [&str; 6] = ["aws_sns", "discord", "paypal", "plaid", "sendgrid", "telnyx"];

/// What stands before the point of a public key on P-256.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The request as its provider signs it, with a shared secret or with a pair.
pub(crate) fn signed(unsigned: &CapturedRequest) -> Result<CapturedRequest, SignError> {
    if provider(&unsigned.provider).can_sign() { sign(unsigned) } else { with_a_pair(unsigned) }
}

fn with_a_pair(unsigned: &CapturedRequest) -> Result<CapturedRequest, SignError> {
    let mut signed = unsigned.clone();
    let time = unsigned.now.0.to_string();
    let (secret, headers) = match unsigned.provider.as_str() {
        "discord" => {
            let (key, signature) = ed25519(&[time.as_bytes(), &unsigned.body].concat());
            (hex::encode(key), vec![("x-signature-timestamp", time), ("x-signature-ed25519", hex::encode(signature))])
        }
        "telnyx" => {
            let (key, signature) = ed25519(&[time.as_bytes(), b"|", &unsigned.body].concat());
            let signature = STANDARD.encode(signature);
            (STANDARD.encode(key), vec![("telnyx-timestamp", time), ("telnyx-signature-ed25519", signature)])
        }
        "sendgrid" => {
            let text = [time.as_bytes(), &unsigned.body].concat();
            let (key, signature) = p256(&ECDSA_P256_SHA256_ASN1_SIGNING, &text);
            let names = ["timestamp", "signature"].map(|name| format!("x-twilio-email-event-webhook-{name}"));
            let [of_time, of_signature] = names;
            signed.headers.retain(|(name, _)| *name != of_time && *name != of_signature);
            signed.headers.push((of_time, time.into_bytes()));
            signed.headers.push((of_signature, STANDARD.encode(signature).into_bytes()));
            (STANDARD.encode([&P256[..], &key].concat()), Vec::new())
        }
        "plaid" => {
            let (jwk, token) = token(&unsigned.body, unsigned.now.0);
            (jwk, vec![("plaid-verification", token)])
        }
        "paypal" => {
            let id = "dfb3be50-fd74-11e4-8bf3-77339302725b";
            let time = time::OffsetDateTime::from_unix_timestamp(unsigned.now.0).unwrap();
            let time = time.format(&time::format_description::well_known::Rfc3339).unwrap();
            let webhook = unsigned.settings.get("webhook_id").unwrap();
            let text = format!("{id}|{time}|{webhook}|{}", crc32fast::hash(&unsigned.body));
            let headers = vec![
                ("paypal-transmission-id", id.to_owned()),
                ("paypal-transmission-time", time),
                ("paypal-auth-algo", "SHA256withRSA".to_owned()),
                ("paypal-cert-url", "https://api.paypal.com/v1/notifications/certs/CERT-TEST".to_owned()),
                ("paypal-transmission-sig", STANDARD.encode(rsa(text.as_bytes()))),
            ];
            (certificate(), headers)
        }
        "aws_sns" => {
            signed.body = message(&unsigned.body).ok_or(SignError::NotSharedSecret)?;
            (certificate(), Vec::new())
        }
        _ => return Err(SignError::NotSharedSecret),
    };
    for (name, value) in headers {
        signed.headers.retain(|(other, _)| other != name);
        signed.headers.push((name.to_owned(), value.into_bytes()));
    }
    signed.secrets = vec![secret];
    Ok(signed)
}

fn ed25519(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    (pair.public_key().as_ref().to_vec(), pair.sign(text).as_ref().to_vec())
}

/// The point of the public key, and the signature.
fn p256(algorithm: &'static EcdsaSigningAlgorithm, text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    static PKCS8: OnceLock<Vec<u8>> = OnceLock::new();
    let random = SystemRandom::new();
    let generated = || EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).unwrap();
    let pkcs8 = PKCS8.get_or_init(|| generated().as_ref().to_vec());
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).unwrap();
    (pair.public_key().as_ref().to_vec(), pair.sign(&random, text).unwrap().as_ref().to_vec())
}

/// A key as Plaid serves it, and a token over the body.
fn token(body: &[u8], issued_at: i64) -> (String, String) {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "request_body_sha256": hex::encode(Sha256::digest(body)), "iat": issued_at });
    let text = format!("{}.{}", part(&json!({ "alg": "ES256", "kid": "key-1", "typ": "JWT" })), part(&claims));
    let (key, signature) = p256(&ECDSA_P256_SHA256_FIXED_SIGNING, text.as_bytes());
    let [x, y] = [1, 33].map(|start| URL_SAFE_NO_PAD.encode(&key[start..start + 32]));
    let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "key-1", "x": x, "y": y });
    (jwk.to_string(), format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn key_file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/oracles/keys");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The certificate of the key that signs here in the place of PayPal and AWS.
fn certificate() -> String {
    key_file("1.crt.pem")
}

fn rsa(text: &[u8]) -> Vec<u8> {
    static PAIR: OnceLock<RsaKeyPair> = OnceLock::new();
    let pair = PAIR.get_or_init(|| {
        let pem = key_file("1.pem");
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        RsaKeyPair::from_pkcs8(&STANDARD.decode(base64).unwrap()).unwrap()
    });
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).unwrap();
    signature
}

/// A message of SNS with its signature of version 2. `None` if it lacks a field that is signed.
fn message(body: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(body).ok()?;
    let fields: &[&str] = match message["Type"].as_str()? {
        "Notification" => &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
        _ => &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"],
    };
    let mut text = String::new();
    for name in fields {
        match message[name].as_str() {
            Some(value) => text.extend([name, "\n", value, "\n"]),
            None if *name == "Subject" => {}
            None => return None,
        }
    }
    message["SignatureVersion"] = json!("2");
    message["Signature"] = json!(STANDARD.encode(rsa(text.as_bytes())));
    Some(message.to_string().into_bytes())
}
