//! Where a stack is, and the environment variables that tell a function.

use std::path::Path;

use super::StackResources;
use crate::clients;

/// The URLs of the servers, and the tables and queues created there.
#[derive(Debug, Clone)]
pub struct StackLocation {
    /// The endpoint URL of DynamoDB, with the access key id that it takes.
    pub dynamodb_url: String,
    /// The endpoint URL of SQS, with the same access key id.
    pub sqs_url: String,
    /// Tables and queues, by name.
    pub resources: StackResources,
}

impl StackLocation {
    /// The environment variables for functions that another process runs, with their documents in a folder, or in the
    /// table of the stack.
    pub fn environment(&self, documents: Option<&Path>) -> Vec<(&'static str, String)> {
        let documents = documents.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
        let documents = documents.map_or_else(
            || format!("table:{}", self.resources.documents_table),
            |folder| format!("file:{}", folder.display()),
        );
        let mut variables = vec![
            ("AWS_ENDPOINT_URL_DYNAMODB", clients::without_key(&self.dynamodb_url)),
            ("AWS_ENDPOINT_URL_SQS", clients::without_key(&self.sqs_url)),
            ("AWS_REGION", clients::REGION.to_owned()),
            // Version 1 of the command line of AWS knows this name only.
            ("AWS_DEFAULT_REGION", clients::REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", clients::access_key_id(&self.dynamodb_url).to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("HOOKONCE_INBOX_TABLE", self.resources.inbox_table.clone()),
            ("HOOKONCE_DOMAIN_TABLE", self.resources.domain_table.clone()),
            ("HOOKONCE_QUEUE_URL", self.resources.queue.url.clone()),
            ("HOOKONCE_SLOW_QUEUE_URL", self.resources.slow_queue.url.clone()),
            ("HOOKONCE_EFFECTS_QUEUE_URL", self.resources.effects_queue.url.clone()),
            ("HOOKONCE_DOCUMENTS", documents),
        ];
        let tables: Vec<_> = self.resources.own_tables.iter().map(|(alias, name)| format!("{alias}={name}")).collect();
        if !tables.is_empty() {
            variables.push(("HOOKONCE_TABLES", tables.join(",")));
        }
        variables
    }
}
