//! A request that is signed here equals, byte for byte, what a second implementation made, and is accepted.

use hookonce_providers::{CapturedRequest, Catalog, Provider, Received, SignError};

use crate::support::{SIGNATURES, is_accepted, provider, sign, valid, without_headers};

/// Providers whose signature is inside the body, and those whose tokens may order their claims in another way.
const NOT_COMPARED: [&str; 6] = ["adyen", "braintree", "livekit", "mailgun", "netlify", "vonage"];

#[test]
fn what_is_signed_here_is_accepted_and_equals_what_others_sign() {
    let mut signed_providers = 0;
    for provider in Catalog::built_in().iter() {
        let (id, captured) = (provider.id(), valid(provider.id()));
        let result = sign(&without_headers(captured, &SIGNATURES));
        assert_eq!(result.is_ok(), provider.can_sign(), "{id}: {result:?}");
        let signed = match result {
            Ok(signed) => signed,
            Err(error) => {
                assert_eq!(error, SignError::NotSharedSecret, "{id}");
                continue;
            }
        };
        signed_providers += 1;
        if !NOT_COMPARED.contains(&id) {
            for (name, value) in &signed.headers {
                let other = captured.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value);
                // A delivery id that a sample does not name is derived here.
                assert!(other.is_none_or(|other| other == value), "{id}: {name}");
            }
        }
        assert!(is_accepted(&signed), "{id}");
    }
    assert_eq!(signed_providers, 68, "all but aws_sns, discord, paypal, plaid, sendgrid and telnyx");
}

/// Every scheme that is not its provider's first one.
const LISTED: [(&str, &str); 8] = [
    ("adyen", "platform"),
    ("github", "sha1"),
    ("gitlab", "secret-token"),
    ("hubspot", "v2"),
    ("hubspot", "v1"),
    ("recall", "svix"),
    ("shopify", "next"),
    ("svix", "standard"),
];

#[test]
fn a_scheme_that_an_endpoint_lists_alone_signs_for_it() {
    let others = Catalog::built_in().iter().map(|provider: &Provider| provider.schemes().len() - 1).sum::<usize>();
    assert_eq!(others, LISTED.len());
    for (id, scheme) in LISTED {
        let with = |scheme: &str| CapturedRequest {
            schemes: vec![scheme.to_owned()],
            headers: Vec::new(),
            ..valid(id).clone()
        };
        let signed = sign(&with(scheme)).unwrap();
        let CapturedRequest { secrets, settings, schemes, now, .. } = &signed;
        let (keyring, settings) = provider(id).configure(&secrets[..1], settings.clone(), schemes).unwrap();
        let received = provider(id).receive(&signed.request(), &keyring, &settings, None, *now);
        assert!(matches!(received, Ok(Received::Delivery(_))), "{id} by {scheme}: {received:?}");
        assert_eq!(sign(&with("md5")).map(|_| ()), Err(SignError::NoScheme), "{id}");
    }
}
