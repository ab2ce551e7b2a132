//! Hand-overs: a queue or a function that takes an effect now, and does it later. Neither remembers a key for long, so
//! both are at least once, and whoever does the work deduplicates by the key.

use super::document::{ClassName, DestinationDocument};
use crate::documents::fault::Checker;
use crate::handlers::remote::RemoteTarget;

/// What the name of a FIFO queue ends with.
const FIFO: &str = ".fifo";

/// A queue of SQS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTarget {
    /// Its URL.
    pub url: String,
    /// Whether it keeps an order within groups.
    pub fifo: bool,
    /// The one group of all its messages. Without it, each event is a group.
    pub group: Option<String>,
}

/// The queue that a document names.
pub(super) fn queue(check: &mut Checker<'_>, document: &DestinationDocument) -> QueueTarget {
    common(check, document);
    let url = document.url.clone().unwrap_or_default();
    let name = queue_name(&url);
    if name.is_none() {
        check.field("url").add("it must be the URL of a queue: https, the account and the name, and nothing else");
    }
    let fifo = name.is_some_and(|name| name.ends_with(FIFO));
    let group = document.message_group.clone();
    let plain = |group: &String| (1..=128).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_graphic());
    if !group.iter().all(plain) {
        check.field("message_group").add("it must be 1 to 128 visible characters of ASCII, without a space");
    }
    if group.is_some() && !fifo {
        check.field("message_group").add("only a queue whose name ends with `.fifo` has groups");
    }
    if document.function.is_some() {
        check.field("function").add("only `lambda` has it");
    }
    QueueTarget { url, fifo, group }
}

/// The function that a document names.
pub(super) fn function(check: &mut Checker<'_>, document: &DestinationDocument) -> String {
    common(check, document);
    let of_others = [("url", document.url.is_some()), ("message_group", document.message_group.is_some())];
    check.none_of(of_others, "`lambda` does not have it");
    let name = document.function.clone().unwrap_or_default();
    if RemoteTarget::lambda(&name).is_none() {
        check.field("function").add("it must be the name or the ARN of a Lambda function; a qualifier may follow");
    }
    name
}

/// What no hand-over has.
fn common(check: &mut Checker<'_>, document: &DestinationDocument) {
    let kind = document.kind.as_str();
    let of_http = [
        ("account", document.account.is_some()),
        ("key_header", document.key_header.is_some()),
        ("key_json_pointer", document.key_json_pointer.is_some()),
        ("headers", !document.headers.is_empty()),
        ("content_type", document.content_type.is_some()),
        ("standard_webhooks_secret", document.standard_webhooks_secret.is_some()),
        ("done_statuses", document.done_statuses.is_some()),
        ("retry_statuses", document.retry_statuses.is_some()),
        ("not_done_statuses", document.not_done_statuses.is_some()),
        ("success_json", document.success_json.is_some()),
        ("allow_private", document.allow_private),
    ];
    check.none_of(of_http, &format!("`{kind}` does not have it"));
    if document.class.is_some_and(|class| class != ClassName::AtLeastOnce) {
        let reason = format!(
            "`{kind}` must be `at_least_once`: an answer may be lost, and it soon forgets a key; the consumer must \
             deduplicate by the key"
        );
        check.field("class").add(reason);
    }
}

/// The name of the queue with this URL.
fn queue_name(url: &str) -> Option<&str> {
    let steps: Vec<_> = url.strip_prefix("https://")?.split('/').collect();
    let [host, account, name] = steps.as_slice() else { return None };
    let word =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let host_fits = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte));
    let stem = name.strip_suffix(FIFO).unwrap_or(name);
    // A name of SQS has at most 80 characters.
    let fits = url.len() <= 512 && name.len() <= 80;
    (fits && host_fits && word(account) && word(stem)).then_some(*name)
}
