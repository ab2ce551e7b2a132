//! The route set in SSM Parameter Store: immutable parts, and one pointer that names the set in use.

use std::collections::BTreeMap;
use std::ops::Range;

use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ssm::types::ParameterType;
use futures::future::BoxFuture;
use hookonce_protocol::time::Millis;

use super::ssm::cause;
use crate::route::{Fetched, PARTS_MAX, PackedError, RouteFetchError, RoutePointer, RouteSource, pack};

/// The most parameters that one call reads or deletes.
const NAMES_MAX: usize = 10;

/// How many numbers a deployment tries that an unfinished one has left behind.
const NUMBERS_TRIED_MAX: u64 = 20;

/// The value of the parameter that the first deployment leaves for good.
const DEPLOYED: &str = "hookonce route deploy wrote a route set: without a pointer, workers wait";

/// A pointer such as `/hookonce/<stack>/routes`, its parts below `/hookonce/<stack>/routes-<number>/`, and the marker
/// `/hookonce/<stack>/routes-deployed`. If the marker exists without the pointer, the pointer was lost: there is a set.
#[derive(Debug, Clone)]
pub struct SsmRoutes {
    client: Client,
    pointer: String,
}

/// A set that was deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployedRoutes {
    /// Its number.
    pub number: u64,
    /// How many parts it has.
    pub parts: usize,
    /// Parts of earlier sets that could not be deleted. They do no harm, and the next deployment tries again.
    pub left_behind: Vec<String>,
    /// Whether workers know from now on that there is a set, should its pointer be lost.
    pub is_marked: bool,
}

/// Why a set was not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployRoutesError {
    /// It does not fit into parameters.
    #[error("the route set is too long")]
    TooLong(#[source] PackedError),
    /// Another deployment changed the pointer meanwhile. Nothing of this one is in use.
    #[error("another deployment of routes came between")]
    Overtaken,
    /// Another deployment wrote the pointer at the same moment. One of the two sets is in use.
    #[error("another deployment of routes wrote at the same moment; one of the two sets is in use")]
    Raced,
    /// It is unknown whether the pointer was written.
    #[error("it is not known whether the new set is in use: the reply was lost, and the pointer does not tell")]
    Unknown(#[source] RouteFetchError),
    /// Unfinished deployments have taken every number that was tried.
    #[error("the parameters of {NUMBERS_TRIED_MAX} unfinished deployments are in the way")]
    NoNumber,
    /// Parameter Store refused or did not answer. Nothing of this deployment is in use.
    #[error("Parameter Store did not carry it out")]
    Unavailable(#[source] RouteFetchError),
}

/// The pointer as it was read, with the version of its parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pointed {
    pointer: RoutePointer,
    version: i64,
}

impl SsmRoutes {
    /// The set of a stack, by the name of its pointer.
    pub fn new(client: Client, pointer: impl Into<String>) -> Self {
        Self { client, pointer: pointer.into() }
    }

    /// Makes a set the one in use: writes its parts, then the pointer, and deletes the sets that no reader follows any
    /// more: the one before the last one, sets of deployments that never became active, and what earlier
    /// deployments could not delete.
    ///
    /// Parameter Store has no conditional write of an existing parameter. Right before the pointer is written it is
    /// read again, and the version that the write returns shows whether another one came between.
    ///
    /// # Errors
    /// [`DeployRoutesError`]; the pointer may have changed for [`DeployRoutesError::Raced`] and
    /// [`DeployRoutesError::Unknown`] alone.
    pub async fn deploy(&self, text: &str) -> Result<DeployedRoutes, DeployRoutesError> {
        let packed = pack(text).map_err(DeployRoutesError::TooLong)?;
        let before = self.pointed().await.map_err(DeployRoutesError::Unavailable)?;
        let last = before.as_ref().map_or(0, |before| before.pointer.number);
        let number = self.write_parts(last, &packed.parts).await?;
        let previous =
            before.as_ref().map(|before| Box::new(RoutePointer { previous: None, ..before.pointer.clone() }));
        let pointer = RoutePointer { number, parts: packed.parts.len(), sha256: packed.sha256, previous };
        let written = match self.pointed().await {
            Ok(found) if found == before => self.point(&pointer, before.as_ref()).await,
            Ok(_) => Err(DeployRoutesError::Overtaken),
            Err(error) => Err(DeployRoutesError::Unavailable(error)),
        };
        if let Err(error) = written {
            if !matches!(error, DeployRoutesError::Raced | DeployRoutesError::Unknown(_)) {
                self.delete(&RoutePointer::names(&self.pointer, number, pointer.parts)).await;
            }
            return Err(error);
        }
        let left_behind = self.clear(before.as_ref()).await;
        // After the pointer: a worker that finds this parameter alone waits.
        let is_marked = match self.put(&self.marker(), DEPLOYED, false).await {
            Ok(_) => true,
            Err(error) => error.code() == Some("ParameterAlreadyExists"),
        };
        Ok(DeployedRoutes { number, parts: pointer.parts, left_behind, is_marked })
    }

    /// Writes the parts under the first free number, and deletes those under a number that is not used.
    async fn write_parts(&self, last: u64, parts: &[String]) -> Result<u64, DeployRoutesError> {
        'numbers: for number in last + 1..=last + NUMBERS_TRIED_MAX {
            let names = RoutePointer::names(&self.pointer, number, parts.len());
            for (index, (name, part)) in names.iter().zip(parts).enumerate() {
                let Err(error) = self.put(name, part, false).await else { continue };
                let own = names.get(..index).unwrap_or_default();
                self.delete(own).await;
                if error.code() == Some("ParameterAlreadyExists") {
                    continue 'numbers;
                }
                return Err(DeployRoutesError::Unavailable(unavailable(error)));
            }
            return Ok(number);
        }
        Err(DeployRoutesError::NoNumber)
    }

    async fn point(&self, pointer: &RoutePointer, before: Option<&Pointed>) -> Result<(), DeployRoutesError> {
        // Plain data always serialises.
        let text = serde_json::to_string(pointer).unwrap_or_default();
        let first = before.map_or(1, |before| before.version + 1);
        let put = self.put(&self.pointer, &text, before.is_some()).await;
        let last = *put.as_ref().unwrap_or(&first);
        if put.is_ok() && last == first {
            return Ok(());
        }
        // The reply to our own write may have been lost, and the client may have sent it again: then all that came is
        // ours.
        if self.were_written(&text, first, last).await.map_err(DeployRoutesError::Unknown)? {
            return Ok(());
        }
        Err(match put {
            Ok(_) => DeployRoutesError::Raced,
            Err(error) if error.code() == Some("ParameterAlreadyExists") => DeployRoutesError::Overtaken,
            Err(error) if is_refused(&error) => DeployRoutesError::Unavailable(unavailable(error)),
            // It may still be on its way.
            Err(error) => DeployRoutesError::Unknown(unavailable(error)),
        })
    }

    /// Whether each of these versions of the pointer exists and has this text.
    async fn were_written(&self, text: &str, first: i64, last: i64) -> Result<bool, RouteFetchError> {
        let names: Vec<_> =
            (first..=last).take(NAMES_MAX).map(|version| format!("{}:{version}", self.pointer)).collect();
        if names.is_empty() {
            return Ok(false);
        }
        let count = names.len();
        let answer = self.client.get_parameters().set_names(Some(names)).send().await.map_err(unavailable)?;
        let found = answer.parameters.unwrap_or_default();
        let last_is_there = found.iter().any(|parameter| parameter.version() == last);
        Ok(last_is_there && found.len() == count && found.iter().all(|parameter| parameter.value() == Some(text)))
    }

    /// Deletes the set before the last one, which a reader followed until now, those between the two, which died or
    /// were overtaken, and older ones that are still there. Returns what could not be deleted.
    async fn clear(&self, last: Option<&Pointed>) -> Vec<String> {
        let Some(Pointed { pointer: last, .. }) = last else { return Vec::new() };
        let (previous, parts) = last.previous.as_ref().map_or((0, 0), |set| (set.number, set.parts));
        let first = last.number.saturating_sub(NUMBERS_TRIED_MAX).max(1);
        let mut unused = self.forgotten(first..previous).await;
        unused.extend(RoutePointer::names(&self.pointer, previous, parts));
        let passed_over = first.max(previous + 1)..last.number;
        unused.extend(passed_over.flat_map(|number| RoutePointer::names(&self.pointer, number, PARTS_MAX)));
        self.delete(&unused).await
    }

    /// The parts of those sets whose first part is still there. It is always the last one to go.
    async fn forgotten(&self, numbers: Range<u64>) -> Vec<String> {
        let names = |number, parts| RoutePointer::names(&self.pointer, number, parts);
        let first_parts: Vec<_> = numbers.clone().flat_map(|number| names(number, 1)).collect();
        // Without the permission to read, nothing is found; the next deployment looks again.
        let found = self.read(&first_parts).await.unwrap_or_default();
        let is_there = |number: &u64| names(*number, 1).iter().any(|name| found.contains_key(name));
        numbers.filter(is_there).flat_map(|number| names(number, PARTS_MAX)).collect()
    }

    fn marker(&self) -> String {
        format!("{}-deployed", self.pointer)
    }

    async fn put(
        &self,
        name: &str,
        value: &str,
        overwrite: bool,
    ) -> Result<i64, SdkError<aws_sdk_ssm::operation::put_parameter::PutParameterError>> {
        let put = self.client.put_parameter().name(name).value(value).r#type(ParameterType::String);
        Ok(put.overwrite(overwrite).send().await?.version())
    }

    /// Deletes parameters, the last one first, until one cannot be deleted. Returns the names of those that may still
    /// be there.
    async fn delete(&self, names: &[String]) -> Vec<String> {
        let mut left = names;
        while !left.is_empty() {
            let (rest, last) = left.split_at(left.len().saturating_sub(NAMES_MAX));
            if self.client.delete_parameters().set_names(Some(last.to_vec())).send().await.is_err() {
                break;
            }
            left = rest;
        }
        left.to_vec()
    }

    /// The set that this pointer names.
    async fn set_of(&self, pointer: &RoutePointer) -> Result<Fetched, RouteFetchError> {
        let names = RoutePointer::names(&self.pointer, pointer.number, pointer.parts);
        let mut found = self.read(&names).await?;
        let parts: Vec<_> = names.iter().filter_map(|name| found.remove(name)).map(|(part, _)| part).collect();
        let text = pointer.unpack(&parts).map_err(|error| RouteFetchError(Box::new(error)))?;
        Ok(Fetched::Text { version: pointer.version(), text })
    }

    async fn pointed(&self) -> Result<Option<Pointed>, RouteFetchError> {
        let found = self.read(std::slice::from_ref(&self.pointer)).await?;
        Self::pointed_by(found.get(&self.pointer))
    }

    fn pointed_by(found: Option<&(String, i64)>) -> Result<Option<Pointed>, RouteFetchError> {
        let Some((text, version)) = found else { return Ok(None) };
        let pointer = RoutePointer::parse(text).ok_or_else(|| RouteFetchError("the pointer is malformed".into()))?;
        Ok(Some(Pointed { pointer, version: *version }))
    }

    /// Value and version of each parameter that exists.
    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, (String, i64)>, RouteFetchError> {
        let mut found = BTreeMap::new();
        for names in names.chunks(NAMES_MAX) {
            let answer = self.client.get_parameters().set_names(Some(names.to_vec())).send().await;
            for parameter in answer.map_err(unavailable)?.parameters.unwrap_or_default() {
                let version = parameter.version();
                if let (Some(name), Some(value)) = (parameter.name, parameter.value) {
                    found.insert(name, (value, version));
                }
            }
        }
        Ok(found)
    }
}

impl RouteSource for SsmRoutes {
    fn fetch<'a>(&'a self, held: Option<&'a str>) -> BoxFuture<'a, Result<Fetched, RouteFetchError>> {
        Box::pin(async move {
            let marker = self.marker();
            let found = self.read(&[self.pointer.clone(), marker.clone()]).await?;
            let Some(Pointed { pointer, .. }) = Self::pointed_by(found.get(&self.pointer))? else {
                return match found.get(&marker) {
                    Some(_) => Err(RouteFetchError("there was a set, and its pointer is gone".into())),
                    None => Ok(Fetched::Absent),
                };
            };
            if held == Some(pointer.version().as_str()) {
                return Ok(Fetched::Unchanged);
            }
            self.set_of(&pointer).await
        })
    }

    fn pause(&self) -> Millis {
        Millis::seconds(60)
    }

    fn is_local(&self) -> bool {
        false
    }
}

/// Whether the service itself refused.
fn is_refused<E>(error: &SdkError<E>) -> bool {
    matches!(error, SdkError::ServiceError(refusal) if !refusal.raw().status().is_server_error())
}

fn unavailable<E: std::error::Error + Send + Sync + 'static>(error: SdkError<E>) -> RouteFetchError {
    RouteFetchError(cause(error))
}
