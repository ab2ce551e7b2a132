//! A secret as people paste it: it is taken, or refused by a sentence that names what was pasted and holds none of it.

use hookonce_providers::{Catalog, Provider, SecretFrom, SecretKind, SecretScope};
use proptest::prelude::*;

use crate::support::{provider, valid};

/// What becomes of a text: the secret, or the sentence that refuses it.
fn pasted(provider: &Provider, text: &str) -> Result<String, String> {
    let pasted = provider.pasted_secret(text).map_err(|error| error.to_string())?;
    provider.facts().check_secret(&pasted.secret).map_err(|error| error.to_string())?;
    match provider.keyring(std::slice::from_ref(&pasted.secret)) {
        Ok(_) => Ok(pasted.secret),
        Err(error) => Err(error.to_string()),
    }
}

/// How a secret is pasted and still is that secret.
const TAKEN: [&str; 24] = [
    "@",
    " @",
    "@\n",
    "@\r\n",
    "\t@  ",
    "\u{feff}@\r\n",
    "\u{a0}@\u{200b}",
    "\"@\"",
    "'@'",
    "`@`",
    "\u{201c}@\u{201d}",
    "\u{ab}@\u{bb}",
    " \"@\" \n",
    "\"@\",",
    "'@';",
    "WEBHOOK_SECRET=@",
    "WEBHOOK_SECRET=@\n",
    "export WEBHOOK_SECRET='@'",
    "$env:WEBHOOK_SECRET = \"@\"\r\n",
    "acme_signing_key=\"@\";",
    "const webhook_secret = '@';",
    "\u{feff}WEBHOOK_SECRET=\"@\"",
    "\"secret\": \"@\",",
    "{\"webhook_secret\": \"@",
];

/// What is no secret, and the kind that the sentence names.
const REFUSED: [(&str, &str); 18] = [
    ("sk_test_CORE", "API key of Stripe"),
    ("rk_live_CORE", "API key of Stripe"),
    ("STRIPE_SECRET_KEY=sk_live_CORE", "API key of Stripe"),
    (" \"pk_test_CORE\" ", "publishable API key"),
    ("sk-proj-CORE", "API key of OpenAI"),
    ("ghp_CORE", "token of GitHub"),
    ("glpat-CORE", "token of GitLab"),
    ("xoxb-CORE", "token of Slack"),
    ("SG.CORE.CORE", "API key of SendGrid"),
    ("lin_api_CORE", "API key of Linear"),
    ("whpk_CORE", "public key of an asymmetric"),
    ("eyJCORE.CORE.CORE", "JSON Web Token"),
    ("https://example.com/?k=CORE", "an address"),
    ("sha256=CORE", "a signature"),
    ("t=1767225600,v1=CORE", "a signature"),
    ("curl -H 'x: CORE'", "a command"),
    ("\"\"", "empty"),
    ("WEBHOOK_SECRET=''", "empty"),
];

/// A secret in the form of its provider, around these letters and digits.
fn secret(provider: &Provider, core: &str) -> String {
    let written = serde_json::to_value(provider).unwrap();
    let (scheme, facts) = (&written["scheme"][0], provider.facts());
    let bare = match scheme["secret"].as_str() {
        Some("hex") => hex::encode(core),
        Some("base64") => core[..core.len() / 4 * 4].to_owned(),
        _ if scheme["kind"] == "adyen_items" => hex::encode(core),
        _ if scheme["kind"] == "basic" => format!("user:{core}"),
        _ => core.to_owned(),
    };
    let prefixed = format!("{}{bare}", facts.secret_prefix.as_deref().unwrap_or_default());
    let chars = facts.secret_chars_min.unwrap_or_default();
    let longer = prefixed.repeat(1 + chars / prefixed.len().max(1));
    let most = if chars > 0 { chars } else { facts.secret_chars_max.unwrap_or(longer.len()).min(prefixed.len()) };
    longer.chars().take(most).collect()
}

/// Whether a sentence holds a part of a secret that nobody would guess.
fn leaks(sentence: &str, core: &str) -> bool {
    core.as_bytes().windows(5).any(|part| sentence.contains(std::str::from_utf8(part).unwrap()))
}

proptest! {
    // Each case is every form of a secret of every provider.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_secret_is_taken_out_of_what_was_pasted_or_refused_without_a_byte_of_it(core in "[A-Za-z0-9]{36,48}") {
        for provider in Catalog::built_in().iter().filter(|provider| provider.can_sign()) {
            let secret = secret(provider, &core);
            for form in TAKEN {
                let text = form.replace('@', &secret);
                let taken = pasted(provider, &text);
                if form.starts_with('{') {
                    // Half an object is no secret of anybody.
                    let sentence = taken.unwrap_err();
                    prop_assert!(!leaks(&sentence, &core), "{}: {sentence}", provider.id());
                } else {
                    prop_assert_eq!(taken.as_ref(), Ok(&secret), "{}: {:?}", provider.id(), form);
                }
            }
            for (form, kind) in REFUSED {
                let sentence = pasted(provider, &form.replace("CORE", &core)).unwrap_err();
                prop_assert!(sentence.contains(kind), "{}: {form}: {sentence}", provider.id());
                prop_assert!(!leaks(&sentence, &core), "{}: {form}: {sentence}", provider.id());
            }
            let twice = [secret.as_str(), secret.as_str()].join("\n");
            prop_assert!(pasted(provider, &twice).unwrap_err().contains("several lines"));
            let printed = format!("{:?}", provider.pasted_secret(&secret));
            prop_assert!(!leaks(&printed, &core), "{printed}");
        }
    }

    #[test]
    fn nothing_that_is_pasted_panics_or_is_repeated(text in "\\PC{0,80}") {
        for id in ["stripe", "standard_webhooks", "adyen", "auth0", "postmark", "discord", "livekit"] {
            if let Err(sentence) = pasted(provider(id), &text) {
                prop_assert!(text.chars().count() < 8 || !sentence.contains(&text), "{id}: {sentence}");
            }
        }
    }
}

#[test]
fn what_a_provider_hands_out_is_taken_as_it_is() {
    for provider in Catalog::built_in().iter() {
        for secret in &valid(provider.id()).secrets {
            let pasted = provider.pasted_secret(secret);
            assert_eq!(pasted.unwrap().secret, secret.trim(), "{}", provider.id());
        }
    }
    for (id, text, secret) in [
        // As Supabase shows it.
        ("standard_webhooks", "v1,whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="),
        ("svix", "SVIX_SECRET=v1,whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="),
        ("stripe", "Signing secret: whsec_abcdefghijklmnop", "whsec_abcdefghijklmnop"),
        // Neither is a name in front of a secret.
        ("standard_webhooks", "c2VjcmV0LWtleS10b2tlbi1zZWNyZXQ=", "c2VjcmV0LWtleS10b2tlbi1zZWNyZXQ="),
        ("auth0", "Bearer abcdefghijklmnop", "Bearer abcdefghijklmnop"),
        ("auth0", "Token: abcdefghijklmnop", "Token: abcdefghijklmnop"),
        ("postmark", "key:abcdefghijklmnop", "key:abcdefghijklmnop"),
        ("github", "key=abcdefghijklmnop", "key=abcdefghijklmnop"),
        ("shopify", "shpss_0123456789abcdef", "shpss_0123456789abcdef"),
    ] {
        assert_eq!(pasted(provider(id), text), Ok(secret.to_owned()), "{id}");
    }
}

/// Public keys are pasted from the same pages. Certificates and keys of several lines are files.
#[test]
fn a_public_key_of_one_line_is_taken_out_of_what_was_pasted() {
    let mut keys = 0;
    for provider in Catalog::built_in().iter().filter(|provider| !provider.can_sign()) {
        let secret = valid(provider.id()).secrets[0].as_str();
        if secret.contains('\n') || secret.starts_with('{') {
            continue;
        }
        keys += 1;
        for form in TAKEN.iter().filter(|form| !form.starts_with('{')) {
            let taken = pasted(provider, &form.replace('@', secret));
            assert_eq!(taken.as_deref(), Ok(secret), "{}: {form:?}", provider.id());
        }
    }
    assert_eq!(keys, 3, "Discord, SendGrid and Telnyx");
}

/// Those that only repeat a token.
const TOKENS: [&str; 6] = ["auth0", "basic", "okta", "postmark", "telegram", "token"];

/// A file without these facts is not valid, so this says only what no type can.
#[test]
fn who_stores_a_secret_of_an_app_or_a_credential_gets_a_warning() {
    let told: Vec<String> = Catalog::built_in()
        .iter()
        .filter_map(|provider| {
            let facts = provider.facts();
            assert_eq!(
                facts.secret_scope == SecretScope::None,
                facts.secret_from == SecretFrom::Nobody,
                "{}",
                provider.id()
            );
            let warnings = provider.secret_warnings();
            let is_token = TOKENS.contains(&provider.id());
            let is_api = facts.secret_is == SecretKind::ApiCredential;
            let expected = [facts.secret_scope == SecretScope::App, is_api, is_token, facts.apps_share];
            assert_eq!(warnings.len(), expected.into_iter().filter(|is| *is).count(), "{}", provider.id());
            let unsigned = warnings.contains(&"nothing is signed: who has the token can send anything");
            assert_eq!(unsigned, is_token, "{}", provider.id());
            let signs = warnings.iter().any(|warning| warning.contains("can sign for every customer"));
            assert_eq!(signs, expected[0] && provider.can_sign(), "{}: a public key signs nothing", provider.id());
            (expected[0] || expected[1] || expected[3]).then(|| provider.id().to_owned())
        })
        .collect();
    assert_eq!(
        told.join(" "),
        "bigcommerce braintree calendly contentful discord dropbox github gocardless hubspot intercom line linear livekit \
         meta_messenger_instagram meta_whatsapp notion razorpay retell sentry shopify slack square twilio vercel vonage \
         x_twitter zoom"
    );
}
