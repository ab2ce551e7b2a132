//! Why a request is refused, for the person who has to make it work.
//!
//! The answer to the provider says as little as possible. The explanation goes to the person who holds the secrets and
//! says as much as possible: what was looked for, what is missing, and which small change would make the signature
//! match. It tries such changes. It never contains a secret or the correct signature.

mod cause;
mod rewrite;

use std::collections::BTreeSet;
use std::fmt;

use hookonce_protocol::time::{EpochSec, Millis};
use serde::Serialize;

pub use cause::Cause;

use crate::captured::CapturedRequest;
use crate::catalog::Catalog;
use crate::configuration::ConfigurationError;
use crate::event::Fallback;
use crate::keyring::Keyring;
use crate::provider::{Provider, SchemeEntry};
use crate::receive::{Received, VerifiedDelivery};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scheme::Scheme;
use crate::scheme::encoding::SecretForm;
use crate::scheme::proof::{Context, Verification};
use crate::scheme::timestamp::ahead_max;
use crate::scheme::tools::SignatureLocation;
use crate::settings::{PUBLIC_URL, Settings, VERIFY_TOKEN};

/// A tolerance that every timestamp is within.
const ANY_AGE: Millis = Millis(i64::MAX);

/// Most bytes of all copies of a body that are tried, with each secret. A person waits for the result.
const REWRITTEN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The result for a request, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The provider's id.
    pub provider: String,
    /// Whether the request carries a valid signature of the provider. It may, and be refused, because a secret can be
    /// guessed.
    pub authentic: bool,
    /// The refusal's code; `None` for a request that was accepted or answered.
    pub code: Option<&'static str>,
    /// The scheme that decided, in one line.
    pub scheme: String,
    /// What it looked for.
    pub looked_for: Vec<Finding>,
    /// The likely causes of a refusal, most likely first; or what an accepted delivery lacks.
    pub causes: Vec<Cause>,
}

/// A place that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is read there: a signature, a timestamp.
    pub what: &'static str,
    /// Where: the name of a header, or a path or field of the body.
    pub place: String,
    /// What was found there.
    pub state: FindingState,
}

/// What was found at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// A value.
    Present,
    /// Nothing.
    Missing,
    /// More than one value where there may be one.
    Duplicated,
    /// In the body, which only the scheme itself reads.
    InBody,
}

impl FindingState {
    /// The same for people.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Missing => "missing",
            Self::Duplicated => "present more than once",
            Self::InBody => "in the body",
        }
    }
}

impl Provider {
    /// Checks a request as [`Self::receive`] does, and explains the result to a person.
    ///
    /// `secrets` are those of an endpoint, newest first. Here they may be wrong or malformed.
    pub fn explain(
        &self,
        request: &Request<'_>,
        secrets: &[String],
        settings: &Settings,
        tolerance: Option<Millis>,
        now: EpochSec,
    ) -> Explanation {
        let case = Case { provider: self, request, secrets, schemes: None, settings, tolerance, now };
        case.explain(self.keyring(secrets).map_err(ConfigurationError::from))
    }

    /// Checks a captured request as its endpoint would, with the schemes that the endpoint takes, and explains the
    /// result.
    pub fn explain_captured(&self, captured: &CapturedRequest) -> Explanation {
        let CapturedRequest { secrets, settings, schemes, tolerance, now, .. } = captured;
        let configured = self.configure(secrets, settings.clone(), schemes).map(|(keyring, _)| keyring);
        let taken = self.taken(schemes).ok();
        let request = &captured.request();
        let (schemes, tolerance, now) = (taken.as_deref(), *tolerance, *now);
        let case = Case { provider: self, request, secrets, schemes, settings, tolerance, now };
        case.explain(configured)
    }
}

/// A request, with everything needed to check it.
#[derive(Clone, Copy)]
struct Case<'a> {
    provider: &'a Provider,
    request: &'a Request<'a>,
    secrets: &'a [String],
    /// The schemes that the endpoint takes, by their place in the catalog file; every one if it is not set.
    schemes: Option<&'a [usize]>,
    settings: &'a Settings,
    tolerance: Option<Millis>,
    now: EpochSec,
}

impl Case<'_> {
    fn explain(self, configured: Result<Keyring, ConfigurationError>) -> Explanation {
        let Self { provider, request, settings, tolerance, now, .. } = self;
        let usable = configured.clone().unwrap_or_else(|_| self.unchecked());
        let outcome = provider.receive(request, &usable, settings, tolerance, now);
        let is_configured = configured.is_ok();
        // A secret that an endpoint would not take still shows whether it is the sender's.
        let is_judged = configured.as_ref().err().is_none_or(ConfigurationError::is_of_strength);
        let mut causes: Vec<Cause> = configured.err().map(Cause::from).into_iter().collect();
        match &outcome {
            Ok(Received::NeedsMaterial(needed)) => causes.push(Cause::KeyToFetch { url: needed.url().to_owned() }),
            Ok(Received::Handshake(_)) if is_configured => causes.clear(),
            Ok(Received::Handshake(_)) => {}
            Ok(Received::Delivery(delivery)) => causes.extend(self.fallbacks(delivery)),
            Err(refusal) => causes.extend(self.causes_of(*refusal)),
        }
        // As the endpoint would answer: without usable secrets it checks nothing.
        let refusal = if is_configured { outcome.err() } else { Some(Refusal::NotConfigured) };
        Explanation {
            provider: provider.id.clone(),
            authentic: is_judged
                && matches!(
                    provider.authenticate(request, &usable, settings, tolerance, now),
                    Ok(Some(Verification::Authentic(_)))
                ),
            code: refusal.map(Refusal::code),
            scheme: self.scheme().map(|scheme| scheme.kind().summary()).unwrap_or_default(),
            looked_for: self.findings(),
            causes,
        }
    }

    /// A ring of secrets that may be unusable.
    fn unchecked(&self) -> Keyring {
        let keyring = Keyring::unchecked(&self.provider.id, self.secrets);
        self.schemes.map_or(keyring.clone(), |schemes| keyring.for_schemes(schemes.to_vec()))
    }

    /// The scheme that decides: the first with a signature that the endpoint takes, else the first with one.
    fn addressed(&self) -> Option<(usize, &SchemeEntry)> {
        let addressed = || self.provider.addressed_schemes(self.request);
        let is_taken = |index: usize| self.schemes.is_none_or(|schemes| schemes.contains(&index));
        addressed().find(|(index, _)| is_taken(*index)).or_else(|| addressed().next())
    }

    /// True when the signature matches, at any age.
    fn fits(&self) -> bool {
        let keyring = self.unchecked();
        let outcome = self.provider.authenticate(self.request, &keyring, self.settings, Some(ANY_AGE), self.now);
        matches!(outcome, Ok(Some(Verification::Authentic(_))))
    }

    fn fits_with_secrets(&self, secrets: &[String]) -> bool {
        Case { secrets, ..*self }.fits()
    }

    fn fits_with_body(&self, body: &[u8]) -> bool {
        body != self.request.body && Case { request: &Request { body, ..*self.request }, ..*self }.fits()
    }

    fn scheme(&self) -> Option<&Scheme> {
        let addressed = self.addressed().map(|(_, entry)| &entry.scheme);
        addressed.or_else(|| self.provider.schemes.first().map(|entry| &entry.scheme))
    }

    fn findings(&self) -> Vec<Finding> {
        let lookups = self.scheme().map(|scheme| scheme.kind().lookups()).unwrap_or_default();
        let state = |count: usize| match count {
            0 => FindingState::Missing,
            1 => FindingState::Present,
            _ => FindingState::Duplicated,
        };
        let find = |place: SignatureLocation| match place {
            SignatureLocation::Header(name) => {
                let count = self.request.header_values(&name).count();
                (name, state(count))
            }
            SignatureLocation::Setting(setting) => match self.settings.get(setting) {
                Some(name) => (name.to_owned(), state(self.request.header_values(name).count())),
                None => (format!("setting:{setting}"), FindingState::Missing),
            },
            SignatureLocation::Headers(prefix) => {
                let is_one = |name: &String| name.to_ascii_lowercase().starts_with(&prefix);
                let any = self.request.headers.iter().any(|(name, _)| is_one(name));
                (format!("{prefix}*"), state(usize::from(any)))
            }
            SignatureLocation::Body(path) => (path, FindingState::InBody),
        };
        let finding = |(what, (place, state))| Finding { what, place, state };
        lookups.into_iter().map(|lookup| finding((lookup.what, find(lookup.place)))).collect()
    }

    fn causes_of(&self, refusal: Refusal) -> Vec<Cause> {
        match refusal {
            Refusal::SignatureMissing => self.missing(),
            Refusal::SignatureMismatch | Refusal::SignatureMalformed => self.mismatch(refusal),
            Refusal::SchemeNotTaken => vec![Cause::SchemeNotTaken],
            Refusal::TimestampMissing => vec![Cause::TimestampMissing],
            Refusal::TimestampMalformed => vec![Cause::TimestampMalformed],
            Refusal::TimestampOutOfRange => vec![self.skew()],
            Refusal::DuplicateHeader => vec![Cause::DuplicateHeader],
            Refusal::HeaderMalformed => vec![Cause::HeaderMalformed],
            Refusal::Malformed => vec![Cause::IncompleteHandshake],
            Refusal::MethodNotAllowed => vec![Cause::Method],
            Refusal::NotConfigured => self.unconfigured(),
        }
    }

    fn missing(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Catalog::built_in()
            .iter()
            .filter(|other| other.id() != self.provider.id())
            .filter(|other| other.is_recognised_in(self.request))
            .map(|other| Cause::OtherProvider { provider: other.id().to_owned() })
            .collect();
        causes.push(Cause::SignatureMissing);
        causes
    }

    fn mismatch(&self, refusal: Refusal) -> Vec<Cause> {
        let mut causes = self.secret_causes();
        causes.extend(self.body_cause());
        causes.extend(self.url_cause());
        if causes.is_empty() {
            // Without a secret, `Cause::NoSecret` is the whole explanation.
            let has_key = !self.secrets.is_empty() || self.provider.fetches_keys();
            if refusal == Refusal::SignatureMalformed {
                causes.push(Cause::SignatureMalformed);
            } else if has_key {
                causes.push(Cause::OtherSecretOrBody);
            }
        }
        causes.extend(self.skew_too());
        causes
    }

    /// Tries the mistakes that people make when they copy a secret.
    fn secret_causes(&self) -> Vec<Cause> {
        let mut causes = Vec::new();
        for (index, secret) in self.secrets.iter().enumerate() {
            let trimmed = secret.trim();
            let unquoted = trimmed.trim_matches(['"', '\'']);
            if trimmed != secret && self.fits_with_secrets(&[trimmed.to_owned()]) {
                causes.push(Cause::SecretHasSpace { index });
            } else if unquoted != trimmed && self.fits_with_secrets(&[unquoted.to_owned()]) {
                causes.push(Cause::SecretHasQuotes { index });
            } else if let Some((read_as, expected)) = self.other_form(trimmed) {
                causes.push(Cause::SecretForm { index, read_as, expected });
            }
        }
        causes
    }

    /// Another form of the secret with which the signature matches, such as base64 after `whsec_` instead of text.
    fn other_form(&self, secret: &str) -> Option<(&'static str, &'static str)> {
        let (scheme_index, _) = self.addressed()?;
        let Scheme::Signed(scheme) = &self.provider.schemes.get(scheme_index)?.scheme else { return None };
        for form in [SecretForm::Text, SecretForm::Base64, SecretForm::Hex] {
            for prefix in [None, Some("whsec_".to_owned())] {
                let mut other = scheme.clone();
                other.secret.form = form;
                other.secret.prefix = prefix;
                if other.secret == scheme.secret {
                    continue;
                }
                let mut provider = self.provider.clone();
                provider.schemes.get_mut(scheme_index)?.scheme = Scheme::Signed(other);
                if (Case { provider: &provider, ..*self }).fits_with_secrets(&[secret.to_owned()]) {
                    return Some((form.name(), scheme.secret.form.name()));
                }
            }
        }
        None
    }

    /// Tries the changes that proxies, frameworks and copy and paste make to a body.
    fn body_cause(&self) -> Option<Cause> {
        let bytes = REWRITTEN_BYTES_MAX / self.secrets.len().max(1);
        let found = rewrite::rewrites(self.request.body, bytes).find(|rewrite| self.fits_with_body(&rewrite.body));
        found.map(|rewrite| Cause::BodyChanged { how: rewrite.how })
    }

    fn url_cause(&self) -> Option<Cause> {
        if !self.scheme().is_some_and(|scheme| scheme.kind().covers_url()) {
            return None;
        }
        let url = self.settings.public_url(self.request);
        let fits = |url: &String| {
            let settings = Settings::from_iter([(PUBLIC_URL.to_owned(), url.clone())]);
            let settings = self.settings.merged(&settings);
            let request = Request { url, ..*self.request };
            Case { request: &request, settings: &settings, ..*self }.fits()
        };
        let candidates = rewrite::urls(&url);
        candidates.into_iter().find(fits).map(|url| Cause::OtherUrl { url: rewrite::without_query(&url) })
    }

    /// How old the request says that its signature is, and how far from now that may be, if there is a limit.
    fn age(&self) -> Option<(Millis, Option<Millis>)> {
        let (scheme_index, entry) = self.addressed()?;
        let keyring = self.unchecked();
        let context = Context {
            request: self.request,
            url: self.settings.public_url(self.request),
            keyring: &keyring,
            settings: self.settings,
            tolerance: Some(ANY_AGE),
            now: self.now,
            scheme_index,
        };
        let age = self.now.as_millis().0.saturating_sub(entry.scheme.kind().claimed_time(&context)?);
        let tolerance = self.tolerance.or_else(|| entry.scheme.age_limit());
        Some((Millis(age), if age < 0 { tolerance.map(ahead_max) } else { tolerance }))
    }

    fn skew(&self) -> Cause {
        let (age, tolerance) = self.age().unwrap_or((Millis(0), None));
        let tolerance_seconds = tolerance.unwrap_or(Millis(0)).as_seconds();
        Cause::Skew { age_seconds: age.0.div_euclid(1_000), tolerance_seconds }
    }

    /// Whether a signature that does not match is out of time as well.
    fn skew_too(&self) -> Option<Cause> {
        let (age, tolerance) = self.age()?;
        let tolerance = tolerance.filter(|tolerance| age.0.saturating_abs() > tolerance.0)?;
        Some(Cause::SkewToo { age_seconds: age.0.div_euclid(1_000), tolerance_seconds: tolerance.as_seconds() })
    }

    /// What an authentic delivery lacks, each kind once.
    fn fallbacks(&self, delivery: &VerifiedDelivery) -> Vec<Cause> {
        let found: BTreeSet<Fallback> = delivery.contents().events().iter().filter_map(|part| part.fallback).collect();
        found.into_iter().map(|fallback| Cause::Fallback { fallback, looked_for: self.key_rules() }).collect()
    }

    /// Where the id of an event is looked for.
    fn key_rules(&self) -> Vec<String> {
        let entry = self.addressed().map(|(_, entry)| entry);
        let items = self.provider.item_rules.iter().flat_map(|rule| &rule.key);
        let own = entry.map(|entry| self.provider.keys_of(entry)).unwrap_or_default();
        if self.provider.batches() {
            items.map(ToString::to_string).collect()
        } else {
            own.iter().map(ToString::to_string).collect()
        }
    }

    fn unconfigured(&self) -> Vec<Cause> {
        let missing = self.provider.missing_setting(self.secrets, self.settings).map(|rule| rule.name.clone());
        // A handshake needs a token that deliveries do without.
        let token = || (self.settings.get(VERIFY_TOKEN).is_none()).then(|| VERIFY_TOKEN.to_owned());
        let token = token().filter(|name| self.provider.reads_setting(name));
        missing.or(token).map(|name| Cause::SettingMissing { name }).into_iter().collect()
    }
}

impl Provider {
    /// True when the request has this provider's signature header.
    fn is_recognised_in(&self, request: &Request<'_>) -> bool {
        let lookups = self.schemes.iter().flat_map(|entry| entry.scheme.kind().lookups());
        let mut names = lookups.filter_map(|lookup| match lookup.place {
            SignatureLocation::Header(name) if lookup.what == "signature" || lookup.what == "token" => Some(name),
            SignatureLocation::Header(_)
            | SignatureLocation::Headers(_)
            | SignatureLocation::Setting(_)
            | SignatureLocation::Body(_) => None,
        });
        names.any(|name| name != "authorization" && request.has_header(&name))
    }
}

impl fmt::Display for Explanation {
    /// Several lines for a terminal, without a trailing line break.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.provider, self.scheme)?;
        for finding in &self.looked_for {
            write!(formatter, "\n  {} {}: {}", finding.what, finding.place, finding.state.in_words())?;
        }
        match self.code {
            None if self.authentic => formatter.write_str("\nThe request is authentic.")?,
            None => formatter.write_str("\nThe request is a handshake that needs no signature.")?,
            Some(code) if self.authentic => write!(formatter, "\nThe request is authentic, but refused: {code}.")?,
            Some(code) => write!(formatter, "\nRefused: {code}.")?,
        }
        for cause in &self.causes {
            write!(formatter, "\n- {cause}")?;
        }
        Ok(())
    }
}
