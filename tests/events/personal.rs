//! What is published here names nobody: no mail address, telephone number or address of a network that somebody may
//! have.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::tidy::{Files, project};

/// What stays, with the reason.
const KEPT: [(&str, &str, &str); 5] = [
    ("sendgrid", "hello@world.com", PUBLISHED),
    ("sendgrid", "LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net", PUBLISHED),
    ("twilio", "+14158675309", PUBLISHED),
    ("twilio", "+18005551212", PUBLISHED),
    ("shopify", "jon@example.col", "one bit of jon@example.com is changed, to be refused"),
];

/// The provider published it with its signature, so no other text can stand in its place.
const PUBLISHED: &str = "an example that its provider signed";

/// Every text and number in a value, with the name of the field that it stands in. A text that holds a document is read
/// as one.
fn leaves(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| leaves(name, value)).collect(),
        Value::Array(items) => items.iter().flat_map(|value| leaves(name, value)).collect(),
        Value::String(text) => document(name, text)
            .map_or_else(|| vec![(name.to_lowercase(), text.clone())], |document| leaves(name, &document)),
        other => vec![(name.to_lowercase(), other.to_string())],
    }
}

/// The document in a text: a body in base64, JSON, or a form.
fn document(name: &str, text: &str) -> Option<Value> {
    let bytes = ["body", "body_base64"].contains(&name).then(|| STANDARD.decode(text).ok()).flatten();
    let decoded = bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if let Some(decoded) = decoded {
        return Some(document("", &decoded).unwrap_or(Value::String(decoded)));
    }
    let json = serde_json::from_str::<Value>(text).ok().filter(|value| value.is_object() || value.is_array());
    json.or_else(|| form(text))
}

fn form(text: &str) -> Option<Value> {
    let is_form =
        text.contains('=') && text.split('&').all(|pair| pair.contains('=')) && !text.contains([' ', '\n', '<']);
    let pairs = is_form.then(|| reqwest::Url::parse(&format!("http://form/?{text}")).ok()).flatten()?;
    let pairs = pairs.query_pairs().map(|(name, text)| (name.into_owned(), Value::String(text.into_owned())));
    Some(pairs.collect())
}

/// Mail addresses in a text that are not of `example.com` or of this machine.
fn foreign_mail(text: &str) -> Vec<&str> {
    let fits = |letter: char| letter.is_alphanumeric() || "@._%+-".contains(letter);
    let words = text.split(|letter| !fits(letter)).map(|word| word.trim_matches(['.', '-']));
    let is_foreign = |word: &&str| {
        let address = word.rsplit_once('@').filter(|(user, host)| !user.is_empty() && !host.is_empty());
        address.is_some_and(|(_, host)| host != "example.com" && !host.ends_with(".example.com") && host != "localhost")
    };
    words.filter(is_foreign).collect()
}

/// Telephone numbers in a text that somebody may have: not of the area code 555, of +1 NXX 555-01XX or of
/// +44 7700 900XXX. A number is what is written like one, or what stands in a field for one.
fn real_numbers(name: &str, text: &str) -> Vec<String> {
    let named = ["from", "to", "contact", "wa_id", "recipient_id", "caller", "called", "msisdn"].contains(&name)
        || ((name.contains("phone") || name.contains("mobile")) && !name.ends_with("_id"));
    let fits = |letter: char| letter.is_ascii_digit() || "+-.() ".contains(letter);
    let named = named && text.chars().all(fits);
    let run_of = |run: &'_ str| run.find('+').and_then(|at| run.get(at..)).unwrap_or(run).trim().to_owned();
    let is_real = |run: &String| {
        let sizes: Vec<_> = run.split(|it: char| !it.is_ascii_digit()).map(str::len).filter(|it| *it > 0).collect();
        let written = matches!(sizes.as_slice(), [3, 3, 4] | [1 | 2, 3, 3, 4])
            || (run.starts_with('+') && !run.starts_with("+0"));
        let digits: String = run.chars().filter(char::is_ascii_digit).collect();
        let is_fictitious = digits.starts_with("1555")
            || (digits.len() == 10 && digits.starts_with("555"))
            || (digits.len() == 11 && digits.starts_with('1') && digits.get(4..9) == Some("55501"))
            || (digits.len() == 12 && digits.starts_with("447700900"));
        (7..=15).contains(&digits.len()) && (written || named) && !is_fictitious
    };
    text.split(|letter| !fits(letter)).map(run_of).filter(is_real).collect()
}

/// Addresses of the public network that are not reserved for documentation.
fn real_hosts(text: &str) -> Vec<Ipv4Addr> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '.' || letter == '-'));
    let addresses = words.filter_map(|word| word.parse::<Ipv4Addr>().ok());
    let is_free = |it: &Ipv4Addr| it.is_documentation() || it.is_private() || it.is_loopback() || it.is_unspecified();
    addresses.filter(|address| !is_free(address)).collect()
}

/// The values of a recorded file.
fn values(path: &str, text: &str) -> Vec<Value> {
    match path.rsplit('.').next() {
        Some("jsonl") => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        Some("json") => vec![serde_json::from_str(text).unwrap()],
        Some("form") => vec![form(text).unwrap()],
        _ => vec![Value::String(text.to_owned())],
    }
}

/// What in recorded files may be somebody's.
fn named(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("events/")) {
        for (name, text) in values(path, text).iter().flat_map(|value| leaves("", value)) {
            let mails = foreign_mail(&text).into_iter().map(str::to_owned);
            let hosts = real_hosts(&text).into_iter().map(|host| host.to_string());
            let texts = mails.chain(real_numbers(&name, &text)).chain(hosts);
            let is_kept = |text: &String| {
                KEPT.iter().any(|(file, kept, _)| text == kept && *path == format!("events/vectors/{file}.jsonl"))
            };
            found.extend(texts.filter(|text| !is_kept(text)).map(|text| format!("{path}: {name}: {text}")));
        }
    }
    found
}

#[test]
fn no_recorded_file_names_anybody() {
    let files = project();
    for folder in ["deliveries", "gateway", "public", "sqs", "schedule", "vectors"] {
        assert!(files.keys().any(|path| path.starts_with(&format!("events/{folder}/"))), "{folder}");
    }
    assert_eq!(named(&files), [""; 0]);
    for (file, text, reason) in KEPT {
        let with_it = Files::from([(format!("events/public/{file}.jsonl"), format!("{text:?}"))]);
        assert_eq!(named(&with_it).len(), 1, "{text} needs no reason, such as: {reason}");
    }
}

#[test]
fn a_planted_address_or_number_is_found_wherever_it_stands() {
    for (path, text) in [
        ("a.json", r#"{"a":[{"b":"write to ada@gmail.com"}]}"#.to_owned()),
        ("a.json", r#"{"body":"{\"phone\":\"4155552671\"}"}"#.to_owned()),
        ("a.jsonl", format!("{{}}\n{{\"body_base64\":\"{}\"}}", STANDARD.encode(r#"{"from":"16505551234"}"#))),
        ("a.jsonl", format!("{{\"body_base64\":\"{}\"}}", STANDARD.encode("From=%2B16505551234&To=x"))),
        ("a.form", "a=b&payload=%7B%22mail%22%3A%22ada%40gmail.com%22%7D".to_owned()),
        ("a.xml", "<a>ada@gmail.com</a>".to_owned()),
        ("README.md", "from 8.8.8.8".to_owned()),
    ] {
        let files = Files::from([(format!("events/public/{path}"), text.clone())]);
        assert_eq!(named(&files).len(), 1, "{path}: {text}");
    }
}

#[test]
fn what_nobody_can_have_is_no_finding() {
    for address in ["ada@gmail.com", "mail <a.b@c.example.org>", "x@example.com.evil", "a@notexample.com"] {
        assert_eq!(foreign_mail(address).len(), 1, "{address}");
    }
    for address in ["ada@example.com", "1.AAAA@mg.example.com.", "@ada", "v1@", "a b"] {
        assert_eq!(foreign_mail(address), [""; 0], "{address}");
    }
    for (name, number) in [
        ("body", "call +4917012345678"),
        ("body", "415-555-2671"),
        ("body", "call (415) 555 2671 now"),
        ("from", "16505551234"),
        ("phone", "4155552671"),
    ] {
        assert!(!real_numbers(name, number).is_empty(), "{number}");
    }
    for (name, text) in [
        ("to", "15550101234"),
        ("body", "+44 7700 900123"),
        ("id", "16505551234"),
        ("at", "2025-12-31T23:59:50.123+00:00"),
        ("at", "Wed Dec 31 23:59:50 +0000 2025"),
        ("id", "000042e3-d123-4980-b49f-8e140eef9329"),
        ("phone_number_id", "106540352242922"),
    ] {
        assert_eq!(real_numbers(name, text), [""; 0], "{text}");
    }
    for (text, count) in [("203.0.113.9, 10.0.0.1", 0), ("by 93.184.216.34", 1), ("version 1.2.3", 0)] {
        assert_eq!(real_hosts(text).len(), count, "{text}");
    }
}
