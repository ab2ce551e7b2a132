//! What stands in front of the gateway: a CDN that proves itself and names the caller, or nothing.
//!
//! The gateway cannot know whether a request came through the CDN: its address is public. So the CDN adds a secret to
//! each request, and what lacks it is refused before anything else happens.

use std::net::{IpAddr, Ipv6Addr};

use hookonce_runtime::config::{EdgeConfig, proof_hash};
use subtle::{Choice, ConstantTimeEq as _};

use crate::answer::Denial;
use crate::gateway::{Inbound, last_address};

/// The header in which the CDN proves itself.
pub const PROOF_HEADER: &str = "x-origin-proof";

/// Checks that a request came through the CDN, if there is one, and takes the caller's address from it. The proof goes
/// no further.
///
/// # Errors
/// [`Denial::NotThroughEdge`] for a request without a proof.
pub fn admit(edge: &EdgeConfig, inbound: &mut Inbound) -> Result<(), Denial> {
    if edge.proof_hashes.is_empty() {
        return Ok(());
    }
    if !single(inbound, PROOF_HEADER).is_some_and(|given| is_among(given, &edge.proof_hashes)) {
        return Err(Denial::NotThroughEdge);
    }
    if let Some(name) = &edge.client_address_header {
        inbound.source = single(inbound, name).and_then(|value| str::from_utf8(value).ok()).and_then(address);
    }
    inbound.headers.retain(|(name, _)| name != PROOF_HEADER);
    Ok(())
}

/// Compares with every hash, each in constant time, so that the time tells nothing about them.
fn is_among(given: &[u8], hashes: &[[u8; 32]]) -> bool {
    let given = proof_hash(given);
    hashes.iter().fold(Choice::from(0), |found, hash| found | hash.ct_eq(&given)).into()
}

/// The value of a header that comes once.
fn single<'a>(inbound: &'a Inbound, name: &str) -> Option<&'a [u8]> {
    let mut values = inbound.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_slice());
    values.next().filter(|_| values.next().is_none())
}

/// One address, with or without a port. A list is no address: it also holds what the caller claims to be.
///
/// A shortened `IPv6` address with a port and without brackets may be an address itself: `2001:db8::5:4653`. It is read
/// as one, because a CDN that sends plain addresses sends such texts, too, and the other reading would cut off their
/// last group.
fn address(value: &str) -> Option<IpAddr> {
    if value.contains(',') {
        return None;
    }
    last_address(value).or_else(|| full_address(value).map(IpAddr::from))
}

/// The `IPv6` address of eight groups before a port. `CloudFront` writes that port behind one more colon, without
/// brackets.
fn full_address(value: &str) -> Option<Ipv6Addr> {
    let (address, port) = value.rsplit_once(':')?;
    let full = address.split(':').filter(|group| !group.is_empty()).count() == 8 && port.parse::<u16>().is_ok();
    if full { address.parse().ok() } else { None }
}
