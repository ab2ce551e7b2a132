//! Configuration from the environment: parsed once into types, with all errors reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;
use sha2::{Digest as _, Sha256};
use tracing::level_filters::LevelFilter;

pub use crate::documents::location::DocumentsLocation;
use crate::handlers::tables::{OwnTables, is_table_name, own_tables};

/// All variables of all functions. One environment may serve all, so only a name that none reads is a misspelling.
pub const VARIABLES: &[&str] = &[
    "HOOKONCE_CLIENT_ADDRESS_HEADER",
    "HOOKONCE_DOCUMENTS",
    "HOOKONCE_DOMAIN_TABLE",
    "HOOKONCE_EDGE_PROOF_HASHES",
    "HOOKONCE_EFFECTS_QUEUE_URL",
    "HOOKONCE_INBOX_TABLE",
    "HOOKONCE_LOG",
    "HOOKONCE_METRICS_NAMESPACE",
    "HOOKONCE_PUBLIC_URL",
    "HOOKONCE_QUEUE_URL",
    "HOOKONCE_SLOW_QUEUE_URL",
    "HOOKONCE_TABLES",
    "HOOKONCE_TEST_TIMING",
];

/// The longest message that SQS accepts, in bytes, its attributes included.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;

/// Environment variables by name.
pub type Environment = BTreeMap<String, String>;

/// Reads the process's environment.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// All errors in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("faults in the configuration, {} in all: {}", .0.len(), .0.join("; "))]
pub struct ConfigError(pub Vec<String>);

/// What all functions read.
#[derive(Debug, Clone)]
pub struct Common {
    /// The inbox table's name.
    pub inbox_table: String,
    /// The domain table's name.
    pub domain_table: String,
    /// Where documents are.
    pub documents: DocumentsLocation,
    /// The queue's URL.
    pub queue_url: String,
    /// The lowest level that is logged.
    pub log: LevelFilter,
    /// The namespace of the metrics. It tells two stacks in one account apart.
    pub metrics_namespace: String,
    /// The protocol's durations.
    pub timing: Timing,
}

/// The most proofs of a CDN: the one in use and the next one.
pub const EDGE_PROOFS_MAX: usize = 2;

/// What stands in front of the gateway, and what is believed of what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeConfig {
    /// The origin that the provider calls, if it is not the gateway's own: the URL up to the path.
    pub public_url: Option<String>,
    /// The hashes of the secrets by which a CDN proves that a request came through it. If there is none, every request
    /// is taken. A hash is enough to check a random secret, so nothing here has to be kept secret.
    pub proof_hashes: Vec<[u8; 32]>,
    /// The header in which the CDN names the caller's address; the gateway's word if absent.
    pub client_address_header: Option<String>,
}

impl EdgeConfig {
    /// Nothing stands in front.
    pub const fn direct() -> Self {
        Self { public_url: None, proof_hashes: Vec::new(), client_address_header: None }
    }
}

/// The hash by which a proof is known.
pub fn proof_hash(proof: &[u8]) -> [u8; 32] {
    Sha256::digest(proof).into()
}

/// The webhook function's configuration.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// What all functions read.
    pub common: Common,
    /// What stands in front of the gateway.
    pub edge: EdgeConfig,
}

/// The worker function's configuration.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// What all functions read.
    pub common: Common,
    /// The URL of the queue of slow handlers.
    pub slow_queue_url: String,
    /// The URL of the effects queue.
    pub effects_queue_url: String,
    /// The user tables that handlers may use.
    pub tables: OwnTables,
}

/// The relay function's configuration.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// What all functions read.
    pub common: Common,
    /// The URL of the effects queue.
    pub effects_queue_url: String,
}

/// The dispatcher function's configuration.
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// What all functions read.
    pub common: Common,
    /// The URL of the effects queue.
    pub effects_queue_url: String,
}

impl WebhookConfig {
    /// Reads the configuration from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with all errors.
    pub fn read(environment: &Environment) -> Result<Self, ConfigError> {
        read(environment, Self::take)
    }

    fn take(reader: &mut Reader<'_>) -> Self {
        let common = reader.common();
        let edge = EdgeConfig {
            public_url: reader.optional("HOOKONCE_PUBLIC_URL"),
            proof_hashes: reader.proof_hashes("HOOKONCE_EDGE_PROOF_HASHES"),
            client_address_header: reader.optional("HOOKONCE_CLIENT_ADDRESS_HEADER"),
        };
        reader.check_edge(&edge);
        Self { common, edge }
    }
}

impl WorkerConfig {
    /// Reads the configuration from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with all errors.
    pub fn read(environment: &Environment) -> Result<Self, ConfigError> {
        read(environment, Self::take)
    }

    fn take(reader: &mut Reader<'_>) -> Self {
        let common = reader.common();
        let slow_queue_url = reader.required("HOOKONCE_SLOW_QUEUE_URL");
        let effects_queue_url = reader.required("HOOKONCE_EFFECTS_QUEUE_URL");
        let tables = reader.optional("HOOKONCE_TABLES");
        let tables = tables.map_or_else(OwnTables::new, |text| reader.own_tables(&text, &common));
        Self { common, slow_queue_url, effects_queue_url, tables }
    }
}

impl RelayConfig {
    /// Reads the configuration from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with all errors.
    pub fn read(environment: &Environment) -> Result<Self, ConfigError> {
        read(environment, Self::take)
    }

    fn take(reader: &mut Reader<'_>) -> Self {
        let (common, effects_queue_url) = (reader.common(), reader.required("HOOKONCE_EFFECTS_QUEUE_URL"));
        Self { common, effects_queue_url }
    }
}

impl DispatcherConfig {
    /// Reads the configuration from the environment.
    ///
    /// # Errors
    /// [`ConfigError`] with all errors.
    pub fn read(environment: &Environment) -> Result<Self, ConfigError> {
        read(environment, Self::take)
    }

    fn take(reader: &mut Reader<'_>) -> Self {
        let (common, effects_queue_url) = (reader.common(), reader.required("HOOKONCE_EFFECTS_QUEUE_URL"));
        Self { common, effects_queue_url }
    }
}

/// The names that look like variables of hookonce and are none of this release: misspelt, or of another release. A
/// deployment and its roll-back change code and configuration one after the other, so a running function refuses none.
pub fn unknown_variables<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let names = names.into_iter().map(String::as_str);
    names.filter(|name| name.starts_with("HOOKONCE_") && !VARIABLES.contains(name)).collect()
}

fn read<T>(environment: &Environment, take: fn(&mut Reader<'_>) -> T) -> Result<T, ConfigError> {
    let mut reader = Reader::new(environment);
    let config = take(&mut reader);
    if reader.faults.is_empty() { Ok(config) } else { Err(ConfigError(reader.faults)) }
}

/// Reads variables and collects errors.
struct Reader<'a> {
    environment: &'a Environment,
    names: BTreeSet<&'static str>,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(environment: &'a Environment) -> Self {
        Self { environment, names: BTreeSet::new(), faults: Vec::new() }
    }

    fn optional(&mut self, name: &'static str) -> Option<String> {
        self.names.insert(name);
        self.environment.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Hashes between commas.
    fn proof_hashes(&mut self, name: &'static str) -> Vec<[u8; 32]> {
        let Some(text) = self.optional(name) else { return Vec::new() };
        let hash = |word: &str| {
            let mut bytes = [0; 32];
            hex::decode_to_slice(word, &mut bytes).ok().map(|()| bytes)
        };
        match text.split(',').map(hash).collect::<Option<Vec<_>>>() {
            Some(hashes) if hashes.len() <= EDGE_PROOFS_MAX => hashes,
            _ => {
                self.faults.push(format!(
                    "{name} must be one or {EDGE_PROOFS_MAX} SHA-256 hashes in hexadecimal, separated by a comma"
                ));
                Vec::new()
            }
        }
    }

    /// Without the proof, clients could spoof the address header.
    fn check_edge(&mut self, edge: &EdgeConfig) {
        if let Some(name) = &edge.client_address_header {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if edge.proof_hashes.is_empty() || !name.chars().all(is_plain) {
                self.faults.push(
                    "HOOKONCE_CLIENT_ADDRESS_HEADER must be a header's name in lower case, and needs \
                     HOOKONCE_EDGE_PROOF_HASHES"
                        .to_owned(),
                );
            }
        }
    }

    fn required(&mut self, name: &'static str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.faults.push(format!("{name} is not set"));
            String::new()
        })
    }

    fn table(&mut self, name: &'static str) -> String {
        let table = self.required(name);
        if !table.is_empty() && !is_table_name(&table) {
            self.faults.push(format!("{name} must be the name of a table, not its ARN"));
        }
        table
    }

    fn common(&mut self) -> Common {
        let common = Common {
            inbox_table: self.table("HOOKONCE_INBOX_TABLE"),
            domain_table: self.table("HOOKONCE_DOMAIN_TABLE"),
            documents: self.documents("HOOKONCE_DOCUMENTS"),
            queue_url: self.required("HOOKONCE_QUEUE_URL"),
            log: self.log(),
            metrics_namespace: self.optional("HOOKONCE_METRICS_NAMESPACE").unwrap_or_else(|| "hookonce".to_owned()),
            timing: self.timing(),
        };
        self.faults.extend(common.timing.violations().iter().map(ToString::to_string));
        common
    }

    fn log(&mut self) -> LevelFilter {
        self.optional("HOOKONCE_LOG").unwrap_or_else(|| "info".to_owned()).parse().unwrap_or_else(|_| {
            self.faults.push("HOOKONCE_LOG must be off, error, warn, info, debug or trace".to_owned());
            LevelFilter::INFO
        })
    }

    /// The protocol's durations, which are constants. Only a test changes some: pairs of a name and milliseconds.
    fn timing(&mut self) -> Timing {
        let mut timing = Timing::standard();
        for pair in self.optional("HOOKONCE_TEST_TIMING").iter().flat_map(|text| text.split(',')) {
            let (name, millis) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "claim_timeout" => Some(&mut timing.claim_timeout),
                "send_timeout" => Some(&mut timing.send_timeout),
                "webhook_timeout" => Some(&mut timing.webhook_timeout),
                "provider_timeout" => Some(&mut timing.provider_timeout),
                "first_resend" => Some(&mut timing.first_resend),
                _ => None,
            };
            match (place, millis.parse()) {
                (Some(place), Ok(millis)) => *place = Millis(millis),
                _ => self.faults.push(format!("HOOKONCE_TEST_TIMING has no duration `{name}` in milliseconds")),
            }
        }
        timing
    }

    fn documents(&mut self, name: &'static str) -> DocumentsLocation {
        let text = self.required(name);
        DocumentsLocation::parse(&text).unwrap_or_else(|| {
            let fault = format!("{name} must be table:NAME or file:FOLDER");
            self.faults.extend((!text.is_empty()).then_some(fault));
            DocumentsLocation::Folder(PathBuf::new())
        })
    }

    fn own_tables(&mut self, text: &str, common: &Common) -> OwnTables {
        own_tables(text, [&common.inbox_table, &common.domain_table, common.documents.table().unwrap_or_default()])
            .unwrap_or_else(|faults| {
                self.faults.extend(faults.into_iter().map(|fault| format!("HOOKONCE_TABLES: {fault}")));
                OwnTables::new()
            })
    }
}

#[cfg(test)]
mod tests {
    use hookonce_protocol::place::TableAlias;

    use super::*;
    use crate::handlers::tables::OWN_TABLES_MAX;

    /// A complete environment with these variables beside the others, or instead of them.
    fn complete_with(changes: &[(&str, &str)]) -> Environment {
        let complete = [
            ("HOOKONCE_INBOX_TABLE", "inbox"),
            ("HOOKONCE_DOMAIN_TABLE", "domain"),
            ("HOOKONCE_QUEUE_URL", "http://127.0.0.1:1/queue"),
            ("HOOKONCE_EFFECTS_QUEUE_URL", "http://127.0.0.1:1/effects"),
            ("HOOKONCE_SLOW_QUEUE_URL", "http://127.0.0.1:1/slow"),
            ("HOOKONCE_DOCUMENTS", "table:documents"),
            ("PATH", "/bin"),
        ];
        let all = complete.iter().chain(changes);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_complete_environment_is_read() {
        let config = WebhookConfig::read(&complete_with(&[])).unwrap();
        assert_eq!(config.common.documents, DocumentsLocation::Table("documents".to_owned()));
        assert_eq!(config.common.timing, Timing::standard());
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let mut environment = complete_with(&[
            ("HOOKONCE_DOCUMENTS", "ssm:/no-table/"),
            ("HOOKONCE_LOG", "verbose"),
            ("HOOKONCE_TEST_TIMING", "webhook_timeout=3000,first_resend=soon,attempts_max=3"),
        ]);
        environment.remove("HOOKONCE_QUEUE_URL");
        let ConfigError(faults) = DispatcherConfig::read(&Environment::new()).unwrap_err();
        for expected in ["HOOKONCE_EFFECTS_QUEUE_URL is not set", "HOOKONCE_DOCUMENTS is not set"] {
            assert!(faults.iter().any(|fault| fault == expected), "{expected} not in {faults:?}");
        }
        let ConfigError(faults) = WebhookConfig::read(&environment).unwrap_err();
        for expected in [
            "HOOKONCE_QUEUE_URL is not set",
            "HOOKONCE_DOCUMENTS must be table:NAME or file:FOLDER",
            "HOOKONCE_LOG must be",
            "HOOKONCE_TEST_TIMING has no duration `first_resend` in milliseconds",
            "HOOKONCE_TEST_TIMING has no duration `attempts_max` in milliseconds",
            "the webhook timeout must be shorter than the provider's",
        ] {
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{expected} not in {faults:?}");
        }
    }

    /// Between the two calls with which a deployment changes a function, and in a roll-back.
    #[test]
    fn a_variable_of_another_release_is_named_and_not_refused() {
        let environment = complete_with(&[("HOOKONCE_ZZ_LATER", "1"), ("HOOKONCE_LOG", "warn"), ("OTHER_ZZ", "1")]);
        assert_eq!(unknown_variables(environment.keys()), ["HOOKONCE_ZZ_LATER"]);
        let webhook = WebhookConfig::read(&environment).map(drop);
        let (worker, relay) = (WorkerConfig::read(&environment).map(drop), RelayConfig::read(&environment).map(drop));
        let dispatcher = DispatcherConfig::read(&environment).map(drop);
        assert_eq!([webhook, worker, relay, dispatcher], [Ok(()), Ok(()), Ok(()), Ok(())]);
    }

    #[test]
    fn no_alias_stands_for_a_table_of_the_stack_or_of_another_alias() {
        let read = |tables: &str| {
            let read = WorkerConfig::read(&complete_with(&[("HOOKONCE_TABLES", tables)])).map(|config| config.tables);
            read.map_err(|ConfigError(faults)| faults.join("\n"))
        };
        assert_eq!(read(""), Ok(OwnTables::new()));
        let tables = read("orders=prod.Orders_1, stock=prod-stock").unwrap();
        let expected = [("orders", "prod.Orders_1"), ("stock", "prod-stock")];
        assert_eq!(tables, expected.map(|(alias, name)| (TableAlias::parse(alias).unwrap(), name.to_owned())).into());
        let taken = "stands for a table of the stack itself, or of another alias";
        for name in ["inbox", "Inbox", "domain", "DOMAIN", "documents", "Documents"] {
            assert_eq!(read(&format!("orders={name}")), Err(format!("HOOKONCE_TABLES: orders {taken}")), "{name}");
        }
        for other in ["prod-stock", "PROD-STOCK"] {
            assert_eq!(read(&format!("a=prod-stock,b={other}")), Err(format!("HOOKONCE_TABLES: b {taken}")), "{other}");
        }
        let faults = read(
            "orders,Bad=prod-orders,stock=a table,x=ab,y=arn:aws:dynamodb:eu-central-1:123456789012:table/abc,a=one,a=two",
        );
        let faults = faults.unwrap_err();
        for expected in [
            "`orders` must be ALIAS=TABLE",
            "`Bad` must have 1 to 32",
            "stock must be",
            "x must be",
            "y must be",
            "a stands for two",
        ] {
            assert!(faults.contains(expected), "{expected} not in {faults}");
        }
        assert!(read(&format!("orders={}", "t".repeat(255))).is_ok());
        assert!(read(&format!("orders={}", "t".repeat(256))).unwrap_err().contains("orders must be"));
        let many: Vec<_> = (0..=OWN_TABLES_MAX).map(|index| format!("t{index}=table-{index}")).collect();
        assert!(read(&many.join(",")).unwrap_err().contains("at most 20 tables"));
    }

    /// By its ARN, a table of the stack would have another name than the one that an alias is compared with.
    #[test]
    fn a_table_of_the_stack_is_given_by_its_name() {
        for name in ["HOOKONCE_INBOX_TABLE", "HOOKONCE_DOMAIN_TABLE"] {
            for (table, fits) in [
                ("prod.Inbox_1", true),
                ("arn:aws:dynamodb:eu-central-1:123456789012:table/inbox", false),
                ("an inbox", false),
            ] {
                let read = WorkerConfig::read(&complete_with(&[(name, table)]));
                let faults = read.map_or_else(|ConfigError(faults)| faults, |_| Vec::new());
                let expected = [format!("{name} must be the name of a table, not its ARN")];
                assert_eq!(faults, if fits { &[][..] } else { &expected[..] }, "{table}");
            }
        }
    }

    #[test]
    fn a_cdn_proves_itself_before_it_is_believed() {
        let read = |proofs: &str, header: &str| {
            let edge = [("HOOKONCE_EDGE_PROOF_HASHES", proofs), ("HOOKONCE_CLIENT_ADDRESS_HEADER", header)];
            let read = WebhookConfig::read(&complete_with(&edge));
            read.map(|config| config.edge).map_err(|ConfigError(faults)| faults.len())
        };
        assert_eq!(read("", ""), Ok(EdgeConfig::direct()));
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let edge = read(&format!("{one},{two}"), "x-client").unwrap();
        assert_eq!(
            (edge.proof_hashes.as_slice(), edge.client_address_header.as_deref()),
            (&[[0x11; 32], [0x22; 32]][..], Some("x-client"))
        );
        for proofs in
            ["the-proof-itself", &one[2..], &format!("{one},{two},{one}"), &format!("{one},"), &format!("{one} {two}")]
        {
            assert_eq!(read(proofs, ""), Err(1), "{proofs}");
        }
        assert_eq!(read("", "x-client"), Err(1), "anybody can write a header");
        assert_eq!(read(&one, "X-Client"), Err(1));
    }

    #[test]
    fn every_variable_that_is_read_is_listed_and_the_other_way_round() {
        let environment = complete_with(&[]);
        let mut reader = Reader::new(&environment);
        let (webhook, relay) = (WebhookConfig::take(&mut reader), RelayConfig::take(&mut reader));
        let (worker, dispatcher) = (WorkerConfig::take(&mut reader), DispatcherConfig::take(&mut reader));
        assert!(reader.faults.is_empty(), "{webhook:?} {relay:?} {worker:?} {dispatcher:?}");
        assert_eq!(reader.names, VARIABLES.iter().copied().collect());
    }
}
