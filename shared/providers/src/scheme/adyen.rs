//! Adyen's standard payment webhooks: every item of the body carries an HMAC over eight of its own fields.
//!
//! The other fields are not signed: anyone who holds an item can change them. The dedup key uses only signed fields.

#[cfg(feature = "tools")]
use hookonce_protocol::time::EpochSec;
use subtle::ConstantTimeEq;

use crate::adyen_item::{Members, SIGNED, message, nodes};
use crate::json::Node;
#[cfg(feature = "tools")]
use crate::path::Path;
use crate::refusal::Refusal;
use crate::request::Request;
#[cfg(feature = "tools")]
use crate::scheme::draft::{Draft, SignError};
use crate::scheme::encoding::{Encoding, SecretForm};
use crate::scheme::hash::Hash;
use crate::scheme::kind::{SchemeKind, SecretReading};
use crate::scheme::proof::{Context, Verification};
#[cfg(feature = "tools")]
use crate::scheme::tools::{Lookup, SchemeTools};
use crate::source::Source;

#[cfg(feature = "tools")]
const ITEMS: &str = "$.notificationItems";
#[cfg(feature = "tools")]
const SIGNATURE: &str = "additionalData.hmacSignature";

/// The header that signs the bodies of Adyen's other webhooks.
const OTHER_SIGNATURE: &str = "hmacsignature";

/// The scheme has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdyenScheme;

/// An item: what is signed of it, and its signature.
struct Item {
    message: String,
    signature: Vec<u8>,
}

fn items(body: &[u8]) -> Result<Vec<Item>, Refusal> {
    let malformed = |_| Refusal::SignatureMalformed;
    let item = |node: Node<'_>| {
        let members = Members::of(Some(node)).map_err(malformed)?;
        let text = Members::of(members.get("additionalData")).map_err(malformed)?.text("hmacSignature");
        let signature = Encoding::Base64.decode(&text.ok_or(Refusal::SignatureMissing)?);
        let signature = signature.ok_or(Refusal::SignatureMalformed)?;
        Ok(Item { message: message(&members).map_err(malformed)?, signature })
    };
    nodes(body).map_err(malformed)?.into_iter().map(item).collect()
}

fn mac(key: &[u8], message: &str) -> Option<Vec<u8>> {
    Hash::Sha256.hmac(key, &[message.as_bytes()])
}

impl SchemeKind for AdyenScheme {
    /// Adyen's other webhooks have their signature in a header, and no items.
    fn is_addressed_by(&self, request: &Request<'_>) -> bool {
        let has_items = || std::str::from_utf8(request.body).is_ok_and(|body| body.contains("notificationItems"));
        !request.has_header(OTHER_SIGNATURE) || has_items()
    }

    fn verify(&self, context: &Context<'_>) -> Result<Verification, Refusal> {
        let items = items(context.request.body)?;
        if items.is_empty() {
            return Err(Refusal::SignatureMissing);
        }
        let fits = |secret: &str| {
            let Some(key) = SecretForm::Hex.decode(secret) else { return false };
            items.iter().all(|item| mac(&key, &item.message).is_some_and(|code| code.ct_eq(&item.signature).into()))
        };
        context.first_fitting(fits).map(Verification::Authentic)
    }

    fn read_secret(&self, secret: &str) -> Option<SecretReading> {
        SecretReading::shared(&SecretForm::Hex.decode(secret)?)
    }

    fn covers(&self, source: &Source) -> bool {
        match source {
            Source::Json(path) => {
                let text = path.to_string();
                SIGNED.iter().any(|signed| text == format!("@.NotificationRequestItem.{signed}"))
            }
            Source::HashOf(inner) => self.covers(inner),
            Source::AdyenText => true,
            _ => false,
        }
    }
}

#[cfg(feature = "tools")]
impl SchemeTools for AdyenScheme {
    fn sign(&self, draft: &mut Draft<'_>, secret: &str, _now: EpochSec) -> Result<(), SignError> {
        let key = SecretForm::Hex.decode(secret).ok_or(SignError::Secret)?;
        let lacks = || SignError::BodyLacks { path: format!("{ITEMS}[*].NotificationRequestItem.{SIGNATURE}") };
        let count = nodes(&draft.body).map_err(|_| lacks())?.len();
        if count == 0 {
            return Err(lacks());
        }
        for index in 0..count {
            let path = format!("{ITEMS}[{index}].NotificationRequestItem");
            let node = nodes(&draft.body).map_err(|_| lacks())?.get(index).copied().ok_or_else(lacks)?;
            let message = Members::of(Some(node)).and_then(|item| message(&item)).map_err(|_| lacks())?;
            let signature = mac(&key, &message).ok_or(SignError::Secret)?;
            let place = Path::parse(&format!("{path}.{SIGNATURE}")).map_err(|_| lacks())?;
            draft.set_json(&place, &Encoding::Base64.encode(&signature))?;
        }
        Ok(())
    }

    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup::body("signature", &format!("{ITEMS}[*].NotificationRequestItem.{SIGNATURE}"))]
    }

    fn summary(&self) -> String {
        format!("HMAC-SHA256 over eight fields of each item, base64 in its `{SIGNATURE}`; other fields are not signed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adyen_item::text_as_key;
    use crate::limits::SIGNATURES_MAX;

    /// A body with this number of items, all with these fields.
    fn body(items: usize, psp: &str, original: &str, account: &str, reference: &str) -> String {
        let item = serde_json::json!({
            "pspReference": psp, "originalReference": original, "merchantAccountCode": account,
            "merchantReference": reference, "amount": { "value": 100, "currency": "EUR" }, "eventCode": "CAPTURE",
            "success": "true", "additionalData": { "hmacSignature": "AA==" },
        });
        let items = vec![serde_json::json!({ "NotificationRequestItem": item }); items];
        serde_json::json!({ "notificationItems": items }).to_string()
    }

    /// The signed text of an item with these fields.
    fn signed(psp: &str, original: &str, account: &str, reference: &str) -> Result<String, Refusal> {
        Ok(items(body(1, psp, original, account, reference).as_bytes())?[0].message.clone())
    }

    #[test]
    fn the_number_of_items_is_limited() {
        let read = |count| items(body(count, "psp", "", "shop", "order").as_bytes()).map(|items| items.len());
        assert_eq!(read(SIGNATURES_MAX), Ok(SIGNATURES_MAX));
        assert_eq!(read(SIGNATURES_MAX + 1), Err(Refusal::SignatureMalformed));
    }

    #[test]
    fn a_text_that_can_be_divided_in_other_ways_is_one_whatever_its_fields_are() {
        let divided = |psp: &str, original: &str, account: &str, reference: &str| {
            let body = body(1, psp, original, account, reference);
            let (signed, root) =
                (signed(psp, original, account, reference).unwrap(), Node::parse(body.as_bytes()).unwrap());
            let element = root.members().unwrap()[0].1.elements().unwrap()[0];
            (text_as_key(element), signed)
        };
        assert_eq!(divided("psp", "", "shop", "order"), (None, "psp::shop:order:100:EUR:CAPTURE:true".to_owned()));
        let text = "psp::shop:order:1:100:EUR:CAPTURE:true".to_owned();
        for (psp, original, account, reference) in [
            ("psp", "", "shop", "order:1"),
            ("psp:", "shop", "order", "1"),
            ("psp", ":shop", "order", "1"),
            ("psp", "", "shop:order", "1"),
        ] {
            assert_eq!(divided(psp, original, account, reference), (Some(text.clone()), text.clone()), "{psp}");
        }
        let nameless = "::shop:order:100:EUR:CAPTURE:true".to_owned();
        assert_eq!(divided("", "", "shop", "order"), (Some(nameless.clone()), nameless));
    }
}
