//! Every single-bit flip of what a signature covers is refused, for every provider that signs.

use hookonce_providers::{Catalog, Extent};

use crate::support::{Vector, Verdict, judge_as, provider, valid};

/// Headers that only help to find a key and are not signed.
const HINTS: [&str; 1] = ["paypal-cert-url"];

/// The headers that the deciding scheme reads.
fn read_headers(id: &str, vector: &Vector) -> Vec<String> {
    let captured = &vector.captured;
    let explanation =
        provider(id).explain(&captured.request(), &captured.secrets, &captured.settings, None, captured.now);
    let places = explanation.looked_for.into_iter().map(|finding| finding.place);
    places
        .filter(|place| !HINTS.contains(&place.as_str()))
        .map(|place| place.trim_end_matches('*').to_owned())
        .collect()
}

/// The form fields of a body, decoded: `%2b` and `%2B` are one text.
fn form(body: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body).replace('+', " ");
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            let escaped = (first == b'%').then(|| hex::decode(after.get(..2)?).ok()).flatten();
            bytes.push(escaped.as_ref().map_or(first, |byte| byte[0]));
            rest = if escaped.is_some() { &after[2..] } else { after };
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut pairs: Vec<(String, String)> = text
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    pairs.sort();
    pairs
}

#[test]
fn every_flipped_bit_of_a_header_that_is_read_is_refused() {
    for provider in Catalog::built_in().iter() {
        let (id, vector) = (provider.id(), valid(provider.id()));
        let read = read_headers(id, vector);
        let (sent, body) = (&vector.captured.headers, &vector.captured.body);
        for (index, (name, value)) in
            sent.iter().enumerate().filter(|(_, (name, _))| read.iter().any(|read| name.starts_with(read)))
        {
            for bit in 0..value.len() * 8 {
                let mut flipped = sent.clone();
                flipped[index].1[bit / 8] ^= 1 << (bit % 8);
                let outcome = judge_as(provider, vector, &flipped, body);
                assert_eq!(outcome.verdict, Verdict::Rejected, "{id}: bit {bit} of {name}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_signed_body_is_refused() {
    for provider in Catalog::built_in().iter() {
        let (id, vector) = (provider.id(), valid(provider.id()));
        // Braintree signs all that is read of its form. A CRC-32 notices every single bit.
        if provider.coverage().body < Extent::Yes && !["braintree", "paypal"].contains(&id) {
            continue;
        }
        let (headers, sent) = (&vector.captured.headers, &vector.captured.body);
        let is_form = id == "twilio" || id == "braintree";
        for bit in 0..sent.len() * 8 {
            let mut flipped = sent.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let outcome = judge_as(provider, vector, headers, &flipped);
            let same_form = is_form && form(&flipped) == form(sent);
            assert!(outcome.verdict == Verdict::Rejected || same_form, "{id}: bit {bit} of the body");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_partly_signed_body_never_changes_a_signed_value() {
    for (id, signed) in [
        ("adyen", &["7914073381342284", "TestMerchant", "order-1", "1130", "EUR", "AUTHORISATION", "true"][..]),
        (
            "aws_sns",
            &["22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", "arn:aws:sns:us-west-2:123456789012:MyTopic", "next line"],
        ),
        ("mailgun", &["a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0", "1767225600"]),
    ] {
        let vector = valid(id);
        let (headers, sent) = (&vector.captured.headers, &vector.captured.body);
        for value in signed {
            let at = sent.windows(value.len()).position(|window| window == value.as_bytes()).unwrap();
            for bit in at * 8..(at + value.len()) * 8 {
                let mut flipped = sent.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let outcome = judge_as(provider(id), vector, headers, &flipped);
                assert_eq!(outcome.verdict, Verdict::Rejected, "{id}: bit {bit}, in {value}");
            }
        }
    }
}
