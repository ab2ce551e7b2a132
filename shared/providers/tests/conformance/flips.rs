//! Every single-bit flip of what a signature covers is refused, for every provider that signs.

use std::ops::Range;

use hookonce_providers::{CapturedRequest, Catalog, Extent};
use percent_encoding::percent_decode_str;

use crate::support::{explain, received, valid};

/// Headers that only help to find a key and are not signed.
const HINTS: [&str; 1] = ["paypal-cert-url"];

/// The headers that the deciding scheme reads.
fn read_headers(captured: &CapturedRequest) -> Vec<String> {
    let places = explain(captured).looked_for.into_iter().map(|finding| finding.place);
    places
        .filter(|place| !HINTS.contains(&place.as_str()))
        .map(|place| place.trim_end_matches('*').to_owned())
        .collect()
}

/// Of these bits of a part of a request, those whose flip is not refused, each with the flipped request.
fn unnoticed(
    captured: &CapturedRequest,
    bits: Range<usize>,
    part: impl Fn(&mut CapturedRequest) -> &mut Vec<u8>,
) -> Vec<(usize, CapturedRequest)> {
    let flipped = bits.map(|bit| {
        let mut flipped = captured.clone();
        part(&mut flipped)[bit / 8] ^= 1 << (bit % 8);
        (bit, flipped)
    });
    flipped.filter(|(_, flipped)| received(flipped).is_ok()).collect()
}

/// The form fields of a body, decoded: `%2b` and `%2B` are one text.
fn form(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let text = String::from_utf8_lossy(body).replace('+', " ");
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<_> = pairs.map(|(name, value)| (decoded(name), decoded(value))).collect();
    pairs.sort();
    pairs
}

#[test]
fn every_flipped_bit_of_a_header_that_is_read_is_refused() {
    for captured in Catalog::built_in().iter().map(|provider| valid(provider.id())) {
        let read = read_headers(captured);
        let sent = captured.headers.iter().enumerate();
        for (index, (name, value)) in sent.filter(|(_, (name, _))| read.iter().any(|read| name.starts_with(read))) {
            let unnoticed = unnoticed(captured, 0..value.len() * 8, |request| &mut request.headers[index].1);
            assert!(unnoticed.is_empty(), "{name}: {unnoticed:?}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_signed_body_is_refused() {
    for provider in Catalog::built_in().iter() {
        let (id, captured) = (provider.id(), valid(provider.id()));
        // Braintree signs all that is read of its form. A CRC-32 notices every single bit.
        if provider.coverage().body < Extent::Yes && !["braintree", "paypal"].contains(&id) {
            continue;
        }
        let mut unnoticed = unnoticed(captured, 0..captured.body.len() * 8, |request| &mut request.body);
        if id == "twilio" || id == "braintree" {
            unnoticed.retain(|(_, flipped)| form(&flipped.body) != form(&captured.body));
        }
        assert!(unnoticed.is_empty(), "{unnoticed:?}");
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
        let captured = valid(id);
        for value in signed {
            let at = captured.body.windows(value.len()).position(|window| window == value.as_bytes()).unwrap();
            let bits = at * 8..(at + value.len()) * 8;
            let unnoticed = unnoticed(captured, bits, |request| &mut request.body);
            assert!(unnoticed.is_empty(), "{id}: {value}: {unnoticed:?}");
        }
    }
}
