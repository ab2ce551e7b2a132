//! The template of the release before, which `--rollback` goes back to: it is kept in the bucket of the code, with the values
//! of its parameters as their defaults. Its code is in the same bucket, by its hash.

use hookonce_aws::SignedService;
use hookonce_protocol::key::hex;
use hookonce_runtime::handlers::remote::Cause;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::stack::{Before, Stack};
use crate::failure::Failure;
use crate::output;
use crate::stack::account::{exchange, refused};
use crate::stack::lambda::{are_on, mappings};

const S3: SignedService = SignedService { name: "s3", id: "S3" };

const ACTION: &str = "s3:PutObject";

/// The name of what is kept of a stack. Another stack of the same name has another one.
fn key(before: &Before) -> String {
    format!("before-{}.json", before.id.rsplit('/').next().unwrap_or_default())
}

/// Where the template of the release before is.
///
/// # Errors
/// [`Failure`] when there is no bucket, or CloudFormation does not say which.
pub(super) async fn address(stack: &Stack<'_>, before: &Before) -> Result<String, Failure> {
    match of_bucket(stack, "Address").await?.as_str() {
        "" => Err(nothing(stack)),
        address => Ok(format!("{address}/{}", key(before))),
    }
}

/// An output of the stack that holds the bucket. Empty where deploy.sh made none.
async fn of_bucket(stack: &Stack<'_>, output: &str) -> Result<String, Failure> {
    Stack { config: stack.config, name: &format!("{}-code", stack.name) }.output(output).await
}

/// The failure where no release before is kept.
pub(super) fn nothing(stack: &Stack<'_>) -> Failure {
    Failure::usage(
        format!("no release before is kept of the stack {}", stack.name),
        "run deploy.sh of the archive of the release to go back to",
    )
}

/// A worker of either release applies nothing while the stack goes back. A plan changes nothing.
///
/// # Errors
/// [`Failure::Usage`] when the worker runs; [`Failure`] when Lambda does not tell.
pub(super) async fn is_paused(stack: &Stack<'_>, before: &Before, plans: bool) -> Result<(), Failure> {
    if plans || !are_on(&mappings(stack.config, &before.worker).await?) {
        return Ok(());
    }
    Err(Failure::usage(
        "nothing is changed: the worker runs",
        format!("`hookonce pause worker --reason rollback --stack {}`, then run this again", stack.name),
    ))
}

/// Keeps the template of a stack. Where deploy.sh made no bucket, or no template in JSON, there is nothing to go back to.
///
/// # Errors
/// [`Failure`] when the bucket does not take it, or belongs to another account.
pub(super) async fn keep(stack: &Stack<'_>, before: &Before) -> Result<(), Failure> {
    let bucket = of_bucket(stack, "Bucket").await?;
    let kept = with_values(&stack.template().await?, before).filter(|_| !bucket.is_empty());
    let Some(kept) = kept else {
        output::note("the release before was not deployed by deploy.sh, so --rollback cannot go back to it");
        return Ok(());
    };
    let broken = |cause: Cause| refused(ACTION, None, &error_reporter::Report::new(&*cause));
    let account = before.id.split(':').nth(4).unwrap_or_default();
    let digest = hex(&Sha256::digest(&kept).into());
    let headers = [("x-amz-content-sha256", digest.as_str()), ("x-amz-expected-bucket-owner", account)];
    let path = format!("/{bucket}/{}", key(before));
    let request = S3.request(stack.config, "PUT", &path, &headers, kept.into_bytes()).await.map_err(broken)?;
    let response = exchange(request).await.map_err(broken)?;
    if response.status().is_success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(response.body().bytes().unwrap_or_default()).into_owned();
    let between = |tag: &str| Some(text.split_once(&format!("<{tag}>"))?.1.split_once('<')?.0);
    Err(refused(ACTION, between("Code"), &between("Message").unwrap_or("without a reason")))
}

/// A template with the values of a stack as its defaults.
fn with_values(template: &str, before: &Before) -> Option<String> {
    let mut template: Value = serde_json::from_str(template).ok()?;
    let parameters = template.get_mut("Parameters")?.as_object_mut()?;
    for (name, value) in &before.parameters {
        parameters.get_mut(name)?.as_object_mut()?.insert("Default".to_owned(), Value::from(value.as_str()));
    }
    Some(template.to_string())
}
