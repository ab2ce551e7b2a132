//! Where a stack is, and the environment variables that tell a function.

use std::path::Path;

use super::StackResources;
use crate::clients;

/// The URLs of the servers, and the tables and queues created there.
#[derive(Debug, Clone)]
pub struct Place {
    /// The endpoint URL of DynamoDB, with the access key id that it takes.
    pub dynamodb_url: String,
    /// The endpoint URL of SQS, with the same access key id.
    pub sqs_url: String,
    /// Tables and queues, by name.
    pub resources: StackResources,
}

impl Place {
    /// The environment variables for functions that another process runs. `endpoints` is the folder of endpoint
    /// documents, `destinations` that of destination documents, `routes` the file of the route set. The latter two need
    /// not exist yet.
    pub fn environment(&self, endpoints: &Path, destinations: &Path, routes: &Path) -> Vec<(&'static str, String)> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let endpoints = endpoints.canonicalize().unwrap_or_else(|_| endpoints.to_owned());
        let mut variables = vec![
            ("AWS_ENDPOINT_URL_DYNAMODB", clients::without_key(&self.dynamodb_url)),
            ("AWS_ENDPOINT_URL_SQS", clients::without_key(&self.sqs_url)),
            ("AWS_REGION", clients::REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", clients::access_key_id(&self.dynamodb_url).to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("HOOKONCE_INBOX_TABLE", self.resources.inbox_table.clone()),
            ("HOOKONCE_DOMAIN_TABLE", self.resources.domain_table.clone()),
            ("HOOKONCE_QUEUE_URL", self.resources.queue.url.clone()),
            ("HOOKONCE_SLOW_QUEUE_URL", self.resources.slow_queue.url.clone()),
            ("HOOKONCE_EFFECTS_QUEUE_URL", self.resources.effects_queue.url.clone()),
            ("HOOKONCE_ENDPOINTS", format!("file:{}", endpoints.display())),
            ("HOOKONCE_DESTINATIONS", format!("file:{}", absolute(destinations).display())),
            ("HOOKONCE_ROUTES", format!("file:{}", absolute(routes).display())),
        ];
        let tables: Vec<_> = self.resources.own_tables.iter().map(|(alias, name)| format!("{alias}={name}")).collect();
        if !tables.is_empty() {
            variables.push(("HOOKONCE_TABLES", tables.join(",")));
        }
        variables
    }
}
