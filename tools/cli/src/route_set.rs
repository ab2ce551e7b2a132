//! The route set of a stack: a file of the local one, parameters of a deployed one.

use std::collections::BTreeSet;

#[cfg(feature = "aws")]
use error_reporter::Report;
use hookonce_protocol::place::TableAlias;
#[cfg(feature = "aws")]
use hookonce_runtime::aws::{SsmRoutes, ssm_client};
#[cfg(feature = "aws")]
use hookonce_runtime::route::{Fetched, RouteSource as _};
use hookonce_runtime::tables::aliases;

#[cfg(feature = "aws")]
use crate::account::{CALL_MAX, signed_in};
use crate::documents::Place;
use crate::failure::Failure;
#[cfg(feature = "aws")]
use crate::outputs::Outputs;
use crate::target::{DataFolder, Target, text};

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
