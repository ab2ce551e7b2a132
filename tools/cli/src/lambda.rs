//! One read of Lambda.

use aws_config::SdkConfig;
use error_reporter::Report;
use hookonce_runtime::aws::SignedService;
use serde_json::Value;

use crate::account::{exchange, refused};
use crate::failure::Failure;

const LAMBDA: SignedService = SignedService { name: "lambda", id: "Lambda" };

const ACTION: &str = "lambda:GetFunctionConfiguration";

/// Whether there is a function of this name or ARN, with its version or alias.
///
/// # Errors
/// [`Failure::Unavailable`] when Lambda refuses or does not answer.
pub(crate) async fn exists(config: &SdkConfig, function: &str) -> Result<bool, Failure> {
    let broken = |cause: &dyn std::error::Error| refused(ACTION, None, &Report::new(cause));
    // The only characters of a name that a path must not hold as they are.
    let function = function.replace(':', "%3A").replace('$', "%24");
    let path = format!("/2015-03-31/functions/{function}/configuration");
    let request = LAMBDA.request(config, "GET", &path, &[], Vec::new()).await.map_err(|error| broken(&*error))?;
    let response = exchange(request).await.map_err(|error| broken(&*error))?;
    match response.status().as_u16() {
        200 => Ok(true),
        404 => Ok(false),
        status => {
            // `AccessDeniedException`, or the same with a link behind a colon.
            let code = response.headers().get("x-amzn-errortype").and_then(|code| code.split(':').next());
            let fields: Value = serde_json::from_slice(response.body().bytes().unwrap_or_default()).unwrap_or_default();
            let said = ["Message", "message"].iter().find_map(|name| fields.get(name)?.as_str());
            Err(refused(ACTION, code, &said.map_or_else(|| format!("status {status}"), str::to_owned)))
        }
    }
}
