//! The route set of a stack: a file of the local one, parameters of a deployed one.

use std::collections::BTreeSet;

#[cfg(feature = "aws")]
use error_reporter::Report;
use hookonce_protocol::place::TableAlias;
#[cfg(feature = "aws")]
use hookonce_runtime::aws::{SsmRoutes, ssm_client};
use hookonce_runtime::drive::duration;
use hookonce_runtime::route::{Fetched, Missing, Offered, RouteFile, RouteSet, RouteSource as _};
use hookonce_runtime::tables::aliases;
use serde_json::json;

#[cfg(feature = "aws")]
use crate::account::{CALL_MAX, signed_in};
use crate::documents::Place;
use crate::failure::Failure;
#[cfg(feature = "aws")]
use crate::outputs::Outputs;
use crate::target::{DataFolder, Target, text};
use crate::{handlers, output};

/// The text of a stack's route set. `None` if it has none. A stack that is named by its tables is taken to have none.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub(crate) async fn text_of(target: &Target) -> Result<Option<String>, Failure> {
    match &target.stack {
        Some(stack) => deployed(stack).await,
        None if target.table.is_some() => Ok(None),
        None => local(&target.folder),
    }
}

/// The text of the local route set. `None` if there is none.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be read.
pub(crate) fn local(folder: &DataFolder) -> Result<Option<String>, Failure> {
    let path = folder.routes();
    if path.exists() { text(&path).map(Some) } else { Ok(None) }
}

/// Why workers refuse the local route set, with its file. `None` if there is none, or they take it.
pub(crate) fn refusal(folder: &DataFolder) -> Option<String> {
    let offered = Offered { handlers: &handlers::all().names(), urls: true, tables: None };
    let error = RouteSet::parse(&local(folder).ok()??, offered).err()?;
    Some(format!("the route set {} is refused, so all events wait: {error}", folder.routes().display()))
}

/// Prints what becomes of the local route set: at once, and whenever its file changes.
pub(crate) async fn watch(folder: DataFolder, tables: BTreeSet<TableAlias>, as_json: bool) {
    let (path, file) = (folder.routes(), RouteFile::new(folder.routes()));
    let print = |state: &str, why: Vec<String>| {
        if as_json {
            output::json_line(&json!({ "what": "routes", "file": path, "state": state, "why": why }));
        } else {
            let line = std::iter::once(format!("routes {state}: {}", path.display())).chain(why);
            output::line(&line.collect::<Vec<_>>().join("; "));
        }
    };
    let mut held = None;
    loop {
        // A file that cannot be read is in the worker's log.
        match file.fetch(held.as_deref()).await {
            Ok(Fetched::Unchanged) | Err(_) => {}
            Ok(Fetched::Absent) if held.take().is_none() => {}
            Ok(Fetched::Absent) => print("gone", vec!["nothing takes the place of the set".to_owned()]),
            Ok(Fetched::Text { version, text }) => {
                let offered = Offered { handlers: &handlers::all().names(), urls: true, tables: Some(&tables) };
                match RouteSet::parse(&text, offered) {
                    Ok(set) => {
                        let waits =
                            |Missing { route, what }: &Missing| format!("events of the route {route} wait: {what}");
                        print("in use", set.missing().map(waits).collect());
                    }
                    Err(error) => print("refused", vec![error.to_string(), "all events wait".to_owned()]),
                }
                held = Some(version);
            }
        }
        tokio::time::sleep(duration(file.pause())).await;
    }
}

/// The aliases of the user tables that a stack has. `None` for a local one that does not run, which nobody can ask.
///
/// # Errors
/// [`Failure`] when the stack is not found, or its list is faulty.
pub(crate) async fn tables_of(place: &Place) -> Result<Option<BTreeSet<TableAlias>>, Failure> {
    match &place.stack {
        Some(stack) => deployed_tables(stack).await.map(Some),
        None => Ok(place.folder.running().ok().map(|running| aliases(&running.tables))),
    }
}

#[cfg(feature = "aws")]
async fn deployed_tables(stack: &str) -> Result<BTreeSet<TableAlias>, Failure> {
    Ok(aliases(&Outputs::of(&signed_in().await?, stack).await?.own_tables()?))
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "async only with the feature `aws`")]
async fn deployed_tables(_: &str) -> Result<BTreeSet<TableAlias>, Failure> {
    Err(crate::target::without_aws())
}

/// The route set of a deployed stack.
#[cfg(feature = "aws")]
pub(crate) async fn routes_of(stack: &str) -> Result<SsmRoutes, Failure> {
    let config = signed_in().await?;
    Ok(SsmRoutes::new(ssm_client(&config, CALL_MAX), format!("/hookonce/{stack}/routes")))
}

/// The text of the route set of a deployed stack. `None` if it has none.
#[cfg(feature = "aws")]
pub(crate) async fn deployed(stack: &str) -> Result<Option<String>, Failure> {
    match routes_of(stack).await?.fetch(None).await {
        Ok(Fetched::Text { text, .. }) => Ok(Some(text)),
        Ok(Fetched::Absent | Fetched::Unchanged) => Ok(None),
        Err(error) => Err(Failure::unavailable(
            Report::new(&error).to_string(),
            format!("check the permission ssm:GetParameters on /hookonce/{stack}/routes*, the region and the network"),
        )),
    }
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn deployed(_: &str) -> Result<Option<String>, Failure> {
    Err(crate::target::without_aws())
}
