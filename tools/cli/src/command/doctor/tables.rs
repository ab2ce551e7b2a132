//! What safety rests on in the tables of a deployed stack: keys, indexes, time to live, recovery and protection. A stack
//! makes them so, but somebody may change them later, and a table that was restored lacks most of it.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::{
    KeySchemaElement, PointInTimeRecoveryStatus, ProjectionType, ScalarAttributeType, TableDescription,
    TimeToLiveStatus,
};
use error_reporter::Report;
use futures::future::try_join_all;
use hookonce_aws::{DUE_INDEX, ID, JOURNAL_INDEX, KIND};
use hookonce_local::tables::documents_policy;
use hookonce_protocol::item::PARTITION_KEY;
use hookonce_protocol::record::attribute;

use super::Check;
use super::policies::statements;
use crate::failure::Failure;
use crate::stack::account::refused;
use crate::stack::connection::Outputs;

/// What a table must have.
struct Wanted<'a> {
    what: &'static str,
    name: &'a str,
    key: &'static [&'static str],
    indexes: &'static [(&'static str, [&'static str; 2])],
    /// Whether it has documents: they never expire, and a policy keeps everybody from reading those of all kinds.
    of_documents: bool,
}

/// Looks at the three tables. Those of records and of your data have no policy, unless somebody made one.
pub(super) async fn tables(client: &Client, outputs: &Outputs) -> Check {
    let all = [
        Wanted {
            what: "inbox",
            name: &outputs.parts.inbox_table,
            key: &[PARTITION_KEY],
            indexes: &[
                (DUE_INDEX, [attribute::DUE_SHARD, attribute::DUE_AT]),
                (JOURNAL_INDEX, [attribute::JOURNAL_SHARD, attribute::RECEIVED_AT]),
            ],
            of_documents: false,
        },
        Wanted {
            what: "domain",
            name: &outputs.parts.domain_table,
            key: &[PARTITION_KEY],
            indexes: &[],
            of_documents: false,
        },
        Wanted {
            what: "documents",
            name: &outputs.documents_table,
            key: &[KIND, ID],
            indexes: &[],
            of_documents: true,
        },
    ];
    let found = match try_join_all(all.iter().map(|wanted| wanted.look(client))).await {
        Ok(found) => found,
        Err(failure) => return Check::new("tables", Err(failure)),
    };
    let (mut wrong, mut warnings) = (Vec::new(), Vec::new());
    for (wanted, Found { drift, let_in }) in all.iter().zip(found) {
        wrong.extend(drift.into_iter().map(|drift| format!("{} table: {drift}", wanted.what)));
        warnings.extend(let_in.map(|arn| {
            format!(
                "the {} table has a resource policy, and the template makes none: `aws dynamodb get-resource-policy \
                 --resource-arn {arn}` prints whom it lets in",
                wanted.what
            )
        }));
    }
    let seen = if wrong.is_empty() {
        Ok("keys, indexes, time to live, recovery and protection are as they should be".to_owned())
    } else {
        Err(Failure::usage(wrong.join("; "), "docs/run/upgrade.md#a-table-is-not-as-it-should-be has the commands"))
    };
    Check { warnings, ..Check::new("tables", seen) }
}

/// What was seen of a table.
struct Found {
    /// What is not as it should be.
    drift: Vec<String>,
    /// Its ARN, if it has a resource policy that the template does not make.
    let_in: Option<String>,
}

impl Wanted<'_> {
    /// Looks at one table.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when DynamoDB does not tell.
    async fn look(&self, client: &Client) -> Result<Found, Failure> {
        let described = client.describe_table().table_name(self.name).send().await;
        let described =
            described.map_err(|error| refused("dynamodb:DescribeTable", error.code(), &Report::new(&error)))?;
        let mut wrong = described.table().map(|table| self.of_description(table)).unwrap_or_default();
        let expiry = client.describe_time_to_live().table_name(self.name).send().await;
        let expiry =
            expiry.map_err(|error| refused("dynamodb:DescribeTimeToLive", error.code(), &Report::new(&error)))?;
        let expiry = expiry.time_to_live_description();
        let is_on = expiry.is_some_and(|it| {
            matches!(it.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
        });
        let by = expiry.and_then(|it| it.attribute_name()).filter(|_| is_on);
        let expected = (!self.of_documents).then_some(attribute::EXPIRES_AT);
        if by != expected {
            let by = by.unwrap_or("nothing");
            wrong.push(format!("items expire by {by}, not by {}", expected.unwrap_or("nothing")));
        }
        let backups = client.describe_continuous_backups().table_name(self.name).send().await;
        let backups = backups
            .map_err(|error| refused("dynamodb:DescribeContinuousBackups", error.code(), &Report::new(&error)))?;
        let recovery = backups.continuous_backups_description().and_then(|it| it.point_in_time_recovery_description());
        let status = recovery.and_then(|it| it.point_in_time_recovery_status());
        if status != Some(&PointInTimeRecoveryStatus::Enabled) {
            wrong.push("no point-in-time recovery".to_owned());
        }
        let arn = described.table().and_then(TableDescription::table_arn).unwrap_or_default();
        let policy = policy(client, arn).await?;
        if !self.of_documents {
            return Ok(Found { drift: wrong, let_in: policy.map(|_| arn.to_owned()) });
        }
        let found = policy.map(|policy| serde_json::from_str(&policy).unwrap_or_default());
        match found.map(|policy| statements(&policy) == statements(&documents_policy())) {
            Some(true) => {}
            Some(false) => wrong.push("the resource policy is not that of the template".to_owned()),
            None => wrong.push("no resource policy denies a scan".to_owned()),
        }
        Ok(Found { drift: wrong, let_in: None })
    }

    fn of_description(&self, table: &TableDescription) -> Vec<String> {
        let names = |key: &[KeySchemaElement]| -> Vec<String> {
            key.iter().map(|element| element.attribute_name().to_owned()).collect()
        };
        let mut wrong = Vec::new();
        if names(table.key_schema()) != self.key {
            wrong.push(format!("the key is {}", names(table.key_schema()).join(", ")));
        }
        let keys = self.key.iter().chain(self.indexes.iter().flat_map(|(_, key)| key));
        let kind = |name: &str| match name {
            attribute::DUE_AT | attribute::RECEIVED_AT => ScalarAttributeType::N,
            _ => ScalarAttributeType::S,
        };
        let is_other = |name: &&&str| {
            let mut all = table.attribute_definitions().iter();
            all.any(|it| it.attribute_name() == **name && *it.attribute_type() != kind(name))
        };
        wrong.extend(keys.filter(is_other).map(|name| format!("{name} is not of type {}", kind(name).as_str())));
        for (name, key) in self.indexes {
            let index = table.global_secondary_indexes().iter().find(|index| index.index_name() == Some(name));
            let keys_only = |projection: Option<&ProjectionType>| projection == Some(&ProjectionType::KeysOnly);
            let fits = index.is_some_and(|index| {
                names(index.key_schema()) == *key
                    && keys_only(index.projection().and_then(|projection| projection.projection_type()))
            });
            if !fits {
                wrong.push(format!("no index {name} by {} of keys only", key.join(", ")));
            }
        }
        if table.deletion_protection_enabled() != Some(true) {
            wrong.push("no deletion protection".to_owned());
        }
        wrong
    }
}

/// The resource policy of a table. `None` if it has none.
async fn policy(client: &Client, arn: &str) -> Result<Option<String>, Failure> {
    match client.get_resource_policy().resource_arn(arn).send().await {
        Ok(found) => Ok(found.policy),
        Err(error) if error.code() == Some("PolicyNotFoundException") => Ok(None),
        Err(error) => Err(refused("dynamodb:GetResourcePolicy", error.code(), &Report::new(&error))),
    }
}
