//! What providers sent and what answers they got, for the checker.

/// One delivery of a provider, however often it was attempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The facts that it carries.
    pub facts: Vec<String>,
    /// Its signature is the provider's.
    pub genuine: bool,
    /// Requests that were made.
    pub attempts: u32,
    /// 2xx answers that were given, whether or not they arrived.
    pub acknowledged: u32,
}

/// What happened outside of the tables.
#[derive(Debug, Default)]
pub struct History {
    /// The deliveries.
    pub observations: Vec<Observation>,
}
