//! What an endpoint may hold: secrets and settings are checked before anyone sends a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_providers::{CapturedRequest, Catalog, ConfigurationError, KeyringError, Refusal, Settings};
use ring::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, Key, sign};

use crate::support::{headers, owned, provider, settings, valid};

const SECRET: &str = "a-secret-of-more-than-16-bytes";

fn configured(id: &str, secrets: &[&str], pairs: &[(&str, &str)]) -> Result<(), ConfigurationError> {
    provider(id).configure(&owned(secrets), settings(pairs), &[]).map(|_| ())
}

/// Judges a request to an endpoint that takes these schemes.
fn judged(captured: &CapturedRequest, schemes: &[&str]) -> Result<(), Refusal> {
    let provider = provider(&captured.provider);
    let (keyring, settings) = provider.configure(&captured.secrets, Settings::none(), &owned(schemes)).unwrap();
    provider.receive(&captured.request(), &keyring, &settings, None, captured.now).map(|_| ())
}

/// The weaker of the two signatures that GitHub makes of its valid delivery.
fn weak_signature() -> String {
    let captured = valid("github");
    let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, captured.secrets[0].as_bytes());
    format!("sha1={}", hex::encode(sign(&key, &captured.body)))
}

fn missing(name: &str) -> Result<(), ConfigurationError> {
    Err(ConfigurationError::SettingMissing { name: name.to_owned() })
}

#[test]
fn what_every_provider_holds_in_its_vectors_is_valid() {
    for provider in Catalog::built_in().iter() {
        let captured = valid(provider.id());
        let given: Vec<_> = provider
            .settings()
            .iter()
            .filter_map(|rule| Some((rule.name.as_str(), captured.settings.get(&rule.name)?)))
            .collect();
        let configured = provider.configure(&captured.secrets, settings(&given), &[]).map(|_| ());
        assert_eq!(configured, Ok(()), "{}", provider.id());
    }
}

#[test]
fn a_required_setting_is_required_even_with_a_secret() {
    let mut required = Vec::new();
    for provider in Catalog::built_in().iter() {
        let secrets = &valid(provider.id()).secrets;
        for rule in provider.settings().iter().filter(|rule| rule.required && !rule.to_fetch) {
            let configured = provider.configure(secrets, Settings::none(), &[]).map(|_| ());
            assert_eq!(configured, missing(&rule.name), "{}", provider.id());
            required.push(rule.name.clone());
        }
    }
    required.sort();
    assert_eq!(required, ["header", "public_key", "topic_arns", "webhook_id"]);
}

#[test]
fn what_serves_to_fetch_a_key_is_not_needed_with_a_key() {
    assert_eq!(configured("plaid", &[], &[("client_id", "id")]), missing("api_secret"));
    assert_eq!(configured("plaid", &[&valid("plaid").secrets[0]], &[]), Ok(()));
    assert_eq!(configured("plaid", &[], &[("client_id", "id"), ("api_secret", "hunter2")]), Ok(()));
}

#[test]
fn an_unknown_empty_or_padded_setting_is_refused_by_its_name() {
    let unknown = ConfigurationError::SettingUnknown { name: "topic_arn\u{1b}".to_owned() };
    assert_eq!(configured("stripe", &[SECRET], &[("topic_arn\u{1b}", "x")]), Err(unknown.clone()));
    assert_eq!(unknown.to_string(), "settings.topic_arn\\u{1b} is not a setting of this provider");
    for value in ["", " ", " https://example.com", "https://example.com\n"] {
        let error = ConfigurationError::SettingMalformed { name: "public_url".to_owned() };
        assert_eq!(configured("stripe", &[SECRET], &[("public_url", value)]), Err(error), "{value:?}");
    }
    assert_eq!(configured("stripe", &[SECRET], &[("public_url", "https://example.com")]), Ok(()));
}

#[test]
fn an_environment_is_one_of_two_words() {
    let paypal = |word: &str| configured("paypal", &[], &[("webhook_id", "4JH86294D6297924G"), ("environment", word)]);
    assert_eq!((paypal("sandbox"), paypal("production")), (Ok(()), Ok(())));
    let error = ConfigurationError::SettingMalformed { name: "environment".to_owned() };
    assert_eq!(paypal("Sandbox"), Err(error));
}

#[test]
fn a_padded_or_guessable_secret_is_refused_by_its_index_unless_its_provider_issues_such() {
    let too_short = |bytes| Err(ConfigurationError::SecretTooShort { index: 0, bytes, bytes_min: 16 });
    for padded in [format!("{SECRET}\n"), format!(" {SECRET}"), format!("{SECRET}\u{a0}")] {
        let error = ConfigurationError::SecretHasSpace { index: 1 };
        assert_eq!(configured("github", &[SECRET, &padded], &[]), Err(error), "{padded:?}");
    }
    assert_eq!(configured("github", &["123456789012345"], &[]), too_short(15));
    assert_eq!(configured("github", &["1234567890123456"], &[]), Ok(()));
    // The bytes count, not their text: 22 letters of base64 are 16 bytes, 20 are 15. A user's name is no secret.
    assert_eq!(configured("standard_webhooks", &["whsec_MDEyMzQ1Njc4OTAxMjM0NQ=="], &[]), Ok(()));
    assert_eq!(configured("standard_webhooks", &["whsec_MDEyMzQ1Njc4OTAxMjM0"], &[]), too_short(15));
    assert_eq!(configured("postmark", &["a-long-user-name:password"], &[]), too_short(8));
    let empty = ConfigurationError::Keyring(KeyringError::Empty);
    assert_eq!(configured("github", &[], &[]), Err(empty));
    // A provider that issues shorter secrets says so in its file.
    assert_eq!(configured("dropbox", &["1czbe7rq0i0eagc"], &[]), Ok(()));
    let error = ConfigurationError::SecretTooShort { index: 0, bytes: 14, bytes_min: 15 };
    assert_eq!(configured("dropbox", &["1czbe7rq0i0eag"], &[]), Err(error));
}

/// What is stored of a request is decided by the names of headers, so the token's must say that it is one.
#[test]
fn a_token_may_only_be_in_a_header_named_for_it() {
    let named = |name: &str| configured("token", &[SECRET], &[("header", name)]);
    for name in ["x-webhook-secret", "authorization", "x-api-key", "x-hook-token"] {
        assert_eq!(named(name), Ok(()), "{name}");
    }
    for name in ["x-event", "content-type", "X-Webhook-Secret", "x secret", "secret:", "x-hookonce-hops"] {
        assert_eq!(named(name), Err(ConfigurationError::HeaderUnfit), "{name}");
    }
    let sentence = ConfigurationError::HeaderUnfit.to_string();
    assert!(sentence.contains("auth, cookie, ") && !sentence.contains(SECRET), "{sentence}");
}

/// What people paste from a page, or leave as it was. A long secret that only begins so is none of them.
#[test]
fn a_placeholder_and_a_secret_of_few_different_bytes_are_refused_by_their_index() {
    let guessable = Err(ConfigurationError::SecretGuessable { index: 1 });
    for secret in [
        "your_webhook_secret",
        "changemechangeme",
        "PasswordPassword",
        "my-secret-my-secret",
        "secret-1234567890",
        "<insert the signing secret here>",
        "whsec_your_secret",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "0101010101010101",
        "12345123451234512345",
    ] {
        assert_eq!(configured("github", &[SECRET, secret], &[]), guessable, "{secret}");
    }
    // The bytes count: this is base64 of zeros, and that of a word.
    for secret in ["whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0"] {
        let refused = configured("standard_webhooks", &[secret], &[]);
        assert_eq!(refused, Err(ConfigurationError::SecretGuessable { index: 0 }), "{secret}");
    }
    let refused = configured("postmark", &["hookonce:passwordpassword"], &[]);
    assert_eq!(refused, Err(ConfigurationError::SecretGuessable { index: 0 }), "a user's name is no secret");
    for secret in ["your_webhook_secret_4f9a", "1234567890abcdef", "whsec_test_secret_of_shop_17", "0123450123450123"] {
        assert_eq!(configured("github", &[secret], &[]), Ok(()), "{secret}");
    }
}

/// One signature fits every body under such a key, so whoever has it pasted can forge.
#[test]
fn a_public_key_of_small_order_is_refused_by_its_index() {
    let small = format!("01{}", "00".repeat(31));
    let error = ConfigurationError::KeyOfSmallOrder { index: 0 };
    assert_eq!(configured("discord", &[&small], &[]), Err(error.clone()));
    assert_eq!(
        error.to_string().split(';').next(),
        Some("secrets[0] is a public key with which one signature fits every body")
    );
}

#[test]
fn a_weaker_scheme_is_taken_only_by_an_endpoint_that_lists_it() {
    let judged = |schemes: &[&str], header: &str, signature: &[u8]| {
        let headers = headers([(header, signature), ("x-github-delivery", b"1")]);
        judged(&CapturedRequest { headers, ..valid("github").clone() }, schemes)
    };
    let weak = weak_signature().into_bytes();
    assert_eq!(judged(&[], "x-hub-signature", &weak), Err(Refusal::SchemeNotTaken));
    assert_eq!(judged(&["sha256"], "x-hub-signature", &weak), Err(Refusal::SchemeNotTaken));
    assert_eq!(judged(&["sha256", "sha1"], "x-hub-signature", &weak), Ok(()));
    let (header, strong) = valid("github").headers.iter().find(|(name, _)| name == "x-hub-signature-256").unwrap();
    assert_eq!(judged(&[], header, strong), Ok(()));
    assert_eq!(judged(&["sha1"], header, strong), Err(Refusal::SchemeNotTaken));
}

/// What a payment signs is a text of its own. As a body, it would fit the scheme that signs bodies.
#[test]
fn the_signed_text_of_a_payment_is_no_delivery() {
    let (captured, text) = (valid("adyen"), "psp::shop:order:100:EUR:CAPTURE:true");
    let key = Key::new(HMAC_SHA256, &hex::decode(&captured.secrets[0]).unwrap());
    let headers = headers([("hmacsignature", STANDARD.encode(sign(&key, text.as_bytes())))]);
    let signed = CapturedRequest { headers, body: text.into(), ..captured.clone() };
    for (schemes, expected) in [
        (&[][..], Err(Refusal::SchemeNotTaken)),
        (&["payments"], Err(Refusal::SchemeNotTaken)),
        (&["platform"], Ok(())),
    ] {
        assert_eq!(judged(&signed, schemes), expected, "{schemes:?}");
    }
}

/// GitHub sends both signatures with every delivery.
#[test]
fn a_scheme_that_is_not_taken_hides_none_that_is() {
    let judged = |schemes: &[&str], weak: &str| {
        let mut both = valid("github").clone();
        both.headers.retain(|(name, _)| name != "x-hub-signature");
        both.headers.extend(headers([("x-hub-signature", weak)]));
        judged(&both, schemes)
    };
    let (weak, wrong) = (weak_signature(), format!("sha1={}", "0".repeat(40)));
    assert_eq!((judged(&["sha1"], &weak), judged(&["sha1"], &wrong)), (Ok(()), Err(Refusal::SignatureMismatch)));
    assert_eq!((judged(&[], &wrong), judged(&["sha1", "sha256"], &wrong)), (Ok(()), Ok(())));
}

/// Most texts of 16 or 20 letters and digits are also base64 of 12 or 15 bytes.
#[test]
fn a_secret_is_judged_by_the_schemes_that_the_endpoint_takes() {
    let configured = |secret: &str, schemes: &[&str]| {
        provider("gitlab").configure(&owned(&[secret]), Settings::none(), &owned(schemes)).map(|_| ())
    };
    let unusable = Err(ConfigurationError::Keyring(KeyringError::Unusable { index: 0 }));
    let too_short = Err(ConfigurationError::SecretTooShort { index: 0, bytes: 15, bytes_min: 16 });
    for token in ["abcdEFGH12345678", "abcdEFGH12345678wxyz"] {
        assert_eq!(configured(token, &["secret-token"]), Ok(()), "{token}");
        assert_eq!(
            (configured(token, &[]), configured(token, &["signing-token"])),
            (unusable.clone(), unusable.clone())
        );
    }
    let short = "whsec_MDEyMzQ1Njc4OTAxMjM0";
    assert_eq!((configured(short, &[]), configured(short, &["signing-token"])), (too_short.clone(), too_short));
    assert_eq!(configured(short, &["secret-token"]), Ok(()), "as text it is long enough");
}

#[test]
fn an_unknown_scheme_and_one_that_is_listed_twice_are_refused() {
    let secrets = &valid("hubspot").secrets;
    for names in [&["v4"][..], &["v3", "v3"], &[""]] {
        let refused = provider("hubspot").configure(secrets, Settings::none(), &owned(names)).map(|_| ());
        assert!(matches!(refused, Err(ConfigurationError::SchemeUnknown { .. })), "{names:?}");
    }
}

#[test]
fn a_scheme_is_reserved_for_a_list_where_another_one_with_its_secret_proves_more_or_signs_something_else() {
    let reserved: Vec<String> = Catalog::built_in()
        .iter()
        .flat_map(|provider| provider.schemes().into_iter().map(|scheme| format!("{} {scheme}", provider.id())))
        .filter_map(|line| line.split_once(", only for an endpoint").map(|(name, _)| name.to_owned()))
        .collect();
    assert_eq!(reserved, ["adyen platform", "github sha1", "gitlab secret-token", "hubspot v2", "hubspot v1"]);
}

#[test]
fn a_certificate_may_end_with_a_line_break() {
    let certificate = format!("{}\n", valid("aws_sns").secrets[0].trim());
    assert_eq!(configured("aws_sns", &[&certificate], &[("topic_arns", "arn:aws:sns:us-east-1:1:t")]), Ok(()));
}
