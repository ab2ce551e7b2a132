//! What one signature fits is one delivery: bytes that move from one signed part to the next leave its key as it is, or
//! make a body without an id, which has a hash.

use std::collections::BTreeSet;

use hookonce_protocol::key::EndpointId;
use hookonce_providers::{CapturedRequest, Catalog, Received, Refusal};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{NOW, all, delivery, received, request, sent, sign, valid};

/// What stands between signed parts, if anything does.
const SEPARATORS: [&str; 5] = ["", ".", ":", "|", "\n"];

/// The keys of what a request would have applied: of its events, or of the one record that it is bound to. `None` if it
/// is refused or no delivery.
fn applied(captured: &CapturedRequest) -> Option<BTreeSet<String>> {
    let endpoint = EndpointId::parse("shop").unwrap();
    let Ok(Received::Delivery(delivery)) = received(captured) else { return None };
    let events = delivery.contents().events().iter();
    Some(match delivery.bound_to() {
        Some(_) => BTreeSet::from([delivery.record_key(&endpoint).to_string()]),
        None => events.map(|event| event.key.record_key(&endpoint).to_string()).collect(),
    })
}

/// Two texts with another border between them, if both were joined with this separator.
fn moved(one: &str, other: &str, separator: &str) -> Vec<(String, String)> {
    let joined = format!("{one}{separator}{other}");
    let places = (0..=joined.len()).filter(|at| joined.is_char_boundary(*at) && joined[*at..].starts_with(separator));
    // Near the border, and at every separator.
    let near = |at: &usize| !separator.is_empty() || at.abs_diff(one.len()) <= 8;
    let places = places.filter(|at| *at != one.len()).filter(near);
    places.map(|at| (joined[..at].to_owned(), joined[at + separator.len()..].to_owned())).collect()
}

/// The parts of a request that may be signed: the URL, the headers and the body.
fn parts(captured: &CapturedRequest) -> Vec<String> {
    let headers = captured.headers.iter().map(|(_, value)| value.as_slice());
    let all = [captured.url.as_bytes()].into_iter().chain(headers).chain([captured.body.as_slice()]);
    all.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

fn with_parts(captured: &CapturedRequest, parts: &[String]) -> CapturedRequest {
    let mut other = captured.clone();
    other.url.clone_from(&parts[0]);
    for ((_, value), part) in other.headers.iter_mut().zip(&parts[1..]) {
        *value = part.clone().into_bytes();
    }
    other.body = parts[parts.len() - 1].clone().into_bytes();
    other
}

/// The request with bytes moved between two of its parts.
fn between_parts(captured: &CapturedRequest) -> Vec<CapturedRequest> {
    let parts = parts(captured);
    let pairs = (0..parts.len()).flat_map(|one| (0..parts.len()).map(move |other| (one, other)));
    let pairs = pairs.filter(|(one, other)| one != other);
    let divisions = pairs.flat_map(|(one, other)| {
        let texts = SEPARATORS.iter().flat_map(|separator| moved(&parts[one], &parts[other], separator));
        texts
            .take(400)
            .map(|(first, second)| {
                let mut parts = parts.clone();
                (parts[one], parts[other]) = (first, second);
                with_parts(captured, &parts)
            })
            .collect::<Vec<_>>()
    });
    divisions.collect()
}

/// The request with bytes moved between two fields of its form, or between its URL and its first field.
fn between_fields(captured: &CapturedRequest) -> Vec<CapturedRequest> {
    let body = String::from_utf8_lossy(&captured.body).into_owned();
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let mut fields: Vec<_> = body.split('&').filter_map(|pair| pair.split_once('=')).collect();
    fields.sort_unstable();
    let texts: Vec<_> = fields.iter().flat_map(|(name, value)| [decoded(name), decoded(value)]).collect();
    let form = |texts: &[String]| {
        let encoded = |text: &String| percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
        let pairs = texts.chunks(2).filter(|pair| pair.iter().any(|text| !text.is_empty()));
        let pairs = pairs.map(|pair| pair.iter().map(encoded).collect::<Vec<_>>().join("="));
        pairs.collect::<Vec<_>>().join("&").into_bytes()
    };
    let mut all = Vec::new();
    for at in 0..texts.len() {
        for taken in 0..=texts[at].len() {
            let Some((stays, goes)) = texts[at].split_at_checked(taken) else { continue };
            // To the end of what is signed before it: the URL, or the text that comes first in the form.
            let mut others = texts.clone();
            others[at] = goes.to_owned();
            let url = match at.checked_sub(1) {
                Some(before) => {
                    others[before].push_str(stays);
                    captured.url.clone()
                }
                None => format!("{}{stays}", captured.url),
            };
            all.push(CapturedRequest { url: url.clone(), body: form(&others), ..captured.clone() });
            // A field that is gone as a whole: its name and its value are the end of the value before it.
            if taken == texts[at].len() && at % 2 == 0 && at > 0 {
                let mut others = texts.clone();
                let whole: String = others.drain(at..at + 2).collect();
                others[at - 1].push_str(&whole);
                all.push(CapturedRequest { body: form(&others), ..captured.clone() });
            }
        }
    }
    all
}

/// Every object of a document, by its path.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(path.to_owned());
            members.iter().for_each(|(name, value)| objects(value, &format!("{path}/{name}"), found));
        }
        Value::Array(elements) => {
            let numbered = elements.iter().enumerate();
            numbered.for_each(|(index, value)| objects(value, &format!("{path}/{index}"), found));
        }
        _ => {}
    }
}

/// The request with bytes moved between two texts of an object in its JSON.
fn between_members(captured: &CapturedRequest) -> Vec<CapturedRequest> {
    let Ok(document) = serde_json::from_slice::<Value>(&captured.body) else { return Vec::new() };
    let (mut paths, mut all) = (Vec::new(), Vec::new());
    objects(&document, "", &mut paths);
    for path in paths {
        let Some(members) = document.pointer(&path).and_then(Value::as_object) else { continue };
        let texts: Vec<_> = members.iter().filter_map(|(name, value)| Some((name, value.as_str()?))).collect();
        for (one, first) in &texts {
            for (other, second) in texts.iter().filter(|(other, _)| other != one) {
                for separator in [":", "\n"] {
                    for (first, second) in moved(first, second, separator) {
                        let mut changed = document.clone();
                        let object = changed.pointer_mut(&path).and_then(Value::as_object_mut).unwrap();
                        object.insert((*one).clone(), first.into());
                        object.insert((*other).clone(), second.into());
                        all.push(CapturedRequest { body: changed.to_string().into_bytes(), ..captured.clone() });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn what_one_signature_fits_has_one_key() {
    let (mut divided, mut faults) = (BTreeSet::new(), Vec::new());
    for (id, vectors) in all() {
        let Some(provider) = Catalog::built_in().provider(id) else { continue };
        let is_bound = provider.binds_bodies();
        if !provider.key_is_signed() && !is_bound {
            continue;
        }
        for vector in vectors {
            let Some(keys) = applied(&vector.captured) else { continue };
            let ways: [fn(&CapturedRequest) -> Vec<CapturedRequest>; 3] =
                [between_parts, between_fields, between_members];
            for other in ways.iter().flat_map(|way| way(&vector.captured)) {
                let Some(others) = applied(&other) else { continue };
                divided.insert(id.clone());
                let is_hash = |key: &&String| !is_bound && key.contains("sha256:");
                let new: Vec<_> = others.difference(&keys).filter(|key| !is_hash(key)).collect();
                if !new.is_empty() {
                    faults.push(format!("{}: {keys:?} and {new:?}", vector.id));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults, such as {:?}", faults.len(), &faults[..faults.len().min(5)]);
    assert!(
        divided.contains("twilio") && divided.contains("adyen"),
        "the test divides what can be divided: {divided:?}"
    );
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// As Twilio signs it.
fn from_twilio(url: &str, body: &str) -> CapturedRequest {
    sign(&CapturedRequest { url: url.to_owned(), ..request("twilio", TOKEN, body) }).unwrap()
}

/// The signature of a request, with another URL and body.
fn divided(captured: &CapturedRequest, url: &str, body: &str) -> CapturedRequest {
    CapturedRequest { url: url.to_owned(), body: body.as_bytes().to_vec(), ..captured.clone() }
}

fn hash_of(body: &str) -> String {
    hex::encode(Sha256::digest(body))
}

#[test]
fn a_text_in_json_is_no_field_of_a_form() {
    let event = json!([{ "id": "EZ1", "type": "com.twilio.message", "data": "a&MessageSid=SM1&MessageStatus=sent&" }]);
    let body = event.to_string();
    for body in [body.clone(), format!("\n {body}")] {
        let url = format!("https://inbox.example.com/webhooks/twilio?bodySHA256={}", hash_of(&body));
        let delivery = delivery(&from_twilio(&url, &body));
        let events = delivery.contents().events();
        assert_eq!((events[0].key.as_str(), events[0].event_type.as_str()), ("EZ1", "com.twilio.message"));
    }
}

#[test]
fn a_form_of_twilio_fits_one_endpoint() {
    let body = "AccountSid=AC1&MessageSid=SM1";
    for (of, at, first) in
        [("sms-eu", "sms", "-eu="), ("sms2", "sms", "2="), ("smsx", "sms", "x="), ("sms_eu", "sms", "_eu=")]
    {
        let url = |id: &str| format!("https://inbox.example.com/webhooks/{id}");
        let genuine = from_twilio(&url(of), body);
        assert!(applied(&genuine).is_some(), "{of}");
        let moved = match first {
            // In the form, these come after the names of Twilio.
            "x=" | "_eu=" => format!("{}AccountSidAC1MessageSidSM1=", first.trim_end_matches('=')),
            first => format!("{first}&{body}"),
        };
        assert_eq!(applied(&divided(&genuine, &url(at), &moved)), None, "{of}");
        // A form that a person has named so is taken at a URL with a query, which ends the id.
        assert!(applied(&from_twilio(&format!("{}?form", url(at)), &moved)).is_some(), "{of}");
    }
}

#[test]
fn a_form_of_twilio_chooses_no_body() {
    let forged = r#"[{"id":"EZ1","type":"com.twilio.forged"}]"#;
    let end = format!("&bodySHA256={}", hash_of(forged));
    let value = percent_encode(end.as_bytes(), NON_ALPHANUMERIC);
    for (first, query) in [("%3Fa=&", "?a"), ("", "?k=1")] {
        let url = format!("https://inbox.example.com/webhooks/voice{}", if first.is_empty() { query } else { "" });
        let form = from_twilio(&url, &format!("{first}AccountSid=AC1&CallSid=CA1&zz={value}"));
        let forged_url = format!("https://inbox.example.com/webhooks/voice{query}AccountSidAC1CallSidCA1zz{end}");
        assert_eq!(applied(&divided(&form, &forged_url, forged)), None, "{query}");
        let genuine_url = format!("https://inbox.example.com/webhooks/voice{query}{end}");
        assert!(applied(&from_twilio(&genuine_url, forged)).is_some(), "{query}");
    }
}

/// The headers that are signed in front of a `.`, by provider.
fn signed_ids() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/catalog");
    let id = |provider: &str| {
        let text = std::fs::read_to_string(format!("{folder}/{provider}.toml")).unwrap();
        let (_, signs) = text.split_once("signs = \"{header:")?;
        Some((provider.to_owned(), signs.split_once("}.")?.0.to_owned()))
    };
    Catalog::built_in().iter().filter_map(|provider| id(provider.id())).collect()
}

/// Where the id ended at a `.` of its own, the time and the body could begin there.
#[test]
fn a_signed_id_does_not_hold_what_ends_it() {
    let signed_ids = signed_ids();
    assert!(signed_ids.len() > 5, "{signed_ids:?}");
    for (provider, header) in signed_ids {
        let secret = &valid(&provider).secrets[0];
        let (at, earlier) = (NOW.0.to_string(), (NOW.0 - 5).to_string());
        let begin = r#"{"text":"x"#;
        let genuine = sent(&provider, secret, &[(&header, "msg_1")], &format!("{begin}.{earlier}.y\"}}"));
        assert!(received(&genuine).is_ok(), "{provider}");
        // Keys that people choose, such as those of `hookonce submit`.
        for id in ["order.2026.1", "order.1767225600", "1767225600.order"] {
            assert!(received(&sent(&provider, secret, &[(&header, id)], "{}")).is_ok(), "{provider}: {id}");
        }
        let mut moved = CapturedRequest { body: b"y\"}".to_vec(), ..genuine };
        for (name, value) in &mut moved.headers {
            if *name == header {
                *value = format!("msg_1.{at}.{begin}").into_bytes();
            } else if *value == at.as_bytes() {
                *value = earlier.clone().into_bytes();
            }
        }
        assert_eq!(received(&moved).unwrap_err(), Refusal::SignatureMalformed, "{provider}");
    }
}
