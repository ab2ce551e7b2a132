//! Checks what an endpoint holds before it is used: secrets and settings.

use crate::kept::{CREDENTIAL_WORDS, names_a_credential};
use crate::keyring::{Keyring, KeyringError};
use crate::limits::SECRET_DISTINCT_BYTES_MIN;
use crate::provider::{Provider, SchemeEntry};
use crate::scheme::kind::SecretReading;
use crate::settings::{ENVIRONMENT, HEADER, PRODUCTION, PUBLIC_URL, SANDBOX, SettingRule, Settings};
use crate::source::header_name;

/// Why an endpoint cannot be configured so. It names the field, never the value of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The secrets do not make a key ring.
    #[error("secrets: the key ring is not valid")]
    Keyring(#[from] KeyringError),
    /// A secret has white space around it. A copy brings it along, and then no signature matches.
    #[error("secrets[{index}] has white space around it; store it without")]
    SecretHasSpace {
        /// The index of the secret; 0 is the newest.
        index: usize,
    },
    /// A secret is so short that it can be guessed.
    #[error("secrets[{index}] is shorter than {bytes_min} bytes (it has {bytes}) and can be guessed; use a longer one")]
    SecretTooShort {
        /// The index of the secret; 0 is the newest.
        index: usize,
        /// How long it is, in bytes.
        bytes: usize,
        /// The shortest allowed, in bytes.
        bytes_min: usize,
    },
    /// A secret is a placeholder, or has few different bytes.
    #[error(
        "secrets[{index}] can be guessed: it is made of words that stand for a secret, or of fewer than \
         {SECRET_DISTINCT_BYTES_MIN} different bytes; use the one that the provider shows, or a random one"
    )]
    SecretGuessable {
        /// The index of the secret; 0 is the newest.
        index: usize,
    },
    /// A public key is of small order.
    #[error("secrets[{index}] is a public key with which one signature fits every body; copy the provider's own again")]
    KeyOfSmallOrder {
        /// The index of the secret; 0 is the newest.
        index: usize,
    },
    /// A setting that the provider's scheme needs is not there.
    #[error("settings.{name} is missing")]
    SettingMissing {
        /// The setting's name.
        name: String,
    },
    /// A setting that nobody reads, such as a misspelled one.
    #[error("settings.{} is not a setting of this provider", name.escape_debug())]
    SettingUnknown {
        /// The setting's name.
        name: String,
    },
    /// A scheme that the provider does not have, or that is listed twice.
    #[error("schemes: {} is not a scheme of this provider, or is listed twice", name.escape_debug())]
    SchemeUnknown {
        /// The scheme's name.
        name: String,
    },
    /// The header of a token has a name that does not say that it holds one.
    #[error(
        "settings.{HEADER} must be the name of a header in lower case with one of these words in it: {}. So the token is \
         never stored",
        CREDENTIAL_WORDS.join(", ")
    )]
    HeaderUnfit,
    /// A setting is empty, has white space around it, or is none of the allowed words.
    #[error("settings.{name} is empty, has white space around it, or is not an allowed word")]
    SettingMalformed {
        /// The setting's name.
        name: String,
    },
}

impl ConfigurationError {
    /// True when everything is in order but how easily a secret is guessed, so that a signature can be judged.
    #[cfg(feature = "tools")]
    pub(crate) const fn is_of_strength(&self) -> bool {
        matches!(self, Self::SecretTooShort { .. } | Self::SecretGuessable { .. })
    }
}

impl Provider {
    /// The key ring and settings of an endpoint, checked strictly: a scheme that nobody sends, a setting that nobody
    /// reads and a secret that somebody can guess are refused here, not at the first delivery. How easily a secret is
    /// guessed is checked last.
    ///
    /// `schemes` lists the schemes that the endpoint takes. Without any, it takes all that the catalog does not reserve
    /// for a list: those that prove less than another one with the same secret, or sign something else with it.
    ///
    /// # Errors
    /// [`ConfigurationError`] names the first field that is wrong.
    pub fn configure(
        &self,
        secrets: &[String],
        settings: Settings,
        schemes: &[String],
    ) -> Result<(Keyring, Settings), ConfigurationError> {
        let taken = self.taken(schemes)?;
        let keyring = self.keyring(secrets)?;
        for (index, secret) in secrets.iter().enumerate() {
            self.check_form(index, secret, &taken)?;
        }
        for (name, value) in settings.iter() {
            let name = name.to_owned();
            if !self.reads_setting(&name) {
                return Err(ConfigurationError::SettingUnknown { name });
            }
            let is_word = name != ENVIRONMENT || [PRODUCTION, SANDBOX].contains(&value);
            if value.is_empty() || value.trim() != value || !is_word {
                return Err(ConfigurationError::SettingMalformed { name });
            }
            // What is kept of a request, and what a capture withholds, is decided by the names of headers.
            if name == HEADER && (header_name(value).is_err() || !names_a_credential(value)) {
                return Err(ConfigurationError::HeaderUnfit);
            }
        }
        if let Some(rule) = self.missing_setting(secrets, &settings) {
            return Err(ConfigurationError::SettingMissing { name: rule.name.clone() });
        }
        for (index, secret) in secrets.iter().enumerate() {
            self.check_strength(index, secret, &taken)?;
        }
        Ok((keyring.for_schemes(taken), settings))
    }

    /// The schemes that an endpoint takes, by their place in the catalog file.
    pub(crate) fn taken(&self, names: &[String]) -> Result<Vec<usize>, ConfigurationError> {
        let mut taken = Vec::new();
        for name in names {
            let unknown = || ConfigurationError::SchemeUnknown { name: name.clone() };
            let named = |entry: &SchemeEntry| !name.is_empty() && entry.name == *name;
            let index = self.schemes.iter().position(named).ok_or_else(unknown)?;
            if taken.contains(&index) {
                return Err(unknown());
            }
            taken.push(index);
        }
        if taken.is_empty() {
            taken = self
                .schemes
                .iter()
                .enumerate()
                .filter(|(_, entry)| !entry.only_if_listed)
                .map(|(index, _)| index)
                .collect();
        }
        Ok(taken)
    }

    /// The first setting that an endpoint with these secrets still needs.
    pub(crate) fn missing_setting(&self, secrets: &[String], settings: &Settings) -> Option<&SettingRule> {
        let is_needed = |rule: &&SettingRule| rule.required && (!rule.to_fetch || secrets.is_empty());
        self.settings.iter().filter(is_needed).find(|rule| settings.get(&rule.name).is_none())
    }

    /// True for a setting that this provider's endpoints may have.
    pub(crate) fn reads_setting(&self, name: &str) -> bool {
        name == PUBLIC_URL || self.settings.iter().any(|rule| rule.name == name)
    }

    /// What the schemes that the endpoint takes read in a secret; none for a scheme that cannot use it.
    fn readings(&self, secret: &str, taken: &[usize]) -> Vec<SecretReading> {
        let schemes = taken.iter().filter_map(|at| self.schemes.get(*at));
        schemes.filter_map(|entry| entry.scheme.kind().read_secret(secret)).collect()
    }

    fn check_form(&self, index: usize, secret: &str, taken: &[usize]) -> Result<(), ConfigurationError> {
        let readings = self.readings(secret, taken);
        if readings.is_empty() {
            return Err(KeyringError::Unusable { index }.into());
        }
        for reading in readings {
            match reading {
                SecretReading::Shared { .. } if secret.trim() != secret => {
                    return Err(ConfigurationError::SecretHasSpace { index });
                }
                SecretReading::SmallOrder => return Err(ConfigurationError::KeyOfSmallOrder { index }),
                SecretReading::Shared { .. } | SecretReading::Public => {}
            }
        }
        Ok(())
    }

    /// Every scheme that the endpoint takes and that can use the secret may be addressed, so the weakest reading
    /// counts.
    fn check_strength(&self, index: usize, secret: &str, taken: &[usize]) -> Result<(), ConfigurationError> {
        let bytes_min = self.secret_bytes_min;
        for reading in self.readings(secret, taken) {
            match reading {
                SecretReading::Shared { bytes, .. } if bytes < bytes_min => {
                    return Err(ConfigurationError::SecretTooShort { index, bytes, bytes_min });
                }
                SecretReading::Shared { is_guessable: true, .. } => {
                    return Err(ConfigurationError::SecretGuessable { index });
                }
                SecretReading::Shared { .. } | SecretReading::Public | SecretReading::SmallOrder => {}
            }
        }
        Ok(())
    }
}
