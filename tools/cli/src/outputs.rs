//! Finds the parts of a deployed stack in the parameter `/hookonce/<stack>/outputs`, which the template writes.

use aws_config::SdkConfig;
use aws_sdk_ssm::error::ProvideErrorMetadata as _;
use error_reporter::Report;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use hookonce_runtime::aws::ssm_client;
use hookonce_runtime::strict::{self, ShowNames};
use hookonce_runtime::tables::{OwnTables, own_tables};
use serde::Deserialize;

use crate::account::{CALL_MAX, refused, region};
use crate::failure::Failure;
use crate::lambda::FunctionNames;

/// What the template says of a stack. Later templates may add more.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Outputs {
    /// The release of hookonce that the template belongs to.
    pub(crate) version: String,
    /// The table of records.
    pub(crate) inbox_table: String,
    /// The table of business data.
    pub(crate) domain_table: String,
    /// The queue of hints.
    pub(crate) queue_url: String,
    /// The queue of hints of events whose handler is slow.
    pub(crate) slow_queue_url: String,
    /// The queue of hints of effects.
    pub(crate) effects_queue_url: String,
    /// The address for providers, up to the endpoint's id.
    pub(crate) webhook_url: String,
    /// The KMS key of the endpoint documents, empty for the account's own.
    pub(crate) endpoint_key: String,
    /// The functions.
    pub(crate) functions: FunctionNames,
    index_shards: u16,
    /// The number of index shards to read.
    pub(crate) index_shards_read: u16,
    /// The user tables, as the worker's variable lists them.
    tables: String,
    delivery_retention_days: i64,
    effect_retention_days: i64,
}

impl Outputs {
    /// Reads the outputs of a stack.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is no such stack; [`Failure::Unavailable`] when Parameter Store refuses or does
    /// not answer.
    pub(crate) async fn of(config: &SdkConfig, stack: &str) -> Result<Self, Failure> {
        let name = format!("/hookonce/{stack}/outputs");
        let answer = match ssm_client(config, CALL_MAX).get_parameter().name(&name).send().await {
            Ok(answer) => answer,
            Err(error) => return Err(unread(error.code(), &Report::new(&error).to_string(), &name, &region(config))),
        };
        let text = answer.parameter().and_then(|parameter| parameter.value()).unwrap_or_default();
        strict::read(text.as_bytes(), ShowNames::Whole).map_err(|error| {
            Failure::usage(
                format!("the parameter {name} does not hold the names of a stack's tables: {error}"),
                "deploy the stack again from hookonce's template.yaml, which writes this parameter",
            )
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
        own_tables(&self.tables, [&self.inbox_table, &self.domain_table]).map_err(|faults| {
            let what = format!("the stack's parameter Tables is faulty: {}", faults.join("; "));
            Failure::usage(
                what,
                "deploy the stack with a corrected parameter Tables; its worker does not start with this one",
            )
        })
    }

    /// How the stack's functions write records.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            delivery_retention: Millis::days(self.delivery_retention_days),
            effect_retention: Millis::days(self.effect_retention_days),
            shards: self.index_shards,
            shards_read: self.index_shards_read,
            ..Timing::standard()
        }
    }
}

/// What a failed read means, by the error code of the service.
fn unread(code: Option<&str>, cause: &str, name: &str, region: &str) -> Failure {
    match code {
        Some("ParameterNotFound") => Failure::usage(
            format!("there is no parameter {name} in {region}"),
            "check the stack's name and the AWS region; hookonce's template.yaml writes this parameter for every stack",
        ),
        Some("ValidationException") => Failure::usage(
            format!("this is not a valid stack name: AWS rejects the parameter {name}"),
            "pass the stack's name alone, such as --stack hookonce; it has letters, digits and hyphens",
        ),
        code => refused("ssm:GetParameter", code, &format!("{name} in {region}: {cause}")),
    }
}
