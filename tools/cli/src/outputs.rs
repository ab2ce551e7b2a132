//! What a deployed stack says about itself: the parameter `/hookonce/<stack>/outputs` that the template writes.

use aws_config::SdkConfig;
use aws_sdk_ssm::error::ProvideErrorMetadata as _;
use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::ssm_client;
use hookonce_runtime::telemetry::chain;
use serde::Deserialize;

use crate::failure::Failure;

/// How long the question may take.
const CALL_MAX: Millis = Millis::seconds(20);

/// The names of a stack's parts. Later templates may add more.
#[derive(Debug, Deserialize)]
pub(crate) struct Outputs {
    /// The table of records.
    pub(crate) inbox_table: String,
    /// The table of business data.
    pub(crate) domain_table: String,
}

impl Outputs {
    /// Reads the outputs of a stack.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is no such stack, or nothing says where to look for it; [`Failure::Unavailable`]
    /// when Parameter Store refuses or does not answer.
    pub(crate) async fn of(config: &SdkConfig, stack: &str) -> Result<Self, Failure> {
        let Some(region) = config.region() else {
            return Err(Failure::usage(
                "no AWS region is set",
                "set AWS_REGION to the stack's region, or AWS_PROFILE to a profile that has one",
            ));
        };
        let name = format!("/hookonce/{stack}/outputs");
        let answer = match ssm_client(config, CALL_MAX).get_parameter().name(&name).send().await {
            Ok(answer) => answer,
            Err(error) => return Err(refused(error.code(), &chain(&error), &name, region.as_ref())),
        };
        let text = answer.parameter().and_then(|parameter| parameter.value()).unwrap_or_default();
        serde_json::from_str(text).map_err(|error| {
            Failure::usage(
                format!("the parameter {name} does not hold the outputs of a stack: {error}"),
                "deploy the stack again from hookonce's template.yaml, which writes this parameter",
            )
        })
    }
}

/// What a read that failed means, by the code that the service gave.
fn refused(code: Option<&str>, cause: &str, name: &str, region: &str) -> Failure {
    match code {
        Some("ParameterNotFound") => Failure::usage(
            format!("there is no parameter {name} in {region}"),
            "check the stack's name and the AWS region; hookonce's template.yaml writes this parameter for each stack",
        ),
        Some("AccessDeniedException") => Failure::unavailable(
            format!("the parameter {name} in {region} may not be read: {cause}"),
            "ask for the right ssm:GetParameter on this parameter, or use other credentials (AWS_PROFILE)",
        ),
        Some("ExpiredTokenException" | "InvalidSignatureException" | "UnrecognizedClientException") => {
            Failure::unavailable(
                format!("AWS does not take the credentials: {cause}"),
                "sign in again (`aws sso login`, `aws login`), or set AWS_PROFILE to a profile that works",
            )
        }
        Some(_) | None => Failure::unavailable(
            format!("the parameter {name} in {region} could not be read: {cause}"),
            "check the credentials (AWS_PROFILE, `aws sso login`, `aws login`) and the network",
        ),
    }
}
