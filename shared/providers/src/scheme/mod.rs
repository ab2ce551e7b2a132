//! How a provider proves that it sent a request: one file per scheme, and the list of them.

pub(crate) mod adyen;
pub(crate) mod braintree;
pub(crate) mod contentful;
#[cfg(feature = "tools")]
pub(crate) mod draft;
pub(crate) mod encoding;
pub(crate) mod envelope;
pub(crate) mod format;
pub(crate) mod hash;
pub(crate) mod jwt;
pub(crate) mod kind;
pub(crate) mod paypal;
pub(crate) mod proof;
pub(crate) mod public_key;
pub(crate) mod signed;
#[cfg(feature = "tools")]
mod signing;
pub(crate) mod sns;
pub(crate) mod timestamp;
pub(crate) mod token;
#[cfg(feature = "tools")]
pub(crate) mod tools;
pub(crate) mod twilio;

#[cfg(feature = "tools")]
use hookonce_protocol::time::Millis;
use kind::SchemeKind;

/// One scheme of a provider. A provider with several lists the strongest first.
#[derive(Debug, Clone)]
pub(crate) enum Scheme {
    Signed(signed::SignedScheme),
    Token(token::TokenScheme),
    Jwt(jwt::JwtScheme),
    Twilio(twilio::TwilioScheme),
    Paypal(paypal::PaypalScheme),
    Adyen(adyen::AdyenScheme),
    Braintree(braintree::BraintreeScheme),
    Sns(sns::SnsScheme),
    Contentful(contentful::ContentfulScheme),
}

/// How old a message of SNS may be. `scheme/sns.rs` holds the same number; the test of every limit compares them.
#[cfg(feature = "tools")]
const SNS_AGE_MAX: Millis = Millis::hours(24);

impl Scheme {
    /// How old the signed time may be, if a time is signed and the sender does not limit it.
    #[cfg(feature = "tools")]
    pub(crate) fn age_limit(&self) -> Option<Millis> {
        match self {
            Self::Sns(_) => Some(SNS_AGE_MAX),
            Self::Signed(_)
            | Self::Token(_)
            | Self::Jwt(_)
            | Self::Twilio(_)
            | Self::Paypal(_)
            | Self::Adyen(_)
            | Self::Braintree(_)
            | Self::Contentful(_) => self.kind().tolerance(),
        }
    }

    pub(crate) fn kind(&self) -> &dyn SchemeKind {
        match self {
            Self::Signed(scheme) => scheme,
            Self::Token(scheme) => scheme,
            Self::Jwt(scheme) => scheme,
            Self::Twilio(scheme) => scheme,
            Self::Paypal(scheme) => scheme,
            Self::Adyen(scheme) => scheme,
            Self::Braintree(scheme) => scheme,
            Self::Sns(scheme) => scheme,
            Self::Contentful(scheme) => scheme,
        }
    }
}
