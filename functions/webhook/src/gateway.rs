//! The way in and out: a gateway's event becomes a request, and the answer takes the form that this gateway wants.
//!
//! `lambda_http` knows the events of REST APIs, HTTP APIs (payload 1.0 and 2.0), Function URLs and Application Load
//! Balancers as types, and writes the answer for each. A request is read from the typed event here, because the
//! conversion to an `http::Request` panics on what a stranger may send (malformed base64, a path or a host that is no
//! URI), keeps one of several headers of a name, and changes the path and the query. That conversion only ever sees a
//! blank event.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::Pin;

use aws_lambda_events::alb::AlbTargetGroupRequest;
use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::query_map::QueryMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lambda_http::http::{HeaderMap, Response, StatusCode};
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Body, Context, IntoResponse, LambdaEvent, Service, service_fn};
use serde::Serialize;
use serde_json::Value;

/// An HTTP request as the function sees it. Nothing about it is believed yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The method, in upper case.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query without its question mark, empty if there is none.
    pub query: String,
    /// The domain name that the gateway was called by, as the gateway says.
    pub domain: Option<String>,
    /// Header names in lower case, and values; a name may come several times.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The caller's address, as the gateway says.
    pub source: Option<IpAddr>,
    /// The gateway's id of the request.
    pub request_id: String,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Inbound {{ method: {:?}, body: <{} bytes> }}", self.method, self.body.len())
    }
}

/// The event is not an HTTP request, or its body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event is not an HTTP request with a readable body")]
pub struct Malformed;

/// A service that the Lambda runtime can run, of a function from requests to answers. It never fails: what is no
/// request has an answer, too.
pub fn service<F, R>(
    function: F,
) -> impl Service<LambdaEvent<LambdaRequest>, Response: Serialize, Error = Infallible, Future: Send>
where
    F: Fn(Result<Inbound, Malformed>) -> R,
    R: Future<Output = Outbound> + Send,
{
    service_fn(move |LambdaEvent { payload, context, .. }| {
        let blank = blank(&payload);
        let answered = function(Inbound::read(payload));
        async move {
            let outbound = answered.await;
            let answer = service_fn(move |_blank| ready(Ok(outbound.clone())));
            Adapter::from(answer).call(LambdaEvent::new(blank, context)).await
        }
    })
}

/// Calls a [`service`] with an event as JSON, as the Lambda runtime would, and returns its answer as JSON.
pub async fn call<S>(mut service: S, event: Value) -> Value
where
    S: Service<LambdaEvent<LambdaRequest>, Response: Serialize, Error = Infallible>,
{
    // JSON of any other form passes through; it is never an error.
    let event = serde_json::from_value(event).unwrap_or(LambdaRequest::PassThrough(String::new()));
    let Ok(answer) = service.call(LambdaEvent::new(event, Context::default())).await;
    serde_json::to_value(answer).unwrap_or_default()
}

/// An empty event of the same kind: the kind decides the form of the answer.
fn blank(event: &LambdaRequest) -> LambdaRequest {
    match event {
        LambdaRequest::ApiGatewayV2(_) => LambdaRequest::ApiGatewayV2(ApiGatewayV2httpRequest::default()),
        LambdaRequest::Alb(_) => LambdaRequest::Alb(AlbTargetGroupRequest::default()),
        // The answer for a REST API has no field that another gateway would refuse.
        _ => LambdaRequest::ApiGatewayV1(ApiGatewayProxyRequest::default()),
    }
}

impl Inbound {
    /// Reads the request from an event.
    ///
    /// # Errors
    /// [`Malformed`] when the event is of no known kind, or its body cannot be decoded.
    pub fn read(event: LambdaRequest) -> Result<Self, Malformed> {
        match event {
            LambdaRequest::ApiGatewayV2(event) => Self::read_v2(event),
            LambdaRequest::ApiGatewayV1(event) => Self::read_v1(event),
            LambdaRequest::Alb(event) => Self::read_alb(event),
            _ => Err(Malformed),
        }
    }

    /// Payload 2.0: HTTP API and Function URL.
    fn read_v2(event: ApiGatewayV2httpRequest) -> Result<Self, Malformed> {
        let context = event.request_context;
        let mut headers = pairs(&event.headers, &HeaderMap::new());
        let cookies = event.cookies.unwrap_or_default();
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ").into_bytes()));
        }
        Ok(Self {
            method: context.http.method.as_str().to_ascii_uppercase(),
            path: event.raw_path.unwrap_or_default(),
            query: event.raw_query_string.unwrap_or_default(),
            domain: context.domain_name,
            headers,
            body: decode(event.body, event.is_base64_encoded)?,
            source: context.http.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: context.request_id.unwrap_or_default(),
        })
    }

    /// Payload 1.0: REST API, or HTTP API if it is set up so. The gateway hands the query over decoded, so it is
    /// encoded again.
    fn read_v1(event: ApiGatewayProxyRequest) -> Result<Self, Malformed> {
        let context = event.request_context;
        let parameters = parameters(&event.multi_value_query_string_parameters, &event.query_string_parameters);
        Ok(Self {
            method: event.http_method.as_str().to_ascii_uppercase(),
            path: event.path.unwrap_or_default(),
            query: form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish(),
            domain: context.domain_name,
            headers: pairs(&event.multi_value_headers, &event.headers),
            body: decode(event.body, event.is_base64_encoded)?,
            source: context.identity.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: context.request_id.unwrap_or_default(),
        })
    }

    /// An Application Load Balancer hands the query over as it was sent. It appends the caller's address to
    /// `x-forwarded-for`, so only the last one there is its own word. It does not say by which name it was called.
    fn read_alb(event: AlbTargetGroupRequest) -> Result<Self, Malformed> {
        let parameters = parameters(&event.multi_value_query_string_parameters, &event.query_string_parameters);
        let parameters: Vec<_> = parameters.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let headers = pairs(&event.multi_value_headers, &event.headers);
        let forwarded = headers.iter().rfind(|(name, _)| name == "x-forwarded-for");
        let forwarded = forwarded.and_then(|(_, value)| str::from_utf8(value).ok());
        Ok(Self {
            method: event.http_method.as_str().to_ascii_uppercase(),
            path: event.path.unwrap_or_default(),
            query: parameters.join("&"),
            domain: None,
            source: forwarded.and_then(|value| value.rsplit(',').next()?.trim().parse().ok()),
            headers,
            body: decode(event.body, event.is_base64_encoded)?,
            request_id: String::new(),
        })
    }
}

/// Headers with all their values where the event has them, in their order, and else with the single ones.
fn pairs(multiple: &HeaderMap, single: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let headers = if multiple.is_empty() { single } else { multiple };
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// The parameters of a query by name, and those of one name in their order: the gateway keeps no other order.
fn parameters<'a>(multiple: &'a QueryMap, single: &'a QueryMap) -> Vec<(&'a str, &'a str)> {
    let mut parameters: Vec<_> = if multiple.is_empty() { single } else { multiple }.iter().collect();
    parameters.sort_by_key(|(name, _)| *name);
    parameters
}

fn decode(body: Option<String>, is_base64: bool) -> Result<Vec<u8>, Malformed> {
    let body = body.unwrap_or_default();
    if is_base64 { STANDARD.decode(body).map_err(|_| Malformed) } else { Ok(body.into_bytes()) }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// The status.
    pub status: u16,
    /// Headers, each once.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Outbound {
    /// An answer with a body of this type.
    pub fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { body, ..Self::empty(status).header("content-type", content_type) }
    }

    /// An answer with a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: BTreeMap::new(), body: Vec::new() }
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }
}

/// Text goes as text, all else as base64, whatever the content type says. A header that cannot be sent makes the answer
/// a bare 500, so that the sender comes again.
impl IntoResponse for Outbound {
    fn into_response(self) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        let body = String::from_utf8(self.body).map_or_else(|bytes| Body::from(bytes.into_bytes()), Body::from);
        let response = Response::builder().status(self.status);
        let response = self.headers.iter().fold(response, |response, (name, value)| response.header(name, value));
        Box::pin(ready(response.body(body).unwrap_or_else(|_| {
            let mut response = Response::default();
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        })))
    }
}
