//! The secrets of one endpoint.

use crate::limits::SECRETS_MAX;
use crate::material::Material;

/// The secrets of one endpoint, newest first. [`Provider::keyring`](crate::Provider::keyring) makes it. It does
/// not print.
///
/// [`Provider::configure`](crate::Provider::configure) makes the one of an endpoint, which takes only the endpoint's
/// schemes. Any other takes every scheme of the provider.
///
/// For a provider whose keys are fetched, such as AWS SNS, a ring without secrets trusts keys from the provider's own
/// hosts; see [`Material`].
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    provider_id: String,
    secrets: Vec<String>,
    /// The schemes that the endpoint takes, by their place in the catalog file; every one if it is not set.
    schemes: Option<Vec<usize>>,
    material: Option<Material>,
}

/// Why secrets cannot be used. It names the secret's index, never its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// A key ring without a secret would accept nothing, or everything.
    #[error("an endpoint needs at least one secret")]
    Empty,
    /// Too many secrets.
    #[error("an endpoint may hold at most {SECRETS_MAX} secrets")]
    TooMany,
    /// A secret that the provider's schemes cannot use.
    #[error("secret {index} (0 is the newest) does not have the form of a scheme that the endpoint takes")]
    Unusable {
        /// The index of the secret; 0 is the newest.
        index: usize,
    },
}

impl Keyring {
    /// A ring whose secrets may be unusable, to find out what is wrong with them.
    pub(crate) fn unchecked(provider_id: &str, secrets: &[String]) -> Self {
        Self { provider_id: provider_id.to_owned(), secrets: secrets.to_vec(), schemes: None, material: None }
    }

    /// The same ring with a certificate or key that was fetched because
    /// [`Received::NeedsMaterial`](crate::Received::NeedsMaterial) asked for it.
    #[must_use]
    pub fn with_material(&self, material: Material) -> Self {
        Self { material: Some(material), ..self.clone() }
    }

    /// The number of secrets.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// True for a ring that uses only fetched keys.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The same ring for these schemes only.
    pub(crate) fn for_schemes(self, schemes: Vec<usize>) -> Self {
        Self { schemes: Some(schemes), ..self }
    }

    /// True for a scheme that the endpoint takes.
    pub(crate) fn takes_scheme(&self, index: usize) -> bool {
        self.schemes.as_ref().is_none_or(|schemes| schemes.contains(&index))
    }

    pub(crate) fn belongs_to(&self, provider_id: &str) -> bool {
        self.provider_id == provider_id
    }

    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// The material that was fetched under this name.
    pub(crate) fn material_for(&self, cache_key: &str) -> Option<&[u8]> {
        self.material.as_ref().and_then(|material| material.body_of(cache_key))
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Keyring")
            .field("provider_id", &self.provider_id)
            .field("secrets", &self.secrets.len())
            .finish_non_exhaustive()
    }
}
