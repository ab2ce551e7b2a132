//! The catalog: every file is valid, and an invalid file is refused with its mistake.

use hookonce_providers::{Catalog, Provider, SecretFormError, SecretFrom};

use crate::support::{SMALL, vectors};

/// The field and the problem that a file is refused with.
fn problem(text: &str) -> (String, String) {
    let error = Catalog::parse([("acme.toml", text)]).unwrap_err();
    assert_eq!(error.file, "acme.toml");
    (error.field, error.problem)
}

#[test]
fn every_built_in_file_is_valid() {
    let files = Catalog::built_in_files();
    let parsed = Catalog::parse(files.iter().copied());
    assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
    assert_eq!(Catalog::built_in().len(), files.len());
    assert_eq!(Catalog::built_in().iter().count(), files.len());
    assert_eq!(files.len(), 74);
}

/// A file without the field is not valid, so this says only what no type can.
#[test]
fn who_makes_a_secret_agrees_with_the_schemes_and_with_the_vectors() {
    for provider in Catalog::built_in().iter() {
        let (id, facts) = (provider.id(), provider.facts());
        assert_eq!(facts.secret_from == SecretFrom::Nobody, provider.fetches_keys(), "{id}");
        let valid = vectors(id).iter().filter(|vector| vector.case == "valid");
        // An endpoint holds none that is so short.
        for secret in valid.flat_map(|vector| &vector.captured.secrets).filter(|secret| secret.len() >= 16) {
            assert_eq!(facts.check_secret(secret), Ok(()), "{id}");
        }
    }
    let of = |id: &str| Catalog::built_in().provider(id).unwrap().facts();
    let prefix = || "whsec_".to_owned();
    let api_key = of("stripe").check_secret("sk_live_abcdefghijklmnop");
    assert_eq!(api_key, Err(SecretFormError::Prefix { prefix: prefix() }));
    assert!(!api_key.unwrap_err().to_string().contains("sk_live"), "it never repeats the secret");
    // Standard Webhooks takes a secret without its prefix, too.
    assert_eq!(of("standard_webhooks").check_secret("aG9va29uY2UtdGVzdC1zZWNyZXQtY3VycmVudC0wMQ=="), Ok(()));
    for (id, secret, expected) in [("lemonsqueezy", "x".repeat(41), "at most 40"), ("contentful", "x".repeat(63), "64")]
    {
        let chars = secret.len();
        let refused = Err(SecretFormError::Length { chars, expected: expected.to_owned() });
        assert_eq!(of(id).check_secret(&secret), refused);
    }
}

#[test]
fn a_file_that_is_no_catalog_file_is_refused() {
    for name in ["acme.json", ".toml", "Acme.toml", "a-b.toml"] {
        assert_eq!(Catalog::parse([(name, SMALL)]).unwrap_err().field, "file", "{name}");
    }
    assert!(Catalog::parse([("acme.toml", SMALL), ("acme.toml", SMALL)]).is_err());
    assert_eq!(problem("name = ").0, "file");
}

#[test]
fn an_unknown_field_is_named() {
    for (place, unknown, name) in [
        ("name = \"Acme\"", "name = \"Acme\"\nnmae = 1", "nmae"),
        ("encoding = \"hex\"", "encoding = \"hex\"\nencodign = 1", "encodign"),
        ("deadline = ", "deadlin = 1\ndeadline = ", "deadlin"),
        ("unit = \"seconds\"", "unit = \"seconds\", unti = 1", "unti"),
        ("assign = \"=\"", "assign = \"=\", assing = 1", "assing"),
    ] {
        let (_, problem) = problem(&SMALL.replacen(place, unknown, 1));
        assert!(problem.contains(&format!("unknown field `{name}`")), "{problem}");
    }
}

#[test]
fn a_combination_that_makes_no_sense_is_refused_at_its_field() {
    let pairs = "format.pairs = { between = \",\", assign = \"=\", signature = \"v1\" }";
    for (place, other, field) in [
        ("key = [\"json:$.id\"]", "", "key"),
        ("key = [\"json:$.id\"]", "key = [\"json:@.id\"]", "key[0]"),
        ("key = [\"json:$.id\"]", "key = [\"json:$.a[*]\"]", "key[0]"),
        ("key = [\"json:$.id\"]", "key = [\"query:id\"]", "key[0]"),
        ("key = [\"json:$.id\"]", "key = [\"delivery_sha256\"]", "key[0]"),
        ("key = [\"json:$.id\"]", "key = [\"json:$.id + nothing\"]", "key[0]"),
        ("{json:$.type}", "{json:$.type", "event[0]"),
        ("{json:$.type}", "{hmac:json:$.type}", "event[0]"),
        ("header:acme-signature", "header:Acme-Signature", "scheme[0].signature"),
        ("header:acme-signature", "query:signature", "scheme[0].signature"),
        (pairs, "format.prefix = \"\"", "scheme[0].format.prefix"),
        (pairs, "format.prefix = \"v1=\"", "scheme[0].timestamp.from"),
        ("assign = \"=\"", "assign = \"\"", "scheme[0].format.pairs"),
        ("assign = \"=\"", "assign = \",\"", "scheme[0].format.pairs"),
        ("pair:t", "pair:v1", "scheme[0].timestamp.from"),
        ("pair:t", "sha256", "scheme[0].timestamp.from"),
        ("tolerance_seconds = 300", "tolerance_seconds = 0", "scheme[0].timestamp.tolerance_seconds"),
        ("signs = \"{ts}.{body}\"", "signs = \"\"", "scheme[0].signs"),
        ("signs = \"{ts}.{body}\"", "signs = \"{key}{body}\"", "scheme[0].signs"),
        ("hash = \"sha256\"\n", "", "scheme[0].hash"),
        ("secret = \"text\"\nsigns", "signs", "scheme[0].secret"),
        ("kind = \"hmac\"", "kind = \"digest\"", "scheme[0].signs"),
        ("kind = \"hmac\"", "kind = \"ed25519\"", "scheme[0].hash"),
        ("checked = \"2026-11-20\"", "checked = \"yesterday\"", "facts.checked"),
        ("[facts]", "[facts]\nsecret_prefix = \"\"", "facts.secret_prefix"),
        ("secret_scope = \"endpoint\"", "secret_scope = \"none\"", "facts.secret_scope"),
        ("secret_is = \"webhook_only\"", "secret_is = \"none\"", "facts.secret_is"),
        ("secret_source = \"unconfirmed\"", "secret_source = \"I know it\"", "facts.secret_source"),
        ("register_source = \"unconfirmed\"", "register_source = \"I know it\"", "facts.register_source"),
        ("register_at = \"Settings > Webhooks\"", "register_at = \"\"", "facts.register_at"),
        ("register_at = \"Settings > Webhooks\"\n", "", "file"),
        ("secret_scope = \"endpoint\"\n", "", "file"),
        ("[facts]", "[facts]\nsecret_chars_min = 2\nsecret_chars_max = 1", "facts.secret_chars_max"),
        (
            "sources = [{ kind = \"official\", at = \"https://acme.example/webhooks\" }]",
            "sources = []",
            "facts.sources",
        ),
        ("[facts]", "[answers]\nretry_please.status = 410\n[facts]", "answers.retry_please"),
        ("[facts]", "[answers]\nretry_please.after_seconds = 0\n[facts]", "answers.retry_please"),
        ("[facts]", "[answers]\nretry_please.after_seconds = 3601\n[facts]", "answers.retry_please"),
        ("[facts]", "[answers]\naccepted = { status = 302 }\n[facts]", "answers.accepted"),
        ("[facts]", "[answers]\naccepted = { status = 204 }\n[facts]", "answers.accepted"),
        ("[facts]", "[[items]]\npath = \"$.a\"\nkey = [\"sha256\"]\nevent = []\n[facts]", "items[0].path"),
        ("[facts]", "[[items]]\npath = \"$.a[0].b[*]\"\nkey = [\"sha256\"]\nevent = []\n[facts]", "items[0].path"),
        ("[facts]", "[[items]]\npath = \"$.a[*]\"\nkey = []\nevent = []\n[facts]", "items[0].key"),
        ("[facts]", "[[handshake]]\nmethod = \"PUT\"\n[facts]", "handshake[0].method"),
        ("[facts]", "[[handshake]]\nmethod = \"GET\"\n[facts]", "handshake[0].when"),
        ("[facts]", "[[handshake]]\nmethod = \"GET\"\nunsigned = true\n[facts]", "handshake[0].unsigned"),
        ("event = [\"{json:$.type}\"]", "keep = [\"x-acme-token\"]", "keep[0]"),
        ("kind = \"hmac\"", "only_if_listed = true\nkind = \"hmac\"", "scheme[0].only_if_listed"),
        ("event = [\"{json:$.type}\"]", "keep = [\"x-hookonce-signed-at\"]", "keep[0]"),
        ("event = [\"{json:$.type}\"]", "lines = true", "lines"),
        ("event = [\"{json:$.type}\"]", "prefix = [\"a{?json:$.b=c}\"]", "prefix"),
        ("event = [\"{json:$.type}\"]", "document = [\"json:$.a\"]", "document[0]"),
        ("event = [\"{json:$.type}\"]", "document = [\"form:a\", \"header:b\"]", "document[1]"),
        (
            "[facts]",
            "[[items]]\npath = \"$.a[*]\"\nalso.b = \"$.b\"\nkey = [\"sha256\"]\nevent = []\n[facts]",
            "items[0].also.b",
        ),
        ("[facts]", "[[setting]]\nname = \"public_url\"\n[facts]", "setting"),
    ] {
        assert!(SMALL.contains(place), "{place}");
        let (found, problem) = problem(&SMALL.replacen(place, other, 1));
        assert_eq!(found, field, "{place} -> {other}: {problem}");
    }
}

/// Only the status and the usual answers may be unconfirmed.
#[test]
fn what_a_provider_reads_of_an_answer_has_a_source_of_its_own() {
    for (place, other) in [
        ("reads_answer_source = \"unconfirmed\"", "reads_answer_source = \"I know it\""),
        ("reads_answer = \"status\"", "reads_answer = \"headers\""),
        ("reads_answer = \"status\"", "reads_answer = \"body\""),
        ("[facts]", "[answers]\naccepted.body = \"empty\"\n[facts]"),
        ("[facts]", "[answers]\nduplicate.status = 202\n[facts]"),
        ("[facts]", "[[answers.instead]]\npresent = \"json:$.a\"\nanswer.status = 202\n[facts]"),
    ] {
        let (found, problem) = problem(&SMALL.replacen(place, other, 1));
        assert_eq!(found, "facts.reads_answer_source", "{place} -> {other}: {problem}");
    }
    let without = SMALL.replacen("reads_answer_source = \"unconfirmed\"\n", "", 1);
    assert!(problem(&without).1.contains("missing field `reads_answer_source`"));
    let later_retry = SMALL.replacen("[facts]", "[answers]\nretry_please.after_seconds = 9\n[facts]", 1);
    assert!(Catalog::parse([("acme.toml", later_retry.as_str())]).is_ok(), "it asks for a retry as usual");
}

#[test]
fn the_key_is_known_to_be_signed_or_not() {
    let unsigned: Vec<&str> = Catalog::built_in().iter().filter(|p| !p.key_is_signed()).map(Provider::id).collect();
    assert_eq!(
        unsigned.join(" "),
        "attio auth0 basic bitbucket commerce_layer contentful dropbox github jira linear mailgun netlify okta paypal postmark \
         razorpay sanity sentry shopify telegram token twilio woocommerce zendesk"
    );
}

/// A route that forwards without a fact names it by the signed key, else by the hash of the body, which a retry must
/// not change. Where the signature does not cover the body, it takes the id that the body holds instead.
#[test]
fn a_retry_changes_the_body_only_where_something_else_names_the_event() {
    let changes = |provider: &&Provider| provider.retry_changes().next().is_some();
    let unnamed = |provider: &&Provider| !provider.key_is_signed() && !provider.binds_bodies();
    assert!(Catalog::built_in().iter().any(|provider| changes(&provider)));
    let both: Vec<&str> = Catalog::built_in().iter().filter(changes).filter(unnamed).map(Provider::id).collect();
    // A retry is the same record. With Linear, it has the id of the first attempt in a header, and the signed time may be
    // that of the attempt. With Pipedrive, which has no file but `basic`, the key is a hash without the count of tries.
    assert_eq!(both, ["basic", "linear"]);
}
