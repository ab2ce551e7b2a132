//! The webhook function: takes a gateway event and returns a response.
//!
//! ```text
//! read the event ─▶ edge ─▶ endpoint ─▶ source, size ─▶ verify on the raw bytes ─▶ handshake | claim ─▶ hint ─▶ answer
//! ```
//! It has no business rules. It parses nothing before it has verified the raw bytes.

pub mod answer;
pub mod edge;
pub mod gateway;
mod start;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use answer::Denial;
use error_reporter::Report;
use gateway::{Inbound, Malformed, Outbound};
use hookonce_protocol::call::Signal;
use hookonce_protocol::ingress::IngressAnswer;
use hookonce_protocol::key::{EndpointId, RecordKey, Tenant};
use hookonce_providers::{
    Fallback, Fingerprint, HandshakeAnswer, Keyring, Received, Refusal, Request, VerifiedDelivery,
};
use hookonce_runtime::ambient::Ambient;
use hookonce_runtime::config::EdgeConfig;
use hookonce_runtime::deadline::{Deadline, LOOKUP_RESERVE};
use hookonce_runtime::documents::endpoint::{Endpoint, Endpoints};
use hookonce_runtime::documents::material::Materials;
use hookonce_runtime::inbox::ingest::{IngestError, IngressParts};
use hookonce_runtime::port::{MaterialSource, Queue, Store};
use hookonce_runtime::telemetry::{self, Counts, Telemetry};
use lambda_http::{LambdaEvent, Service};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::{Instrument as _, Span};

pub use {lambda_http::Error, start::run};

/// The path segment before the endpoint id.
pub const PATH_SEGMENT: &str = "webhooks";

/// The webhook function.
#[derive(Debug)]
pub struct WebhookFunction<S, Q, M, A> {
    ingress: IngressParts<S, Q, A>,
    endpoints: Endpoints,
    materials: Materials<M>,
    edge: EdgeConfig,
    telemetry: Telemetry,
}

impl<S: Store, Q: Queue, M: MaterialSource, A: Ambient> WebhookFunction<S, Q, M, A> {
    /// Creates the function from its parts.
    pub fn new(
        ingress: IngressParts<S, Q, A>,
        endpoints: Endpoints,
        materials: Materials<M>,
        edge: EdgeConfig,
        telemetry: Telemetry,
    ) -> Self {
        Self { ingress, endpoints, materials, edge, telemetry }
    }

    /// This function as a service that the Lambda runtime can run.
    pub fn service(
        self: Arc<Self>,
    ) -> impl Service<LambdaEvent<Box<RawValue>>, Response: Serialize + Send, Error = Infallible, Future: Send> {
        gateway::service(move |request| {
            let function = Arc::clone(&self);
            let id = request.as_ref().map_or("", |inbound| inbound.request_id.as_str());
            let span = tracing::error_span!("request", request.id = id, record.key = tracing::field::Empty);
            async move { function.handle(request).await }.instrument(span)
        })
    }

    /// Handles one event. Event and response are JSON, as in the Lambda service.
    pub async fn invoke(self: &Arc<Self>, event: Value) -> Value {
        gateway::call(Arc::clone(self).service(), event).await
    }

    async fn handle(&self, request: Result<Inbound, Malformed>) -> Outbound {
        let started = self.ingress.ambient.moment().now;
        let deadline = Deadline::of(&self.ingress.timing);
        let mut counts = Counts::default();
        let outbound = match self.answer(request, deadline, &mut counts).await {
            Ok(outbound) => outbound,
            Err(denial) => {
                let (status, code) = denial.parts();
                counts.add_coded(denial.metric(), 1, code);
                tracing::info!(status, code, "delivery not accepted");
                denial.outbound()
            }
        };
        let ended = self.ingress.ambient.moment().now;
        counts.set("delivery_duration_ms", ended.0.saturating_sub(started.0));
        self.telemetry.emit(&counts, ended);
        outbound
    }

    async fn answer(
        &self,
        request: Result<Inbound, Malformed>,
        deadline: Deadline,
        counts: &mut Counts,
    ) -> Result<Outbound, Denial> {
        let lookups = deadline.leaving(LOOKUP_RESERVE);
        let mut inbound = request.map_err(|Malformed| Denial::Malformed)?;
        counts.property("request_id", inbound.request_id.as_str());
        edge::admit(&self.edge, &mut inbound)?;
        let id = endpoint_id(&inbound.path).ok_or(Denial::UnknownEndpoint)?;
        let endpoint = self.endpoint(&id, lookups).await?;
        note_owner(&endpoint, counts);
        if !endpoint.allows_source(inbound.source) {
            return Err(Denial::SourceNotAllowed);
        }
        if inbound.body.len() > endpoint.body_bytes_max {
            return Err(too_large(&endpoint, inbound.body.len()));
        }
        let received = self.receive(endpoint, &inbound, lookups).await;
        let (endpoint, received) = received.inspect_err(|denial| note_mismatch(*denial, &inbound, counts))?;
        // A document that was fetched again may name another tenant.
        note_owner(&endpoint, counts);
        match received {
            Received::Handshake(handshake) => {
                self.confirm(&endpoint, &handshake, deadline).await?;
                counts.add("handshake_answered", 1);
                Ok(answer::handshake(handshake))
            }
            Received::Delivery(delivery) => self.deliver(&endpoint, &delivery, deadline, counts).await,
            Received::NeedsMaterial(needed) => {
                let retry = endpoint.provider.answers().retry_please;
                let is_proven = self.materials.is_proven(&needed);
                Err(if is_proven { Denial::MaterialUnavailable(retry) } else { Denial::MaterialUnknown(retry) })
            }
        }
    }

    async fn endpoint(&self, id: &EndpointId, deadline: Deadline) -> Result<Arc<Endpoint>, Denial> {
        match self.endpoints.get(id, self.ingress.ambient.moment().now, deadline).await {
            Ok(Some(endpoint)) => Ok(endpoint),
            Ok(None) => Err(Denial::UnknownEndpoint),
            Err(error) => {
                tracing::error!(endpoint.id = %id, error = %Report::new(&error), "endpoint lookup failed");
                Err(Denial::EndpointUnavailable)
            }
        }
    }

    /// Verifies the request. If no secret or scheme of the cached document fits, fetches the document and, if it
    /// changed, verifies once more, so that a secret rotation costs no deliveries until the cache expires.
    async fn receive(
        &self,
        endpoint: Arc<Endpoint>,
        inbound: &Inbound,
        deadline: Deadline,
    ) -> Result<(Arc<Endpoint>, Received), Denial> {
        match self.verify(&endpoint, inbound, deadline).await {
            Err(refusal @ (Refusal::SignatureMismatch | Refusal::SchemeNotTaken)) => {
                let now = self.ingress.ambient.moment().now;
                let refused = Denial::refused(refusal, endpoint.provider);
                let fresh = self.endpoints.refresh(&endpoint.id, now, deadline).await;
                // An unchanged document would refuse again, after another pass over the body.
                let Some(fresh) = fresh.filter(|fresh| !fresh.verifies_same(&endpoint)) else { return Err(refused) };
                let received = self.verify(&fresh, inbound, deadline).await;
                received.map_err(|refusal| Denial::refused(refusal, fresh.provider)).map(|it| (fresh, it))
            }
            received => {
                let received = received.map_err(|refusal| Denial::refused(refusal, endpoint.provider))?;
                Ok((endpoint, received))
            }
        }
    }

    /// Checks the request. If the scheme needs the provider's certificate or key, fetches it and checks again.
    async fn verify(&self, endpoint: &Endpoint, inbound: &Inbound, deadline: Deadline) -> Result<Received, Refusal> {
        let url = inbound.url(self.edge.public_url.as_deref());
        let request = Request { method: &inbound.method, url: &url, headers: &inbound.headers, body: &inbound.body };
        let now = self.ingress.ambient.moment().now;
        let judge = |keyring: &Keyring| {
            endpoint.provider.receive(&request, keyring, &endpoint.settings, endpoint.tolerance, now.as_seconds())
        };
        match judge(&endpoint.keyring)? {
            Received::NeedsMaterial(needed) => match self.materials.get(&endpoint.id, &needed, now, deadline).await {
                Ok(material) => {
                    let received = judge(&endpoint.keyring.with_material(material))?;
                    self.materials.proven(&needed);
                    Ok(received)
                }
                Err(_) => Ok(Received::NeedsMaterial(needed)),
            },
            received => Ok(received),
        }
    }

    /// Visits the URL that confirms a subscription, if the handshake has one. Verification showed that it is the
    /// provider's.
    async fn confirm(
        &self,
        endpoint: &Endpoint,
        handshake: &HandshakeAnswer,
        deadline: Deadline,
    ) -> Result<(), Denial> {
        let Some(url) = &handshake.visit else { return Ok(()) };
        let now = self.ingress.ambient.moment().now;
        let visited = self.materials.visit(&endpoint.id, url, now, deadline).await;
        visited.map_err(|_| Denial::MaterialUnavailable(endpoint.provider.answers().retry_please))
    }

    /// Counts the events that were kept although they lack something, with the reason as a dimension.
    fn count_fallbacks(&self, endpoint: &Endpoint, delivery: &VerifiedDelivery, key: &RecordKey) {
        for (fallback, events) in fallbacks(delivery) {
            let reason = fallback.code();
            tracing::warn!(
                endpoint.id = %endpoint.id, record.key = %key, reason, events,
                "an event was kept although it lacks an id or cannot be read"
            );
            let mut counts = Counts::default();
            counts.add_coded("key_fallback", events, reason);
            counts.property("endpoint", endpoint.id.as_str());
            self.telemetry.emit(&counts, self.ingress.ambient.moment().now);
        }
    }

    async fn deliver(
        &self,
        endpoint: &Endpoint,
        delivery: &VerifiedDelivery,
        deadline: Deadline,
        counts: &mut Counts,
    ) -> Result<Outbound, Denial> {
        if delivery.secret_index() > 0 {
            counts.set("secret_index", i64::try_from(delivery.secret_index()).unwrap_or(i64::MAX));
            counts.add("old_secret_used", 1);
        }
        let ingested = self.ingress.ingest(endpoint, delivery, deadline).await;
        let ingested = ingested.map_err(|error| {
            if let IngestError::Compress(_) = error {
                tracing::error!(error = %Report::new(&error), "preparing a delivery for storage failed");
                return Denial::StoreUnavailable(endpoint.provider.answers().retry_please);
            }
            too_large(endpoint, delivery.body().len())
        })?;
        counts.signals(&ingested.driven.signals);
        ingested.driven.signals.iter().for_each(telemetry::log);
        let other_body = ingested.driven.signals.iter().any(|signal| matches!(signal, Signal::BodyMismatch { .. }));
        match ingested.driven.output {
            IngressAnswer::Accepted(_) => {
                counts.add("delivery_accepted", 1);
                self.count_fallbacks(endpoint, delivery, &ingested.key);
            }
            IngressAnswer::Duplicate(_) => counts.add("delivery_duplicate", 1),
            IngressAnswer::RetryPlease => {
                // The line of an acknowledged delivery has it anyway.
                Span::current().record("record.key", tracing::field::display(&ingested.key));
                return Err(Denial::StoreUnavailable(endpoint.provider.answers().retry_please));
            }
        }
        tracing::info!(
            endpoint.id = %endpoint.id,
            record.key = %ingested.key,
            secret.index = delivery.secret_index(),
            duplicate = matches!(ingested.driven.output, IngressAnswer::Duplicate(_)),
            other_body,
            "delivery acknowledged"
        );
        Ok(answer::delivered(ingested.driven.output, &ingested.key, endpoint.provider, delivery))
    }
}

/// The refusal of a body that is too long. The log names the endpoint: its provider may never send the event again.
fn too_large(endpoint: &Endpoint, body_bytes: usize) -> Denial {
    let body_bytes_max = endpoint.body_bytes_max;
    tracing::warn!(endpoint.id = %endpoint.id, body_bytes, body_bytes_max, "the body is too long to be kept");
    Denial::BodyTooLarge
}

/// The events of a delivery that lack something, by what it is.
fn fallbacks(delivery: &VerifiedDelivery) -> BTreeMap<Fallback, usize> {
    let mut counted = BTreeMap::new();
    for fallback in delivery.contents().events().iter().filter_map(|part| part.fallback) {
        *counted.entry(fallback).or_default() += 1;
    }
    counted
}

/// Notes whose request it is.
fn note_owner(endpoint: &Endpoint, counts: &mut Counts) {
    let id = endpoint.id.as_str();
    counts.property("endpoint", id);
    counts.property("tenant", endpoint.tenant.as_ref().map_or(id, Tenant::as_str));
}

/// Says what was received when no secret fits, without a byte of it. A person can compare the hash with that of the
/// body that the provider sent: equal hashes mean another secret, different ones mean that the body was changed on its
/// way.
fn note_mismatch(denial: Denial, inbound: &Inbound, counts: &mut Counts) {
    let Denial::Refused(Refusal::SignatureMismatch) = denial else { return };
    let request = Request { method: &inbound.method, url: "", headers: &inbound.headers, body: &inbound.body };
    let Fingerprint { body_bytes, body_sha256 } = request.fingerprint();
    tracing::info!(body.bytes = body_bytes, body.sha256 = body_sha256, "no secret fits");
    counts.property("body_bytes", body_bytes.to_string());
    counts.property("body_sha256", body_sha256);
}

/// The endpoint id in `…/webhooks/{id}`. A gateway may add a stage or a base path mapping in front. What comes after
/// the first `webhooks` is the caller's: with more there than an id, a signed URL could be another endpoint's.
pub fn endpoint_id(path: &str) -> Option<EndpointId> {
    let segments = path.trim_end_matches('/').split('/').skip_while(|segment| *segment != PATH_SEGMENT);
    let segments: Vec<_> = segments.skip(1).collect();
    let (id, before) = segments.split_last()?;
    before.iter().all(|segment| *segment == PATH_SEGMENT).then(|| EndpointId::parse(id).ok())?
}
