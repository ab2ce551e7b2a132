//! The gateway edge: turns a gateway's event into a request, and the response into the format of that gateway.
//!
//! `lambda_http` has types for the events of REST APIs, HTTP APIs (payload 1.0 and 2.0), Function URLs and Application
//! Load Balancers, and writes the response for each. This module reads the request from the typed event itself. The
//! conversion to an `http::Request` panics on input that any caller can send (malformed base64, a path or host that is
//! not a URI), keeps only one of several headers with one name, and changes the path and the query. That conversion
//! only ever gets a blank event.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::{IpAddr, SocketAddr};
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
use serde_json::value::{RawValue, to_raw_value};

/// An HTTP request. Nothing in it is trusted yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Inbound {
    /// The method, as it was sent.
    pub method: String,
    /// The path, without the query. A REST API leaves its stage out of it.
    pub path: String,
    /// The query without its question mark; empty if there is none.
    pub query: String,
    /// The URL that the gateway was called by, without the query, as the gateway reports it.
    pub called: Option<String>,
    /// Header names in lower case, with values. A name may repeat.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The raw bytes of the body.
    pub body: Vec<u8>,
    /// The caller's address, as the gateway reports it.
    pub source: Option<IpAddr>,
    /// The gateway's request id.
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

/// Makes a Lambda service of a function from requests to responses. It never fails: an event that is not an HTTP
/// request gets a response, too.
pub fn service<F, R>(
    function: F,
) -> impl Service<LambdaEvent<Box<RawValue>>, Response: Serialize + Send, Error = Infallible, Future: Send>
where
    F: Fn(Result<Inbound, Malformed>) -> R,
    R: Future<Output = Outbound> + Send,
{
    service_fn(move |LambdaEvent { payload, context, .. }: LambdaEvent<Box<RawValue>>| {
        let event = typed(payload.get());
        let blank = blank(&event);
        let answered = function(Inbound::read(event));
        async move {
            let outbound = answered.await;
            let answer = service_fn(move |_blank| ready(Ok(outbound.clone())));
            Adapter::from(answer).call(LambdaEvent::new(blank, context)).await
        }
    })
}

/// Calls a [`service`] with a JSON event, as the Lambda runtime would, and returns its response as JSON.
pub async fn call<S>(mut service: S, event: Value) -> Value
where
    S: Service<LambdaEvent<Box<RawValue>>, Response: Serialize, Error = Infallible>,
{
    // What is JSON has a text.
    let Ok(event) = to_raw_value(&event) else { return Value::Null };
    let Ok(answer) = service.call(LambdaEvent::new(event, Context::default())).await;
    serde_json::to_value(answer).unwrap_or_default()
}

/// The event of this text. `lambda_http` tries one kind after the other. Payload 2.0 comes second there and says what it
/// is in its first field, so it is read at once.
fn typed(event: &str) -> LambdaRequest {
    let is_v2 = event.starts_with(r#"{"version":"2.0","#);
    let v2 = is_v2.then(|| serde_json::from_str(event).map(LambdaRequest::ApiGatewayV2));
    // JSON of any other shape passes through. It is never an error.
    let any = || serde_json::from_str(event).unwrap_or(LambdaRequest::PassThrough(String::new()));
    v2.and_then(Result::ok).unwrap_or_else(any)
}

/// An empty event of the same kind. The kind decides the format of the response.
fn blank(event: &LambdaRequest) -> LambdaRequest {
    match event {
        LambdaRequest::ApiGatewayV2(_) => LambdaRequest::ApiGatewayV2(ApiGatewayV2httpRequest::default()),
        LambdaRequest::Alb(_) => LambdaRequest::Alb(AlbTargetGroupRequest::default()),
        // Every gateway accepts all fields of a REST API's response.
        _ => LambdaRequest::ApiGatewayV1(ApiGatewayProxyRequest::default()),
    }
}

impl Inbound {
    /// Reads the request from an event.
    ///
    /// # Errors
    /// [`Malformed`] when the kind of event is unknown, or the body cannot be decoded.
    pub fn read(event: LambdaRequest) -> Result<Self, Malformed> {
        match event {
            LambdaRequest::ApiGatewayV2(event) => Self::read_v2(event),
            LambdaRequest::ApiGatewayV1(event) => Self::read_v1(event),
            LambdaRequest::Alb(event) => Self::read_alb(event),
            _ => Err(Malformed),
        }
    }

    /// The URL that some schemes sign: from the configuration or from the gateway, never from the `Host` header.
    pub fn url(&self, public_url: Option<&str>) -> String {
        let url = match (public_url, &self.called) {
            (Some(origin), _) => format!("{}{}", origin.trim_end_matches('/'), self.path),
            (None, Some(called)) => called.clone(),
            (None, None) => self.path.clone(),
        };
        if self.query.is_empty() { url } else { format!("{url}?{}", self.query) }
    }

    /// Reads payload 2.0: HTTP API and Function URL.
    fn read_v2(event: ApiGatewayV2httpRequest) -> Result<Self, Malformed> {
        let context = event.request_context;
        let mut headers = pairs(&event.headers, &HeaderMap::new());
        let cookies = event.cookies.unwrap_or_default();
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ").into_bytes()));
        }
        let path = event.raw_path.unwrap_or_default();
        Ok(Self {
            method: context.http.method.as_str().to_owned(),
            called: context.domain_name.map(|domain| format!("https://{domain}{path}")),
            path,
            query: event.raw_query_string.unwrap_or_default(),
            headers,
            body: decode(event.body, event.is_base64_encoded)?,
            source: context.http.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: context.request_id.unwrap_or_default(),
        })
    }

    /// Reads payload 1.0: REST API, or an HTTP API configured for it. The gateway decodes the query, so this encodes it
    /// again. A REST API is called by the path in the context, which has the stage; the event's own path has it not.
    fn read_v1(event: ApiGatewayProxyRequest) -> Result<Self, Malformed> {
        let context = event.request_context;
        let parameters = parameters(&event.multi_value_query_string_parameters, &event.query_string_parameters);
        let path = event.path.unwrap_or_default();
        let called = context.path.as_ref().unwrap_or(&path);
        Ok(Self {
            method: event.http_method.as_str().to_owned(),
            called: context.domain_name.map(|domain| format!("https://{domain}{called}")),
            path,
            query: form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish(),
            headers: pairs(&event.multi_value_headers, &event.headers),
            body: decode(event.body, event.is_base64_encoded)?,
            source: context.identity.source_ip.and_then(|ip| ip.parse().ok()),
            request_id: context.request_id.unwrap_or_default(),
        })
    }

    /// Reads the event of an Application Load Balancer, which passes the query on as it was sent. The balancer
    /// appends the caller's address to `x-forwarded-for`, so only the last entry can be trusted. Which of two
    /// such headers it appends to is not documented, so two are not trusted. It does not report the domain name that it
    /// was called by.
    fn read_alb(event: AlbTargetGroupRequest) -> Result<Self, Malformed> {
        let parameters = parameters(&event.multi_value_query_string_parameters, &event.query_string_parameters);
        let parameters: Vec<_> = parameters.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let headers = pairs(&event.multi_value_headers, &event.headers);
        let mut forwarded = headers.iter().filter(|(name, _)| name == "x-forwarded-for");
        let forwarded = match (forwarded.next(), forwarded.next()) {
            (Some((_, value)), None) => str::from_utf8(value).ok(),
            (Some(_), Some(_)) | (None, _) => None,
        };
        Ok(Self {
            method: event.http_method.as_str().to_owned(),
            path: event.path.unwrap_or_default(),
            query: parameters.join("&"),
            called: None,
            source: forwarded.and_then(last_address),
            headers,
            body: decode(event.body, event.is_base64_encoded)?,
            request_id: String::new(),
        })
    }
}

/// Headers in order, with all values if the event lists them, or with single values otherwise.
fn pairs(multiple: &HeaderMap, single: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let headers = if multiple.is_empty() { single } else { multiple };
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// Query parameters sorted by name. The gateway keeps only the order of values under one name. They are read through
/// their stored form, because the map's own iterator panics on a name without values.
fn parameters(multiple: &QueryMap, single: &QueryMap) -> Vec<(String, String)> {
    let map = if multiple.is_empty() { single } else { multiple };
    let stored = serde_json::to_value(map).and_then(serde_json::from_value::<BTreeMap<String, Vec<String>>>);
    let values = |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    stored.unwrap_or_default().into_iter().flat_map(values).collect()
}

/// The last address of a list, with or without the port that a load balancer can be told to add.
pub(crate) fn last_address(list: &str) -> Option<IpAddr> {
    let last = list.rsplit(',').next()?.trim();
    last.parse().ok().or_else(|| Some(last.parse::<SocketAddr>().ok()?.ip()))
}

fn decode(body: Option<String>, is_base64: bool) -> Result<Vec<u8>, Malformed> {
    let body = body.unwrap_or_default();
    if is_base64 { STANDARD.decode(body).map_err(|_| Malformed) } else { Ok(body.into_bytes()) }
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// The status.
    pub status: u16,
    /// Headers, each name once.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Outbound {
    /// A response with a body of this content type.
    pub fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { body, ..Self::empty(status).header("content-type", content_type) }
    }

    /// A response with a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    /// A response without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: BTreeMap::new(), body: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }
}

/// Sends text as text and everything else as base64, whatever the content type says. A header that cannot be sent turns
/// the response into a bare 500, so that the sender retries.
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
