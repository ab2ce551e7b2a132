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
use hookonce_protocol::item::PARTITION_KEY;
use hookonce_protocol::record::attribute;
use serde_json::Value;

use crate::failure::Failure;
use crate::stack::account::refused;
use crate::stack::connection::Outputs;

/// What a table must have.
struct Wanted<'a> {
    what: &'static str,
    name: &'a str,
    key: &'static [&'static str],
    indexes: &'static [(&'static str, [&'static str; 2])],
    /// Whether it has documents: they never expire, and nobody may read those of all kinds.
    of_documents: bool,
}

/// Looks at the three tables.
///
/// # Errors
/// [`Failure::Usage`] with all that is not as it should be; [`Failure::Unavailable`] when DynamoDB does not tell.
pub(super) async fn tables(client: &Client, outputs: &Outputs) -> Result<String, Failure> {
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
    let drifts = try_join_all(all.iter().map(|wanted| wanted.drift(client))).await?;
    let named = |(wanted, drift): (&Wanted<'_>, Vec<String>)| {
        drift.into_iter().map(|drift| format!("{} table: {drift}", wanted.what)).collect::<Vec<_>>()
    };
    let wrong: Vec<_> = all.iter().zip(drifts).flat_map(named).collect();
    if wrong.is_empty() {
        return Ok("keys, indexes, time to live, recovery and protection are as they should be".to_owned());
    }
    Err(Failure::usage(wrong.join("; "), "docs/run/upgrade.md#a-table-is-not-as-it-should-be has the commands"))
}

impl Wanted<'_> {
    async fn drift(&self, client: &Client) -> Result<Vec<String>, Failure> {
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
        if self.of_documents && !self.denies_scans(client, described.table()).await? {
            wrong.push("no resource policy denies a scan".to_owned());
        }
        Ok(wrong)
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

    async fn denies_scans(&self, client: &Client, table: Option<&TableDescription>) -> Result<bool, Failure> {
        const ACTION: &str = "dynamodb:GetResourcePolicy";
        let arn = table.and_then(TableDescription::table_arn).unwrap_or_default();
        match client.get_resource_policy().resource_arn(arn).send().await {
            Ok(found) => Ok(found.policy().is_some_and(denies_scans)),
            Err(error) if error.code() == Some("PolicyNotFoundException") => Ok(false),
            Err(error) => Err(refused(ACTION, error.code(), &Report::new(&error))),
        }
    }
}

/// Whether a policy denies everybody to scan, whatever else it says.
fn denies_scans(policy: &str) -> bool {
    let policy: Value = serde_json::from_str(policy).unwrap_or_default();
    let each = |value: Option<&Value>| match value {
        Some(Value::Array(several)) => several.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    each(policy.get("Statement")).iter().any(|statement| {
        let is_all = |place: &str| statement.pointer(place).is_some_and(|who| who == "*");
        statement.get("Effect").is_some_and(|effect| effect == "Deny")
            && (is_all("/Principal") || is_all("/Principal/AWS"))
            && each(statement.get("Action")).iter().any(|action| action == "dynamodb:Scan")
            && statement.get("Condition").is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_statement_that_denies_everybody_holds() {
        let policy = |statement: &str| format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#);
        let deny =
            r#"{"Effect":"Deny","Principal":"*","Action":["dynamodb:Scan","dynamodb:PartiQLSelect"],"Resource":"*"}"#;
        assert!(denies_scans(&policy(deny)));
        assert!(denies_scans(&policy(deny).replace(r#""*","Action""#, r#"{"AWS":"*"},"Action""#)));
        for (old, new) in [
            ("Deny", "Allow"),
            (r#""*","Action""#, r#"{"AWS":"arn:aws:iam::123456789012:root"},"Action""#),
            ("dynamodb:Scan", "dynamodb:Query"),
            (r#""Resource""#, r#""Condition":{"Bool":{"aws:ViaAWSService":"true"}},"Resource""#),
        ] {
            assert!(!denies_scans(&policy(deny).replace(old, new)), "{new}");
        }
        assert!(!denies_scans("dynamodb:Scan"));
    }
}
