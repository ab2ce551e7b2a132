//! The settings that a provider's scheme needs from an endpoint besides secrets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::request::Request;

/// The public URL that the provider calls, if it differs from the URL that the gateway reports.
pub const PUBLIC_URL: &str = "public_url";

/// The token that Meta repeats in its subscription request.
pub const VERIFY_TOKEN: &str = "verify_token";

/// The id of a PayPal webhook; it is part of what PayPal signs.
pub const WEBHOOK_ID: &str = "webhook_id";

/// Which environment of PayPal or Plaid the endpoint belongs to: `production`, which is the default, or `sandbox`.
pub const ENVIRONMENT: &str = "environment";
pub(crate) const PRODUCTION: &str = "production";
pub(crate) const SANDBOX: &str = "sandbox";

/// The public key of a Braintree gateway; it names the signature to check.
pub const PUBLIC_KEY: &str = "public_key";

/// The topics of an SNS endpoint, separated by commas or spaces.
pub const TOPIC_ARNS: &str = "topic_arns";

/// The header in which a sender of no provider repeats its token.
pub const HEADER: &str = "header";

/// A setting that a provider's endpoints may have besides secrets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingRule {
    /// The name under which an endpoint's settings hold it.
    pub name: String,
    /// Whether the endpoint needs it to receive anything.
    #[serde(default)]
    pub required: bool,
    /// Whether it only serves to fetch the provider's keys. An endpoint that holds a key as its secret does not need
    /// it.
    #[serde(default)]
    pub to_fetch: bool,
}

/// The settings of one endpoint. They may hold a verify token, so they do not print.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// No settings at all.
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// The value of a setting, unless it is missing or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Every setting, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These settings; where both have one, that of `other` counts.
    #[cfg(feature = "tools")]
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let mut values = self.0.clone();
        values.extend(other.0.clone());
        Self(values)
    }

    /// The URL that was signed: the endpoint's public URL if one is configured, with this request's query unless the
    /// configured URL has its own.
    pub(crate) fn public_url<'a>(&self, request: &Request<'a>) -> Cow<'a, str> {
        match (self.get(PUBLIC_URL), request.url.split_once('?')) {
            (None, _) => Cow::Borrowed(request.url),
            (Some(public), Some((_, query))) if !public.contains('?') => Cow::Owned(format!("{public}?{query}")),
            (Some(public), _) => Cow::Owned(public.to_owned()),
        }
    }
}

impl From<BTreeMap<String, String>> for Settings {
    fn from(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}
