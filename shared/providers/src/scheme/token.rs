//! A fixed token or credential that the provider repeats in a header. Nothing is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use subtle::ConstantTimeEq;

use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
#[cfg(feature = "tools")]
use crate::scheme::tools::{CREDENTIAL, Lookup, SchemeTools, SignatureLocation};
use crate::settings::{HEADER, Settings};
use crate::source::Source;

/// A credential in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenScheme {
    /// The header's name; that of the setting `header` if the catalog names none.
    pub(crate) header: Option<String>,
    /// As HTTP Basic credentials, `user:password`, instead of the plain value.
    pub(crate) basic: bool,
}

impl SchemeKind for TokenScheme {
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        // Which header it is, only the endpoint knows. Then the request is judged by it alone.
        self.header.as_ref().is_none_or(|header| request.has_header(header))
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let header = self.header_of(context.settings).ok_or(Refusal::NotConfigured)?;
        let given = context.request.single_header(header)?.ok_or(Refusal::SignatureMissing)?;
        let given = self.credential(given).ok_or(Refusal::SignatureMalformed)?;
        context.first_fitting(|secret| secret.as_bytes().ct_eq(&given).into()).map(Verification::Authentic)
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        if secret.chars().any(char::is_control) {
            return None;
        }
        // The user's name is no secret.
        let guessed = if self.basic { secret.split_once(':')?.1 } else { secret };
        SecretReading::shared(guessed.as_bytes())
    }

    fn covers(&self, _source: &Source) -> bool {
        false
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for TokenScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, _now: EpochSec) -> Result<(), SignError> {
        if !self.accepts_secret(secret) {
            return Err(SignError::Secret);
        }
        let value = if self.basic { format!("Basic {}", STANDARD.encode(secret)) } else { secret.to_owned() };
        draft.add(self.header_of(draft.settings).ok_or(SignError::Setting { name: HEADER })?, value);
        Ok(())
    }

    fn lookups(&self) -> Vec<Lookup> {
        let place = self.header.clone().map_or(SignatureLocation::Setting(HEADER), SignatureLocation::Header);
        vec![Lookup { what: CREDENTIAL, place }]
    }

    fn summary(&self) -> String {
        let what = if self.basic { "HTTP Basic credentials" } else { "a fixed token" };
        match &self.header {
            Some(header) => format!("{what} in `{header}`; nothing is signed"),
            None => format!("{what} in the header that the setting `{HEADER}` names; nothing is signed"),
        }
    }
}

impl TokenScheme {
    /// The name of the header.
    fn header_of<'a>(&'a self, settings: &'a Settings) -> Option<&'a str> {
        self.header.as_deref().or_else(|| settings.get(HEADER))
    }

    /// The credential in a header's value.
    fn credential(&self, value: &str) -> Option<Vec<u8>> {
        if !self.basic {
            return (!value.is_empty()).then(|| value.as_bytes().to_vec());
        }
        STANDARD.decode(value.strip_prefix("Basic ")?).ok().filter(|bytes| !bytes.is_empty())
    }
}
