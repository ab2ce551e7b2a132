//! The caller of the dispatcher: URLs, queues and functions. It makes each call once.
//!
//! The errors are those of the service models of SendMessage and Invoke. What is wrong with the message itself is refused.
//! What a person or the time mends is not done, and waits: a queue or a function that is missing, not permitted, throttled
//! or not ready.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::MessageAttributeValue;
use error_reporter::Report;
use futures::future::BoxFuture;
use hookonce_protocol::destination::{Called, Delivery};
use hookonce_protocol::timing::Moment;
use tokio::time::timeout;

use super::lambda::{Invocation, LambdaClient, NotInvoked};
use crate::destination::{Caller, Destination, HttpCaller, QueueTarget, Target, function_event, queue_message};
use crate::drive::duration;

/// What SQS says about the message itself: its characters, or that it is longer than the queue takes.
const MESSAGE_FAULTS: [&str; 3] = ["InvalidMessageContents", "InvalidParameterValue", "InvalidParameterValueException"];

/// What Lambda says about the event itself.
const EVENT_FAULT: &str = "InvalidRequestContentException";

/// The header in which Lambda names an error, perhaps with an address after a colon.
const ERROR_TYPE: &str = "x-amzn-errortype";

const NOT_DONE: Called = Called::NotDone { retry_after: None };
const UNCLEAR: Called = Called::Unclear { retry_after: None };

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

    async fn send(&self, destination: &Destination, queue: &QueueTarget, delivery: &Delivery) -> Called {
        let message = match queue_message(queue, delivery) {
            Ok(message) => message,
            Err(reason) => return unsendable(destination, reason),
        };
        let mut send = self.sqs.send_message().queue_url(&queue.url).message_body(message.body);
        for (name, text) in message.attributes {
            let Ok(value) = MessageAttributeValue::builder().data_type("String").string_value(text).build() else {
                return unsendable(destination, "attribute");
            };
            send = send.message_attributes(name, value);
        }
        if let Some((group, id)) = message.fifo {
            send = send.message_group_id(group).message_deduplication_id(id);
        }
        match send.send().await {
            Ok(_) => Called::Done { status: None },
            Err(error) => {
                // Not the whole error: it prints the response.
                let code = error.code().unwrap_or_default().to_owned();
                let called = of_queue(&error);
                tracing::warn!(destination.id = %destination.id, code, "SQS did not confirm a message");
                called
            }
        }
    }

    async fn invoke(&self, destination: &Destination, function: &str, delivery: &Delivery) -> Called {
        let event = match function_event(delivery) {
            Ok(event) => event,
            Err(reason) => return unsendable(destination, reason),
        };
        match self.lambda.invoke(function, Invocation::Event, event).await {
            Ok(response) => {
                let code = response.headers().get(ERROR_TYPE).and_then(|named| named.split(':').next());
                let (status, called) = (response.status().as_u16(), of_function(response.status().as_u16(), code));
                if !matches!(called, Called::Done { .. }) {
                    tracing::warn!(destination.id = %destination.id, status, code, "Lambda did not take an event");
                }
                called
            }
            Err(error) => {
                tracing::warn!(destination.id = %destination.id, error = %Report::new(&error), "Lambda did not answer");
                match error {
                    NotInvoked::Unsigned(_) => NOT_DONE,
                    NotInvoked::Unanswered(_) => UNCLEAR,
                }
            }
        }
    }

    async fn called(&self, destination: &Destination, delivery: &Delivery, moment: Moment) -> Called {
        let length = duration(destination.terms().timeout);
        match &destination.target {
            Target::Http(_) => self.http.call(destination, delivery, moment).await,
            Target::Queue(queue) => timeout(length, self.send(destination, queue, delivery)).await.unwrap_or(UNCLEAR),
            Target::Function(function) => {
                timeout(length, self.invoke(destination, function, delivery)).await.unwrap_or(UNCLEAR)
            }
        }
    }
}

impl Caller for AccountCaller {
    fn call<'a>(
        &'a self,
        destination: &'a Destination,
        delivery: &'a Delivery,
        moment: Moment,
    ) -> BoxFuture<'a, Called> {
        Box::pin(self.called(destination, delivery, moment))
    }
}

fn unsendable(destination: &Destination, reason: &'static str) -> Called {
    tracing::error!(destination.id = %destination.id, reason, "an effect cannot be sent as it is");
    Called::Refused { status: None }
}

/// How a send ended that SQS did not confirm.
fn of_queue(error: &SdkError<SendMessageError>) -> Called {
    // Timed out, broken, unreadable. The SDK tells what it could not sign like a connection that broke.
    let SdkError::ServiceError(answer) = error else { return UNCLEAR };
    let status = answer.raw().status().as_u16();
    let about_message = answer.err().code().is_some_and(|code| MESSAGE_FAULTS.contains(&code));
    match status {
        400..=499 if about_message => Called::Refused { status: Some(status) },
        400..=499 => NOT_DONE,
        _ => UNCLEAR,
    }
}

/// How an asynchronous invocation ended, by the status and the error that Lambda names.
fn of_function(status: u16, code: Option<&str>) -> Called {
    match (status, code) {
        (202, _) => Called::Done { status: Some(status) },
        (413 | 415, _) | (400, Some(EVENT_FAULT)) => Called::Refused { status: Some(status) },
        // Not permitted, missing, not ready, too many. With a 502, Lambda names why it cannot prepare the function: its key,
        // its network, its code. A proxy on the way names nothing, and may have passed the call on.
        (408, None) => UNCLEAR,
        (400..=499, _) | (502, Some(_)) => NOT_DONE,
        _ => UNCLEAR,
    }
}
