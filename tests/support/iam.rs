//! What the template's roles allow, enforced: a function in these tests may call exactly what it may call on AWS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemInput;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemInput;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableInput;
use aws_sdk_dynamodb::operation::get_item::GetItemInput;
use aws_sdk_dynamodb::operation::put_item::PutItemInput;
use aws_sdk_dynamodb::operation::query::QueryInput;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::operation::update_item::UpdateItemInput;
use aws_sdk_dynamodb::types::TransactWriteItem;
use aws_sdk_sqs::operation::change_message_visibility::ChangeMessageVisibilityInput;
use aws_sdk_sqs::operation::delete_message_batch::DeleteMessageBatchInput;
use aws_sdk_sqs::operation::receive_message::ReceiveMessageInput;
use aws_sdk_sqs::operation::send_message::SendMessageInput;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchInput;
use aws_smithy_runtime_api::client::interceptors::context::Input;
use hookonce_aws::KIND;
use hookonce_local::tables::StackResources;

use super::document;
use super::roles::{Allowed, Request, Statements, roles};
use super::template::template;

static ROLES: LazyLock<BTreeMap<String, Allowed>> = LazyLock::new(roles);

/// The same with their conditions.
static STATEMENTS: LazyLock<BTreeMap<&str, Statements>> = LazyLock::new(|| {
    let template = template();
    ROLES.keys().map(|function| (function.as_str(), Statements::of(&template, function))).collect()
});

/// What the parameter `HandlerPolicyArn` stands for, as the documentation tells users to write it.
static HANDLER_POLICY: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let page = document("docs/use/plans.md");
    let policy = page.split("```json\n").find(|text| text.contains("dynamodb:DescribeTable")).unwrap();
    let policy: serde_json::Value = serde_json::from_str(policy.split("```").next().unwrap()).unwrap();
    let actions = policy["Statement"][0]["Action"].as_array().unwrap();
    actions.iter().map(|action| action.as_str().unwrap().to_owned()).collect()
});

/// A table of the user's own, which the template does not know.
const OWN_TABLE: &str = "own table";

/// The table in which a role may read and write its own kinds only.
const DOCUMENTS: &str = "DocumentsTable.Arn";

/// The actions that a function has used, with what it used them on.
pub(crate) type Used = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Stands in front of a function's calls.
#[derive(Debug, Clone)]
pub(crate) struct Iam {
    function: &'static str,
    resources: StackResources,
    used: Used,
}

impl Iam {
    /// For the function that the template calls this.
    pub(crate) fn new(function: &'static str, resources: &StackResources, used: &Used) -> Self {
        Self { function, resources: resources.clone(), used: Arc::clone(used) }
    }

    /// A table or an index, as the template names it. Any other table is one of the user's own.
    fn table(&self, name: Option<&str>, index: Option<&str>) -> String {
        let table = match name {
            Some(name) if name == self.resources.inbox_table => "InboxTable.Arn",
            Some(name) if name == self.resources.domain_table => "DomainTable.Arn",
            Some(name) if name == self.resources.documents_table => DOCUMENTS,
            Some(_) => OWN_TABLE,
            None => panic!("{} names no table", self.function),
        };
        index.map_or(table.to_owned(), |index| format!("{table}/index/{index}"))
    }

    /// A queue, as the template names it.
    fn queue(&self, url: Option<&str>) -> String {
        match url {
            Some(url) if url == self.resources.queue.url => "HintQueue.Arn".to_owned(),
            Some(url) if url == self.resources.slow_queue.url => "SlowQueue.Arn".to_owned(),
            Some(url) if url == self.resources.effects_queue.url => "EffectsQueue.Arn".to_owned(),
            Some(url) if url == self.resources.dead_letter_queue.url => "DeadLetterQueue.Arn".to_owned(),
            _ => panic!("{} uses a queue that nothing sends it to", self.function),
        }
    }

    /// What a call needs. A transaction is authorised by the writes in it.
    fn needs(&self, input: &Input) -> Vec<(&'static str, String)> {
        if let Some(get) = input.downcast_ref::<GetItemInput>() {
            vec![("dynamodb:GetItem", self.table(get.table_name(), None))]
        } else if let Some(put) = input.downcast_ref::<PutItemInput>() {
            vec![("dynamodb:PutItem", self.table(put.table_name(), None))]
        } else if let Some(update) = input.downcast_ref::<UpdateItemInput>() {
            vec![("dynamodb:UpdateItem", self.table(update.table_name(), None))]
        } else if let Some(delete) = input.downcast_ref::<DeleteItemInput>() {
            vec![("dynamodb:DeleteItem", self.table(delete.table_name(), None))]
        } else if let Some(query) = input.downcast_ref::<QueryInput>() {
            vec![("dynamodb:Query", self.table(query.table_name(), query.index_name()))]
        } else if let Some(batch) = input.downcast_ref::<BatchGetItemInput>() {
            let tables = batch.request_items().into_iter().flat_map(|tables| tables.keys());
            tables.map(|table| ("dynamodb:BatchGetItem", self.table(Some(table), None))).collect()
        } else if let Some(describe) = input.downcast_ref::<DescribeTableInput>() {
            vec![("dynamodb:DescribeTable", self.table(describe.table_name(), None))]
        } else if let Some(transaction) = input.downcast_ref::<TransactWriteItemsInput>() {
            transaction.transact_items().iter().flat_map(|item| self.part(item)).collect()
        } else if let Some(send) = input.downcast_ref::<SendMessageInput>() {
            vec![("sqs:SendMessage", self.queue(send.queue_url()))]
        } else if let Some(send) = input.downcast_ref::<SendMessageBatchInput>() {
            vec![("sqs:SendMessage", self.queue(send.queue_url()))]
        } else if let Some(change) = input.downcast_ref::<ChangeMessageVisibilityInput>() {
            vec![("sqs:ChangeMessageVisibility", self.queue(change.queue_url()))]
        } else if let Some(receive) = input.downcast_ref::<ReceiveMessageInput>() {
            vec![("sqs:ReceiveMessage", self.queue(receive.queue_url()))]
        } else if let Some(delete) = input.downcast_ref::<DeleteMessageBatchInput>() {
            vec![("sqs:DeleteMessage", self.queue(delete.queue_url()))]
        } else {
            panic!("{} makes a call that this file does not know: {input:?}", self.function)
        }
    }

    /// Whether the conditions of the role allow an action on a document of the kind that a call names.
    fn allows_kind(&self, action: &str, input: &Input) -> bool {
        let get = input.downcast_ref::<GetItemInput>().and_then(GetItemInput::key);
        let put = input.downcast_ref::<PutItemInput>().and_then(PutItemInput::item);
        let kind = get.or(put).and_then(|attributes| attributes.get(KIND)?.as_s().ok());
        kind.is_some_and(|kind| {
            let request = Request::new(action, DOCUMENTS).with("dynamodb:LeadingKeys", &[kind]);
            STATEMENTS[self.function].allow(&request)
        })
    }

    /// What one part of a transaction needs.
    fn part(&self, item: &TransactWriteItem) -> Vec<(&'static str, String)> {
        let put = item.put().map(|put| ("dynamodb:PutItem", put.table_name()));
        let update = item.update().map(|update| ("dynamodb:UpdateItem", update.table_name()));
        let delete = item.delete().map(|delete| ("dynamodb:DeleteItem", delete.table_name()));
        let check = item.condition_check().map(|check| ("dynamodb:ConditionCheckItem", check.table_name()));
        let parts = [put, update, delete, check].into_iter().flatten();
        parts.map(|(action, table)| (action, self.table(Some(table), None))).collect()
    }
}

impl Intercept for Iam {
    fn name(&self) -> &'static str {
        "Iam"
    }

    fn read_before_serialization(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        for (action, resource) in self.needs(context.input()) {
            let by_role = ROLES[self.function].get(&resource).is_some_and(|actions| actions.contains(action));
            let by_handler_policy =
                self.function == "WorkerFunction" && resource == OWN_TABLE && HANDLER_POLICY.contains(action);
            let by_kind = resource != DOCUMENTS || self.allows_kind(action, context.input());
            let allowed = (by_role || by_handler_policy) && by_kind;
            assert!(allowed, "the role of {} does not allow {action} on {resource}", self.function);
            self.used.lock().unwrap().insert((resource, action.to_owned()));
        }
        Ok(())
    }
}
