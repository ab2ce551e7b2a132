//! What the items of an Adyen body hold: the fields that are signed, and the text that they make.

use crate::json::{JsonError, Node};
use crate::limits::SIGNATURES_MAX;

/// The signed fields of an item, in the order in which they are signed.
pub(crate) const SIGNED: [&str; 8] = [
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "amount.value",
    "amount.currency",
    "eventCode",
    "success",
];

/// Those that name the event together.
const NAMING: [&str; 3] = ["pspReference", "eventCode", "success"];

/// The members of an object, read once.
pub(crate) struct Members<'a>(Vec<(String, Node<'a>)>);

impl<'a> Members<'a> {
    /// The members of this node; none without a node.
    pub(crate) fn of(node: Option<Node<'a>>) -> Result<Self, JsonError> {
        node.map_or(Ok(Vec::new()), |node| node.members()).map(Self)
    }

    /// A member.
    pub(crate) fn get(&self, name: &str) -> Option<Node<'a>> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, node)| *node)
    }

    /// The text of a member that is no list and no object.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|node| node.scalar())
    }
}

/// The items of a body, as nodes. No delivery has more than [`SIGNATURES_MAX`].
pub(crate) fn nodes(body: &[u8]) -> Result<Vec<Node<'_>>, JsonError> {
    let root = Members::of(Some(Node::parse_unproven(body)?))?;
    let Some(items) = root.get("notificationItems") else { return Ok(Vec::new()) };
    let elements = items.elements()?;
    if elements.len() > SIGNATURES_MAX {
        return Err(JsonError::NotJson);
    }
    let mut nodes = Vec::with_capacity(elements.len());
    for element in elements {
        nodes.push(Members::of(Some(element))?.get("NotificationRequestItem").ok_or(JsonError::NotJson)?);
    }
    Ok(nodes)
}

/// What is signed of an item: the fields, with `:` between them.
pub(crate) fn message(item: &Members<'_>) -> Result<String, JsonError> {
    let amount = Members::of(item.get("amount"))?;
    let field = |name: &&str| match name.strip_prefix("amount.") {
        Some(name) => amount.text(name),
        None => item.text(name),
    };
    let fields: Vec<String> = SIGNED.iter().map(|name| field(name).unwrap_or_default()).collect();
    Ok(fields.join(":"))
}

/// The signed text of an element of `notificationItems`, if a field of it has a `:`, too, or one that names the event is
/// missing. Names of reports have times: other fields fit the same text, so it is the text itself that is deduplicated.
pub(crate) fn text_as_key(element: Node<'_>) -> Option<String> {
    let item = Members::of(Some(element)).ok()?.get("NotificationRequestItem")?;
    let item = Members::of(Some(item)).ok()?;
    let text = message(&item).ok()?;
    let is_missing = |name: &str| item.text(name).is_none_or(|text| text.is_empty());
    let is_key = text.matches(':').count() < SIGNED.len() && !NAMING.iter().any(|name| is_missing(name));
    (!is_key).then_some(text)
}
