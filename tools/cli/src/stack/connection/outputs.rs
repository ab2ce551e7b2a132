//! Finds the parts of a deployed stack: asks CloudFormation for its outputs and parameters.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use hookonce_runtime::handlers::remote::Cause;
use hookonce_runtime::handlers::tables::{OwnTables, own_tables};
use roxmltree::Document;

use super::parts::StackParts;
use crate::failure::Failure;
use crate::stack::account::{refused, region};
use crate::stack::query::{CLOUDFORMATION, Refusal, child, members, text_below};

const ACTION: &str = "cloudformation:DescribeStacks";

/// What the template says of a stack. Later templates may add more.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    /// Its tables and queues.
    pub(crate) parts: StackParts,
    /// The table of documents.
    pub(crate) documents_table: String,
    /// The queue of dead letters.
    pub(crate) dead_letter_queue_url: String,
    /// Who may use the queues beside the functions; empty if nobody may. `None` if that is no parameter of the stack.
    pub(crate) operator: Option<String>,
    /// The address for providers, up to the endpoint's id.
    pub(crate) webhook_url: String,
    /// The log group of the function that takes deliveries.
    pub(crate) webhook_logs: String,
    /// The id of the gateway.
    pub(crate) gateway: String,
    /// How many requests a second it takes. `None` if that is no parameter of the stack, as in one that includes the template.
    pub(crate) requests_per_second: Option<u64>,
    /// The functions.
    pub(crate) functions: FunctionNames,
    /// The name of the stack that this one is nested in. `None` if it is in none.
    pub(crate) root: Option<String>,
    /// Whether CloudFormation refuses to delete the stack.
    pub(crate) is_protected: bool,
    /// The user tables, as the worker's variable lists them.
    tables: String,
}

/// The names of a stack's functions.
#[derive(Debug, Clone)]
pub(crate) struct FunctionNames {
    /// The one that takes deliveries.
    pub(crate) webhook: String,
    /// The one that runs handlers.
    pub(crate) worker: String,
    /// The one that repairs what got stuck.
    pub(crate) relay: String,
    /// The one that calls destinations.
    pub(crate) dispatcher: String,
}

/// Refuses what is no name of a stack, such as its ARN.
///
/// # Errors
/// [`Failure::Usage`] then.
pub(crate) fn check_name(stack: &str) -> Result<(), Failure> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !stack.is_empty() && stack.chars().all(is_part) {
        return Ok(());
    }
    Err(Failure::usage(
        "this is not a valid stack name",
        "pass the stack's name alone, such as --stack hookonce; it has letters, digits and hyphens",
    ))
}

impl Outputs {
    /// Reads the outputs of a stack.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is no such stack; [`Failure::Unavailable`] when CloudFormation refuses or does not
    /// answer.
    pub(crate) async fn of(config: &SdkConfig, stack: &str) -> Result<Self, Failure> {
        check_name(stack)?;
        let broken = |cause: Cause| refused(ACTION, None, &error_reporter::Report::new(&*cause));
        let answer = CLOUDFORMATION.call(config, "DescribeStacks", &[("StackName", stack)]).await.map_err(broken)?;
        let answer = answer.map_err(|Refusal { code, message }| unread(&code, &message, stack, &region(config)))?;
        let answer = Document::parse(&answer).map_err(|error| broken(error.into()))?;
        Self::read(&answer).ok_or_else(|| foreign(stack))
    }

    fn read(answer: &Document<'_>) -> Option<Self> {
        let outputs = pairs(answer, "OutputKey", "OutputValue");
        let parameters = pairs(answer, "ParameterKey", "ParameterValue");
        let output = |name: &str| outputs.get(name).map(|value| (*value).to_owned());
        let parameter = |name: &str| parameters.get(name).copied();
        Some(Self {
            parts: StackParts {
                version: output("Version")?,
                inbox_table: output("InboxTable")?,
                domain_table: output("DomainTable")?,
                queue_url: output("QueueUrl")?,
                slow_queue_url: output("SlowQueueUrl")?,
                effects_queue_url: output("EffectsQueueUrl")?,
            },
            documents_table: output("DocumentsTable")?,
            dead_letter_queue_url: output("DeadLetterQueueUrl")?,
            operator: parameter("OperatorArn").map(str::to_owned),
            webhook_url: output("WebhookUrl")?,
            webhook_logs: output("WebhookLogs")?,
            gateway: output("Gateway")?,
            requests_per_second: parameter("RequestsPerSecondMax").and_then(|text| text.parse().ok()),
            functions: FunctionNames {
                webhook: output("WebhookFunction")?,
                worker: output("WorkerFunction")?,
                relay: output("RelayFunction")?,
                dispatcher: output("DispatcherFunction")?,
            },
            // arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/NAME/ID
            root: text_below(answer.root(), "RootId").and_then(|arn| arn.split('/').nth(1)).map(str::to_owned),
            is_protected: text_below(answer.root(), "EnableTerminationProtection") == Some("true"),
            tables: parameter("Tables").unwrap_or_default().to_owned(),
        })
    }

    /// The user tables.
    ///
    /// # Errors
    /// [`Failure::Usage`] with every fault of the list. The stack's worker does not start with it either.
    pub(crate) fn own_tables(&self) -> Result<OwnTables, Failure> {
        if self.tables.is_empty() {
            return Ok(OwnTables::new());
        }
        let taken = [&self.parts.inbox_table, &self.parts.domain_table, &self.documents_table];
        own_tables(&self.tables, taken.map(String::as_str)).map_err(|faults| {
            let what = format!("the stack's parameter Tables is faulty: {}", faults.join("; "));
            Failure::usage(
                what,
                "deploy the stack with a corrected parameter Tables; its worker does not start with this one",
            )
        })
    }
}

/// The values of a list by their keys.
fn pairs<'a>(answer: &'a Document<'_>, key: &'static str, value: &str) -> BTreeMap<&'a str, &'a str> {
    members(answer, key).filter_map(|entry| Some((text_below(entry, key)?, child(entry, value)))).collect()
}

/// The failure for a stack of another template, or of another release of this one.
fn foreign(stack: &str) -> Failure {
    Failure::usage(
        format!("the stack {stack} has not the outputs of hookonce's template"),
        "check the stack's name, or deploy it again from this release's template.yaml",
    )
}

/// What a failed read means, by the error code of the service.
fn unread(code: &str, message: &str, stack: &str, region: &str) -> Failure {
    // CloudFormation has one code for everything that is wrong with a request.
    if code == "ValidationError" {
        return Failure::usage(
            format!("there is no stack {stack} in {region}"),
            "check the stack's name and the AWS region (AWS_DEFAULT_REGION, AWS_PROFILE)",
        );
    }
    refused(ACTION, Some(code).filter(|code| !code.is_empty()), &format!("{stack} in {region}: {message}"))
}
