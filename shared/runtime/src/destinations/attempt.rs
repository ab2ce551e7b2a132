//! One call as a person sees it: what was answered, or why there is no answer. The protocol needs only how it ended.

use std::io;

use hookonce_protocol::destination::Called;

use crate::handlers::remote::Cause;

/// One call, with what a person wants to know of it beside how it ended.
#[derive(Debug)]
pub struct Attempt {
    /// How it ended.
    pub called: Called,
    /// The answer, or why there is none.
    pub answer: Result<CalleeAnswer, AttemptError>,
    /// Whether a byte of the request may have left.
    pub sent: bool,
}

impl Attempt {
    /// The effect does not fit the destination, so there is no request.
    pub fn unsendable(reason: &'static str) -> Self {
        Self { called: Called::Refused { status: None }, answer: Err(AttemptError::Unsendable(reason)), sent: false }
    }
}

/// What the callee answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalleeAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The error that a service of AWS names, such as `AccessDeniedException`.
    pub code: Option<String>,
    /// What the service says about the error. It may repeat what was sent, so it is for a person and not for a log.
    pub message: Option<String>,
    /// The id by which the service knows what it took: that of the message, or of the request.
    pub id: Option<String>,
}

impl CalleeAnswer {
    /// A status, and nothing else.
    pub const fn of(status: u16) -> Self {
        Self { status, code: None, message: None, id: None }
    }
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The effect does not fit the destination, so there is no request.
    #[error("an effect cannot be sent as it is: {0}")]
    Unsendable(&'static str),
    /// A queue or a function.
    #[error("this process calls URLs only; queues and functions are reached by the dispatcher of a deployed stack")]
    NoUrl,
    /// The name of the host.
    #[error("looking up the host failed")]
    Lookup(#[source] io::Error),
    /// Every address of the host is one that no destination may have.
    #[error("the host has no address that a destination may have; a private one needs `allow_private`")]
    Address,
    /// Nobody takes the connection.
    #[error("connecting failed")]
    Connect(#[source] io::Error),
    /// A certificate that is not trusted, or a peer that speaks no TLS.
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    /// The build.
    #[error("this build has no TLS")]
    NoTls,
    /// The peer broke off.
    #[error("the connection broke")]
    Exchange(#[source] hyper::Error),
    /// A request of AWS for which a region, credentials or an address are missing.
    #[error("the request cannot be signed")]
    Unsigned(#[source] Cause),
    /// A service of AWS, at any point of the way.
    #[error("there is no answer")]
    Unanswered(#[source] Cause),
    /// The destination's timeout.
    #[error("the call timed out")]
    Time,
}

impl AttemptError {
    /// The cause, as a fixed word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unsendable(_) => "unsendable",
            Self::NoUrl => "no_url",
            Self::Lookup(_) => "dns",
            Self::Address => "address_refused",
            Self::Connect(_) => "connect",
            Self::Tls(_) | Self::NoTls => "tls",
            Self::Exchange(_) => "connection_broke",
            Self::Unsigned(_) => "unsigned",
            Self::Unanswered(_) => "no_answer",
            Self::Time => "timeout",
        }
    }
}
