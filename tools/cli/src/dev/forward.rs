//! `hookonce dev --forward URL`: the inbox in front of a service that exists, without a handler.
//!
//! It writes two documents: a destination that is called at least once, and a route set whose only route forwards every
//! event to it. A person may go on from both.

use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::destinations::{ClassName, DestinationDocument};
use reqwest::Url;
use serde_json::json;

use crate::documents::destinations::is_secret_address;
use crate::documents::route_set;
use crate::documents::{DocumentId as _, Folder, parse, parse_id, text_of};
use crate::failure::Failure;
use crate::output;
use crate::stack::target::{DataFolder, write_new};

/// The destination of the documents.
const DESTINATION: &str = "app";

/// What the folder has in the place of a document.
#[derive(Debug, PartialEq, Eq)]
enum DocumentState {
    Empty,
    Same,
    Taken,
}

impl DocumentState {
    fn of(found: Option<&String>, wanted: &str) -> Self {
        match found {
            None => Self::Empty,
            Some(found) if found.trim_end() == wanted => Self::Same,
            Some(_) => Self::Taken,
        }
    }
}

/// Writes the documents that forward every event to this address. A folder that has just these stays as it is.
///
/// # Errors
/// [`Failure::Usage`] when the address cannot be called, or the folder has a route set or a destination of its own.
pub(crate) fn set_up(folder: &DataFolder, url: &str) -> Result<(), Failure> {
    let id: DestinationId = parse_id(DESTINATION)?;
    if is_secret_address(url) {
        return Err(Failure::usage(
            "this address is or holds a secret, and every process of this machine can read a command line",
            format!(
                "run `hookonce destination add {DESTINATION} --url - --class at_least_once`, and list it in a route of {}",
                folder.routes().display()
            ),
        ));
    }
    let document = document(url)?;
    id.check(&document)?;
    let (document, set) = (text_of(&document), route_set_text());
    let destinations = Folder::<DestinationId>::of(folder);
    let stored = destinations.stored(&id)?.map(|stored| stored.text);
    let routes = DocumentState::of(route_set::local(folder)?.as_ref(), &set);
    let destination = DocumentState::of(stored.as_ref(), &document);
    if routes == DocumentState::Taken {
        // A command in backticks has none within.
        let url = output::word(url).filter(|url| !url.contains('`')).unwrap_or("-".into());
        return Err(Failure::usage(
            format!("{} exists, and --forward writes a route set only where there is none", folder.routes().display()),
            format!(
                "name another folder with --stack, or run `hookonce destination add {DESTINATION} --url {url} --class \
                 at_least_once --allow-private`, write \"forward\": [\"{DESTINATION}\"] into a route, and leave \
                 --forward out"
            ),
        ));
    }
    if destination == DocumentState::Taken {
        return Err(Failure::usage(
            format!("the destination {DESTINATION} is another one than {url}"),
            format!(
                "look at it: `hookonce destination show {DESTINATION}`; `hookonce destination remove {DESTINATION}` \
                     makes room, or leave --forward out"
            ),
        ));
    }
    // The destination comes first, so that no event finds a route to nowhere.
    if destination == DocumentState::Empty {
        write_new(&destinations.path(&id), &document)?;
    }
    if routes == DocumentState::Empty {
        write_new(&folder.routes(), &set)?;
    }
    output::note(&format!(
        "every event is forwarded to {url} by {} and {}; the inbox answers the provider, and calls until {url} answers 2xx",
        folder.routes().display(),
        destinations.path(&id).display(),
    ));
    Ok(())
}

fn document(url: &str) -> Result<DestinationDocument, Failure> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(parsed) = parsed else {
        return Err(Failure::usage(
            "--forward takes an address that begins with http:// or https://",
            "pass the address at which your service takes webhooks, such as http://127.0.0.1:3000/webhooks",
        ));
    };
    let is_here =
        matches!(parsed.host_str(), Some(name) if name == "localhost" || name.parse::<std::net::IpAddr>().is_ok());
    let is_private = parsed.scheme() == "http" || is_here;
    let document = json!({
        "kind": "http", "url": url, "class": ClassName::AtLeastOnce.as_str(), "allow_private": is_private,
    });
    parse::<DestinationId>("the destination", &document.to_string())
}

fn route_set_text() -> String {
    let route = json!({ "name": "everything", "consumer": DESTINATION, "forward": [DESTINATION] });
    let set = json!({ "version": 1, "otherwise": "dead", "routes": [route] });
    // Plain data always serialises.
    serde_json::to_string_pretty(&set).unwrap_or_default()
}
