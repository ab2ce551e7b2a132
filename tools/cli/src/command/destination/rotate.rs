//! `hookonce destination rotate`: replaces the secret of a destination.
//!
//! A function reads the document again within a minute, and until then it uses the old secret. So the callee must
//! accept both for that long, or it may refuse an effect. Unless the secret is part of the address, the dispatcher
//! takes the callee for the same one, and repeats a call in doubt with its key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::destinations::DestinationDocument;

use super::count;
use crate::documents::destinations::{Waiting, make_signing_secret};
use crate::documents::secret::{Input, SecretOption};
use crate::documents::{DocumentId as _, parse_id, text_of};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stack::target::Place;

/// What stands before a credential in a header, and stays there.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Key "];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Destination id.
    id: String,
    /// `-`: read the new secret from standard input; a terminal asks for it. Without this, a signing secret is
    /// generated and printed.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Header that holds the secret, if the document has several.
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// The URL is the secret: give the whole new URL.
    #[arg(long, conflicts_with = "header")]
    url: bool,
    /// New account name, if the secret belongs to another account or the callee ties idempotency keys to the secret.
    /// Calls in doubt are then not repeated.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Where a secret stands in a document.
enum SecretPlace {
    Header(String),
    Signature,
    Address,
}

pub(super) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let id: DestinationId = parse_id(&arguments.id)?;
    let mut input = Input::of(&arguments.secret);
    let given = arguments.secret.as_ref().map(|secret| secret.secret("new secret", &mut input)).transpose()?;
    let stack = arguments.place.connect();
    let store = stack.documents::<DestinationId>().await?;
    let stored = store.find(&id).await?;
    let mut document = stored.document(&id)?;
    let callee = id.check(&document)?.terms().callee;
    let place = place(&document, &arguments)?;
    let made = put(&mut document, &place, given)?;
    if arguments.account.is_some() {
        document.account.clone_from(&arguments.account);
    }
    let is_same_callee = id.check(&document)?.terms().callee == callee;
    let text = text_of(&document);
    if text == stored.text {
        output::note(&format!("destination {id} has this secret already: nothing was written"));
        return Ok(Exit::Done);
    }
    store.replace(&id, &stored, &text).await?;
    output::note(&format!(
        "destination {id} has a new secret; functions use it within a minute, and the old one until then"
    ));
    if let Some(made) = made {
        output::line(&made);
    }
    if is_same_callee {
        output::note("the account stays the same, so calls in doubt are repeated with their keys");
    } else {
        output::note(
            "to the dispatcher this is another callee: calls in doubt end as UNKNOWN_OUTCOME and are not repeated",
        );
        if let Ok(Waiting { in_doubt: doubt @ 1.., .. }) = count(&stack, &id).await {
            output::note(&format!(
                "{} in doubt now: `hookonce list --kind effect` shows how each ends",
                output::number_of(&doubt, "effect")
            ));
        }
    }
    Ok(Exit::Done)
}

/// Where the secret stands that is meant.
fn place(document: &DestinationDocument, arguments: &Arguments) -> Result<SecretPlace, Failure> {
    let named = |wanted: &str| document.headers.keys().find(|name| name.eq_ignore_ascii_case(wanted)).cloned();
    if arguments.url {
        return Ok(SecretPlace::Address);
    }
    if let Some(header) = &arguments.header {
        return named(header).map(SecretPlace::Header).ok_or_else(|| {
            let what = format!("the document has no header {header}");
            Failure::usage(what, format!("`hookonce destination show {}` lists its headers", arguments.id))
        });
    }
    if document.standard_webhooks_secret.is_some() && arguments.secret.is_none() {
        return Ok(SecretPlace::Signature);
    }
    let only = || document.headers.keys().next().filter(|_| document.headers.len() == 1).cloned();
    match (named("authorization").or_else(only), document.standard_webhooks_secret.is_some()) {
        (Some(header), false) => Ok(SecretPlace::Header(header)),
        (None, true) => Ok(SecretPlace::Signature),
        (Some(_), true) | (None, false) => Err(Failure::usage(
            "the document does not show which secret is meant",
            "pass `--header NAME` for a header, `--url` for the address; without `--secret`, a signature gets a new one",
        )),
    }
}

/// Puts a new secret there. Returns it if it was generated.
fn put(
    document: &mut DestinationDocument,
    place: &SecretPlace,
    given: Option<String>,
) -> Result<Option<String>, Failure> {
    if let (SecretPlace::Signature, None) = (place, &given) {
        let made = make_signing_secret();
        document.standard_webhooks_secret = Some(made.clone());
        return Ok(Some(made));
    }
    let given = given.map(|given| given.trim().to_owned()).filter(|given| !given.is_empty());
    let given = given.ok_or_else(|| {
        Failure::usage("only the callee can make this secret", "pass `--secret -`, and give the one that it shows")
    })?;
    match place {
        SecretPlace::Header(name) => {
            let old = document.headers.get(name).cloned().unwrap_or_default();
            document.headers.insert(name.clone(), with_scheme(&old, &given));
        }
        SecretPlace::Signature => document.standard_webhooks_secret = Some(given),
        SecretPlace::Address => document.url = Some(given),
    }
    Ok(None)
}

/// The new credential in the form of the old one.
fn with_scheme(old: &str, new: &str) -> String {
    let Some(scheme) = SCHEMES.into_iter().find(|scheme| old.starts_with(scheme)) else { return new.to_owned() };
    let bare = new.strip_prefix(scheme).unwrap_or(new);
    if scheme == "Basic " && bare.contains(':') {
        return format!("{scheme}{}", STANDARD.encode(bare));
    }
    format!("{scheme}{bare}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_keeps_its_form() {
        for (old, new, expected) in [
            ("Bearer a", "b", "Bearer b"),
            ("Bearer a", "Bearer b", "Bearer b"),
            ("Basic YTpi", "c:d", "Basic Yzpk"),
            ("Basic YTpi", "Yzpk", "Basic Yzpk"),
            ("Key a", "b", "Key b"),
            ("a", "b", "b"),
        ] {
            assert_eq!(with_scheme(old, new), expected);
        }
    }
}
