//! AWS SNS over HTTP: RSA over named fields of the body, with a certificate that AWS hosts.
//!
//! The signature proves that SNS sent the message, but not from whose topic: any AWS account can subscribe any URL. So
//! an endpoint lists its topics.

#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use hookonce_protocol::time::Millis;

use crate::json::Node;
use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::Encoding;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
use crate::scheme::public_key::{Algorithm, PublicKey};
use crate::scheme::timestamp::{TimestampUnit, check_skew};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::settings::{Settings, TOPIC_ARNS};
use crate::source::Source;

/// The signed fields of a notification; `Subject` only if it is present.
const NOTIFICATION: [&str; 6] = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
/// The signed fields of a message about the subscription itself.
const CONFIRMATION: [&str; 7] = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];

/// How old a message may be. SNS retries for an hour at most. Until a captured message is too old, somebody can send it
/// with other unsigned fields.
const AGE_MAX: Millis = Millis::hours(24);

/// The scheme has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnsScheme;

/// The text members of a message.
struct Message(Vec<(String, String)>);

impl Message {
    fn read(body: &[u8]) -> Option<Self> {
        let members = Node::parse_unproven(body).ok()?.members().ok()?;
        let text = |node: &Node<'_>| node.text().starts_with('"').then(|| node.scalar()).flatten();
        Some(Self(members.into_iter().filter_map(|(name, node)| Some((name, text(&node)?))).collect()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn field(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or(Refusal::SignatureMissing)
    }

    /// The text that SNS signs: each field's name and value, each on its own line.
    fn signed(&self) -> Result<String, Refusal> {
        let fields: &[&str] = match self.field("Type")? {
            "Notification" => &NOTIFICATION,
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => &CONFIRMATION,
            _ => return Err(Refusal::SignatureMalformed),
        };
        let mut text = String::new();
        for name in fields {
            if *name == "Subject" && self.get(name).is_none() {
                continue;
            }
            let value = self.field(name)?;
            // SNS signs a line break only in a message. With one elsewhere, the text could be divided in another way.
            if *name != "Message" && value.contains('\n') {
                return Err(Refusal::SignatureMalformed);
            }
            for line in [name, value] {
                text.push_str(line);
                text.push('\n');
            }
        }
        Ok(text)
    }
}

/// The path of an `https` URL of SNS itself: `sns.<region>.amazonaws.com`, or the same in China.
fn sns_path(url: &str) -> Option<&str> {
    let (host, path) = url.strip_prefix("https://sns.")?.split_once('/')?;
    let region = host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let printable = |c: char| c.is_ascii_graphic() && c != '\\';
    (region.len() >= 3 && region.chars().all(plain) && path.chars().all(printable)).then_some(path)
}

/// The URL of a certificate of SNS: `/SimpleNotificationService-<letters and digits>.pem`, nothing else. The same host
/// is an API. At other paths it answers with data that any customer has stored, which could be a customer's own
/// certificate.
fn is_certificate_url(url: &str) -> bool {
    let name = sns_path(url).and_then(|path| path.strip_prefix("SimpleNotificationService-")?.strip_suffix(".pem"));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// True when the endpoint accepts messages of this topic.
pub(crate) fn is_own_topic(settings: &Settings, topic: &str) -> bool {
    settings.get(TOPIC_ARNS).is_some_and(|arns| arns.split([',', ' ', '\n']).any(|arn| !arn.is_empty() && arn == topic))
}

/// The topic that a message names.
#[cfg(feature = "tools")]
pub(crate) fn topic(body: &[u8]) -> Option<String> {
    Message::read(body)?.get("TopicArn").map(str::to_owned)
}

/// The URL that confirms a subscription, if its topic is one of the endpoint's own.
pub(crate) fn confirmation_url(body: &[u8], settings: &Settings) -> Option<String> {
    let message = Message::read(body)?;
    let url = message.get("SubscribeURL").filter(|url| sns_path(url).is_some())?;
    let wanted = message.get("Type") == Some("SubscriptionConfirmation");
    (wanted && is_own_topic(settings, message.get("TopicArn")?)).then(|| url.to_owned())
}

/// Messages of foreign topics are refused like a wrong signature.
fn check_topic(context: &Context<'_>, message: &Message) -> Result<(), Refusal> {
    let topic = message.field("TopicArn")?;
    match context.settings.get(TOPIC_ARNS) {
        None => Err(Refusal::NotConfigured),
        Some(_) if is_own_topic(context.settings, topic) => Ok(()),
        Some(_) => Err(Refusal::SignatureMismatch),
    }
}

impl SchemeKind for SnsScheme {
    fn is_addressed_by(&self, _request: &Request<'_>) -> bool {
        true
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let message = Message::read(context.request.body).ok_or(Refusal::SignatureMalformed)?;
        let signature = Encoding::Base64.decode(message.field("Signature")?).ok_or(Refusal::SignatureMalformed)?;
        let algorithm = match message.field("SignatureVersion")? {
            "1" => Algorithm::RsaSha1,
            "2" => Algorithm::RsaSha256,
            _ => return Err(Refusal::SignatureMalformed),
        };
        let url = message.field("SigningCertURL")?;
        if !is_certificate_url(url) {
            return Err(Refusal::SignatureMalformed);
        }
        let signed = message.signed()?;
        check_topic(context, &message)?;
        let fits = |key: &str| {
            let key = PublicKey::parse(key);
            key.is_some_and(|key| key.fits(algorithm, signed.as_bytes(), &signature))
        };
        let verification = context.with_fetched_key(url, fits)?;
        if let Verification::Authentic(_) = &verification {
            let at = TimestampUnit::Rfc3339.parse(message.field("Timestamp")?)?;
            check_skew(at, context.now, context.tolerance.unwrap_or(AGE_MAX))?;
        }
        Ok(verification)
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::public(secret, Algorithm::RsaSha256)
    }

    fn covers(&self, source: &Source) -> bool {
        let Source::Json(path) = source else { return false };
        let text = path.to_string();
        NOTIFICATION.iter().any(|name| text == format!("$.{name}"))
    }

    fn fetches_keys(&self) -> bool {
        true
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for SnsScheme {
    fn sign(&self, _draft: &mut Draft<'_>, _secret: &str, _now: EpochSec) -> Result<(), SignError> {
        Err(SignError::NotSharedSecret)
    }

    fn covers_time(&self) -> bool {
        true
    }

    fn lookups(&self) -> Vec<Lookup> {
        ["Signature", "SignatureVersion", "SigningCertURL", "Type", "TopicArn"]
            .map(|name| Lookup::body("signed field", &format!("$.{name}")))
            .to_vec()
    }

    fn summary(&self) -> String {
        "RSA with SHA-1 (version 1) or SHA-256 (version 2) over named fields of the body, base64 in `$.Signature`"
            .to_owned()
    }

    fn is_shared_secret(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sns_hosts_certificates() {
        for url in [
            "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
            "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-1.pem",
        ] {
            assert!(is_certificate_url(url), "{url}");
        }
        let own = "SimpleNotificationService-1.pem";
        for url in [
            "http://sns.us-east-1.amazonaws.com/",
            "https://sns.us-east-1.amazonaws.com.evil.example/",
            "https://sns.evil.example/sns.us-east-1.amazonaws.com/",
            "https://sns.a@evil.example/.amazonaws.com/",
            "https://sns.us-east-1.amazonaws.com:8443/",
            "https://sns.a.b.amazonaws.com/",
            "https://sns.us-east-1.amazonaws.com",
            "https://s3.us-east-1.amazonaws.com/",
        ] {
            assert!(!is_certificate_url(&format!("{url}{own}")), "{url}");
        }
    }

    /// URLs at which the API on the same host returns data of any AWS customer.
    #[test]
    fn nothing_else_on_the_host_of_sns_is_a_certificate() {
        for path in [
            "?Action=GetEndpointAttributes&EndpointArn=arn&X-Amz-Signature=0&z=.pem",
            "?z=/SimpleNotificationService-1.pem",
            "a/SimpleNotificationService-1.pem",
            "SimpleNotificationService-1.pem?Action=GetEndpointAttributes&z=.pem",
            "SimpleNotificationService-1.pem#.pem",
            "SimpleNotificationService-1/../.pem",
            "SimpleNotificationService-%2e.pem",
            "SimpleNotificationService-.pem",
            "S.pem",
        ] {
            let url = format!("https://sns.us-east-1.amazonaws.com/{path}");
            assert!(sns_path(&url).is_some() && !is_certificate_url(&url), "{url}");
        }
    }

    /// The signed text of a message with these text members.
    fn signed(members: &[(&str, &str)]) -> Result<String, Refusal> {
        let owned = members.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Message(owned.collect()).signed()
    }

    /// A text that a stranger writes into a message must not become other fields of it.
    #[test]
    fn what_is_signed_can_be_divided_in_one_way_only() {
        let rest = [("Timestamp", "t"), ("TopicArn", "a"), ("Type", "Notification")];
        let of = |fields: &[(&str, &str)]| signed(&[fields, &rest[..]].concat());
        let written = "text\nMessageId\nforged\nSubject\nmore";
        let sent = of(&[("Message", written), ("MessageId", "real")]);
        assert!(sent.is_ok());
        let other = [("Message", "text"), ("MessageId", "forged"), ("Subject", "more\nMessageId\nreal")];
        assert_eq!(of(&other), Err(Refusal::SignatureMalformed));

        // Every text of these lines, divided at every two of them.
        let lines = ["Message", "MessageId", "Subject", "Timestamp", "x"];
        let texts: Vec<_> = (0..5_usize.pow(5))
            .map(|number| (0..5).map(|place| lines[number / 5_usize.pow(place) % 5]).collect::<Vec<_>>())
            .collect();
        for text in texts {
            let whole = format!("Message\n{}\nTimestamp\nt\nTopicArn\na\nType\nNotification\n", text.join("\n"));
            let mut divisions = Vec::new();
            for id in 1..text.len() {
                for subject in id + 1..=text.len() {
                    let value = |from: usize, until: usize| text.get(from..until).unwrap_or_default().join("\n");
                    let (message, identity, about) =
                        (value(0, id), value(id + 1, subject), value(subject + 1, text.len()));
                    let mut fields = vec![("Message", message.as_str()), ("MessageId", identity.as_str())];
                    if subject < text.len() {
                        fields.push(("Subject", about.as_str()));
                    }
                    divisions.extend(of(&fields).ok().filter(|signed| *signed == whole).map(|_| (id, subject)));
                }
            }
            assert!(divisions.len() <= 1, "{text:?}: {divisions:?}");
        }
    }
}
