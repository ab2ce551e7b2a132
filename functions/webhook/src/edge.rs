//! What stands in front of the gateway: a CDN that proves itself and names the caller, or nothing.
//!
//! The gateway cannot know whether a request came through the CDN: its address is public. So the CDN adds a secret to each
//! request, and what lacks it is refused before anything else happens.

use std::net::{IpAddr, Ipv6Addr};

use hookonce_runtime::config::EdgeConfig;
use subtle::{Choice, ConstantTimeEq as _};

use crate::answer::Denial;
use crate::gateway::{Inbound, last_address};

/// The header in which the CDN proves itself.
pub const PROOF_HEADER: &str = "x-edge-proof";

/// Checks that a request came through the CDN, if there is one, and takes the caller's address from it. The proof goes no
/// further.
///
/// # Errors
/// [`Denial::NotThroughEdge`] for a request without a proof.
pub fn admit(edge: &EdgeConfig, inbound: &mut Inbound) -> Result<(), Denial> {
    if edge.proofs.is_empty() {
        return Ok(());
    }
    if !single(inbound, PROOF_HEADER).is_some_and(|given| is_among(given, &edge.proofs)) {
        return Err(Denial::NotThroughEdge);
    }
    if let Some(name) = &edge.client_address_header {
        inbound.source = single(inbound, name).and_then(|value| str::from_utf8(value).ok()).and_then(address);
    }
    inbound.headers.retain(|(name, _)| name != PROOF_HEADER);
    Ok(())
}

/// Compares with every proof, so that the time says nothing about either.
fn is_among(given: &[u8], proofs: &[String]) -> bool {
    proofs.iter().fold(Choice::from(0), |found, proof| found | proof.as_bytes().ct_eq(given)).into()
}

/// The value of a header that comes once.
fn single<'a>(inbound: &'a Inbound, name: &str) -> Option<&'a [u8]> {
    let mut values = inbound.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_slice());
    values.next().filter(|_| values.next().is_none())
}

/// One address, with or without a port. A list says who the caller claims to be, too, so it counts as none.
fn address(value: &str) -> Option<IpAddr> {
    if value.contains(',') {
        return None;
    }
    // CloudFront writes the port of an IPv6 address behind one more colon, without brackets.
    let without_port = || value.rsplit_once(':').and_then(|(address, _)| address.parse::<Ipv6Addr>().ok());
    let whole = last_address(value);
    match (&whole, without_port()) {
        (Some(IpAddr::V6(_)), _) | (Some(IpAddr::V4(_)), None) | (None, None) => whole,
        (_, Some(address)) => Some(address.into()),
    }
}
