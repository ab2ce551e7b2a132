//! The index of a stack's endpoint ids: parameters beside those of the endpoints, whose names are no ids.

use aws_sdk_ssm::types::ParameterType;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hookonce_protocol::key::EndpointId;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::{DocumentLocation, MessageKeyLocation};
use hookonce_runtime::index::{self, IndexStore, Rebuilt, SHARDS, StoredText};
use hookonce_runtime::message_key::MessageKeyError;

use super::{EndpointStore, Listing, fresh_message_key};
use crate::documents::{Below, Parameters, Stored};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

impl EndpointStore for Parameters<EndpointId> {
    fn look(&self, endpoints_max: usize) -> BoxFuture<'_, Result<Listing, Failure>> {
        let looked = async move {
            let Below { documents, mut others, is_complete } = self.below(true, endpoints_max).await?;
            let mut texts = std::collections::BTreeMap::new();
            for shard in 0..SHARDS {
                let text = match others.remove(&index::parameter(shard)) {
                    // Somewhere in the pages that are left out stand texts of the index.
                    None if !is_complete => {
                        let found = self.read(&self.name(&index::parameter(shard)), None).await?;
                        found.map(|found| found.text)
                    }
                    text => text,
                };
                texts.extend(text.map(|text| (shard, text)));
            }
            let ids: Vec<_> = documents.iter().map(|(id, _)| id.clone()).collect();
            let mut drift = index::drift(&texts, &ids);
            if !is_complete {
                // The endpoints that were left out are listed, too.
                drift.orphaned = 0;
            }
            Ok(Listing { documents: documents.into_iter().collect(), drift, is_complete })
        };
        looked.boxed()
    }

    fn list<'a>(&'a self, ids: &'a [EndpointId]) -> BoxFuture<'a, Result<(), Failure>> {
        index::list(self, ids, System.moment().now).boxed()
    }

    fn make_message_key(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let make = async {
            let Some(name) = message_key_name(self) else { return Ok(()) };
            // Nothing is written over a key: messages that it sealed may be in the queue. The other key may be that of
            // our own call, whose reply was lost.
            self.write(&name, &fresh_message_key(), ParameterType::SecureString, false).await.map(|_| ())
        };
        make.boxed()
    }

    fn check_message_key(&self) -> BoxFuture<'_, Result<(), Failure>> {
        let check = async {
            let Some(name) = message_key_name(self) else { return Ok(()) };
            let stored = self.read(&name, None).await?;
            MessageKeyError::or_key(stored.as_ref().map(|stored| stored.text.as_str())).map(|_| ()).map_err(|error| {
                let what = if matches!(error, MessageKeyError::Absent) { "does not exist" } else { "holds no key" };
                let over = if stored.is_some() { " --overwrite" } else { "" };
                Failure::usage(
                    format!("{name} {what}, so endpoints on `enqueue` answer 503 while the tables are down"),
                    format!(
                        "make it: aws ssm put-parameter --type SecureString{}{over} --name {name} \
                         --value \"$(openssl rand -base64 32)\"",
                        self.key_option()
                    ),
                )
            })
        };
        check.boxed()
    }

    fn rebuild_index<'a>(&'a self, interrupt: &'a Interrupt) -> BoxFuture<'a, Result<Rebuilt, Failure>> {
        index::rebuild(self, System.moment().now, || !interrupt.came()).boxed()
    }
}

/// The parameter of the message key, where the functions look for it.
fn message_key_name(endpoints: &Parameters<EndpointId>) -> Option<String> {
    match DocumentLocation::Ssm(endpoints.name(&"")).message_key() {
        MessageKeyLocation::Ssm(name) => Some(name),
        MessageKeyLocation::File(_) => None,
    }
}

impl IndexStore for Parameters<EndpointId> {
    type Error = Failure;

    async fn ids(&self) -> Result<Vec<EndpointId>, Failure> {
        Ok(self.below(false, usize::MAX).await?.documents.into_iter().map(|(id, _)| id).collect())
    }

    async fn newest(&self, shard: u8) -> Result<Option<StoredText>, Failure> {
        let found = self.read(&self.name(&index::parameter(shard)), None).await?;
        let text =
            |found: Stored| StoredText { version: found.version, written_at: found.changed_at, text: found.text };
        Ok(found.map(text))
    }

    async fn overwritten(&self, shard: u8, version: i64) -> Result<String, Failure> {
        let name = self.name(&index::parameter(shard));
        let found = self.read(&name, Some(version)).await?;
        found.map(|found| found.text).ok_or_else(|| {
            Failure::unavailable(
                format!("version {version} of {name}, which another command wrote, cannot be read"),
                "run the command again; then `hookonce endpoint index` says what the index lacks",
            )
        })
    }

    async fn write(&self, shard: u8, text: &str) -> Result<i64, Failure> {
        let name = self.name(&index::parameter(shard));
        let written = self.write(&name, text, ParameterType::String, true).await?;
        written.ok_or_else(|| Failure::unavailable(format!("{name} was not written"), "run the command again"))
    }
}
