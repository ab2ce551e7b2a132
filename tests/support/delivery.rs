//! Deliveries as providers make them, and the gateway events that carry them.

use std::net::{IpAddr, Ipv4Addr};

use hookonce_local::gateway::event::{Arrival, http_event};
use hookonce_protocol::time::EpochSec;
use hookonce_providers::{Catalog, Provider, UnsignedRequest};
use serde_json::Value;
use uuid::Uuid;

use super::clock::Clock;

/// The secret of an endpoint of this provider, in the form that the provider hands out.
pub(crate) fn secret(provider: &str) -> &'static str {
    match provider {
        // `whsec_` and 27 bytes in base64.
        "standard_webhooks" | "svix" => "whsec_TEVBS01FTk9UTEVBS01FTk9UTEVBS01FTk9U",
        "stripe" => "whsec_LEAKMENOT_stripe",
        _ => "LEAKMENOT-shared-secret",
    }
}

/// A delivery: who sends what to which endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) endpoint: String,
    pub(crate) provider: &'static Provider,
    pub(crate) secret: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Delivery {
    /// A delivery of this provider to the endpoint of the same name.
    pub(crate) fn new(provider: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            endpoint: provider.to_owned(),
            provider: Catalog::built_in().provider(provider).unwrap(),
            secret: secret(provider).to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: body.into(),
        }
    }

    /// The same with one more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same to another endpoint.
    pub(crate) fn to(mut self, endpoint: &str) -> Self {
        endpoint.clone_into(&mut self.endpoint);
        self
    }

    /// The same signed with another secret.
    pub(crate) fn signed_with(mut self, secret: &str) -> Self {
        secret.clone_into(&mut self.secret);
        self
    }

    fn path(&self) -> String {
        format!("/webhooks/{}", self.endpoint)
    }

    /// The headers of the request once it is signed at this moment.
    pub(crate) fn signed_headers(&self, at: EpochSec) -> Vec<(String, String)> {
        let url = format!("https://hooks.example.com{}", self.path());
        let unsigned = UnsignedRequest { method: "POST", url: &url, headers: &self.headers, body: &self.body };
        let signed = self.provider.sign_request(&unsigned, &self.secret, at).unwrap();
        assert_eq!(signed.body, self.body, "no provider here signs inside the body");
        self.headers.iter().cloned().chain(signed.headers).collect()
    }

    /// The gateway event of the request, signed at this moment and sent now.
    pub(crate) fn event_signed_at(&self, at: EpochSec, clock: &Clock) -> Value {
        self.event_with(&self.signed_headers(at), &self.body, clock)
    }

    /// The gateway event of the request, signed and sent now.
    pub(crate) fn event(&self, clock: &Clock) -> Value {
        self.event_signed_at(clock.seconds(), clock)
    }

    /// The gateway event of a request to the same path with these headers and this body.
    pub(crate) fn event_with(&self, headers: &[(String, String)], body: &[u8], clock: &Clock) -> Value {
        gateway_event("POST", &self.path(), headers, body, clock)
    }
}

/// The event that an HTTP API makes of a request.
pub(crate) fn gateway_event(
    method: &str,
    path_and_query: &str,
    headers: &[(String, String)],
    body: &[u8],
    clock: &Clock,
) -> Value {
    let request = http::Request::builder().method(method).uri(path_and_query).header("host", "hooks.example.com");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let arrival = Arrival {
        request_id: Uuid::from_u128(7),
        at: clock.system_time(),
        source_ip: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)),
        port: 443,
    };
    http_event(&parts, body, &arrival).unwrap()
}
