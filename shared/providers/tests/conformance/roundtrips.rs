//! A request that is signed here equals, byte for byte, what a second implementation made, and is accepted.

use hookonce_providers::{Catalog, Provider, Received, Request, SignError, UnsignedRequest};

use crate::support::{Verdict, judge_as, provider, valid};

/// Providers whose signature is inside the body, and those whose tokens may order their claims in another way.
const NOT_COMPARED: [&str; 5] = ["adyen", "braintree", "livekit", "mailgun", "netlify"];

#[test]
fn what_is_signed_here_is_accepted_and_equals_what_others_sign() {
    let mut signed_providers = 0;
    for provider in Catalog::built_in().iter() {
        let (id, vector) = (provider.id(), valid(provider.id()));
        let captured = &vector.captured;
        let sent = &captured.headers;
        let is_made = |name: &str| {
            ["signature", "signed-headers", "timestamp", "authorization", "token", "mac", "verification", "hmac"]
                .iter()
                .any(|part| name.contains(part))
        };
        let given: Vec<(String, String)> = sent
            .iter()
            .filter(|(name, _)| !is_made(name))
            .map(|(name, value)| (name.clone(), String::from_utf8(value.clone()).unwrap()))
            .collect();
        let unsigned = UnsignedRequest { method: "POST", url: &captured.url, headers: &given, body: &captured.body };
        let result = provider.sign_request_with(&unsigned, &captured.secrets[0], &captured.settings, &[], captured.now);
        assert_eq!(result.is_ok(), provider.can_sign(), "{id}: {result:?}");
        let Ok(signed) = result else {
            assert_eq!(result, Err(SignError::NotSharedSecret), "{id}");
            continue;
        };
        signed_providers += 1;
        if !NOT_COMPARED.contains(&id) {
            for (name, value) in &signed.headers {
                let other = sent.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice());
                // A delivery id that a sample does not name is derived here.
                assert!(other.is_none_or(|other| other == value.as_bytes()), "{id}: {name}");
            }
        }
        let made = given.into_iter().chain(signed.headers).map(|(name, value)| (name, value.into_bytes()));
        let outcome = judge_as(provider, vector, &made.collect::<Vec<_>>(), &signed.body);
        assert_eq!(outcome.verdict, Verdict::Accepted, "{id}: {outcome:?}");
    }
    assert_eq!(signed_providers, 52, "all but aws_sns, discord, paypal, plaid and sendgrid");
}

/// Every scheme that is not its provider's first one.
const LISTED: [(&str, &str); 7] = [
    ("adyen", "platform"),
    ("github", "sha1"),
    ("gitlab", "secret-token"),
    ("hubspot", "v2"),
    ("hubspot", "v1"),
    ("shopify", "next"),
    ("svix", "standard"),
];

#[test]
fn a_scheme_that_an_endpoint_lists_alone_signs_for_it() {
    let others = Catalog::built_in().iter().map(|provider: &Provider| provider.schemes().len() - 1).sum::<usize>();
    assert_eq!(others, LISTED.len());
    for (id, scheme) in LISTED {
        let (provider, captured) = (provider(id), &valid(id).captured);
        let (secret, schemes) = (&captured.secrets[0], [scheme.to_owned()]);
        let (keyring, settings) =
            provider.configure(std::slice::from_ref(secret), captured.settings.clone(), &schemes).unwrap();
        let unsigned = UnsignedRequest { method: "POST", url: &captured.url, headers: &[], body: &captured.body };
        let signed = provider.sign_request_with(&unsigned, secret, &settings, &schemes, captured.now).unwrap();
        let headers: Vec<_> = signed.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
        let request = Request { method: "POST", url: &captured.url, headers: &headers, body: &signed.body };
        let received = provider.receive(&request, &keyring, &settings, None, captured.now);
        assert!(matches!(received, Ok(Received::Delivery(_))), "{id} by {scheme}: {received:?}");
        let unknown = provider.sign_request_with(&unsigned, secret, &settings, &["md5".to_owned()], captured.now);
        assert_eq!(unknown, Err(SignError::NoScheme), "{id}");
    }
}
