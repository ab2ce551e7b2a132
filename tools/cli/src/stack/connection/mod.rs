//! The stack that a command acts on: the one that runs on this machine, or a named one on AWS. A connection looks for
//! it when a command first needs a part of it, and only once: an account answers a few such questions a second.

mod deployed;
mod local;
mod outputs;
mod parts;

use hookonce_aws::DynamoStore;
use hookonce_aws::{dynamodb_client, sqs_client};
use hookonce_local::clients;
use hookonce_runtime::handlers::tables::OwnTables;

use crate::failure::Failure;
use crate::stack::account::CALL_MAX;
use crate::stack::meter::{Metering, counted};
use crate::stack::target::{DataFolder, Place, Target};

pub(crate) use self::deployed::Deployed;
pub(crate) use self::local::{Local, RunningStack};
pub(crate) use self::outputs::{FunctionNames, Outputs, check_name};
pub(crate) use self::parts::{OWN_VERSION, StackParts, is_earlier};

/// The copies of a stack's tables that a restore made.
#[derive(Debug)]
struct RestoredTables {
    inbox: String,
    /// `None` if no copy of the domain table is named.
    domain: Option<String>,
}

impl RestoredTables {
    /// Both names. That of the domain table is empty if none is named, and never that of the stack's own beside another
    /// inbox table.
    fn names(&self, parts: &StackParts) -> Result<(String, String), Failure> {
        let (inbox, domain) = (self.inbox.clone(), self.domain.clone().unwrap_or_default());
        if inbox == parts.inbox_table || domain != parts.domain_table {
            return Ok((inbox, domain));
        }
        Err(Failure::usage(
            format!("{inbox} is a copy of the stack's inbox table, but {domain} is its live domain table"),
            "name the copy of the domain table that was restored with it: docs/run/runbook.md",
        ))
    }
}

/// The stack that a command acts on.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The folder of the stack on this machine.
    pub(crate) folder: DataFolder,
    restored: Option<RestoredTables>,
    side: Side,
}

#[derive(Debug)]
enum Side {
    Local(Box<Local>),
    Deployed(Box<Deployed>),
}

impl DataFolder {
    /// The stack of this folder. Nothing is read yet.
    pub(crate) fn connect(&self) -> Connection {
        Connection { folder: self.clone(), restored: None, side: Side::Local(Box::new(Local::of(self))) }
    }
}

impl Place {
    /// The named stack, or the one of the folder. Nothing is read yet.
    pub(crate) fn connect(&self) -> Connection {
        let here = self.folder().connect();
        match self.deployed() {
            None => here,
            Some(name) => Connection { side: Side::Deployed(Box::new(Deployed::named(name))), ..here },
        }
    }
}

impl Target {
    /// The same, with the restored tables in place of the stack's own if they are named.
    pub(crate) fn connect(&self) -> Connection {
        let restored = self.table.clone().map(|inbox| RestoredTables { inbox, domain: self.domain_table.clone() });
        Connection { restored, ..self.place.connect() }
    }
}

impl Connection {
    /// The stack on this machine. `None` if one on AWS is named.
    pub(crate) fn local(&self) -> Option<&Local> {
        match &self.side {
            Side::Local(local) => Some(local),
            Side::Deployed(_) => None,
        }
    }

    /// The stack on AWS. `None` if none is named.
    pub(crate) fn deployed(&self) -> Option<&Deployed> {
        match &self.side {
            Side::Local(_) => None,
            Side::Deployed(deployed) => Some(deployed),
        }
    }

    /// Whether it is a restored copy of a stack's tables, which has no queue, no functions and no alarms.
    pub(crate) fn is_copy(&self) -> bool {
        self.restored.is_some()
    }

    /// Whether the domain table is known. Without it, a command shows only what the inbox table holds.
    pub(crate) fn knows_domain(&self) -> bool {
        self.restored.as_ref().is_none_or(|restored| restored.domain.is_some())
    }

    /// What the stack consists of.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, or AWS does not answer.
    pub(crate) async fn parts(&self) -> Result<&StackParts, Failure> {
        match &self.side {
            Side::Local(local) => Ok(&local.running()?.parts),
            Side::Deployed(deployed) => Ok(&deployed.outputs().await?.parts),
        }
    }

    /// The user tables.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, AWS does not answer, or the stack's list of them is faulty.
    pub(crate) async fn tables(&self) -> Result<OwnTables, Failure> {
        match &self.side {
            Side::Local(local) => Ok(local.running()?.tables.clone()),
            Side::Deployed(deployed) => deployed.outputs().await?.own_tables(),
        }
    }

    /// The tables. A restored copy may have no domain table.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, or AWS does not answer.
    pub(crate) async fn store(&self) -> Result<DynamoStore, Failure> {
        let tables = self.tables().await?;
        let parts = self.parts().await?;
        let (inbox, domain) = match &self.restored {
            Some(restored) => restored.names(parts)?,
            None => (parts.inbox_table.clone(), parts.domain_table.clone()),
        };
        let client = match &self.side {
            Side::Local(local) => clients::dynamodb(&local.running()?.dynamodb_url),
            Side::Deployed(deployed) => dynamodb_client(deployed.account().await?, CALL_MAX),
        };
        // A page says what it cost.
        Ok(DynamoStore::new(counted(&client), inbox, domain).with_tables(tables))
    }

    /// The same for what also needs the domain table.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, or a copy is named without its domain table.
    pub(crate) async fn whole_store(&self) -> Result<DynamoStore, Failure> {
        if !self.knows_domain() {
            return Err(Failure::usage(
                "this also needs the domain table",
                "pass --domain-table NAME: the copy that was restored with --table",
            ));
        }
        self.store().await
    }

    /// A client for the queues.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running.
    pub(crate) async fn sqs(&self) -> Result<aws_sdk_sqs::Client, Failure> {
        match &self.side {
            Side::Local(local) => Ok(clients::sqs(&local.running()?.sqs_url)),
            Side::Deployed(deployed) => {
                let client = sqs_client(deployed.account().await?, CALL_MAX);
                Ok(aws_sdk_sqs::Client::from_conf(client.config().to_builder().interceptor(Metering).build()))
            }
        }
    }

    /// The address of its endpoints, up to their ids.
    ///
    /// # Errors
    /// [`Failure`] when no stack is named or running, or AWS does not answer.
    pub(crate) async fn webhook_url(&self) -> Result<String, Failure> {
        match &self.side {
            Side::Local(local) => Ok(format!("{}/webhooks/", local.running()?.url)),
            Side::Deployed(deployed) => Ok(deployed.outputs().await?.webhook_url.clone()),
        }
    }

    /// The caller's AWS identity. `None` on this machine, where nobody signs in.
    ///
    /// # Errors
    /// [`Failure`] when AWS rejects the credentials or does not answer.
    pub(crate) async fn caller(&self) -> Result<Option<String>, Failure> {
        match &self.side {
            Side::Local(_) => Ok(None),
            Side::Deployed(deployed) => deployed.caller().await.map(Some),
        }
    }
}
