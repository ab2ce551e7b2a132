//! Why an endpoint refused its latest request, as far as the stack on this machine keeps such.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::EpochMs;
use maud::{Markup, html};

use super::Site;
use super::layout::{Tab, Trouble, count, page, sentence, time};
use super::send::why;
use crate::command::verify::{LatestRefusal, stranger};
use crate::documents::parse_id;
use crate::failure::Failure;
use crate::output::{self, hints};
use crate::stack::meter::Cost;

pub(super) async fn show(State(site): State<Arc<Site>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    match content(&site, query.get("endpoint").map_or("", String::as_str)).await {
        Ok(content) => page(&site, Tab::Now, "The latest refusal", Cost::default(), &content).into_response(),
        Err(failure) => Trouble::from(failure).page(&site, Tab::Now),
    }
}

async fn content(site: &Site, id: &str) -> Result<Markup, Failure> {
    let endpoint: EndpointId = parse_id(id)?;
    let LatestRefusal { request, explanation, unknown_credentials } =
        LatestRefusal::of(&site.connection.folder, &endpoint).await?;
    let bytes = u64::try_from(request.body.len()).unwrap_or(u64::MAX);
    Ok(html! {
        h1 { "The latest refusal at " (endpoint) }
        p.note {
            "It came at " (time(EpochMs(request.now.0.saturating_mul(1_000)))) ", with a body of " (count(bytes, "byte", "bytes")) "."
        }
        (why(&explanation))
        @for credential in &unknown_credentials { p.note { (sentence(&output::shown(&stranger(credential)))) } }
        p.small.note { code { (hints::command(&["hookonce", "verify", "--last", "--endpoint", endpoint.as_str()], "")) } }
    })
}
