//! `hookonce endpoint check`: validates documents as the webhook function does.

use std::collections::BTreeSet;

use hookonce_protocol::key::EndpointId;

use crate::documents::endpoints::check_tenant;
use crate::documents::{Check, Stored};
use crate::failure::{Exit, Failure};

pub(super) async fn run(arguments: Check) -> Result<Exit, Failure> {
    if let Some(exit) = arguments.file::<EndpointId>()? {
        return Ok(exit);
    }
    let stack = arguments.place.connect();
    let all = stack.all_documents::<EndpointId>().await?;
    let tenant_elsewhere = |(id, stored): (&EndpointId, &Stored)| {
        stored.document(id).ok()?.tenant.filter(|tenant| tenant.as_str() != id.as_str())
    };
    let tenants: BTreeSet<_> = all.iter().filter_map(tenant_elsewhere).collect();
    Ok(arguments.all(&all, |id, document| tenants.iter().try_for_each(|tenant| check_tenant(id, document, tenant))))
}
