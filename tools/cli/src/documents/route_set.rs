//! The route set of a stack: a file of the local one, an item of a deployed one.

use std::collections::BTreeSet;

use hookonce_protocol::place::TableAlias;
use hookonce_runtime::documents::file;
use hookonce_runtime::documents::{DocumentKind, ROUTE_SET_ID};
use hookonce_runtime::handlers::tables::aliases;
use hookonce_runtime::routes::{BUILTIN_SET, Missing, Offered, RouteSet};

use crate::dev::handlers;
use crate::documents::{StackDocuments, WATCH_PERIOD, failed, print_state};
use crate::failure::Failure;
use crate::stack::connection::Connection;
use crate::stack::connection::Deployed;
use crate::stack::target::{DataFolder, text};

/// The text of the set that a stack routes by. `None` if it is deployed and has none: its events wait.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub(crate) async fn text_of(stack: &Connection) -> Result<Option<String>, Failure> {
    let text = stored(stack).await?;
    Ok(if stack.local().is_some() { text.or_else(|| Some(BUILTIN_SET.to_owned())) } else { text })
}

/// The text of the set that was written for a stack. `None` if none was.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub(crate) async fn stored(stack: &Connection) -> Result<Option<String>, Failure> {
    if let Some(deployed) = stack.deployed() {
        return deployed_text(deployed).await;
    }
    local(&stack.folder)
}

async fn deployed_text(stack: &Deployed) -> Result<Option<String>, Failure> {
    let documents = StackDocuments::open(stack).await?;
    let found = documents.table.get(DocumentKind::Routes, ROUTE_SET_ID).await;
    Ok(found.map_err(|error| failed(&error))?.map(|found| found.text))
}

/// The text of the local route set. `None` if there is none.
///
/// # Errors
/// [`Failure::Usage`] when it cannot be read.
pub(crate) fn local(folder: &DataFolder) -> Result<Option<String>, Failure> {
    let path = folder.routes();
    if path.exists() { text(&path).map(Some) } else { Ok(None) }
}

/// Why no worker of a stack takes its route set, so that all events wait. `None` if they take it, or a local stack has none.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub(crate) async fn refusal(stack: &Connection) -> Result<Option<String>, Failure> {
    let (set, file) = match stack.local() {
        Some(_) => (local(&stack.folder).ok().flatten(), format!(" {}", stack.folder.routes().display())),
        None => (stored(stack).await?, String::new()),
    };
    let Some(set) = set else {
        return Ok(stack.deployed().map(|_| "there is no route set, so all events wait".to_owned()));
    };
    // What a worker lacks is no fault of the set.
    let offered = Offered { handlers: &handlers::of(stack).names(), urls: stack.local().is_some(), tables: None };
    let refused = |error| format!("the route set{file} is refused, so all events wait: {error}");
    Ok(RouteSet::parse(&set, offered).err().map(refused))
}

/// Prints what becomes of the local route set: at once, and whenever its file changes.
pub(crate) async fn watch(folder: DataFolder, tables: BTreeSet<TableAlias>, as_json: bool) {
    let path = folder.routes();
    let print = |state: &str, why| print_state("routes", &path, state, why, as_json);
    let mut held: Option<String> = None;
    loop {
        // A file that cannot be read is in the worker's log.
        match file::read(&path) {
            Ok(text) if text == held => {}
            Err(_) => {}
            Ok(None) => {
                print("gone", vec!["nothing takes the place of the set".to_owned()]);
                held = None;
            }
            Ok(Some(text)) => {
                let offered = Offered { handlers: &handlers::local().names(), urls: true, tables: Some(&tables) };
                match RouteSet::parse(&text, offered) {
                    Ok(set) => {
                        let waits =
                            |Missing { route, what }: &Missing| format!("events of the route {route} wait: {what}");
                        print("in use", set.missing().map(waits).collect());
                    }
                    Err(error) => print("refused", vec![error.to_string(), "all events wait".to_owned()]),
                }
                held = Some(text);
            }
        }
        tokio::time::sleep(WATCH_PERIOD).await;
    }
}

/// The aliases of the user tables that a stack has. `None` for a local one that does not run, which nobody can ask.
///
/// # Errors
/// [`Failure`] when the stack is not found, or its list is faulty.
pub(crate) async fn tables_of(stack: &Connection) -> Result<Option<BTreeSet<TableAlias>>, Failure> {
    match stack.tables().await {
        Ok(tables) => Ok(Some(aliases(&tables))),
        Err(_) if stack.local().is_some() => Ok(None),
        Err(failure) => Err(failure),
    }
}
