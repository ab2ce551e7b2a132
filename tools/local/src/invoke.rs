//! Runs a function as the Lambda service would.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::clients::{access_key_id, without_key};

/// A function that takes an event and returns a response, both as the JSON that Lambda would carry.
///
/// The gateway, the event source and the schedule call functions only through this trait. So the same code runs in
/// process ([`invoke_fn`]) and under a Lambda emulator ([`HttpInvoke`]).
///
/// ```
/// use hookonce_local::invoke::{Invoke, invoke_fn};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let echo = invoke_fn(|event| async move { Ok(json!({ "received": event })) });
/// assert_eq!(echo.invoke(json!(1)).await.unwrap(), json!({ "received": 1 }));
/// # }
/// ```
pub trait Invoke: Send + Sync + 'static {
    /// Invokes the function once and waits for its response.
    ///
    /// # Errors
    /// Any [`InvokeError`] means that the whole invocation failed. It may still have had effects.
    fn invoke(&self, event: Value) -> impl Future<Output = Result<Value, InvokeError>> + Send;
}

/// A function whose event and response are carried as the bytes that they are, as Lambda does. A [`Value`] would round
/// large numbers, and forget which fields stand there twice.
pub trait InvokeBytes: Send + Sync + 'static {
    /// What an invocation holds while it runs, such as one of a few processes.
    type Slot: Send + 'static;

    /// Waits until an invocation may begin. Whoever stops waiting here begins none.
    ///
    /// # Errors
    /// [`InvokeError::Throttled`] if all slots are taken for too long.
    fn slot(&self) -> impl Future<Output = Result<Self::Slot, InvokeError>> + Send;

    /// Invokes the function once and waits for its response.
    ///
    /// # Errors
    /// Any [`InvokeError`] means that the whole invocation failed. It may still have had effects.
    fn invoke_bytes(&self, slot: Self::Slot, event: Bytes) -> impl Future<Output = Result<Bytes, InvokeError>> + Send;
}

impl<I: Invoke> Invoke for Arc<I> {
    fn invoke(&self, event: Value) -> impl Future<Output = Result<Value, InvokeError>> + Send {
        (**self).invoke(event)
    }
}

/// Why an invocation has no response. Callers treat all of them alike, as AWS does: the invocation failed.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// The function returned an error.
    #[error("the function failed with {error_type}: {message}")]
    Failed {
        /// Lambda's `errorType`.
        error_type: String,
        /// Lambda's `errorMessage`.
        message: String,
    },
    /// The function panicked.
    #[error("the function panicked: {message}")]
    Panicked {
        /// The panic's message, if it was text.
        message: String,
    },
    /// The function did not return within its timeout and was stopped.
    #[error("the function was stopped after {} ms", after.as_millis())]
    TimedOut {
        /// The function timeout.
        after: Duration,
    },
    /// The function returned bytes that are not JSON.
    #[error("the function's response is not JSON")]
    NotJson {
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The function's process could not start.
    #[error("starting the binary {binary} failed")]
    NotStarted {
        /// The binary.
        binary: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The function's concurrency limit is reached. This invocation did not begin.
    #[error("the function's concurrency limit is reached")]
    Throttled,
    /// The service that runs the function could not be reached, or did not invoke it.
    #[error("the function could not be reached")]
    Unreachable {
        /// The error of the HTTP client.
        source: reqwest::Error,
    },
}

impl InvokeError {
    /// The failure of a function that returned `error`.
    pub fn failed(error_type: impl Into<String>, error: &dyn std::error::Error) -> Self {
        Self::Failed { error_type: error_type.into(), message: error.to_string() }
    }
}

/// Makes a function from a closure. [`Invoke`] has an example.
pub fn invoke_fn<F, R>(function: F) -> InvokeFn<F>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, InvokeError>> + Send,
{
    InvokeFn(function)
}

/// A closure as a function; made by [`invoke_fn`].
#[derive(Debug, Clone)]
pub struct InvokeFn<F>(F);

impl<F, R> Invoke for InvokeFn<F>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, InvokeError>> + Send,
{
    fn invoke(&self, event: Value) -> impl Future<Output = Result<Value, InvokeError>> + Send {
        (self.0)(event)
    }
}

/// Runs each invocation apart from its caller, as Lambda does in its execution environment.
///
/// A panic becomes [`InvokeError::Panicked`] and the function timeout becomes [`InvokeError::TimedOut`]. A caller that
/// stops waiting does not stop the function. It runs to its end or its timeout and can still have effects.
#[derive(Debug)]
pub struct Isolated<I> {
    function: Arc<I>,
    timeout: Duration,
}

impl<I> Isolated<I> {
    /// Isolates `function`. Each invocation has `timeout` to return.
    pub fn new(function: I, timeout: Duration) -> Self {
        Self { function: Arc::new(function), timeout }
    }
}

impl<I> Clone for Isolated<I> {
    fn clone(&self) -> Self {
        Self { function: Arc::clone(&self.function), timeout: self.timeout }
    }
}

impl<I: Invoke> Invoke for Isolated<I> {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        let function = Arc::clone(&self.function);
        apart(self.timeout, async move { function.invoke(event).await }).await
    }
}

impl<I: InvokeBytes> Isolated<I> {
    /// Invokes the function once and waits for its response. The time until it begins is the caller's own, and not part
    /// of the timeout.
    ///
    /// # Errors
    /// Any [`InvokeError`] means that the whole invocation failed. But for [`InvokeError::Throttled`], it may still
    /// have had effects.
    pub async fn invoke_bytes(&self, event: Bytes) -> Result<Bytes, InvokeError> {
        let function = Arc::clone(&self.function);
        let slot = function.slot().await?;
        apart(self.timeout, async move { function.invoke_bytes(slot, event).await }).await
    }
}

/// Runs an invocation in a task of its own, until its timeout.
async fn apart<T: Send + 'static>(
    timeout: Duration,
    invocation: impl Future<Output = Result<T, InvokeError>> + Send + 'static,
) -> Result<T, InvokeError> {
    match tokio::spawn(tokio::time::timeout(timeout, invocation)).await {
        Ok(Ok(response)) => response,
        Ok(Err(_elapsed)) => Err(InvokeError::TimedOut { after: timeout }),
        Err(join) => Err(InvokeError::Panicked { message: panic_message(join) }),
    }
}

fn panic_message(join: tokio::task::JoinError) -> String {
    match join.try_into_panic() {
        Ok(payload) => panic_text(payload.as_ref()).unwrap_or("not text").to_owned(),
        Err(cancelled) => cancelled.to_string(),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// The header that marks a response as an error of the function.
pub(crate) const FUNCTION_ERROR: &str = "x-amz-function-error";

/// Statuses by which the service says that it did not invoke the function: the caller is not known, there is no such
/// function, too many of its invocations run, or it cannot start.
const NOT_INVOKED: [StatusCode; 4] =
    [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY];

/// A function behind Lambda's invoke API, for instance a worker under `cargo lambda watch`.
///
/// It has no time limit of its own. Put it behind [`Isolated`], as every part of this crate does.
#[derive(Debug, Clone)]
pub struct HttpInvoke {
    client: reqwest::Client,
    url: String,
    /// Names the access key id. Nobody on loopback verifies the signature.
    authorization: String,
}

impl HttpInvoke {
    /// Invokes the function `name` at the service `base_url`, such as `http://127.0.0.1:9000` or
    /// `http://KEY@127.0.0.1:9000`.
    ///
    /// # Errors
    /// [`InvokeError::Unreachable`] if the HTTP client cannot be built.
    pub fn new(base_url: &str, name: &str) -> Result<Self, InvokeError> {
        let client = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().map_err(unreachable)?;
        let authorization = format!("AWS4-HMAC-SHA256 Credential={}/lambda/aws4_request", access_key_id(base_url));
        let base_url = without_key(base_url.trim_end_matches('/'));
        Ok(Self { client, url: format!("{base_url}/2015-03-31/functions/{name}/invocations"), authorization })
    }
}

impl Invoke for HttpInvoke {
    async fn invoke(&self, event: Value) -> Result<Value, InvokeError> {
        function_response(&self.invoke_bytes((), event.to_string().into()).await?)
    }
}

impl InvokeBytes for HttpInvoke {
    type Slot = ();

    async fn slot(&self) -> Result<(), InvokeError> {
        Ok(())
    }

    async fn invoke_bytes(&self, (): (), event: Bytes) -> Result<Bytes, InvokeError> {
        let request = self.client.post(&self.url).header(CONTENT_TYPE, "application/json");
        let request = request.header(AUTHORIZATION, &self.authorization).body(event);
        let mut response = request.send().await.map_err(unreachable)?;
        if NOT_INVOKED.contains(&response.status()) {
            response = response.error_for_status().map_err(unreachable)?;
        }
        let failed = !response.status().is_success() || response.headers().contains_key(FUNCTION_ERROR);
        let body = response.bytes().await.map_err(unreachable)?;
        if failed { Err(function_error(&body)) } else { Ok(body) }
    }
}

fn unreachable(source: reqwest::Error) -> InvokeError {
    InvokeError::Unreachable { source }
}

/// What the function returned. An empty body means null, as for callers of Lambda.
pub(crate) fn function_response(body: &[u8]) -> Result<Value, InvokeError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body).map_err(|source| InvokeError::NotJson { source })
}

/// The error in Lambda's error document. Real Lambda answers 200 with a header, `cargo lambda` answers 500.
pub(crate) fn function_error(body: &[u8]) -> InvokeError {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |key: &str, missing: &str| document.get(key).and_then(Value::as_str).unwrap_or(missing).to_owned();
    InvokeError::Failed {
        error_type: text("errorType", "Unhandled"),
        message: text("errorMessage", "the error carried no message"),
    }
}

#[cfg(test)]
mod tests {
    use error_reporter::Report;
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn every_cause_is_shown_once() {
        let cause = serde_json::from_str::<Value>("{").unwrap_err();
        let shown = cause.to_string();
        let error = InvokeError::NotJson { source: cause };
        assert_eq!(Report::new(error).to_string(), format!("the function's response is not JSON: {shown}"));
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error_and_the_next_invocation_runs() {
        let function = Isolated::new(
            invoke_fn(|event: Value| async move {
                assert!(event != json!("poison"), "no poison please");
                Ok(event)
            }),
            LONG,
        );
        let error = function.invoke(json!("poison")).await.unwrap_err();
        assert!(matches!(&error, InvokeError::Panicked { message } if message == "no poison please"), "{error}");
        assert_eq!(function.invoke(json!("fine")).await.unwrap(), json!("fine"));
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_does_not_stop_the_function() {
        let (finish, mut finishing) = tokio::sync::mpsc::unbounded_channel();
        let release = Arc::new(tokio::sync::Notify::new());
        let gate = Arc::clone(&release);
        let function = Isolated::new(
            invoke_fn(move |_| {
                let (finish, gate) = (finish.clone(), Arc::clone(&gate));
                async move {
                    gate.notified().await;
                    finish.send(()).unwrap();
                    Ok(Value::Null)
                }
            }),
            LONG,
        );
        let gave_up = tokio::time::timeout(Duration::from_millis(1), function.invoke(Value::Null)).await;
        assert!(gave_up.is_err());
        release.notify_one();
        assert_eq!(finishing.recv().await, Some(()));
    }
}
