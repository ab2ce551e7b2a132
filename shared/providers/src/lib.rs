//! Webhook providers: how to verify, name, split and answer their requests.
//!
//! A provider is data: one file in `catalog/`, described in `catalog/README.md`. This crate reads those files and
//! checks requests by them. It does no storage, no AWS calls and no waiting: `now` is an argument, and the caller
//! fetches a certificate when this crate asks for one.
//!
//! Architecture Invariant: only a scheme makes a proof of authenticity, only [`Provider::receive`] makes a
//! [`VerifiedDelivery`], and nothing is read out of a body before it is verified, except the signature and timestamp of
//! the schemes that keep them there, and the question of a handshake that its provider does not sign.
//!
//! ```
//! use hookonce_protocol::time::EpochSec;
//! use hookonce_providers::{Catalog, Received, Request, Settings, UnsignedRequest};
//!
//! let stripe = Catalog::built_in().provider("stripe").ok_or("not in the catalog")?;
//! let (url, body, now) = ("https://example.com/webhooks/stripe", br#"{"id":"evt_1","type":"invoice.paid"}"#, EpochSec(1_767_225_600));
//!
//! let unsigned = UnsignedRequest { method: "POST", url, headers: &[], body };
//! let headers: Vec<(String, Vec<u8>)> =
//!     stripe.sign(&unsigned, "whsec_secret", now)?.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
//!
//! let keyring = stripe.keyring(&["whsec_secret".to_owned()])?;
//! let request = Request { method: "POST", url, headers: &headers, body };
//! let Received::Delivery(delivery) = stripe.receive(&request, &keyring, &Settings::none(), None, now)? else {
//!     return Err("not a delivery".into());
//! };
//! assert_eq!(delivery.contents().events()[0].key.as_str(), "evt_1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adyen_item;
mod answers;
#[cfg(feature = "tools")]
mod captured;
mod catalog;
mod configuration;
#[cfg(feature = "tools")]
mod coverage;
#[cfg(feature = "tools")]
mod credential;
#[cfg(feature = "tools")]
pub mod docs;
mod event;
#[cfg(feature = "tools")]
mod explain;
#[cfg(feature = "tools")]
mod facts;
mod guessable;
mod handshake;
mod items;
mod json;
mod json_path;
mod kept;
mod key;
mod keyring;
pub mod limits;
mod material;
mod outgoing;
#[cfg(feature = "tools")]
mod pasted;
mod path;
mod provider;
mod receive;
mod refusal;
mod request;
mod scheme;
pub mod settings;
#[cfg(feature = "tools")]
mod sign;
mod source;
mod split;
mod template;
mod work;

pub use answers::{AnswerBody, Answers, Instead, ProviderAnswer, RetryPlease};
#[cfg(feature = "tools")]
pub use captured::{CapturedRequest, CapturedRequestError};
pub use catalog::{Catalog, CatalogError};
pub use configuration::ConfigurationError;
#[cfg(feature = "tools")]
pub use coverage::{Coverage, Extent};
#[cfg(feature = "tools")]
pub use credential::UnknownCredential;
pub use event::{Contents, EventKey, EventPart, Fallback, UNKNOWN_EVENT_TYPE, UNREADABLE_EVENT_TYPE};
#[cfg(feature = "tools")]
pub use explain::{Cause, Explanation, Finding, FindingState};
#[cfg(feature = "tools")]
pub use facts::{
    FactSource, Facts, ReadsAnswer, SecretFormError, SecretFrom, SecretKind, SecretScope, SourceKind, TimeOnRetry,
};
pub use handshake::{HandedOut, HandshakeAnswer};
pub use json_path::{JsonPath, JsonPathError};
pub use kept::{CREDENTIAL_WORDS, names_a_credential};
pub use keyring::{Keyring, KeyringError};
pub use material::{Material, MaterialNeeded};
pub use outgoing::StandardSecret;
#[cfg(feature = "tools")]
pub use pasted::{Pasted, PastedError};
pub use provider::Provider;
pub use receive::{Received, VerifiedDelivery};
pub use refusal::Refusal;
pub use request::{Fingerprint, Request};
#[cfg(feature = "tools")]
pub use scheme::draft::{SignError, UnsignedRequest};
pub use settings::{SettingRule, Settings};
#[cfg(feature = "tools")]
pub use sign::SignedRequest;
#[cfg(debug_assertions)]
pub use work::{hashed_bytes, panics_at, parsed_bytes};
