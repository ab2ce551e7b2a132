//! The endpoint documents of a deployed stack: one `SecureString` parameter each, and the index of their ids.
//!
//! Parameter Store refuses to create what exists, but has no other conditional write. A change therefore reads the version
//! first, and finds in the version after its write whether another one came in between.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::config::retry::RetryConfig;
use aws_sdk_ssm::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::operation::put_parameter::{PutParameterError, PutParameterOutput};
use aws_sdk_ssm::types::{Parameter, ParameterTier, ParameterType};
use error_reporter::Report;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::aws::{SdkConfig, timeouts};
use hookonce_runtime::index::{self, IndexStore, Rebuilt, SHARDS, StoredText};
use tokio::time::MissedTickBehavior;

use super::{EndpointStore, Listing, Stored, missing, overtaken};
use crate::account::{refused, signed_in};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::outputs::{DEPLOY_AGAIN, Outputs};

/// How long one call may take, with its retries. Throttled calls wait and come again.
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

/// The parameters below a stack's path.
#[derive(Default)]
struct Below {
    endpoints: Vec<(EndpointId, Parameter)>,
    /// The texts of the index, by shard.
    texts: BTreeMap<u8, String>,
    is_complete: bool,
}

/// The parameters of one stack.
pub(super) struct Parameters {
    client: Client,
    stack: String,
    /// Without the slash at its end.
    path: String,
    /// `None` for the account's own key.
    key: Option<String>,
}

impl Parameters {
    /// The parameters of a stack.
    pub(super) async fn open(stack: &str) -> Result<Self, Failure> {
        let config = signed_in().await?;
        let outputs = Outputs::of(&config, stack).await?;
        let Some(key) = outputs.endpoint_key else {
            return Err(Failure::usage(
                "this stack does not say which key encrypts its endpoints: its template is older than this command",
                DEPLOY_AGAIN,
            ));
        };
        Ok(Self {
            client: client(&config),
            stack: stack.to_owned(),
            path: format!("/hookonce/{stack}/endpoints"),
            key: Some(key).filter(|key| !key.is_empty()),
        })
    }

    fn name(&self, id: &EndpointId) -> String {
        format!("{}/{id}", self.path)
    }

    fn shard_name(&self, shard: u8) -> String {
        format!("{}/{}", self.path, index::parameter(shard))
    }

    /// Reads a parameter, or one of its versions, if there is one.
    async fn read(&self, name: &str, version: Option<i64>) -> Result<Option<Parameter>, Failure> {
        let name = version.map_or_else(|| name.to_owned(), |version| format!("{name}:{version}"));
        match self.client.get_parameter().name(name).with_decryption(true).send().await {
            Ok(answer) => Ok(answer.parameter),
            Err(error) if ["ParameterNotFound", "ParameterVersionNotFound"].contains(&code(&error)) => Ok(None),
            Err(error) => Err(failed("ssm:GetParameter", error)),
        }
    }

    /// Writes a parameter and returns its version. `None` if it exists and must not.
    async fn write(&self, name: &str, text: &str, kind: ParameterType, over: bool) -> Result<Option<i64>, Failure> {
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

    /// All parameters below the path, with their values. Leaves out endpoints above this number, or a few more.
    async fn below(&self, decrypt: bool, endpoints_max: usize) -> Result<Below, Failure> {
        let asked = self.client.get_parameters_by_path().path(&self.path).with_decryption(decrypt);
        let mut pages = asked.max_results(i32::try_from(PAGE).unwrap_or(1)).into_paginator().send();
        let mut below = Below::default();
        let mut clock = tokio::time::interval(PAGE_PAUSE);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while below.endpoints.len() < endpoints_max {
            clock.tick().await;
            let Some(page) = pages.next().await else {
                below.is_complete = true;
                return Ok(below);
            };
            let page = page.map_err(|error| failed("ssm:GetParametersByPath", error))?;
            below.add(page.parameters.unwrap_or_default());
        }
        // Somewhere in the pages that are left out stand texts of the index.
        for shard in 0..SHARDS {
            if !below.texts.contains_key(&shard) {
                let text = self.read(&self.shard_name(shard), None).await?.and_then(|parameter| parameter.value);
                below.texts.extend(text.map(|text| (shard, text)));
            }
        }
        Ok(below)
    }

    /// Refuses if the parameter is not the version that was read.
    async fn unchanged(&self, id: &EndpointId, read: &Stored) -> Result<(), Failure> {
        let now = self.read(&self.name(id), None).await?.ok_or_else(|| missing(id))?;
        if now.version() == read.version { Ok(()) } else { Err(overtaken(id)) }
    }

    async fn create_one(&self, id: &EndpointId, text: &str) -> Result<bool, Failure> {
        fits(text)?;
        if self.write(&self.name(id), text, ParameterType::SecureString, false).await?.is_some() {
            return Ok(true);
        }
        // The reply to our own write may have been lost, and the client sent it again.
        let found = self.read(&self.name(id), None).await?;
        Ok(found.is_some_and(|found| found.value() == Some(text)))
    }

    async fn replace_one(&self, id: &EndpointId, read: &Stored, text: &str) -> Result<(), Failure> {
        fits(text)?;
        self.unchanged(id, read).await?;
        let written = self.overwrite(id, read, text).await;
        let advice = format!(". `hookonce endpoint show {id} --reveal --stack {}` prints what is in force", self.stack);
        written.map_err(|failure| failure.with("; the write was sent, so the new secret may be in force", &advice))
    }

    /// Writes over what was read, and finds out whether somebody else wrote or removed it meanwhile.
    async fn overwrite(&self, id: &EndpointId, read: &Stored, text: &str) -> Result<(), Failure> {
        let name = self.name(id);
        let written = self.write(&name, text, ParameterType::SecureString, true).await?.unwrap_or(read.version + 1);
        // A parameter that is removed and written again counts from 1.
        if written <= read.version {
            return Err(Failure::usage(
                format!("endpoint {id} was removed by someone else at the same moment, and this write brought it back"),
                format!("if it must go, remove it again: `hookonce endpoint remove {id} --stack {}`", self.stack),
            ));
        }
        for version in read.version + 1..written {
            let other = self.read(&name, Some(version)).await?;
            // Our own write counts twice if its first reply was lost.
            if other.is_none_or(|other| other.value() != Some(text)) {
                return Err(Failure::usage(
                    format!(
                        "endpoint {id} was changed by someone else at the same moment: version {version} of {name}"
                    ),
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

impl Below {
    fn add(&mut self, parameters: Vec<Parameter>) {
        for parameter in parameters {
            let Some(last) = parameter.name().and_then(|name| name.rsplit('/').next()) else { continue };
            // The index stands beside the endpoints, and its names are no ids.
            if let Some(shard) = (0..SHARDS).find(|shard| index::parameter(*shard) == last) {
                self.texts.extend(parameter.value.map(|text| (shard, text)));
            } else if let Ok(id) = EndpointId::parse(last) {
                self.endpoints.push((id, parameter));
            }
        }
    }
}

impl EndpointStore for Parameters {
    fn get<'a>(&'a self, id: &'a EndpointId) -> BoxFuture<'a, Result<Option<Stored>, Failure>> {
        async { Ok(self.read(&self.name(id), None).await?.map(stored)) }.boxed()
    }

    fn look(&self, endpoints_max: usize) -> BoxFuture<'_, Result<Listing, Failure>> {
        let looked = async move {
            let Below { endpoints, texts, is_complete } = self.below(true, endpoints_max).await?;
            let ids: Vec<_> = endpoints.iter().map(|(id, _)| id.clone()).collect();
            let mut drift = index::drift(&texts, &ids);
            if !is_complete {
                // The endpoints that were left out are listed, too.
                drift.orphaned = 0;
            }
            let documents = endpoints.into_iter().map(|(id, parameter)| (id, stored(parameter))).collect();
            Ok(Listing { documents, drift, is_complete })
        };
        looked.boxed()
    }

    fn list<'a>(&'a self, ids: &'a [EndpointId]) -> BoxFuture<'a, Result<(), Failure>> {
        index::list(self, ids, System.moment().now).boxed()
    }

    fn rebuild_index<'a>(&'a self, interrupt: &'a Interrupt) -> BoxFuture<'a, Result<Rebuilt, Failure>> {
        index::rebuild(self, System.moment().now, || !interrupt.came()).boxed()
    }

    fn fits(&self, text: &str) -> Result<(), Failure> {
        fits(text)
    }

    fn create<'a>(&'a self, id: &'a EndpointId, text: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        self.create_one(id, text).boxed()
    }

    fn replace<'a>(
        &'a self,
        id: &'a EndpointId,
        read: &'a Stored,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        self.replace_one(id, read, text).boxed()
    }

    fn remove<'a>(&'a self, id: &'a EndpointId, read: &'a Stored) -> BoxFuture<'a, Result<(), Failure>> {
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

impl IndexStore for Parameters {
    type Error = Failure;

    async fn ids(&self) -> Result<Vec<EndpointId>, Failure> {
        Ok(self.below(false, usize::MAX).await?.endpoints.into_iter().map(|(id, _)| id).collect())
    }

    async fn newest(&self, shard: u8) -> Result<Option<StoredText>, Failure> {
        let found = self.read(&self.shard_name(shard), None).await?;
        let text = |found: Parameter| StoredText {
            version: found.version(),
            written_at: changed_at(&found),
            text: found.value.unwrap_or_default(),
        };
        Ok(found.map(text))
    }

    async fn overwritten(&self, shard: u8, version: i64) -> Result<String, Failure> {
        let name = self.shard_name(shard);
        let found = self.read(&name, Some(version)).await?;
        found.and_then(|found| found.value).ok_or_else(|| {
            Failure::unavailable(
                format!("version {version} of {name}, which another command wrote, cannot be read"),
                format!(
                    "run the command again; then `hookonce endpoint index --stack {}` says what the index lacks",
                    self.stack
                ),
            )
        })
    }

    async fn write(&self, shard: u8, text: &str) -> Result<i64, Failure> {
        let name = self.shard_name(shard);
        let written = self.write(&name, text, ParameterType::String, true).await?;
        written.ok_or_else(|| Failure::unavailable(format!("{name} was not written"), "run the command again"))
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
        "remove older secrets, or split the source ranges over several endpoints",
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
