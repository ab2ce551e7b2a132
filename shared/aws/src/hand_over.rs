//! The caller of the dispatcher: URLs, queues and functions. It makes each call once.
//!
//! The errors are those of the service models of SendMessage and Invoke. A fault of the message itself is `Refused`. A
//! fault that a person can fix, or that passes, is `NotDone`, and the effect waits: a queue or a function that is
//! missing, not permitted, throttled or not ready.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::MessageAttributeValue;
use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, OutboundCall};
use hookonce_protocol::timing::Moment;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::https::read;
use super::lambda::{ERROR_TYPE, Invocation, LambdaClient, NotInvoked};
use hookonce_runtime::destinations::{
    ANSWER_BYTES_MAX, Attempt, AttemptError, CalleeAnswer, Caller, Destination, HttpCaller, QueueTarget, Target,
    function_event, queue_message,
};
use hookonce_runtime::inbox::drive::duration;

const NOT_DONE: Called = Called::NotDone { status: None, retry_after: None };
const UNCLEAR: Called = Called::Unclear { status: None, retry_after: None };

/// Calls destinations of every kind.
#[derive(Debug)]
pub struct AccountCaller {
    http: HttpCaller,
    sqs: Client,
    lambda: LambdaClient,
}

impl AccountCaller {
    /// Creates a caller with the region and the credentials of this configuration.
    pub fn new(config: &SdkConfig) -> Self {
        let sqs = aws_sdk_sqs::config::Builder::from(config).retry_config(RetryConfig::disabled()).build();
        Self { http: HttpCaller::new(), sqs: Client::from_conf(sqs), lambda: LambdaClient::new(config) }
    }

    /// Makes one call, and tells of it all that is known.
    pub async fn attempt(&self, destination: &Destination, delivery: &OutboundCall, moment: Moment) -> Attempt {
        let end = Instant::now() + duration(destination.terms().timeout);
        match &destination.target {
            Target::Http(_) => self.http.attempt(destination, delivery, moment).await,
            Target::Queue(queue) => timeout_at(end, self.send(queue, delivery)).await.unwrap_or_else(|_| late()),
            Target::Function(function) => self.invoke(function, delivery, end).await,
        }
    }

    async fn send(&self, queue: &QueueTarget, delivery: &OutboundCall) -> Attempt {
        let message = match queue_message(queue, delivery) {
            Ok(message) => message,
            Err(reason) => return Attempt::unsendable(reason),
        };
        let mut send = self.sqs.send_message().queue_url(&queue.url).message_body(message.body);
        for (name, text) in message.attributes {
            let Ok(value) = MessageAttributeValue::builder().data_type("String").string_value(text).build() else {
                return Attempt::unsendable("attribute");
            };
            send = send.message_attributes(name, value);
        }
        if let Some((group, id)) = message.fifo {
            send = send.message_group_id(group).message_deduplication_id(id);
        }
        match send.send().await {
            Ok(taken) => {
                let answer = CalleeAnswer { id: taken.message_id, ..CalleeAnswer::of(200) };
                Attempt { called: Called::Done { status: Some(answer.status) }, answer: Ok(answer), sent: true }
            }
            Err(error) => Attempt {
                called: of_queue(&error),
                sent: !matches!(error, SdkError::ConstructionFailure(_)),
                answer: answer_of_queue(error),
            },
        }
    }

    async fn invoke(&self, function: &str, delivery: &OutboundCall, end: Instant) -> Attempt {
        let event = match function_event(delivery) {
            Ok(event) => event,
            Err(reason) => return Attempt::unsendable(reason),
        };
        let Ok(invoked) = timeout_at(end, self.lambda.invoke(function, Invocation::Event, event)).await else {
            return late();
        };
        match invoked {
            Ok(response) => {
                let (status, header) = (response.status().as_u16(), |name: &str| response.headers().get(name));
                let code = header(ERROR_TYPE).and_then(|named| named.split(':').next()).map(str::to_owned);
                // The function's log has the same id.
                let id = header("x-amzn-requestid").map(str::to_owned);
                let called = of_function(status, code.as_deref());
                // How it ended is known by now, also if the rest of the answer never comes.
                let body = timeout_at(end, read(response.into_body(), ANSWER_BYTES_MAX)).await;
                let message = body.ok().and_then(Result::ok).and_then(|body| message(&body));
                Attempt { called, answer: Ok(CalleeAnswer { status, code, message, id }), sent: true }
            }
            Err(NotInvoked::Unsigned(cause)) => {
                Attempt { called: NOT_DONE, answer: Err(AttemptError::Unsigned(cause)), sent: false }
            }
            Err(NotInvoked::Unanswered(error)) => {
                Attempt { called: UNCLEAR, answer: Err(AttemptError::Unanswered(error.into())), sent: true }
            }
        }
    }

    async fn hand_over(&self, destination: &Destination, delivery: &OutboundCall, moment: Moment) -> Called {
        let Attempt { called, answer, .. } = self.attempt(destination, delivery, moment).await;
        match answer {
            Ok(_) if matches!(called, Called::Done { .. }) => {}
            // Do not log the message: it may repeat the payload.
            Ok(CalleeAnswer { status, code, .. }) => {
                tracing::warn!(destination.id = %destination.id, status, code, "a hand-over was not confirmed");
            }
            Err(AttemptError::Unsendable(reason)) => {
                tracing::error!(destination.id = %destination.id, reason, "an effect cannot be sent as it is");
            }
            Err(error) => {
                tracing::warn!(destination.id = %destination.id, error = %Report::new(&error), "a hand-over has no answer");
            }
        }
        called
    }
}

impl Caller for AccountCaller {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a OutboundCall,
        moment: Moment,
    ) -> BoxFuture<'a, Called> {
        match &destination.target {
            // It logs on its own.
            Target::Http(_) => self.http.call(destination, delivery, moment),
            Target::Queue(_) | Target::Function(_) => Box::pin(self.hand_over(destination, delivery, moment)),
        }
    }
}

/// The time is over. The outcome of the call is unknown.
fn late() -> Attempt {
    Attempt { called: UNCLEAR, answer: Err(AttemptError::Time), sent: true }
}

/// How a send ended that SQS did not confirm.
fn of_queue(error: &SdkError<SendMessageError>) -> Called {
    // Timed out, broken, unreadable. The SDK tells what it could not sign like a connection that broke.
    let answer = match error {
        SdkError::ServiceError(answer) => answer,
        SdkError::ResponseError(answer) => {
            return Called::Unclear { status: Some(answer.raw().status().as_u16()), retry_after: None };
        }
        _ => return UNCLEAR,
    };
    let status = answer.raw().status().as_u16();
    // Its characters, or that it is longer than the queue takes.
    let faults = ["InvalidMessageContents", "InvalidParameterValue", "InvalidParameterValueException"];
    let about_message = answer.err().code().is_some_and(|code| faults.contains(&code));
    match status {
        400..=499 if about_message => Called::Refused { status: Some(status) },
        400..=499 => Called::NotDone { status: Some(status), retry_after: None },
        _ => Called::Unclear { status: Some(status), retry_after: None },
    }
}

/// What SQS says of a send that it did not confirm.
fn answer_of_queue(error: SdkError<SendMessageError>) -> Result<CalleeAnswer, AttemptError> {
    match error {
        SdkError::ServiceError(answer) => {
            let (status, error) = (answer.raw().status().as_u16(), answer.into_err());
            let text = |text: Option<&str>| text.map(str::to_owned);
            Ok(CalleeAnswer { code: text(error.code()), message: text(error.message()), ..CalleeAnswer::of(status) })
        }
        SdkError::ResponseError(answer) => Ok(CalleeAnswer::of(answer.raw().status().as_u16())),
        error => {
            let kind = if matches!(error, SdkError::ConstructionFailure(_)) {
                AttemptError::Unsigned
            } else {
                AttemptError::Unanswered
            };
            Err(kind(error.into_source().unwrap_or_else(|error| error.to_string().into())))
        }
    }
}

/// What Lambda says in the body of an error.
fn message(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    ["Message", "message"].iter().find_map(|field| answer.get(field)?.as_str()).map(str::to_owned)
}

/// How an asynchronous invocation ended, by the status and the error that Lambda names.
fn of_function(status: u16, code: Option<&str>) -> Called {
    let answered = Some(status);
    match (status, code) {
        (202, _) => Called::Done { status: answered },
        (413 | 415, _) | (400, Some("InvalidRequestContentException")) => Called::Refused { status: answered },
        // Not permitted, missing, not ready, too many. With a 502, Lambda names why it cannot prepare the function: its
        // key, its network, its code. A proxy on the way names nothing, and may have passed the call on.
        (408, None) => Called::Unclear { status: answered, retry_after: None },
        (400..=499, _) | (502, Some(_)) => Called::NotDone { status: answered, retry_after: None },
        _ => Called::Unclear { status: answered, retry_after: None },
    }
}
