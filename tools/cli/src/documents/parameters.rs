//! The documents of a deployed stack: one `SecureString` parameter each.
//!
//! Parameter Store refuses to create what exists, but has no other conditional write. A change therefore reads the
//! version first, and finds in the version after its write whether another one came in between.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::config::retry::RetryConfig;
use aws_sdk_ssm::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::operation::put_parameter::{PutParameterError, PutParameterOutput};
use aws_sdk_ssm::types::{Parameter, ParameterTier, ParameterType};
use error_reporter::Report;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::aws::{SdkConfig, timeouts};
use tokio::time::MissedTickBehavior;

use super::{DocumentId, DocumentStore, Stored, missing, overtaken};
use crate::account::{refused, signed_in};
use crate::failure::Failure;
use crate::outputs::Outputs;

/// How long one call may take, with its retries. Throttled calls are repeated after a wait.
const CALL_MAX: Millis = Millis::seconds(60);
const ATTEMPTS_MAX: u32 = 8;

/// How long a write waits when too many of one parameter came at once.
const UPDATES_PAUSE: Duration = Duration::from_secs(1);

/// The largest value of a standard parameter, in bytes, and of an advanced one.
const STANDARD_BYTES_MAX: usize = 4 * 1024;
const ADVANCED_BYTES_MAX: usize = 8 * 1024;

/// The most parameters that one call lists.
const PAGE: usize = 10;

/// The time from one page to the next. An account has 40 reads a second, and the functions need them more.
const PAGE_PAUSE: Duration = Duration::from_millis(100);

/// The parameters of one family below a stack's path.
pub(crate) struct Below<I> {
    /// The documents.
    pub(crate) documents: Vec<(I, Stored)>,
    /// The values of all other parameters, by the last part of their names.
    pub(crate) others: BTreeMap<String, String>,
    /// Whether these are all.
    pub(crate) is_complete: bool,
}

/// The parameters of one family of documents of one stack.
pub(crate) struct Parameters<I> {
    client: Client,
    /// Without the slash at its end.
    path: String,
    /// `None` for the account's own key.
    key: Option<String>,
    family: PhantomData<fn() -> I>,
}

impl<I: DocumentId> Parameters<I> {
    /// The parameters of a stack.
    ///
    /// # Errors
    /// [`Failure`] when there is no such stack, or AWS does not answer.
    pub(crate) async fn open(stack: &str) -> Result<Self, Failure> {
        let config = signed_in().await?;
        let key = Outputs::of(&config, stack).await?.endpoint_key;
        Ok(Self {
            client: client(&config),
            path: format!("/hookonce/{stack}/{}", I::FOLDER),
            key: Some(key).filter(|key| !key.is_empty()),
            family: PhantomData,
        })
    }

    /// The full name of a parameter.
    pub(crate) fn name(&self, last: &dyn Display) -> String {
        format!("{}/{last}", self.path)
    }

    /// The option of the AWS command line that names the key of the parameters, if it is not the account's own.
    pub(crate) fn key_option(&self) -> String {
        self.key.as_ref().map_or_else(String::new, |key| format!(" --key-id {key}"))
    }

    /// Reads a parameter, or one of its versions, if there is one.
    ///
    /// # Errors
    /// [`Failure`] when Parameter Store refuses or does not answer.
    pub(crate) async fn read(&self, name: &str, version: Option<i64>) -> Result<Option<Stored>, Failure> {
        let name = version.map_or_else(|| name.to_owned(), |version| format!("{name}:{version}"));
        match self.client.get_parameter().name(name).with_decryption(true).send().await {
            Ok(answer) => Ok(answer.parameter.map(stored)),
            Err(error) if ["ParameterNotFound", "ParameterVersionNotFound"].contains(&code(&error)) => Ok(None),
            Err(error) => Err(failed("ssm:GetParameter", error)),
        }
    }

    /// Writes a parameter and returns its version. `None` if it exists and must not.
    ///
    /// # Errors
    /// [`Failure`] when Parameter Store refuses or does not answer.
    pub(crate) async fn write(
        &self,
        name: &str,
        text: &str,
        kind: ParameterType,
        over: bool,
    ) -> Result<Option<i64>, Failure> {
        let secret = kind == ParameterType::SecureString;
        let put = self.client.put_parameter().name(name).value(text).r#type(kind).overwrite(over);
        let put = put.set_key_id(self.key.clone().filter(|_| secret));
        let mut put = put.set_tier((text.len() > STANDARD_BYTES_MAX).then_some(ParameterTier::Advanced));
        for _ in 1..ATTEMPTS_MAX {
            match put.clone().send().await {
                // A parameter that is advanced stays so, however short its value becomes.
                Err(error) if is_downgrade(&error) => put = put.tier(ParameterTier::Advanced),
                // The SDK does not try this code again.
                Err(error) if code(&error) == "TooManyUpdates" => tokio::time::sleep(UPDATES_PAUSE).await,
                sent => return put_outcome(sent),
            }
        }
        put_outcome(put.send().await)
    }

    /// All parameters below the path, with their values. Leaves out documents above this number, or a few more.
    ///
    /// # Errors
    /// [`Failure`] when Parameter Store refuses or does not answer.
    pub(crate) async fn below(&self, decrypt: bool, documents_max: usize) -> Result<Below<I>, Failure> {
        let asked = self.client.get_parameters_by_path().path(&self.path).with_decryption(decrypt);
        let mut pages = asked.max_results(i32::try_from(PAGE).unwrap_or(1)).into_paginator().send();
        let mut below = Below { documents: Vec::new(), others: BTreeMap::new(), is_complete: false };
        let mut clock = tokio::time::interval(PAGE_PAUSE);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while below.documents.len() < documents_max {
            clock.tick().await;
            let Some(page) = pages.next().await else {
                below.is_complete = true;
                break;
            };
            let page = page.map_err(|error| failed("ssm:GetParametersByPath", error))?;
            below.add(page.parameters.unwrap_or_default());
        }
        Ok(below)
    }

    /// Refuses if the parameter is not the version that was read.
    async fn unchanged(&self, id: &I, read: &Stored) -> Result<(), Failure> {
        let now = self.read(&self.name(id), None).await?.ok_or_else(|| missing(id))?;
        if now.version == read.version { Ok(()) } else { Err(overtaken(id)) }
    }

    async fn create_one(&self, id: &I, text: &str) -> Result<bool, Failure> {
        fits(text)?;
        if self.write(&self.name(id), text, ParameterType::SecureString, false).await?.is_some() {
            return Ok(true);
        }
        // The reply to our own write may have been lost, and the client sent it again.
        let found = self.read(&self.name(id), None).await?;
        Ok(found.is_some_and(|found| found.text == text))
    }

    async fn replace_one(&self, id: &I, read: &Stored, text: &str) -> Result<(), Failure> {
        fits(text)?;
        self.unchanged(id, read).await?;
        let written = self.overwrite(id, read, text).await;
        let noun = I::NOUN;
        let advice = format!(". `hookonce {noun} show {id} --reveal` prints what is in force");
        written.map_err(|failure| failure.with("; the write was sent, so the new secret may be in force", &advice))
    }

    /// Writes over what was read, and finds out whether somebody else wrote or removed it meanwhile.
    async fn overwrite(&self, id: &I, read: &Stored, text: &str) -> Result<(), Failure> {
        let (name, noun) = (self.name(id), I::NOUN);
        let written = self.write(&name, text, ParameterType::SecureString, true).await?.unwrap_or(read.version + 1);
        // A parameter that is removed and written again counts from 1.
        if written <= read.version {
            return Err(Failure::usage(
                format!("someone else removed {noun} {id} at the same moment, and this write restored it"),
                format!("if it must go, remove it again: `hookonce {noun} remove {id}`"),
            ));
        }
        for version in read.version + 1..written {
            let other = self.read(&name, Some(version)).await?;
            // Our own write counts twice if its first reply was lost.
            if other.is_none_or(|other| other.text != text) {
                return Err(Failure::usage(
                    format!("{noun} {id} was changed by someone else at the same moment: version {version} of {name}"),
                    format!(
                        "compare it with version {written}, which is in force now: \
                         aws ssm get-parameter --with-decryption --name {name}:{version}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl<I: DocumentId> Below<I> {
    fn add(&mut self, parameters: Vec<Parameter>) {
        for parameter in parameters {
            let Some(last) = parameter.name().and_then(|name| name.rsplit('/').next()) else { continue };
            match I::of(last) {
                Ok(id) => self.documents.push((id, stored(parameter))),
                Err(_) => self.others.extend(parameter.value.clone().map(|text| (last.to_owned(), text))),
            }
        }
    }
}

impl<I: DocumentId> DocumentStore<I> for Parameters<I> {
    fn get<'a>(&'a self, id: &'a I) -> BoxFuture<'a, Result<Option<Stored>, Failure>> {
        async { self.read(&self.name(id), None).await }.boxed()
    }

    fn all(&self) -> BoxFuture<'_, Result<BTreeMap<I, Stored>, Failure>> {
        async { Ok(self.below(true, usize::MAX).await?.documents.into_iter().collect()) }.boxed()
    }

    fn fits(&self, text: &str) -> Result<(), Failure> {
        fits(text)
    }

    fn create<'a>(&'a self, id: &'a I, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        self.create_one(id, text).boxed()
    }

    fn replace<'a>(&'a self, id: &'a I, read: &'a Stored, text: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        self.replace_one(id, read, text).boxed()
    }

    fn remove<'a>(&'a self, id: &'a I, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>> {
        let remove = async {
            self.unchanged(id, read).await?;
            match self.client.delete_parameter().name(self.name(id)).send().await {
                Ok(_) => Ok(()),
                // The reply to our own call may have been lost, and the client sent it again.
                Err(error) if code(&error) == "ParameterNotFound" => Ok(()),
                Err(error) => Err(failed("ssm:DeleteParameter", error)),
            }
        };
        remove.boxed()
    }
}

/// A client that waits when the service throttles, because a person or an import waits for it and no provider does.
fn client(config: &SdkConfig) -> Client {
    let own = aws_sdk_ssm::config::Builder::from(config).timeout_config(timeouts(CALL_MAX));
    Client::from_conf(own.retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX)).build())
}

fn stored(parameter: Parameter) -> Stored {
    let changed_at = changed_at(&parameter);
    Stored { version: parameter.version(), changed_at, text: parameter.value.unwrap_or_default() }
}

fn changed_at(parameter: &Parameter) -> EpochMs {
    EpochMs(parameter.last_modified_date().and_then(|at| at.to_millis().ok()).unwrap_or(0))
}

fn fits(text: &str) -> Result<(), Failure> {
    if text.len() <= ADVANCED_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::usage(
        format!("the document has {} bytes, and a parameter holds {ADVANCED_BYTES_MAX} at most", text.len()),
        "make it shorter: remove older secrets, source ranges or headers",
    ))
}

/// The version that was written. `None` if the parameter exists and must not.
fn put_outcome<R>(sent: Result<PutParameterOutput, SdkError<PutParameterError, R>>) -> Result<Option<i64>, Failure>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match sent {
        Ok(answer) => Ok(Some(answer.version())),
        Err(error) if code(&error) == "ParameterAlreadyExists" => Ok(None),
        Err(error) => Err(failed("ssm:PutParameter", error)),
    }
}

/// Whether a write is refused because the parameter is advanced and the request does not say so.
fn is_downgrade<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    code(error) == "ValidationException" && error.message().is_some_and(|said| said.contains("advanced-parameter tier"))
}

fn code<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> &str {
    error.code().unwrap_or_default()
}

/// The failure of a call. The error itself may hold the response, which has secrets, so only its cause is told.
fn failed<E, R>(action: &str, error: SdkError<E, R>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let code = error.code().map(str::to_owned);
    // Which permission is missing, of the parameter or of its key, stands in the message alone.
    let said = error.message().filter(|_| code.as_deref() == Some("AccessDeniedException")).map(str::to_owned);
    let cause = error.into_source().map_or_else(|_| "no answer".to_owned(), |cause| Report::new(&*cause).to_string());
    let cause = said.filter(|said| !said.is_empty()).unwrap_or(cause);
    refused(action, code.as_deref(), &cause)
}
