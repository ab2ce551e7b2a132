//! What a change set would do, and what of it is refused.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use serde_json::{Value, json};

use crate::output;
use crate::stack::query::{child, members, text_below};

/// The stack policy of a release. It names the types of what an update may neither replace nor remove.
const POLICY: &str = include_str!("../../../../../deploy/stack-policy.json");

/// Where it says what an update may not do.
const DENIAL: &str = "/Statement/1";

/// What happens to one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// `Add`, `Modify`, `Remove`, or what a later CloudFormation may add.
    action: String,
    /// Its logical id.
    pub(super) resource: String,
    /// Its type.
    kind: String,
    /// `True`, `False` or `Conditional`. Empty where nothing is modified.
    replacement: String,
    /// The properties that change.
    properties: BTreeSet<String>,
    /// Whether CloudFormation names what changes, of each change.
    is_listed: bool,
}

impl Change {
    /// The changes of one page.
    pub(super) fn each(page: &Document<'_>) -> Vec<Self> {
        members(page, "ResourceChange").map(|change| Self::read(change)).collect()
    }

    fn read(change: Node<'_, '_>) -> Self {
        let field = |name: &str| text_below(change, name).unwrap_or_default().to_owned();
        let targets: Vec<_> = change.descendants().filter(|node| node.tag_name().name() == "Target").collect();
        let properties = targets.iter().map(|target| child(*target, "Name").to_owned()).filter(|name| !name.is_empty());
        // What is no property, such as tags, has no name.
        let is_listed = |target: &Node<'_, '_>| match child(*target, "Attribute") {
            "" | "Properties" => !child(*target, "Name").is_empty(),
            _ => true,
        };
        Self {
            action: field("Action"),
            resource: field("LogicalResourceId"),
            kind: field("ResourceType"),
            replacement: field("Replacement"),
            properties: properties.collect(),
            is_listed: !targets.is_empty() && targets.iter().all(is_listed),
        }
    }

    /// Why it is refused: it may cost a table, a queue or the address. Only what certainly keeps them passes.
    pub(super) fn danger(&self) -> Option<&'static str> {
        let keeps_keys = !self.properties.contains("AttributeDefinitions");
        match (self.action.as_str(), self.replacement.as_str()) {
            _ if !kept_kinds().contains(&self.kind) => None,
            ("Add", _) => None,
            ("Modify", "False") if !keeps_keys => Some("would get keys of another type"),
            ("Modify", "False") if self.is_listed => None,
            ("Modify", "False") => Some("would change, and CloudFormation does not say how"),
            ("Modify", "True") => Some("would be replaced"),
            ("Remove", _) => Some("would be removed"),
            (_, _) => Some("may be replaced"),
        }
    }

    /// Whether it makes something new.
    pub(super) fn adds(&self) -> bool {
        self.action == "Add"
    }
}

/// Prints the changes, the dangerous ones first.
pub(super) fn print(changes: &[Change]) {
    let mut table = output::table(&["CHANGE", "RESOURCE", "TYPE", "REPLACED"]);
    let mut ordered: Vec<_> = changes.iter().collect();
    ordered.sort_by_key(|change| (change.danger().is_none(), &change.action, &change.resource));
    for change in ordered {
        let replaced = match change.replacement.as_str() {
            "True" => "yes",
            "Conditional" => "perhaps",
            _ => "",
        };
        let kind = change.kind.trim_start_matches("AWS::");
        table.add_row([change.action.to_lowercase().as_str(), change.resource.as_str(), kind, replaced]);
    }
    output::print(&table);
}

/// The policy of the stack. It binds every other tool, too. What is allowed by name, it does not hold.
pub(in crate::command) fn policy(allowed: &[String]) -> String {
    let mut policy: Value = serde_json::from_str(POLICY).unwrap_or_default();
    if let (false, Some(denial)) = (allowed.is_empty(), policy.pointer_mut(DENIAL).and_then(Value::as_object_mut)) {
        let names: Vec<_> = allowed.iter().map(|name| format!("LogicalResourceId/{name}")).collect();
        denial.remove("Resource");
        denial.insert("NotResource".to_owned(), json!(names));
    }
    policy.to_string()
}

/// The types that the policy keeps.
fn kept_kinds() -> BTreeSet<String> {
    let policy: Value = serde_json::from_str(POLICY).unwrap_or_default();
    let kinds = policy.pointer(DENIAL).and_then(|denial| denial.pointer("/Condition/StringEquals/ResourceType"));
    let kinds = kinds.and_then(Value::as_array).into_iter().flatten();
    kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(action: &str, kind: &str, replacement: &str, properties: &[&str]) -> Change {
        Change {
            action: action.to_owned(),
            resource: "It".to_owned(),
            kind: kind.to_owned(),
            replacement: replacement.to_owned(),
            properties: properties.iter().map(|name| (*name).to_owned()).collect(),
            is_listed: true,
        }
    }

    #[test]
    fn only_what_certainly_keeps_a_table_a_queue_or_the_address_passes() {
        assert_eq!(kept_kinds().len(), 5);
        for kind in kept_kinds() {
            for (action, replacement, properties, passes) in [
                ("Add", "", &[][..], true),
                ("Modify", "False", &["Tags"], true),
                ("Modify", "False", &["AttributeDefinitions"], false),
                ("Modify", "Conditional", &["KeySchema"], false),
                ("Modify", "True", &["TableName"], false),
                ("Modify", "", &[], false),
                ("Modify", "Perhaps", &[], false),
                ("Remove", "", &[], false),
                ("Dynamic", "", &[], false),
                ("Import", "", &[], false),
                ("", "", &[], false),
            ] {
                let found = change(action, &kind, replacement, properties).danger();
                assert_eq!(found.is_none(), passes, "{action} {kind} {replacement} {properties:?}: {found:?}");
            }
        }
        assert_eq!(change("Remove", "AWS::Lambda::Function", "", &[]).danger(), None);
    }

    #[test]
    fn a_table_passes_only_if_every_change_of_it_is_listed() {
        let found = |details: &str| {
            let change = format!(
                "<ResourceChange><Action>Modify</Action><ResourceType>AWS::DynamoDB::Table</ResourceType>\
                 <Replacement>False</Replacement><Details>{details}</Details></ResourceChange>"
            );
            Change::read(Document::parse(&change).unwrap().root_element()).danger()
        };
        let detail = |target: &str| format!("<member><Target>{target}</Target></member>");
        let tags = detail("<Attribute>Tags</Attribute>");
        let billing = detail("<Attribute>Properties</Attribute><Name>BillingMode</Name>");
        let unknown = detail("<Attribute>Properties</Attribute>");
        assert_eq!((found(&tags), found(&billing), found(&(billing.clone() + &tags))), (None, None, None));
        for details in ["", "<member/>", &unknown, &(tags + &unknown), &(billing + &detail(""))] {
            assert_eq!(found(details), Some("would change, and CloudFormation does not say how"), "{details}");
        }
    }

    #[test]
    fn what_is_allowed_by_name_is_all_that_the_policy_lets_go() {
        let whole: Value = serde_json::from_str(&policy(&[])).unwrap();
        assert_eq!(whole, serde_json::from_str::<Value>(POLICY).unwrap());
        let opened: Value = serde_json::from_str(&policy(&["InboxTable".to_owned()])).unwrap();
        let denied = &opened["Statement"][1];
        assert_eq!((&denied["Effect"], &denied["Resource"]), (&json!("Deny"), &Value::Null));
        assert_eq!(denied["NotResource"], json!(["LogicalResourceId/InboxTable"]));
        assert_eq!(denied["Action"], whole["Statement"][1]["Action"]);
    }
}
