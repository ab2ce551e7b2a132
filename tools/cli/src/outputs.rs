//! What a deployed stack says about itself: the outputs of its CloudFormation stack.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::config::Builder;
use aws_sdk_cloudformation::types::{Output, Stack};
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::timeouts;
use hookonce_runtime::telemetry::chain;

use crate::failure::Failure;

/// How long the question may take.
const CALL_MAX: Millis = Millis::seconds(20);

/// The outputs of a stack, by name.
#[derive(Debug)]
pub(crate) struct Outputs {
    stack: String,
    values: BTreeMap<String, String>,
}

impl Outputs {
    /// Reads them.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when CloudFormation does not answer, or knows no such stack.
    pub(crate) async fn of(config: &SdkConfig, stack: &str) -> Result<Self, Failure> {
        let config = Builder::from(config).timeout_config(timeouts(CALL_MAX)).build();
        let client = aws_sdk_cloudformation::Client::from_conf(config);
        let answer = client.describe_stacks().stack_name(stack).send().await.map_err(|error| {
            Failure::unavailable(
                format!("the stack {stack} could not be read: {}", chain(&error)),
                "check the stack's name, the AWS region and the credentials; `aws cloudformation list-stacks` lists names",
            )
        })?;
        let outputs = answer.stacks().iter().flat_map(Stack::outputs);
        let pair = |output: &Output| Some((output.output_key()?.to_owned(), output.output_value()?.to_owned()));
        Ok(Self { stack: stack.to_owned(), values: outputs.filter_map(pair).collect() })
    }

    /// One of them.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the stack has no such output: it is another kind of stack.
    pub(crate) fn get(&self, name: &str) -> Result<&str, Failure> {
        self.values.get(name).map(String::as_str).ok_or_else(|| {
            Failure::usage(
                format!("the stack {} has no output {name}", self.stack),
                "name a stack that was deployed from hookonce's template.yaml",
            )
        })
    }
}
