//! Finds the parts of a deployed stack in the parameter `/hookonce/<stack>/outputs`, which the template writes.

use aws_config::SdkConfig;
use aws_sdk_ssm::error::ProvideErrorMetadata as _;
use error_reporter::Report;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::SHARDS_MIN;
use hookonce_runtime::aws::ssm_client;
use serde::Deserialize;

use crate::failure::Failure;

/// How long the call to Parameter Store may take.
const CALL_MAX: Millis = Millis::seconds(20);

/// The names of a stack's tables. Later templates may add more.
#[derive(Debug, Deserialize)]
pub(crate) struct Outputs {
    /// The table of records.
    pub(crate) inbox_table: String,
    /// The table of business data.
    pub(crate) domain_table: String,
    /// The queue of hints.
    pub(crate) queue_url: String,
    /// The number of index shards to read. Earlier templates had the least number, and did not say so.
    #[serde(default = "fewest_shards")]
    pub(crate) index_shards_read: u16,
}

const fn fewest_shards() -> u16 {
    SHARDS_MIN
}

impl Outputs {
    /// Reads the outputs of a stack.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there is no such stack; [`Failure::Unavailable`] when Parameter Store refuses or does not answer.
    pub(crate) async fn of(config: &SdkConfig, stack: &str) -> Result<Self, Failure> {
        let region = config.region().map_or_else(String::new, ToString::to_string);
        let name = format!("/hookonce/{stack}/outputs");
        let answer = match ssm_client(config, CALL_MAX).get_parameter().name(&name).send().await {
            Ok(answer) => answer,
            Err(error) => return Err(refused(error.code(), &Report::new(&error).to_string(), &name, &region)),
        };
        let text = answer.parameter().and_then(|parameter| parameter.value()).unwrap_or_default();
        serde_json::from_str(text).map_err(|error| {
            Failure::usage(
                format!("the parameter {name} does not hold the names of a stack's tables: {error}"),
                "deploy the stack again from hookonce's template.yaml, which writes this parameter",
            )
        })
    }
}

/// What a failed read means, by the error code of the service.
fn refused(code: Option<&str>, cause: &str, name: &str, region: &str) -> Failure {
    match code {
        Some("ParameterNotFound") => Failure::usage(
            format!("there is no parameter {name} in {region}"),
            "check the stack's name and the AWS region; hookonce's template.yaml writes this parameter for every stack",
        ),
        Some("ValidationException") => Failure::usage(
            format!("no stack can have this name: AWS refuses the parameter {name}"),
            "pass the stack's name alone, such as --stack hookonce; it has letters, digits and hyphens",
        ),
        Some("AccessDeniedException") => Failure::unavailable(
            format!("access to the parameter {name} in {region} was denied: {cause}"),
            "ask for the permission ssm:GetParameter on this parameter, or use other credentials (AWS_PROFILE)",
        ),
        Some("ExpiredTokenException" | "InvalidSignatureException" | "UnrecognizedClientException") => {
            Failure::unavailable(
                format!("AWS rejected the credentials: {cause}"),
                "sign in again (`aws sso login`, `aws login`), or set AWS_PROFILE to a profile that works",
            )
        }
        Some(_) | None => Failure::unavailable(
            format!("reading the parameter {name} in {region} failed: {cause}"),
            "check the credentials (AWS_PROFILE, `aws sso login`, `aws login`) and the network",
        ),
    }
}
