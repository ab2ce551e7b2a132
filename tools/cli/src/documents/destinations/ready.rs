//! Ready-made documents: the address of an API, and what its documentation promises of a call that comes twice. Each
//! names the page that says so. An API whose keys have too short a window for a repeat gets the same class as one
//! without keys.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_runtime::destinations::DestinationDocument;
use serde::Deserialize;

use crate::failure::Failure;

/// A document without its secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    /// The name by which it is chosen.
    pub(crate) id: String,
    /// The API's name.
    pub(crate) name: String,
    /// Why it has its class.
    pub(crate) because: String,
    /// The page that says so.
    pub(crate) source: String,
    /// The page that shows its address and where the credential goes, if `source` does not.
    #[serde(default)]
    pub(crate) address_source: Option<String>,
    /// What an author of effects should know of it.
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// Where each account finds its own address, if each has one.
    #[serde(default)]
    pub(crate) url_from: Option<String>,
    /// What a person has to give.
    pub(crate) credential: Credential,
    /// The document.
    pub(crate) document: DestinationDocument,
}

/// A secret, and where it goes.
#[derive(Debug, Deserialize)]
#[serde(tag = "place", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Credential {
    /// A header.
    Header {
        /// What the API calls it.
        what: String,
        /// The header.
        header: String,
        /// What stands before the secret.
        #[serde(default)]
        prefix: String,
    },
    /// A user and a password.
    Basic {
        /// What the API calls them.
        what: String,
    },
    /// The end of the address, or the whole of it.
    Url {
        /// What the API calls it.
        what: String,
    },
}

/// All of them, by id.
pub(crate) fn all() -> &'static [Ready] {
    static ALL: OnceLock<Vec<Ready>> = OnceLock::new();
    // A test reads the file.
    ALL.get_or_init(|| serde_json::from_str(include_str!("ready.json")).unwrap_or_default())
}

/// The one with this id.
pub(crate) fn find(id: &str) -> Option<&'static Ready> {
    all().iter().find(|ready| ready.id == id)
}

impl Credential {
    /// What the API calls it.
    pub(crate) fn what(&self) -> &str {
        match self {
            Self::Header { what, .. } | Self::Basic { what } | Self::Url { what } => what,
        }
    }

    /// Writes the secret into a document.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it does not have the form.
    pub(crate) fn fill(&self, secret: &str, document: &mut DestinationDocument) -> Result<(), Failure> {
        let secret = secret.trim();
        let wrong = |form: &str| {
            Failure::usage(
                format!("this is not a valid {}: {form}", self.what()),
                "copy it exactly as the provider shows it",
            )
        };
        match self {
            Self::Header { header, prefix, .. } => {
                let bare = secret.strip_prefix(prefix.as_str()).unwrap_or(secret);
                document.headers.insert(header.clone(), format!("{prefix}{bare}"));
            }
            Self::Basic { .. } if !secret.contains(':') => return Err(wrong("it has no colon")),
            Self::Basic { .. } => {
                document.headers.insert("authorization".to_owned(), format!("Basic {}", STANDARD.encode(secret)));
            }
            Self::Url { .. } => {
                let address = document.url.clone().unwrap_or_default();
                let rest = secret.strip_prefix(address.as_str()).unwrap_or(secret);
                if rest.is_empty() || rest.contains("://") {
                    return Err(wrong(&format!("it must begin with {address}")));
                }
                document.url = Some(format!("{address}{rest}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hookonce_protocol::destination::Class;
    use hookonce_protocol::effect::DestinationId;
    use hookonce_runtime::destinations::ClassName;

    use super::*;
    use crate::documents::DocumentId as _;

    /// With a secret, each is a document that the dispatcher takes.
    #[test]
    fn every_ready_made_document_is_valid_and_explains_its_class() {
        let parsed: Vec<Ready> = serde_json::from_str(include_str!("ready.json")).unwrap();
        assert_eq!(parsed.len(), all().len());
        let ids: BTreeSet<_> = parsed.iter().map(|ready| ready.id.as_str()).collect();
        assert_eq!(ids.len(), parsed.len(), "an id is there twice");
        assert!(parsed.iter().map(|ready| &ready.id).is_sorted(), "they are sorted by id");
        for ready in &parsed {
            let id = DestinationId::parse(&ready.id).unwrap();
            let mut document = ready.document.clone();
            assert_eq!(document.url.is_none(), ready.url_from.is_some(), "{id}");
            document.url.get_or_insert_with(|| "https://account.example.com/v1".to_owned());
            ready.credential.fill("user:password", &mut document).unwrap();
            let checked = id.check(&document).unwrap_or_else(|failure| panic!("{id}: {failure}"));
            assert!(ready.source.starts_with("https://") && !ready.because.is_empty(), "{id}");
            assert!(
                ready.address_source.iter().all(|page| page.starts_with("https://") && *page != ready.source),
                "{id}"
            );
            let source = document.key_source_url.as_deref();
            match checked.terms().class {
                Class::Keyed { .. } => assert_eq!(source, Some(ready.source.as_str()), "{id}"),
                Class::AtMostOnce => assert!(source.is_none() && document.key_header.is_none(), "{id}"),
                Class::AtLeastOnce => {
                    panic!("{id}: whether a second call or a missing one is worse is the person's choice")
                }
            }
            assert!(!document.allow_private && checked.http().is_some_and(|target| target.tls), "{id}");
        }
        let keyed = |ready: &&Ready| ready.document.class == Some(ClassName::Keyed);
        let (with, without): (Vec<_>, Vec<_>) = parsed.iter().partition(keyed);
        // Two have keys that do not live long enough.
        let known = |ready: &&&Ready| !ready.because.contains("too short");
        assert!(with.len() >= 10 && without.iter().filter(known).count() >= 10, "at least ten of each honest class");
    }

    #[test]
    fn a_secret_goes_where_the_api_looks_for_it() {
        let filled = |id: &str, secret: &str| {
            let ready = find(id).unwrap();
            let mut document = ready.document.clone();
            ready.credential.fill(secret, &mut document).map(|()| document)
        };
        for secret in ["sk_live_1", "Bearer sk_live_1\n"] {
            assert_eq!(filled("stripe", secret).unwrap().headers["authorization"], "Bearer sk_live_1");
        }
        assert_eq!(filled("modern_treasury", "a:b").unwrap().headers["authorization"], "Basic YTpi");
        assert!(filled("modern_treasury", "ab").is_err());
        let whole = "https://discord.com/api/webhooks/1/token";
        for secret in ["1/token", whole] {
            assert_eq!(filled("discord", secret).unwrap().url.as_deref(), Some(whole));
        }
        for secret in ["", "https://evil.example/1/token"] {
            assert!(filled("discord", secret).is_err());
        }
    }
}
